"""Clocks of a site: a monotonic one with its own rate, and a calendar that may be set."""

from __future__ import annotations

from isthmus.core.layer import Reading


class SiteClock:
    """A clock that runs (1 + drift) times as fast as true time; jumps change the offset of its calendar."""

    __slots__ = ("bound_drift", "bound_ns", "drift", "jump_ns", "offset_ns")

    def __init__(self, offset_ns: int, drift: float, bound_ns: int = 0, bound_drift: float = 0.0) -> None:
        assert drift > -1
        self.offset_ns = offset_ns
        self.drift = drift
        self.bound_ns = bound_ns  # known bound of the offset
        self.bound_drift = bound_drift  # known bound of the drift
        self.jump_ns = 0  # total adjustment of the calendar; once set, its error bound is unknown

    def read(self, true_ns: int) -> int:
        """Return the monotonic clock, whose origin is the offset."""
        return true_ns + self.offset_ns + round(true_ns * self.drift)

    def calendar(self, true_ns: int) -> Reading:
        error_ns = None if self.jump_ns else self.bound_ns + round(true_ns * self.bound_drift)
        return Reading(self.read(true_ns) + self.jump_ns, error_ns)

    def true_span(self, local_ns: int) -> int:
        """Return the true duration of a span of this clock."""
        return round(local_ns / (1 + self.drift))
