"""Bugs planted in the clock service: what must not decide on a candidate, on the time, or on an interval."""

from __future__ import annotations

from collections.abc import Sequence

from isthmus.protocols.clocks.agreement import CommonTime, Table, choose
from isthmus.protocols.clocks.intervals import Span
from isthmus.protocols.clocks.service import ClockService

SLACK_NS = 5_100_000  # what 2 rho (P + A + W) and the tightness come to where the bug shows


def choose_by_consistency(tables: Sequence[Table]) -> int | None:
    """Takes the first candidate whose stamps are no further apart than clocks may have drifted, on whatever attempt."""
    if any(stamp is not None and stamp.error_ns is None for table in tables for stamp in table):
        return choose(tables)  # clocks that were never synchronised are not consistent with any
    for place, stamps in enumerate(zip(*tables, strict=True)):
        times = [stamp.time_ns for stamp in stamps if stamp is not None]
        if len(times) == len(tables) and max(times) - min(times) <= SLACK_NS:
            return place
    return None


def mean(values: Sequence[int]) -> int:
    """Takes the mean in the place of the median."""
    return sum(values) // len(values)


def adopt_as_of_now(self: ClockService, agreed: CommonTime, stamp_ns: int) -> None:
    """Forgets that the interval has aged while the LAN agreed on it."""
    honest_adopt(self, agreed, stamp_ns)
    if agreed.bounds is not None:
        now_ns = self.host.now_ns
        low, high = (end + now_ns - stamp_ns for end in agreed.bounds)
        self.span = Span(now_ns, low, high, 0.0, self.options.drift)


honest_adopt = ClockService.adopt
