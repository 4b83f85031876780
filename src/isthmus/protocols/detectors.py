"""Estimators of a mean that may shift: pure arithmetic over samples as they come.

*Mean shift* is the paper's: the mean of the first k samples stands until k samples in a row lie on one side of it;
then the mean of those k stands. It is steady for samples that vary little. Exponential gaps lie below their mean 63
times in 100, so seven in a row do so often, and the mean of just those is far too small.

*Sliding mean* is the mean of the last `size` samples, whatever they are: unbiased for every distribution, and new
altogether after `size` samples.
"""

from __future__ import annotations

from collections import deque


class MeanShift:
    """A mean that stands until a run of samples on one side of it speaks against it."""

    __slots__ = ("k", "mean", "run", "warm")

    def __init__(self, k: int = 7) -> None:
        self.k = k
        self.mean: float | None = None
        self.run: list[float] = []  # the samples in a row on one side; the first k, at first
        self.warm = False  # the first k samples have come

    def add(self, sample: float) -> None:
        """Take a sample."""
        if not self.warm:
            self.run.append(sample)
            self.mean = sum(self.run) / len(self.run)
            self.warm = len(self.run) == self.k
            if self.warm:
                self.run = []
            return
        assert self.mean is not None
        if sample == self.mean or (self.run and (sample > self.mean) != (self.run[0] > self.mean)):
            self.run = []
        if sample != self.mean:
            self.run.append(sample)
        if len(self.run) == self.k:
            self.mean = sum(self.run) / self.k
            self.run = []


class SlidingMean:
    """The mean of the last samples."""

    __slots__ = ("mean", "samples", "total", "warm")

    def __init__(self, size: int = 16) -> None:
        self.samples: deque[float] = deque(maxlen=size)
        self.total = 0.0
        self.mean: float | None = None
        self.warm = False  # all samples have come that there is room for

    def add(self, sample: float) -> None:
        """Take a sample."""
        if len(self.samples) == self.samples.maxlen:
            self.total -= self.samples[0]
        self.samples.append(sample)
        self.total += sample
        self.mean = self.total / len(self.samples)
        self.warm = len(self.samples) == self.samples.maxlen


Detector = MeanShift | SlidingMean
