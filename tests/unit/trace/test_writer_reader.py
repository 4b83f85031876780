"""Segments: whole or hidden, the same bytes every time, bounded memory, and one sentence for whatever is wrong."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.judge.stories import quiet_run

from isthmus.core.errors import InputError, LocalError
from isthmus.trace import writer as writer_module
from isthmus.trace.arrow import SCHEMA, VERSION_KEY, schema_with
from isthmus.trace.reader import read_batches, read_meta, read_rows
from isthmus.trace.schema import ADDED, DESTINATIONS, GAUGE, ORIGIN
from isthmus.trace.writer import TraceWriter

WRITE_AND_HASH = """
import hashlib, sys
from pathlib import Path
from isthmus.trace.writer import TraceWriter
to = [(1, 2) if i % 7 == 0 else None for i in range(5000)]
rows = [(0, i % 5, i // 5, i * i, 5, 0, i % 3, i, 0, 1, to[i], 8, 20, 0, 0) for i in range(5000)]
with TraceWriter(sys.argv[1], {"seed": "7", "stack": "x"}, batch_rows=1000, segment_rows=2000) as sink:
    for row in rows:
        sink.append(row)
print([hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(Path(sys.argv[1]).iterdir())])
"""


def row(index: int, *, to: tuple[int, ...] | None = None, value: int = 0):
    return (0, 1, index, index * 10, 5, 0, 2, index, 0, 1, to, 8, 20, value, 0)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def save(path, columns: dict[str, object], drop: str = "") -> None:
    """A file as another system may write it: one sound row, but for the columns given."""
    sound = {field.name: pa.array([None if field.nullable else 1], field.type) for field in SCHEMA}
    table = {name: column for name, column in (sound | columns).items() if name != drop}
    pq.write_table(pa.table(table), path)


def test_rows_come_back(tmp_path):
    rows = quiet_run().rows
    with TraceWriter(tmp_path / "a" / "b", {"seed": "7", "scenario": "ü"}, batch_rows=4) as sink:
        for each in rows:
            sink.append(each)
    assert list(read_rows(tmp_path / "a" / "b")) == rows
    assert list(read_rows(tmp_path / "a" / "b" / "part-00000.parquet")) == rows
    assert read_meta(tmp_path / "a" / "b") == {"seed": "7", "scenario": "ü"}


def test_empty_destinations_are_written_as_all(tmp_path):
    with TraceWriter(tmp_path) as sink:
        for index, to in enumerate(((), None, (3, 1))):
            sink.append(row(index, to=to))
    assert [found[DESTINATIONS] for found in read_rows(tmp_path)] == [None, None, (3, 1)]


def test_segments_are_hidden_until_complete_and_memory_is_bounded(tmp_path):
    sink = TraceWriter(tmp_path, batch_rows=10, segment_rows=20)
    for index in range(35):
        sink.append(row(index))
        assert len(sink._rows) < 10
    assert names(tmp_path) == [".part-00001.parquet", "part-00000.parquet"]
    assert len(list(read_rows(tmp_path))) == 20
    sink.roll()
    assert len(list(read_rows(tmp_path))) == 35
    sink.close()
    sink.close()
    assert names(tmp_path) == ["part-00000.parquet", "part-00001.parquet"]
    assert [batch.num_rows for batch in read_batches(tmp_path, batch_rows=8)] == [8, 8, 4, 8, 7]


def test_leaving_by_an_error_completes_the_segment(tmp_path):
    with pytest.raises(KeyboardInterrupt), TraceWriter(tmp_path, batch_rows=10) as sink:
        for index in range(25):
            sink.append(row(index))
        raise KeyboardInterrupt
    assert names(tmp_path) == ["part-00000.parquet"]
    assert len(list(read_rows(tmp_path))) == 25


def test_a_trace_of_no_rows_is_a_trace(tmp_path):
    TraceWriter(tmp_path, {"seed": "1"}).close()
    assert list(read_rows(tmp_path)) == []
    assert read_meta(tmp_path) == {"seed": "1"}


def test_a_folder_with_a_trace_is_refused_or_overwritten(tmp_path):
    with TraceWriter(tmp_path, segment_rows=1, batch_rows=1) as sink:
        sink.append(row(0))
        sink.append(row(1))
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ".part-00002.parquet").write_bytes(b"half")
    with pytest.raises(InputError, match=r"a trace already \(part-00000\.parquet\)"):
        TraceWriter(tmp_path)
    with TraceWriter(tmp_path, overwrite=True) as sink:
        sink.append(row(5))
    assert names(tmp_path) == ["notes.txt", "part-00000.parquet"]
    assert [found[2] for found in read_rows(tmp_path)] == [5]


def test_writers_with_prefixes_share_a_folder(tmp_path):
    with TraceWriter(tmp_path, prefix="site-001") as one, TraceWriter(tmp_path, prefix="site-002") as two:
        two.append(row(2))
        one.append(row(1))
    assert names(tmp_path) == ["site-001-00000.parquet", "site-002-00000.parquet"]
    assert [found[2] for found in read_rows(tmp_path)] == [1, 2]
    for prefix in ("site-001", "part"):
        with pytest.raises(InputError, match="a trace already"):
            TraceWriter(tmp_path, prefix=prefix)
    TraceWriter(tmp_path, prefix="site-001", overwrite=True).close()
    assert [found[2] for found in read_rows(tmp_path)] == [2]


def test_same_rows_same_bytes_in_any_process(tmp_path):
    outputs = []
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", WRITE_AND_HASH, str(tmp_path / seed)]
        outputs.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].count("'") == 6
    assert hashlib.sha256(b"").hexdigest() not in outputs[0]


def test_a_full_disk_is_one_sentence_and_keeps_complete_segments(tmp_path, monkeypatch):
    sink = TraceWriter(tmp_path, batch_rows=1, segment_rows=1)
    sink.append(row(0))

    class Full:
        def __init__(self, path, *args, **options):
            open(path, "w").close()  # noqa: PTH123

        def write_batch(self, *args, **options):
            raise OSError(28, "No space left on device")

        def close(self):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer_module.pq, "ParquetWriter", Full)
    with pytest.raises(InputError, match="found No space left on device; expected a folder that can be written"):
        sink.append(row(1))
    assert names(tmp_path) == ["part-00000.parquet"]
    with pytest.raises(LocalError, match="closed"):
        sink.flush()


def test_a_file_in_the_place_of_the_folder_is_one_sentence(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match="expected a folder that can be written"):
        TraceWriter(tmp_path / "taken")


@pytest.mark.parametrize("bad", [row(0)[:5], (*row(0)[:4], 300, *row(0)[5:]), (None, *row(0)[1:])])
def test_a_row_of_the_wrong_shape_is_the_hosts_mistake(tmp_path, bad):
    with pytest.raises(LocalError, match="does not fit"), TraceWriter(tmp_path, batch_rows=1) as sink:
        sink.append(row(0))
        sink.append(bad)
    assert list(read_rows(tmp_path)) == [row(0)]


@pytest.mark.parametrize("options", [{"batch_rows": 0}, {"segment_rows": 0}, {"prefix": ".x"}, {"prefix": "a/b"}])
def test_bad_options_are_refused(tmp_path, options):
    with pytest.raises(LocalError):
        TraceWriter(tmp_path, **options)


def test_reader_casts_widths_and_takes_any_order_of_columns(tmp_path):
    columns = {"destinations": pa.array([[7, 8]], pa.large_list(pa.int64())), "process": pa.array([3], pa.uint8())}
    save(tmp_path / "x.parquet", columns | {"kind": pa.array([5], pa.int64()), "extra": pa.array(["text"])})
    found = next(read_rows(tmp_path))
    assert found == (1, 3, 1, 1, 5, 1, 1, 1, 1, 1, (7, 8), 1, 1, 1, 1)
    assert read_meta(tmp_path) == {}


@pytest.mark.parametrize(
    ("columns", "drop", "sentence"),
    [
        ({}, "view", "view: found no such column among run, process, .*; expected one column of int32"),
        ({"kind": pa.array(["deliver"])}, "", "kind: found a column of string; expected int8"),
        ({"destinations": pa.array([1])}, "", "destinations: found a column of int64; expected list"),
        ({"kind": pa.array([500], pa.int64())}, "", "kind: found .*500.*; expected values within int8"),
        ({"number": pa.array([None], pa.int64())}, "", "number: found 1 nulls; expected int64 in every row"),
    ],
)
def test_reader_names_the_column(tmp_path, columns, drop, sentence):
    save(tmp_path / "x.parquet", columns, drop)
    with pytest.raises(InputError, match=sentence):
        list(read_rows(tmp_path))


def test_reader_refuses_what_is_no_trace(tmp_path):
    with pytest.raises(InputError, match="no Parquet file in this folder"):
        list(read_rows(tmp_path))
    with pytest.raises(InputError, match="no such file or directory"):
        read_meta(tmp_path / "missing")
    (tmp_path / "x.parquet").write_bytes(b"PAR1 and then nothing")
    for read in (read_meta, lambda path: list(read_rows(path))):
        with pytest.raises(InputError, match=r"x\.parquet: found an unreadable file"):
            read(tmp_path)


def test_reader_refuses_another_version(tmp_path):
    schema = schema_with({}).with_metadata({VERSION_KEY: b"9"})
    pq.write_table(schema.empty_table(), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="schema version: found 9; expected version 1 or 2"):
        list(read_rows(tmp_path))


def test_reader_takes_version_1_and_fills_in_what_it_lacks(tmp_path):
    old = {"sender": pa.array([-1, 2], pa.int32()), "group": pa.array([5, 6], pa.int64())}
    columns = {field.name: pa.array([None if field.nullable else 1] * 2, field.type) for field in SCHEMA} | old
    table = pa.table({name: column for name, column in columns.items() if name not in ADDED})
    pq.write_table(table.replace_schema_metadata({VERSION_KEY: b"1"}), tmp_path / "a.parquet")
    with TraceWriter(tmp_path, prefix="b") as sink:
        sink.append((*row(0)[:ORIGIN], 9, *row(0)[ORIGIN + 1 : GAUGE], 4))
    assert [(found[ORIGIN], found[GAUGE]) for found in read_rows(tmp_path)] == [(-1, 0), (6, 0), (9, 4)]


def test_a_truncated_segment_is_one_sentence(tmp_path):
    with TraceWriter(tmp_path) as sink:
        for index in range(1000):
            sink.append(row(index))
    path = tmp_path / "part-00000.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="unreadable"):
        list(read_rows(tmp_path))
