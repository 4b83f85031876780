"""Intervals of true time, and the clock that is read: pure arithmetic on the readings of one hardware clock.

A `Span` says where true time was when the hardware clock showed `stamp_ns`. It widens as the clock runs, by what its
rate may be off. A `VirtualClock` is the time that users read: it follows the hardware clock, and a correction is either
a step, or worked off slowly, so that the clock never runs backwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor
from typing import NamedTuple


class Span(NamedTuple):
    """True time lay within [low, high] when the hardware clock showed the stamp."""

    stamp_ns: int
    low_ns: int
    high_ns: int
    rate: float = 0.0  # true time that passes per hardware time, less 1, as estimated
    spread: float = 0.0  # how far that estimate may be off

    def at(self, hardware_ns: int) -> tuple[int, int]:
        """Where true time lies when the hardware clock shows another time."""
        passed = hardware_ns - self.stamp_ns
        slow, fast = passed * (self.rate - self.spread), passed * (self.rate + self.spread)
        return self.low_ns + passed + floor(min(slow, fast)), self.high_ns + passed + ceil(max(slow, fast))

    def moved(self, hardware_ns: int) -> Span:
        """The same as of another hardware time."""
        return Span(hardware_ns, *self.at(hardware_ns), self.rate, self.spread)

    def within(self, other: Span) -> Span:
        """What both allow, as of this span's stamp; this span alone where they contradict each other."""
        low, high = other.at(self.stamp_ns)
        low, high = max(low, self.low_ns), min(high, self.high_ns)
        return self if low > high else self._replace(low_ns=low, high_ns=high)


class VirtualClock:
    """The time that is read: the hardware clock, with corrections worked off at most `slew` a unit of time."""

    __slots__ = ("correction_ns", "hardware_ns", "rate", "slew", "time_ns")

    def __init__(self, hardware_ns: int, time_ns: int, slew: float) -> None:
        self.hardware_ns = hardware_ns  # since the last correction
        self.time_ns = time_ns  # what was read then
        self.correction_ns = 0  # what was to be worked off then
        self.rate = 0.0
        self.slew = slew  # with the rate, below 1: the clock never runs backwards

    def read(self, hardware_ns: int) -> int:
        passed = hardware_ns - self.hardware_ns
        limit = max(0, passed) * self.slew
        worked_off = min(limit, max(-limit, self.correction_ns))
        return self.time_ns + passed + round(passed * self.rate + worked_off)  # rounded once: never a step back

    def step(self, hardware_ns: int, time_ns: int, rate: float = 0.0) -> None:
        """Set the clock."""
        self.hardware_ns, self.time_ns, self.correction_ns, self.rate = hardware_ns, time_ns, 0, rate

    def steer(self, hardware_ns: int, time_ns: int, rate: float = 0.0) -> None:
        """Have the clock approach a time without a step."""
        now_ns = self.read(hardware_ns)
        self.hardware_ns, self.time_ns, self.correction_ns, self.rate = hardware_ns, now_ns, time_ns - now_ns, rate


class Fit(NamedTuple):
    """A straight line through readings of true time over a hardware clock."""

    rate: float  # its slope, less 1
    sensitivity: float  # by how much the slope is off, per ns that every reading may be off


def fit_rate(points: Sequence[tuple[int, int]]) -> Fit:
    """The least-squares line through (hardware, true) times, at least two of which differ."""
    first_h, first_t = points[0]
    xs = [float(h - first_h) for h, _ in points]
    ys = [float((t - first_t) - (h - first_h)) for h, t in points]  # the deviation alone: a double holds it exactly
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    weight = sum((x - mean_x) ** 2 for x in xs)
    assert weight > 0
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / weight
    return Fit(slope, sum(abs(x - mean_x) for x in xs) / weight)
