"""Every format gives the one DataFrame, and every mistake one sentence."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.judge.stories import quiet_run

from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.pipeline.engine.spark_errors import one_sentence, sentence
from isthmus.pipeline.ingest.columns import TRACE_TYPE
from isthmus.pipeline.ingest.frames import read_trace
from isthmus.pipeline.ingest.shiviz import hosts
from isthmus.trace.arrow import SCHEMA, VERSION_KEY
from isthmus.trace.inputs.shiviz import patterns_of
from isthmus.trace.schema import ADDED, DESTINATIONS, GAUGE, KIND, LOCAL, NUMBER, ORIGIN, PROCESS, SENDER, Row
from isthmus.trace.writer import TraceWriter, to_batch

ROWS: list[Row] = [
    (0, 1, 0, 1000, 1, 0, 1, 1, 0, -1, (1, 2), 5, 0, 0, 0),
    (0, 1, 1, 2000, 5, 0, 1, 1, 0, -1, None, 5, 0, 0, 0),
    (0, 2, 0, 9000, 5, 0, 1, 1, 0, -1, None, 5, 0, 0, 0),
]
CSV = "process,kind,sender,number,destinations\n1,submit,1,1,1 2\n1,deliver,1,1,\n2,DELIVER,1,1,\n"


def rows_of(frame) -> list[tuple]:
    assert frame.columns == SCHEMA.names
    assert [field.dataType for field in frame.schema] == [field.dataType for field in TRACE_TYPE]
    found = [(*row[:10], tuple(row[10]) if row[10] is not None else None, *row[11:]) for row in frame.collect()]
    return sorted(found, key=lambda row: row[:3])


def refused(spark, path, *words: str, form: str = "auto") -> None:
    with pytest.raises(InputError) as caught, one_sentence(str(path)):
        read_trace(spark, path, form).collect()
    text = str(caught.value)
    assert "\n" not in text and len(text) < 500
    for word in (str(path), *words):
        assert word in text, text


def table(**changes) -> pa.Table:
    columns = dict(zip(SCHEMA.names, to_batch(ROWS).columns, strict=True))
    columns.update({name: pa.array(values) for name, values in changes.items() if values is not None})
    return pa.table({name: column for name, column in columns.items() if changes.get(name, 0) is not None})


def test_our_parquet_and_its_subfolders(spark, tmp_path):
    rows = quiet_run().rows
    with TraceWriter(tmp_path / "a", segment_rows=4, batch_rows=2) as sink:
        for row in rows:
            sink.append(row)
    (tmp_path / "a" / ".part-00009.parquet").write_text("half a segment")
    (tmp_path / "a" / "notes.md").write_text("not a segment")
    assert rows_of(read_trace(spark, tmp_path / "a")) == sorted(rows, key=lambda row: row[:3])
    assert rows_of(read_trace(spark, tmp_path)) == sorted(rows, key=lambda row: row[:3])
    assert len(rows_of(read_trace(spark, tmp_path / "a" / "part-00000.parquet"))) == 4


def test_parquet_of_spark_partitioned_by_run(spark, tmp_path):
    frame = spark.createDataFrame([(run, *row[1:]) for run in (3, 4) for row in ROWS], TRACE_TYPE)
    frame.write.partitionBy("run").parquet(str(tmp_path / "t"))
    found = rows_of(read_trace(spark, tmp_path / "t"))
    assert [row[0] for row in found] == [3] * 3 + [4] * 3
    assert [row[1:] for row in found[3:]] == [row[1:] for row in ROWS]


def test_version_1_and_2_share_a_folder_and_another_version_is_refused(spark, tmp_path):
    first = table().drop_columns(list(ADDED)).replace_schema_metadata({VERSION_KEY: b"1"})
    pq.write_table(first, tmp_path / "old.parquet")
    carried = table(run=[1] * 3, origin=[7] * 3, gauge=pa.array([3] * 3, pa.int16()))
    pq.write_table(carried.replace_schema_metadata({VERSION_KEY: b"2"}), tmp_path / "new.parquet")
    found = rows_of(read_trace(spark, tmp_path))
    assert [(row[ORIGIN], row[GAUGE]) for row in found] == [(0, 0)] * 3 + [(7, 3)] * 3
    pq.write_table(first.replace_schema_metadata({VERSION_KEY: b"5"}), tmp_path / "newer.parquet")
    refused(spark, tmp_path, "newer.parquet", "schema version", "found 5", "version 1 or 2 or 3 or 4")


def test_origin_may_be_left_out_or_empty(spark, tmp_path):
    head = "process,kind,sender,number,group,origin,gauge\n"
    (tmp_path / "t.csv").write_text(head + "1,submit,1,1,4,,\n1,crash,,,4,,\n1,deliver,2,1,4,5,\n1,gauge,,,4,,8\n")
    found = rows_of(read_trace(spark, tmp_path / "t.csv"))
    assert [(row[ORIGIN], row[GAUGE]) for row in found] == [(4, 0), (-1, 0), (5, 0), (-1, 8)]


def test_studies_are_read_together_unless_their_runs_clash(spark, tmp_path):
    for study, run in (("a", 0), ("b", 1), ("c", 1)):
        (tmp_path / f"study={study}").mkdir()
        pq.write_table(table(run=[run] * 3), tmp_path / f"study={study}" / "part-00000.parquet")
    refused(spark, tmp_path, "run 1 in the studies b and c", "study=b")
    (tmp_path / "study=c" / "part-00000.parquet").unlink()
    assert [row[0] for row in rows_of(read_trace(spark, tmp_path))] == [0] * 3 + [1] * 3


def test_parquet_of_others(spark, tmp_path):
    """Other widths, another order, more and fewer columns, names as kinds, files that differ."""
    small = dict.fromkeys(("run", "time_ns", "group", "view", "payload_bytes", "control_bytes", "value"))
    pq.write_table(table(**small, kind=["submit", "Deliver", "DELIVER"]), tmp_path / "a.parquet")
    wide = table(process=pa.array([1, 1, 2], pa.int64()), run=pa.array([1, 1, 1], pa.int8()), more=["x", "y", "z"])
    pq.write_table(wide.select(wide.column_names[::-1]), tmp_path / "b.parquet")
    found = rows_of(read_trace(spark, tmp_path))
    assert found[:3] == [(*row[:3], 0, *row[4:11], 0, 0, 0, 0) for row in ROWS]
    assert found[3:] == [(1, *row[1:]) for row in ROWS]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": None}, ["kind", "no such column among run, process"]),
        ({"local": None}, ["local", "no such column"]),
        ({"sender": ["a", "b", "c"]}, ["sender", "a column of string", "int32"]),
        ({"number": [1.0, 2.0, 3.0]}, ["number", "a column of double", "int64"]),
        ({"kind": pa.array([1, 5, 99], pa.int8())}, ["kind", "'99'", "SUBMIT"]),
        ({"kind": ["submit", "deliver", "arrive"]}, ["kind", "'arrive'", "DELIVER"]),
        ({"process": pa.array([1, 1, None], pa.int32())}, ["process", "nothing", "int32 in every row"]),
        ({"sender": pa.array([1, 1, None], pa.int32())}, ["sender", "nothing", "a message"]),
        ({"process": pa.array([1, 1, 1 << 40])}, ["process", str(1 << 40), "int32"]),
        ({"destinations": [[1.5], None, None]}, ["destinations", "a column of list"]),
    ],
)
def test_bad_parquet(spark, tmp_path, changes, words):
    pq.write_table(table(**changes), tmp_path / "t.parquet")
    refused(spark, tmp_path / "t.parquet", *words)


def test_no_file_at_all_or_a_broken_one(spark, tmp_path):
    refused(spark, tmp_path / "none", "no such file or directory")
    refused(spark, tmp_path, "no trace in this folder")
    (tmp_path / "a.parquet").touch()
    refused(spark, tmp_path / "a.parquet", "an empty file")
    (tmp_path / "a.parquet").write_text("PAR1 and then nothing that makes sense PAR1")
    refused(spark, tmp_path / "a.parquet", "unreadable", "Parquet")
    (tmp_path / "b.csv").write_text(CSV)
    refused(spark, tmp_path, "several formats (csv, parquet)")
    (tmp_path / "c.what").write_text("hello")
    refused(spark, tmp_path / "c.what", "an unknown format")


def test_a_page_that_is_damaged_fails_the_job_with_a_sentence(spark, tmp_path):
    path = tmp_path / "t.parquet"
    with TraceWriter(tmp_path / "t") as sink:
        for row in ROWS * 2000:
            sink.append(row)
    data = bytearray((tmp_path / "t" / "part-00000.parquet").read_bytes())
    data[4:400] = b"\xff" * 396
    path.write_bytes(data)
    refused(spark, path, "an unreadable file")


@pytest.mark.parametrize("text", [CSV, CSV.replace("1 2", '"[1, 2]"'), CSV.replace(",", ";"), "\ufeff" + CSV])
def test_csv(spark, tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    found = rows_of(read_trace(spark, tmp_path / "t.csv"))
    assert found == [(*row[:3], 0, *row[4:11], 0, 0, 0, 0) for row in ROWS]


def test_csv_in_parts_with_other_headers_and_packed(spark, tmp_path):
    (tmp_path / "a.csv").write_text("run,local,process,kind,sender,number,time_ns\n7,10,1,1,1,1,5\n7,11,1,7,,,6\n")
    with gzip.open(tmp_path / "b.csv.gz", "wt") as file:
        file.write("process,kind,sender,number,run,local,extra\n2,5,1,1,7,3,x\n")
    found = rows_of(read_trace(spark, tmp_path))
    assert [(row[PROCESS], row[LOCAL], row[KIND], row[SENDER], row[NUMBER]) for row in found] == [
        (1, 10, 1, 1, 1),
        (1, 11, 7, -1, -1),
        (2, 3, 5, 1, 1),
    ]


def test_the_number_of_a_view_may_be_in_either_column(spark, tmp_path):
    for name, columns in (("a", "view"), ("b", "value"), ("c", "view,value")):
        cells = "3,3" if name == "c" else "3"
        nothing = "," if name == "c" else ""
        text = f"process,kind,sender,number,destinations,{columns}\n1,view,,,1 2,{cells}\n1,crash,,,,{nothing}\n"
        (tmp_path / f"{name}.csv").write_text(text)
        found = rows_of(read_trace(spark, tmp_path / f"{name}.csv"))
        assert [(row[KIND], row[13]) for row in found] == [(7, 3), (11, 0)]


def test_order_of_a_long_csv_becomes_the_local_order(spark, tmp_path):
    """Cut into many splits, each row still gets its place in the file."""
    count = 20_000
    with (tmp_path / "t.csv").open("w") as file:
        file.write("process,kind,sender,number\n")
        file.writelines(f"{number % 3},deliver,1,{number}\n" for number in range(count))
    spark.conf.set("spark.sql.files.maxPartitionBytes", "40000")
    try:
        found = rows_of(read_trace(spark, tmp_path / "t.csv"))
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert [(row[PROCESS], row[LOCAL], row[NUMBER]) for row in found] == [
        (process, place, number) for process in range(3) for place, number in enumerate(range(process, count, 3))
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("process,kind,sender\n1,1,1\n", ["number", "no such column among process, kind, sender"]),
        ("process,kind,sender,number\n", ["a header without rows"]),
        ("\n\n", ["only blank lines"]),
        ("process,kind,sender,number,kind\n1,1,1,1,1\n", ["kind", "2 columns"]),
        (CSV.replace("1,deliver,1,1", "one,deliver,1,1"), ["process", "'one'", "int32"]),
        (CSV.replace("1,deliver,1,1", "1,arrive,1,1"), ["kind", "'arrive'"]),
        (CSV.replace("1,deliver,1,1", "1,deliver,,1"), ["sender", "nothing"]),
        (CSV.replace("1 2", "x y"), ["destinations", "'x y'", "[1,2,3]"]),
        (CSV.replace("1,deliver,1,1,", "1,deliver,1,1,,,,"), ["malformed"]),
        ("process,kind,sender,number,view,value\n1,view,,,2,0\n", ["view", "2 in a row of the value 0"]),
    ],
)
def test_bad_csv(spark, tmp_path, text, words):
    (tmp_path / "t.csv").write_text(text)
    refused(spark, tmp_path / "t.csv", *words)


def test_json_lines(spark, tmp_path):
    lines = [
        {"process": 1, "kind": "submit", "sender": 1, "number": 1, "destinations": [1, 2], "payload_bytes": 5},
        {"process": 1, "kind": 5, "sender": 1, "number": 1, "payload_bytes": 5},
        {"process": 2, "kind": "deliver", "sender": 1, "number": 1, "destinations": None, "payload_bytes": 5},
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert rows_of(read_trace(spark, tmp_path / "t.jsonl")) == [(*row[:3], 0, *row[4:]) for row in ROWS]
    (tmp_path / "bad.jsonl").write_text(json.dumps(lines))
    refused(spark, tmp_path / "bad.jsonl", "one JSON object per line")
    (tmp_path / "bad.jsonl").write_text("\n".join([json.dumps(lines[0])] * 200 + ["{"]))
    refused(spark, tmp_path / "bad.jsonl", "malformed")
    (tmp_path / "bad.jsonl").write_text(json.dumps({"process": 1}))
    refused(spark, tmp_path / "bad.jsonl", "kind", "no such column")


SHIVIZ = """bob {"bob":1}
start
alice {"alice":1}
submit m=alice:1 to=bob,carol
bob {"alice":1, "bob":2}
deliver m=alice:1
alice {"alice":2}
deliver m=alice:1
"""


def test_shiviz(spark, tmp_path):
    path = tmp_path / "t.log"
    path.write_text(SHIVIZ)
    picked = (PROCESS, LOCAL, KIND, SENDER, NUMBER, DESTINATIONS)
    found = [tuple(row[place] for place in picked) for row in rows_of(read_trace(spark, path))]
    submit, deliver = int(Kind.SUBMIT), int(Kind.DELIVER)
    assert found == [(0, 2, deliver, 1, 1, None), (1, 1, submit, 1, 1, (0, 2)), (1, 2, deliver, 1, 1, None)]
    assert sorted((row.process, row.host) for row in hosts(spark, [path]).collect()) == [
        (0, "bob"),
        (1, "alice"),
        (2, "carol"),
    ]


def test_shiviz_runs_and_patterns(spark, tmp_path):
    path = tmp_path / "t.log"
    path.write_text(f"=== one ===\n{SHIVIZ}\n=== two ===\n{SHIVIZ}".replace("deliver m=alice:1", "got 1 of alice"))
    patterns = patterns_of([r"deliver=got (?P<number>\d+) of (?P<sender>\w+)"])
    found = rows_of(read_trace(spark, path, patterns=patterns))
    assert [(row[0], row[1], row[4]) for row in found] == [(0, 0, 5), (0, 1, 5), (1, 0, 5), (1, 1, 5)]
    for wrong in ("deliver", "arrive=x", "deliver=(", "deliver=(?P<sender>x)"):
        with pytest.raises(InputError, match="--pattern"):
            patterns_of([wrong])


def test_shiviz_without_words_we_know(spark, tmp_path):
    path = tmp_path / "t.log"
    path.write_text('a {"a":1}\nhello\n')
    refused(spark, path, "no event that a pattern matches", "--pattern")
    path.write_text('a {"b":1}\nsubmit m=a:1\n')
    refused(spark, path, "clock", "an entry of the host itself")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("java.io.IOException: No space left on device\n\tat a.b", "a full disk"),
        ("Job aborted: ExecutorLostFailure (executor 1 exited)\n", "a lost executor"),
        ("Cannot call methods on a stopped SparkContext.\nThis", "a lost connection"),
        ("java.lang.OutOfMemoryError: Java heap space\n\tat a.b", "too little memory"),
        ("o.a.SparkException: x\n\tat a.b\nCaused by: java.io.IOException: odd thing\n\tat c.d", "(odd thing)"),
    ],
)
def test_what_spark_says_becomes_one_sentence(said, told):
    text = str(sentence(Exception(said)))
    assert told in text and "\n" not in text and "\tat" not in text
