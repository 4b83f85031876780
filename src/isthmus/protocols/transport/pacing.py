"""When to ask again: after what a round trip takes, not after a time for all networks.

The wait after a request is one and a half of the round trips seen with that origin, doubled a few times where nothing
comes: packets are lost, networks are not congested by a few small requests. A round trip is measured only where one
request was answered (Karn's rule), on the site's monotonic clock.
"""

from __future__ import annotations

from isthmus.core.message import SiteId

DOUBLINGS_MAX = 2
WEIGHT = 0.25  # of a new sample


class Pacing:
    """How long repairs take, by origin; it outlives views."""

    __slots__ = ("asked_ns", "first_ms", "least_ms", "round_ms")

    def __init__(self, first_ms: float, least_ms: float) -> None:
        self.first_ms = first_ms  # the wait as long as nothing is known
        self.least_ms = least_ms
        self.round_ms: dict[SiteId, float] = {}
        self.asked_ns: dict[SiteId, int] = {}

    def wait_ms(self, origin: SiteId, tries: int, now_ns: int) -> float:
        """Note a request, the first with tries 0; how long to wait for what it brings."""
        self.asked_ns[origin] = now_ns
        known = self.round_ms.get(origin)
        first = self.first_ms if known is None else max(self.least_ms, 1.5 * known)
        return float(first * 2 ** min(tries, DOUBLINGS_MAX))

    def answered(self, origin: SiteId, tries: int, now_ns: int) -> None:
        """Note that something came after so many requests."""
        sample = (now_ns - self.asked_ns[origin]) / 1e6
        if tries == 1:
            known = self.round_ms.get(origin, sample)
            self.round_ms[origin] = known + WEIGHT * (sample - known)
