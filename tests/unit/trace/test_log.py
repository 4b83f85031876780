"""How a host writes its rows: numbers, views, messages."""

from __future__ import annotations

from isthmus.core.layer import Kind, View
from isthmus.core.message import Carried, Cast, SiteId
from isthmus.measure.summary import RunSummary
from isthmus.trace.log import SiteLog, identity
from isthmus.trace.schema import (
    CONTROL,
    DESTINATIONS,
    GAUGE,
    GROUP,
    KIND,
    LOCAL,
    NONE,
    NUMBER,
    ORIGIN,
    PAYLOAD,
    PROCESS,
    RUN,
    SENDER,
    TIME_NS,
    VALUE,
    Gauge,
    Row,
)
from isthmus.trace.schema import VIEW as VIEW_COLUMN

FIRST = View(1, (SiteId(0), SiteId(1)))
SECOND = View(2, (SiteId(1),))
CAST = Cast(SiteId(1), 7, b"abc", (SiteId(0),))


def test_rows_are_numbered_and_carry_process_and_run() -> None:
    rows: list[Row] = []
    log = SiteLog(1, rows, run=4)
    for time in (5, 5, 9):
        log.write(time, Kind.ROLE, None, 3, 0, FIRST)
    assert [row[LOCAL] for row in rows] == [0, 1, 2] and [row[TIME_NS] for row in rows] == [5, 5, 9]
    assert {(row[RUN], row[PROCESS], row[VALUE], row[SENDER], row[NUMBER]) for row in rows} == {(4, 1, 3, NONE, NONE)}


def test_a_view_counts_from_its_row_on() -> None:
    rows: list[Row] = []
    log = SiteLog(1, rows)
    log.write(0, Kind.REFUSE, None, 0, 0, View(0, ()))
    log.write(0, Kind.VIEW, None, 1, 0, FIRST)
    log.write(1, Kind.DELIVER, CAST, 0, 0, SECOND)  # an ordering layer closes view 1 while the stack is in view 2
    log.write(1, Kind.VIEW, None, 2, 0, SECOND)
    log.write(2, Kind.DELIVER, CAST, 0, 0, SECOND)
    assert [row[VIEW_COLUMN] for row in rows] == [NONE, 1, 1, 2, 2]
    assert [row[DESTINATIONS] for row in rows if row[KIND] == Kind.VIEW] == [(0, 1), (1,)]


def test_a_submit_tells_to_whom_and_others_do_not() -> None:
    rows: list[Row] = []
    log = SiteLog(1, rows)
    log.write(0, Kind.SUBMIT, CAST, 0, 0, FIRST)
    log.write(0, Kind.SUBMIT, Cast(SiteId(1), 8), 0, 0, FIRST)
    log.write(0, Kind.SEND, CAST, 2, 0, FIRST, 44)
    assert [row[DESTINATIONS] for row in rows] == [(0,), None, None]
    assert [row[PAYLOAD] for row in rows] == [3, 0, 3] and [row[CONTROL] for row in rows] == [0, 0, 44]
    assert (rows[0][SENDER], rows[0][NUMBER]) == (1, 7)


def test_figures_are_kept_with_rows_or_without() -> None:
    summaries = []
    for sink in (None, []):
        summary = RunSummary(2)
        log = SiteLog(0, sink, summary)
        log.write(10, Kind.SUBMIT, Cast(SiteId(0), 1, b"", (SiteId(0),)), 0, 0, FIRST)
        log.write(13, Kind.DELIVER, Cast(SiteId(0), 1), 0, 0, FIRST)
        log.write(14, Kind.SEND, Cast(SiteId(0), 1), 1, 0, FIRST)
        log.write(14, Kind.REJECT, None, 1, 0, FIRST)
        log.write(15, Kind.CRASH, None, 0, 0, FIRST)
        assert log.rejected_count == 1
        summaries.append(
            (summary.submitted_count, summary.delivered.mean(), summary.rejected_count, summary.crash_count)
        )
    assert summaries == [(1, 3, 1, 1)] * 2


def test_a_message_is_named_by_its_origin() -> None:
    assert identity(CAST, 3) == (3, 1, 7)
    assert identity(Carried(SiteId(4), 9), 3) == (3, 4, 9)
    assert identity(Carried(SiteId(4), 9, author=(0, 1, 7)), 3) == (0, 1, 7)
    rows: list[Row] = []
    SiteLog(4, rows).write(0, Kind.DELIVER, Carried(SiteId(4), 9, b"xy", author=(0, 1, 7)), 0, 3, FIRST)
    assert rows[0][ORIGIN : VIEW_COLUMN + 1] == (0, 1, 7, 3, NONE) and rows[0][PAYLOAD] == 2


def test_each_group_is_in_a_view_of_its_own() -> None:
    rows: list[Row] = []
    log = SiteLog(1, rows)
    log.write(0, Kind.VIEW, None, 1, 0, FIRST)
    log.write(0, Kind.VIEW, None, 2, 5, SECOND)
    for group in (0, 5, 6):
        log.write(1, Kind.GAUGE, None, 12, group, FIRST, gauge=Gauge.QUEUE_LENGTH)
    log.write(2, Kind.RECOVER, None, 1, 0, FIRST)
    log.write(2, Kind.ROLE, None, 1, 5, FIRST)
    assert [(row[GROUP], row[VIEW_COLUMN]) for row in rows[2:]] == [(0, 1), (5, 2), (6, NONE), (0, NONE), (5, NONE)]
    assert {(row[VALUE], row[GAUGE], row[ORIGIN]) for row in rows[2:5]} == {(12, Gauge.QUEUE_LENGTH, NONE)}
