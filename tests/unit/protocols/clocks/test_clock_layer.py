"""The clock service on a host that only records: rounds by its timers, and packets that must change nothing."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.recording import RecordingPort, RecordingSite

from isthmus.core.layer import ClockState, Reading, Stack, View
from isthmus.core.message import SiteId
from isthmus.protocols.clocks.agreement import Reception
from isthmus.protocols.clocks.options import ClockOptions, accuracy_ns
from isthmus.protocols.clocks.round_trips import RoundTrips
from isthmus.protocols.clocks.service import ClockService
from isthmus.protocols.clocks.wire import Candidate, Receptions, TableRequest, TimeReply, TimeRequest

A, B, C, FAR = SiteId(0), SiteId(1), SiteId(2), SiteId(9)
MS = 1_000_000
OPTIONS = ClockOptions(drift_ppm=10, tightness_us=10, granularity_us=1)
REMOTE = ClockOptions(drift_ppm=10, tightness_us=10, agent=A, sources=(FAR, SiteId(8)))


class ClockBench(RecordingPort):
    """A recording port with what the clock service needs besides."""

    known: Reading | None = None  # what the reference reads

    @property
    def received_ns(self) -> int:
        return self.now_ns

    def calendar(self) -> Reading:
        return self.clock()

    def reference(self) -> Reading | None:
        return self.known


class Bench:
    """A site of a LAN with its service; the others are played by the test."""

    def __init__(self, options: ClockOptions = OPTIONS, members: tuple[SiteId, ...] = (A, B)) -> None:
        self.site = RecordingSite(A)
        self.port = self.site.ports[self.site.host.group] = ClockBench(self.site, self.site.host.group)
        self.service = ClockService(options)
        self.trips = RoundTrips(options, self.service)
        self.site.attach(Stack(self.port, self.trips, self.service))
        self.members = members
        self.view(1, *members)

    def view(self, number: int, *members: SiteId) -> None:
        def enter() -> None:
            self.port.install(View(number, members))
            self.port.resume()

        self.port.run(enter)

    def hear(self, source: SiteId, message: Any, view: int = 1) -> list[str]:
        """What follows from a message."""
        self.site.drain()
        self.port.receive(source, view, message)
        return self.site.drain()

    def table(self, *times: int | None) -> tuple[Reception | None, ...]:
        return tuple(None if time is None else Reception(0, 7, time) for time in times)


def test_a_round_ends_with_the_time_that_all_agreed_on() -> None:
    bench = Bench()
    bench.port.known = Reading(5_000 * MS, 1_000)
    bench.site.advance(10 * MS)  # the first round begins
    bench.hear(B, Candidate(1))
    bench.site.advance(10 * MS)  # and closes
    bench.hear(B, Receptions(1, bench.table(4_000, 4_000)))
    assert bench.service.read(bench.port.now_ns) is None
    bench.site.advance(20 * MS)
    reading = bench.service.read(bench.port.now_ns)
    assert reading is not None and reading.state is ClockState.SYNCHRONISED
    assert abs(reading.time_ns - 5_000 * MS - 30 * MS) <= 1 and reading.error_ns is not None
    assert reading.error_ns <= accuracy_ns(OPTIONS)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (C, Candidate(1)),  # not on this LAN
        (B, Receptions(1, ())),  # of no candidate, where there are two members
        (B, Receptions(1, (None,) * 3)),
        (C, Receptions(1, (None, None))),
        (FAR, TimeReply(0, 10, 5)),  # ends before it begins
    ],
    ids=str,
)
def test_a_wrong_packet_is_rejected_and_changes_nothing(source: SiteId, message: Any) -> None:
    bench = Bench()
    bench.site.advance(11 * MS)
    before = (bench.service.round, dict(bench.service.tables), list(bench.service.table))
    view = 0 if message.viewless else 1
    lines = bench.hear(source, message, view)
    assert any("reject" in line for line in lines), lines
    assert (bench.service.round, dict(bench.service.tables), list(bench.service.table)) == before


def test_what_is_late_or_was_not_asked_for_is_passed_over() -> None:
    bench = Bench(REMOTE)
    bench.site.advance(1_050 * MS)
    assert bench.service.round == 2
    assert bench.hear(B, Candidate(1)) == [] and bench.hear(B, Receptions(1, (None, None))) == []
    assert bench.hear(B, TableRequest(1)) == []
    assert bench.hear(B, Candidate(2), view=7) == [], "of a view that is not installed"
    bench.hear(FAR, TimeReply(-5, 0, 0), view=0)
    bench.hear(C, TimeReply(0, 0, 0), view=0)
    assert not bench.trips.answers


def test_a_table_is_told_again_and_is_final_once_told() -> None:
    bench = Bench()
    bench.site.advance(10 * MS)
    assert bench.hear(B, TableRequest(1)) == [], "it is not closed yet"
    bench.site.advance(10 * MS)
    before = bench.service.tables[A]
    assert bench.hear(B, Candidate(1)) == [] and bench.service.tables[A] == before
    assert len(bench.hear(B, TableRequest(1))) == 1


def test_a_new_view_gives_up_the_round_under_way() -> None:
    bench = Bench()
    bench.site.advance(15 * MS)
    bench.view(2, A)
    bench.site.advance(100 * MS)
    assert bench.service.adopted_count == bench.service.missed_count == 0
    bench.site.advance(1_000 * MS)
    assert bench.service.adopted_count == 1, "alone, it agrees with itself"


def test_a_site_without_an_interval_does_not_answer() -> None:
    bench = Bench()
    assert bench.hear(FAR, TimeRequest(3), view=0) == []
    bench.view(2, A)
    bench.port.known = Reading(5_000 * MS, 1_000)
    bench.site.advance(1_100 * MS)
    assert len(bench.hear(FAR, TimeRequest(3), view=0)) == 1


def test_an_answer_is_as_wide_as_its_round_trip() -> None:
    bench = Bench(REMOTE, (A,))
    assert bench.trips.asks and not bench.trips.answers
    bench.site.advance(0)  # the first question leaves
    sent = bench.trips.asked[-1]
    bench.site.advance(60 * MS)
    bench.hear(FAR, TimeReply(sent, 900 * MS, 902 * MS), view=0)
    reading = bench.trips.reading(bench.port.now_ns)
    assert reading is not None and abs(reading.time_ns - 931 * MS) <= 1_000
    assert reading.error_ns is not None and 31 * MS <= reading.error_ns <= 31 * MS + 1_000
    bench.site.advance(3_000 * MS)
    assert bench.trips.reading(bench.port.now_ns) is None, "an old one is none"
