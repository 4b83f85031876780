"""A running mean that starts with its first sample, allows for message sizes, and ignores single outliers.

Problem: network measurements drift, jump now and then, and have outliers: a retransmitted packet, a clock that was set.
A plain running mean follows outliers and is slow after a jump. Idea: ignore a sample far from the estimate; several in
a row begin a new estimate.

On a link of limited bandwidth a larger message takes longer, by its size times a constant of the way. Level and slope
are those of a regression of the samples on sizes, with the same fading weights; where all sizes are equal, slope 0.
"""

from __future__ import annotations

ODD_MAX = 3  # outliers in a row: the path or a clock has changed
ODD_NS = 5_000_000  # a sample nearer than this is no outlier
ODD_EARLY_NS = 50_000_000  # the same while an estimate has fewer than ODD_MAX samples
ODD_TIMES = 8  # mean deviations beyond which a sample is an outlier


class Estimate:
    """The mean of samples in ns; the first ones weigh 1, 1/2, 1/3 ... down to the gain, so that one is a start."""

    __slots__ = ("count", "covariance", "deviation", "gain", "latest_ns", "level", "odd_count", "size", "variance")

    def __init__(self, gain: float) -> None:
        self.gain = gain
        self.odd_count = 0  # odd samples since the last that fits
        self.latest_ns = 0  # when the last sample came
        self.restart()

    def restart(self) -> None:
        self.count = 0
        self.level = 0.0  # the mean of the samples, at the mean size
        self.size = self.variance = self.covariance = 0.0  # of the sizes, and of sizes with samples
        self.deviation = 0.0  # mean distance of a sample from the estimate

    def effect(self, size: int) -> float:
        """Return what a message size adds to the level."""
        return self.covariance / self.variance * (size - self.size) if self.variance > 0 else 0.0

    def at(self, size: int) -> float:
        return self.level + self.effect(size)

    def note(self, sample: float, size: int, now_ns: int) -> None:
        self.latest_ns = now_ns
        off = abs(sample - self.at(size))
        near = ODD_NS if self.count >= ODD_MAX else ODD_EARLY_NS
        if self.count and off > near + ODD_TIMES * self.deviation:
            self.odd_count += 1
            if self.odd_count < ODD_MAX:
                return
            self.restart()
            off = 0.0
        self.odd_count = 0
        self.count += 1
        weight = max(self.gain, 1 / self.count)
        further, larger = sample - self.level, size - self.size
        self.level += weight * further
        self.size += weight * larger
        self.variance = (1 - weight) * (self.variance + weight * larger * larger)
        self.covariance = (1 - weight) * (self.covariance + weight * larger * further)
        if self.count > 1:
            self.deviation += weight * (off - self.deviation)
