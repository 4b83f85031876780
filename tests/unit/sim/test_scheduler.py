"""Virtual time: order, ties, slices."""

from __future__ import annotations

from random import Random

from isthmus.sim.clocks.clock import SiteClock
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


def test_a_jump_moves_the_calendar_and_neither_clock_nor_span() -> None:
    clock = SiteClock(7, 0.1, bound_ns=20, bound_drift=0.5)
    assert clock.calendar(1000)[:2] == (1107, 520), "off by the offset and by what drift may have added"
    clock.jump_ns -= 5000
    assert clock.calendar(1000)[:2] == (-3893, None), "set to an unknown time, it has no bound any more"
    assert clock.read(1000) == 1107 and clock.true_span(110) == 100


class Source:
    """An event source: a list of times, each of which happens."""

    def __init__(self, name: str, ran: list[tuple[str, int]], *times: int) -> None:
        self.name = name
        self.ran = ran
        self.times = list(times)

    def next_ns(self) -> int | None:
        return self.times[0] if self.times else None

    def run_before(self, limit_ns: int) -> int:
        """What is due at one time goes together."""
        assert self.times[0] < limit_ns
        now, count = self.times[0], self.times.count(self.times[0])
        self.times = self.times[count:]
        self.ran.append((self.name, now))
        return count


def beside(*heap: int, sources: dict[str, tuple[int, ...]]) -> tuple[Scheduler, list[tuple[str, int]]]:
    scheduler, ran = Scheduler(), []
    for time in heap:
        scheduler.at(time, lambda *_: ran.append(("heap", scheduler.now_ns)))
    scheduler.sources += [Source(name, ran, *times) for name, times in sources.items()]
    return scheduler, ran


def test_a_source_runs_beside_the_heap_in_order_of_time() -> None:
    scheduler, ran = beside(10, 30, sources={"a": (5, 20, 40), "b": (15,)})
    assert scheduler.run(35, 100) and scheduler.now_ns == 35
    assert ran == [("a", 5), ("heap", 10), ("b", 15), ("a", 20), ("heap", 30)]
    assert scheduler.run(40, 100) and ran[-1] == ("a", 40)


def test_of_a_tie_the_heap_goes_first_then_the_sources_in_their_order() -> None:
    scheduler, ran = beside(10, 10, sources={"a": (10,), "b": (10,)})
    assert scheduler.run(10, 100)
    assert ran == [("heap", 10), ("heap", 10), ("a", 10), ("b", 10)]


def test_events_of_sources_count_and_a_budget_ends_between_them() -> None:
    scheduler, ran = beside(10, sources={"a": (5, 5, 5, 20)})
    assert not scheduler.run(100, 2), "three at once are more than two, and still happen together"
    assert ran == [("a", 5)] and scheduler.event_count == 3 and scheduler.now_ns == 5
    assert not scheduler.run(100, 2) and ran[-1] == ("a", 20)
    assert scheduler.run(100, 1) and scheduler.event_count == 5


def test_a_source_may_fill_the_heap_and_the_other_way_round() -> None:
    scheduler, ran = beside(sources={"a": (5,)})
    source = scheduler.sources[0]
    assert isinstance(source, Source)
    run_before = source.run_before

    def and_schedule(limit_ns: int) -> int:
        scheduler.at(scheduler.now_ns + 1, lambda *_: source.times.append(scheduler.now_ns))
        return run_before(limit_ns) if scheduler.now_ns < 8 else 0 * source.times.pop()

    source.run_before = and_schedule  # type: ignore[method-assign]
    assert scheduler.run(7, 100) and ran == [("a", 5), ("a", 6), ("a", 7)]


def test_a_source_without_events_changes_nothing() -> None:
    scheduler, ran = beside(10, sources={"a": ()})
    assert scheduler.run(100, 5) and ran == [("heap", 10)]
