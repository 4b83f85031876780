"""The clocks of a site: one that only runs, at a rate of its own, and one that tells the calendar and may be set."""

from __future__ import annotations

from isthmus.core.layer import Reading


class SiteClock:
    """Runs (1 + drift) times as fast as true time; the calendar is off by an offset that jumps may change."""

    __slots__ = ("bound_drift", "bound_ns", "drift", "jump_ns", "offset_ns")

    def __init__(self, offset_ns: int, drift: float, bound_ns: int = 0, bound_drift: float = 0.0) -> None:
        assert drift > -1
        self.offset_ns = offset_ns
        self.drift = drift
        self.bound_ns = bound_ns  # the offset is known to be within this,
        self.bound_drift = bound_drift  # and the drift within this
        self.jump_ns = 0  # by how much the calendar was set; then no bound is known

    def read(self, true_ns: int) -> int:
        """The monotonic clock, whose origin is the offset."""
        return true_ns + self.offset_ns + round(true_ns * self.drift)

    def calendar(self, true_ns: int) -> Reading:
        error_ns = None if self.jump_ns else self.bound_ns + round(true_ns * self.bound_drift)
        return Reading(self.read(true_ns) + self.jump_ns, error_ns)

    def true_span(self, local_ns: int) -> int:
        """How long a span of this clock takes."""
        return round(local_ns / (1 + self.drift))
