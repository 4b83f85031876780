"""Intervals of true time, and the clock that is read: pure arithmetic on the readings of one hardware clock.

A `Span` says where true time was when the hardware clock showed `stamp_ns`. It widens as the clock runs, by what its
rate may be off. A `VirtualClock` is the time that users read: it follows the hardware clock, and a correction is either
a step, or worked off gradually, so that the clock never runs backwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor
from typing import NamedTuple

OWN_SLEW_MAX = 0.25


class Span(NamedTuple):
    """True time lay within [low, high] when the hardware clock showed the stamp."""

    stamp_ns: int
    low_ns: int
    high_ns: int
    rate: float = 0.0  # true time that passes per hardware time, less 1, as estimated
    spread: float = 0.0  # the error bound of that estimate

    def at(self, hardware_ns: int) -> tuple[int, int]:
        """The interval of true time when the hardware clock shows another time."""
        passed = hardware_ns - self.stamp_ns
        slow, fast = passed * (self.rate - self.spread), passed * (self.rate + self.spread)
        return self.low_ns + passed + floor(min(slow, fast)), self.high_ns + passed + ceil(max(slow, fast))

    def moved(self, hardware_ns: int) -> Span:
        """The same span at another hardware time."""
        return Span(hardware_ns, *self.at(hardware_ns), self.rate, self.spread)

    def intersect(self, other: Span) -> Span:
        """The intersection at this span's stamp; this span alone if they contradict each other."""
        low, high = other.at(self.stamp_ns)
        low, high = max(low, self.low_ns), min(high, self.high_ns)
        return self if low > high else self._replace(low_ns=low, high_ns=high)


class VirtualClock:
    """The time that users read: the hardware clock, with corrections that are worked off as time passes.

    A correction has two parts. The *own* one is what an undisturbed round needs; it is worked off within a given time,
    as fast as that takes. The *common* one, the same at all clocks of a LAN, is what goes beyond, as after a hold-over;
    it is worked off at most `slew` a unit of time. If both were limited together, a long common correction would leave
    no room for the own ones, and the clocks of a LAN would drift apart as long as it lasts.
    """

    __slots__ = ("common_ns", "hardware_ns", "own_ns", "own_slew", "rate", "slew", "time_ns")

    def __init__(self, hardware_ns: int, time_ns: int, slew: float) -> None:
        self.hardware_ns = hardware_ns  # at the last correction
        self.time_ns = time_ns  # the reading then
        self.own_ns = self.common_ns = 0  # the corrections to work off then
        self.own_slew = 0.0  # at most OWN_SLEW_MAX
        self.rate = 0.0
        self.slew = slew  # with the rate and the own one below 1: the clock never runs backwards

    def read(self, hardware_ns: int) -> int:
        passed = hardware_ns - self.hardware_ns
        own = worked_off(self.own_ns, passed * self.own_slew)
        common = worked_off(self.common_ns, passed * self.slew)
        return self.time_ns + passed + round(passed * self.rate + own + common)  # rounded once: never a step back

    def step(self, hardware_ns: int, time_ns: int, rate: float = 0.0, common_ns: int = 0) -> None:
        """Set the clock; it works off the common correction from there."""
        self.hardware_ns, self.time_ns, self.rate = hardware_ns, time_ns, rate
        self.own_ns, self.common_ns = 0, common_ns

    def steer(
        self, hardware_ns: int, time_ns: int, rate: float = 0.0, common_ns: int = 0, within_ns: int = 1_000_000_000
    ) -> None:
        """Reach a time without a step, within a period, while working off the common correction."""
        now_ns = self.read(hardware_ns)
        self.step(hardware_ns, now_ns, rate, common_ns)
        self.own_ns = time_ns - now_ns
        self.own_slew = min(OWN_SLEW_MAX, max(self.slew, abs(self.own_ns) / within_ns))


def beyond(correction_ns: int, usual_ns: int) -> int:
    """The part of a correction that exceeds the usual one."""
    return correction_ns - min(usual_ns, max(-usual_ns, correction_ns))


def worked_off(correction_ns: int, limit: float) -> float:
    """The part of a correction worked off by a limit."""
    limit = max(0.0, limit)
    return min(limit, max(-limit, correction_ns))


class RateFit(NamedTuple):
    """A straight line through readings of true time over a hardware clock."""

    rate: float  # its slope, less 1
    sensitivity: float  # by how much the slope is off, per ns that every reading may be off


def fit_rate(points: Sequence[tuple[int, int]]) -> RateFit:
    """The least-squares line through (hardware, true) times, at least two of which differ."""
    first_h, first_t = points[0]
    xs = [float(h - first_h) for h, _ in points]
    ys = [float((t - first_t) - (h - first_h)) for h, t in points]  # the deviation alone: a double holds it exactly
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    weight = sum((x - mean_x) ** 2 for x in xs)
    assert weight > 0
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / weight
    return RateFit(slope, sum(abs(x - mean_x) for x in xs) / weight)
