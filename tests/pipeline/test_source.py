"""The data source and its streaming twin: every row once, in parallel, whatever prefixes come and when."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from isthmus.core.errors import InputError
from isthmus.pipeline.engine.spark_errors import one_sentence
from isthmus.pipeline.ingest.columns import TRACE_TYPE
from isthmus.pipeline.ingest.source import advance, register, survey
from isthmus.trace.reader import read_rows
from isthmus.trace.schema import Row
from isthmus.trace.writer import TraceWriter

STARTS = 5


def rows(process: int, first: int, count: int) -> list[Row]:
    return [
        (0, process, local, local, 5, 0, 1, local, 0, 0, (1, 2) if local % 2 else None, 5, 0, 0, 0)
        for local in range(first, first + count)
    ]


def write(folder: Path, prefix: str, process: int, segments: int, each: int = 5) -> None:
    with TraceWriter(folder, prefix=prefix, batch_rows=2, segment_rows=each) as sink:
        for number in range(segments):
            for row in rows(process, number * each, each):
                sink.append(row)
            sink.roll()


def as_tuples(frame) -> list[tuple]:
    found = [(*row[:10], tuple(row[10]) if row[10] is not None else None, *row[11:]) for row in frame.collect()]
    return sorted(found, key=lambda row: row[:3])


def expected(folder: Path) -> list[Row]:
    return sorted(read_rows(folder), key=lambda row: row[:3])


def test_a_folder_is_read_in_parallel(spark, tmp_path):
    register(spark)
    write(tmp_path / "sub", "site-001", 1, 3)
    write(tmp_path, "site-002", 2, 1)
    frame = spark.read.format("isthmus").option("rows", 2).load(str(tmp_path))
    assert [(field.name, field.dataType) for field in frame.schema] == [(f.name, f.dataType) for f in TRACE_TYPE]
    assert as_tuples(frame) == expected(tmp_path)
    assert frame.rdd.getNumPartitions() == 12  # three row groups a segment
    assert spark.read.format("isthmus").load(str(tmp_path)).rdd.getNumPartitions() == 4


def test_a_bad_file_is_one_sentence(spark, tmp_path):
    register(spark)
    (tmp_path / "part-00000.parquet").write_text("nonsense")
    with pytest.raises(InputError, match=r"part-00000\.parquet: found an unreadable file"), one_sentence("x"):
        spark.read.format("isthmus").load(str(tmp_path)).collect()
    with pytest.raises(InputError, match="no such file or directory"), one_sentence("x"):
        spark.read.format("isthmus").load(str(tmp_path / "none")).collect()


def test_segments_count_only_without_a_gap(tmp_path):
    assert survey(tmp_path / "none").counts == {}
    write(tmp_path / "sub", "b", 1, 3)
    write(tmp_path, "a", 2, 1)
    (tmp_path / "foreign.parquet").write_text("")
    assert survey(tmp_path).counts == {"a": 1, "foreign.parquet": 1, "sub/b": 3}
    (tmp_path / "sub" / "b-00001.parquet").rename(tmp_path / "sub" / ".b-00001.parquet")
    assert survey(tmp_path).counts["sub/b"] == 1


@pytest.mark.parametrize(
    ("start", "there", "most", "end"),
    [
        ({}, {"a": 3, "b": 1}, 0, {"a": 3, "b": 1}),
        ({}, {"a": 3, "b": 1}, 3, {"a": 2, "b": 1}),
        ({"a": 1}, {"a": 3, "b": 1}, 1, {"a": 2}),
        ({"a": 3}, {"a": 3}, 5, {"a": 3}),
        ({"a": 3, "b": 9}, {"a": 4}, 0, {"a": 4, "b": 9}),
    ],
)
def test_offsets_only_go_forward(start, there, most, end):
    assert advance(start, there, most) == end


def run_stream(spark, folder: Path, state: Path, **options) -> None:
    """One run over all that is available, appended to a folder by Spark's own sink.

    On a busy machine the process in which Spark plans a stream may not start in the time that Spark gives it; a restart
    goes on where the stream was, which is what the tests are about.
    """
    for _ in range(STARTS):
        stream = spark.readStream.format("isthmus").options(**options).load(str(folder))
        writer = stream.writeStream.format("parquet").option("checkpointLocation", str(state / "checkpoint"))
        query = writer.option("path", str(state / "rows")).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error):
                raise
        else:
            return
    raise AssertionError(f"the process that plans a stream did not start, {STARTS} times")


def test_the_stream_gives_every_segment_once_whatever_prefix_comes_later(spark, tmp_path):
    register(spark)
    live, state = tmp_path / "live", tmp_path / "state"
    write(live, "site-002", 2, 2)
    run_stream(spark, live, state)
    write(live, "site-001", 1, 3)  # sorts before what was read
    write(live, "site-003", 3, 1)
    run_stream(spark, live, state, segments=2)
    assert as_tuples(spark.read.parquet(str(state / "rows"))) == expected(live)
    run_stream(spark, live, state)
    assert spark.read.parquet(str(state / "rows")).count() == 30
