"""Virtual time: order, ties, slices."""

from __future__ import annotations

from random import Random

from isthmus.sim.clock import SiteClock
from isthmus.sim.scheduler import Scheduler


def test_actions_run_in_order_of_time_then_of_scheduling() -> None:
    scheduler, ran = Scheduler(), []
    random = Random(1)
    wanted = [(random.randrange(50), number) for number in range(1000)]
    for time, number in wanted:
        scheduler.at(time, lambda a, b: ran.append((a, b)), time, number)
    assert scheduler.run(100, 10_000)
    assert ran == sorted(wanted)
    assert scheduler.event_count == 1000 and scheduler.now_ns == 100


def test_what_is_scheduled_for_now_runs_after_what_was_there() -> None:
    scheduler, ran = Scheduler(), []

    def first(*_: object) -> None:
        ran.append("first")
        scheduler.at(scheduler.now_ns, lambda *_: ran.append("third"))
        scheduler.at(scheduler.now_ns - 5, lambda *_: ran.append("fourth"))  # the past means now

    scheduler.at(10, first)
    scheduler.at(10, lambda *_: ran.append("second"))
    assert scheduler.run(10, 100)
    assert ran == ["first", "second", "third", "fourth"] and scheduler.now_ns == 10


def test_a_slice_ends_at_its_budget_and_goes_on_where_it_stopped() -> None:
    scheduler, ran = Scheduler(), []
    for time in range(10):
        scheduler.at(time, lambda a, _: ran.append(a), time)
    assert not scheduler.run(100, 4)
    assert ran == [0, 1, 2, 3] and scheduler.now_ns == 3 and scheduler.event_count == 4
    assert not scheduler.run(100, 6)  # all ran, but it could not know
    assert scheduler.run(100, 1)
    assert len(ran) == 10 and scheduler.event_count == 10 and scheduler.now_ns == 100


def test_what_is_later_waits() -> None:
    scheduler, ran = Scheduler(), []
    scheduler.at(11, lambda *_: ran.append(1))
    assert scheduler.run(10, 5) and not ran and scheduler.now_ns == 10
    assert scheduler.run(11, 5) and ran == [1]


def test_a_clock_has_an_offset_and_a_drift() -> None:
    clock = SiteClock(500, 0.0)
    assert clock.read(0) == 500 and clock.read(1000) == 1500
    fast = SiteClock(0, 100e-6)
    assert fast.read(10_000_000_000) == 10_001_000_000
    slow = SiteClock(-3, -0.05)
    assert slow.read(1_000_000) == 949_997


def test_a_span_of_a_fast_clock_is_shorter() -> None:
    clock = SiteClock(7, 0.25)
    assert clock.true_span(1250) == 1000
    assert SiteClock(7, -0.2).true_span(800) == 1000
    assert clock.read(5000 + clock.true_span(1250)) - clock.read(5000) == 1250


def test_a_jump_moves_what_the_clock_reads_and_no_span() -> None:
    clock = SiteClock(0, 0.1)
    before, span = clock.read(1000), clock.true_span(110)
    clock.offset_ns -= 5000
    assert clock.read(1000) == before - 5000 and clock.true_span(110) == span == 100
