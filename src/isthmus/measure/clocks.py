"""What readings of clocks at the same true instants show: how far they are apart, and from true time.

Only clocks that publish an interval count. Precision is that of the clocks of one LAN, the worst over LANs and
instants. An interval without true time in it is a *miss*; a clock that shows an earlier time than before ran
*backwards*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from isthmus.core.layer import ClockState, Reading
from isthmus.core.message import SiteId

NS_PER_US = 1_000


class ClockFigures(msgspec.Struct, eq=False):
    """The worst of all readings so far."""

    lan_of: Sequence[int]  # the LAN of each site, by its number
    precision_ns: int = 0  # between two clocks of one LAN
    world_ns: int = 0  # between any two
    accuracy_ns: int = 0  # to true time
    error_ns: int = 0  # the largest that was published
    miss_count: int = 0
    reading_count: int = 0  # with an interval
    backward_count: int = 0
    last: dict[SiteId, Reading] = {}  # of each site

    def note(self, true_ns: int, readings: Sequence[tuple[SiteId, Reading]]) -> None:
        by_lan: dict[int, list[int]] = {}
        for site, reading in readings:
            before, self.last[site] = self.last.get(site), reading
            if reading.error_ns is None or not is_served(reading):
                continue
            self.backward_count += before is not None and is_served(before) and before.time_ns > reading.time_ns
            off_ns = abs(reading.time_ns - true_ns)
            self.reading_count += 1
            self.accuracy_ns = max(self.accuracy_ns, off_ns)
            self.error_ns = max(self.error_ns, reading.error_ns)
            self.miss_count += off_ns > reading.error_ns
            by_lan.setdefault(self.lan_of[site], []).append(reading.time_ns)
        for times in by_lan.values():
            self.precision_ns = max(self.precision_ns, max(times) - min(times))
        everyone = [time for times in by_lan.values() for time in times]
        if everyone:
            self.world_ns = max(self.world_ns, max(everyone) - min(everyone))

    def named(self) -> dict[str, float]:
        """The figures by name; how many sites were in which state when they were last read."""
        states = Counter(reading.state for reading in self.last.values())
        return {
            "clock_precision_us": self.precision_ns / NS_PER_US,
            "clock_world_us": self.world_ns / NS_PER_US,
            "clock_accuracy_us": self.accuracy_ns / NS_PER_US,
            "clock_error_us": self.error_ns / NS_PER_US,
            "clock_readings": self.reading_count,
            "clock_misses": self.miss_count,
            "clock_backwards": self.backward_count,
        } | {f"clock_{state.name.lower()}": states[state] for state in ClockState}


def is_served(reading: Reading) -> bool:
    return reading.state not in (None, ClockState.FREE_RUNNING)
