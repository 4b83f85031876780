"""Rows that outlive the process that wrote them."""

from __future__ import annotations

from pathlib import Path

from isthmus.core.layer import Kind, View
from isthmus.core.message import Cast, SiteId
from isthmus.trace.log import SiteLog
from isthmus.trace.reader import read_rows
from isthmus.trace.tail import TailedWriter, read_tail, tail_path
from isthmus.trace.writer import TraceWriter

HERE = SiteId(0)


def written(folder: Path) -> tuple[TailedWriter, SiteLog]:
    writer = TailedWriter(TraceWriter(folder, prefix="site-000"), tail_path(folder, "site-000"))
    return writer, SiteLog(HERE, writer)


def events(log: SiteLog, first: int, count: int) -> None:
    for number in range(first, first + count):
        log.write(number, Kind.SUBMIT, Cast(HERE, number, b"x", (HERE,)), 0, 0, View(1, (HERE,)))


def test_what_is_in_no_segment_is_in_the_tail(tmp_path: Path) -> None:
    writer, log = written(tmp_path)
    events(log, 1, 5)
    writer.roll()
    assert read_tail(tail_path(tmp_path, "site-000")) == []
    events(log, 6, 3)  # and here it is killed
    tail = read_tail(tail_path(tmp_path, "site-000"))
    whole = [*read_rows(tmp_path), *tail]
    assert [row[7] for row in whole] == list(range(1, 9))
    with TraceWriter(tmp_path, prefix="site-000-crash-0") as other:
        for row in tail:
            other.append(row)
    assert sorted(read_rows(tmp_path)) == sorted(whole)


def test_half_a_row_is_no_row(tmp_path: Path) -> None:
    _, log = written(tmp_path)
    events(log, 1, 3)
    path = tail_path(tmp_path, "site-000")
    path.write_bytes(path.read_bytes()[:-1])
    assert [row[7] for row in read_tail(path)] == [1, 2]
    path.write_bytes(path.read_bytes()[:2])
    assert read_tail(path) == []


def test_a_trace_that_is_closed_has_no_tail(tmp_path: Path) -> None:
    writer, log = written(tmp_path)
    events(log, 1, 3)
    writer.close()
    writer.writer.close()
    assert not tail_path(tmp_path, "site-000").exists() and len(list(read_rows(tmp_path))) == 3
