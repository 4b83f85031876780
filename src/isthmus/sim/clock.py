"""The clock of a site: true time with an offset and a drift."""

from __future__ import annotations


class SiteClock:
    """Reads (1 + drift) times true time, plus an offset that jumps may change."""

    __slots__ = ("drift", "offset_ns")

    def __init__(self, offset_ns: int, drift: float) -> None:
        assert drift > -1
        self.offset_ns = offset_ns
        self.drift = drift

    def read(self, true_ns: int) -> int:
        return true_ns + self.offset_ns + round(true_ns * self.drift)

    def true_span(self, local_ns: int) -> int:
        """How long a span of this clock takes; a jump of the clock does not move a running timer."""
        return round(local_ns / (1 + self.drift))
