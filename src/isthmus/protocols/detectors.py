"""Estimators of a mean that may shift: pure arithmetic over samples as they come.

*Mean shift* is the paper's: the mean of the first k samples stands until k samples in a row lie on one side of it;
then the mean of those k stands. It is steady for samples that vary little. Exponential gaps lie below their mean 63
times in 100, so seven in a row do so often, and the mean of just those is far too small.

*Sliding mean* is the mean of the last `size` samples, whatever they are: unbiased for every distribution, and new
altogether after `size` samples. What is no accident begins a new mean at once: a sample twenty times the mean (of
exponential ones one in five million, with a mean of 32), or the last eight together below a sixth of what they should
be (one in 13,000, and harmless where it is wrong: the next ones count again). Of those eight the first may lie across
the shift, or before it: it does not count where the mean of the rest is below a sixth of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import fmean, pstdev

SHIFT = 20  # a sample this many times the mean is a shift
FEWEST = 4  # samples that tell anything
REGULAR = 0.5  # a deviation below this share of the mean: periodic rather than at random
RECENT, DROP = 8, 6  # as many samples together, a sixth of the mean, are a shift too


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
            self.warm = len(self.run) == self.k
            if self.warm:
                self.mean = sum(self.run) / self.k
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

    def with_sample(self, sample: float) -> float | None:
        """What the mean would be with one more sample; None where there is too little to tell."""
        return (self.mean * self.k + sample) / (self.k + 1) if self.warm and self.mean is not None else None

    def regular(self) -> bool:
        """Whether samples are much alike; a mean that stands for long says nothing of it."""
        return False


class SlidingMean:
    """The mean of the last samples."""

    __slots__ = ("mean", "samples")

    def __init__(self, size: int = 32) -> None:
        self.samples: deque[float] = deque(maxlen=size)
        self.mean: float | None = None

    def add(self, sample: float) -> None:
        """Take a sample."""
        if self.mean is not None and sample > SHIFT * self.mean:
            self.samples.clear()
        self.samples.append(sample)
        recent = list(self.samples)[-RECENT:]
        if self.mean is not None and len(recent) == RECENT and DROP * sum(recent) < RECENT * self.mean:
            self.samples.clear()
            self.samples.extend(after_shift(recent))
        self.mean = sum(self.samples) / len(self.samples)

    def regular(self) -> bool:
        """Whether samples are much alike."""
        return is_regular(self.samples)

    def with_sample(self, sample: float) -> float | None:
        """What the mean would be with one more sample; None where there is too little to tell."""
        count = len(self.samples)
        if self.mean is None or count < FEWEST:
            return None
        return sample if sample > SHIFT * self.mean else (self.mean * count + sample) / (count + 1)


def is_regular(samples: Iterable[float]) -> bool:
    """Whether samples are much alike: exponential ones deviate from their mean by as much as the mean."""
    known = list(samples)
    return len(known) >= RECENT and pstdev(known) < REGULAR * fmean(known)


def after_shift(samples: list[float]) -> list[float]:
    """The samples without those at the front that are far above all the rest."""
    while len(samples) > FEWEST and DROP * sum(samples[1:]) < (len(samples) - 1) * samples[0]:
        samples = samples[1:]
    return samples


Detector = MeanShift | SlidingMean
