"""Estimators of a mean that may shift: pure arithmetic over a sequence of samples.

*Mean shift* is the paper's: the mean of the first k samples stands until k samples in a row lie on one side of it;
then the mean of those k stands. It is steady for samples that vary little. Exponential gaps lie below their mean 63
times in 100, so seven in a row do so often, and the mean of just those is far too small.

*Sliding mean* is the mean of the last `size` samples, whatever they are: unbiased for every distribution, and fully
renewed after `size` samples. An unlikely sample begins a new mean at once: a sample twenty times the mean (of
exponential ones one in five million, with a mean of 32), or the last eight together below a sixth of what they should
be (one in 13,000, and harmless where it is wrong: the next ones count again). Of those eight the first may lie across
the shift, or before it: it does not count where the mean of the rest is below a sixth of it.

*Exponential* weighs the last sample with 2 / (size + 1) and older ones ever less. It needs no memory, and forgets as
slowly after a shift as ever.

*CUSUM* sums the excess of samples over the mean, and their shortfall below it, each beyond an allowance; a sum above
its limit is a shift, and the mean of the samples in the sum is the new mean. In between it is a mean of roughly the
last `size`. It needs no memory either, and notices a small shift later than a large one.

*Level* is for delays, of which there are few samples, each close to the last until a link fails: a sliding mean that
begins anew with the second of two in a row that are both a quarter above it, or below. Between the two it stays as it
is, in doubt, and another sample is worth having at once.

Estimates for a choice of roles need no bias first, and speed second; the study *dynamic-roles* compares all four on
traffic of each kind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from statistics import fmean, pstdev

SHIFT = 20  # a sample this many times the mean is a shift
FEWEST = 4  # samples needed for an estimate
REGULAR = 0.5  # a deviation below this share of the mean: periodic rather than at random
ALLOWANCE, LIMIT = 0.5, 8.0  # of CUSUM, in means: exponential gaps exceed the limit once in some 1,300 samples
OFF = 0.25  # of the mean: as far off, on one side, are two samples in a row of another level
RECENT, DROP = 8, 6  # as many samples together, a sixth of the mean, are a shift too


class MeanShift:
    """A mean that stands until a run of samples lies on one side of it."""

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
        """The mean with one more sample; None if there are too few samples."""
        return (self.mean * self.k + sample) / (self.k + 1) if self.warm and self.mean is not None else None

    def regular(self) -> bool:
        """Whether samples vary little; a mean that stands for long does not show that."""
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
        """Whether samples vary little."""
        return is_regular(self.samples)

    def with_sample(self, sample: float) -> float | None:
        """The mean with one more sample; None if there are too few samples."""
        count = len(self.samples)
        if self.mean is None or count < FEWEST:
            return None
        return sample if sample > SHIFT * self.mean else (self.mean * count + sample) / (count + 1)


class Level(SlidingMean):
    """The mean of the last samples of a steady quantity that may jump: two outliers in a row begin a new mean."""

    __slots__ = ("odd",)

    def __init__(self, size: int = 8) -> None:
        super().__init__(size)
        self.odd: float | None = None  # the last sample, if it is an outlier; it counts once the next one is known

    def add(self, sample: float) -> None:
        """Take a sample."""
        odd, self.odd = self.odd, None
        side = self.side(sample)
        if side and odd is not None and self.side(odd) == side:
            self.samples.clear()  # without the outlier, which may lie across the jump
            super().add(sample)
            return
        if odd is not None:
            super().add(odd)
        if side:
            self.odd = sample
        else:
            super().add(sample)

    def side(self, sample: float) -> int:
        """The side of the mean on which a sample is an outlier: -1 below, 1 above, 0 near."""
        if self.mean is None or abs(sample - self.mean) <= OFF * self.mean:
            return 0
        return -1 if sample < self.mean else 1

    def doubt(self) -> float:
        """The deviation of the last sample, if it is an outlier."""
        return 0.0 if self.odd is None or self.mean is None else abs(self.odd - self.mean)


def is_regular(samples: Iterable[float]) -> bool:
    """Whether samples vary little: exponential ones deviate from their mean by as much as the mean."""
    known = list(samples)
    return len(known) >= RECENT and pstdev(known) < REGULAR * fmean(known)


def after_shift(samples: list[float]) -> list[float]:
    """The samples without those at the front that are far above all the rest."""
    while len(samples) > FEWEST and DROP * sum(samples[1:]) < (len(samples) - 1) * samples[0]:
        samples = samples[1:]
    return samples


class Exponential:
    """A mean with exponentially decreasing weights of older samples."""

    __slots__ = ("count", "mean", "size", "square")

    def __init__(self, size: int = 32) -> None:
        self.size = size
        self.count = 0  # of samples, up to size
        self.mean: float | None = None
        self.square = 0.0  # mean of squares, weighed alike

    def add(self, sample: float) -> None:
        """Take a sample; the first ones count alike."""
        self.count = min(self.size, self.count + 1)
        self.mean = self.blend(sample)
        self.square += self.weight() * (sample * sample - self.square)

    def weight(self) -> float:
        """Of the last sample."""
        return max(1 / self.count, 2 / (self.size + 1))

    def blend(self, sample: float) -> float:
        return sample if self.mean is None else self.mean + self.weight() * (sample - self.mean)

    def regular(self) -> bool:
        """Whether samples vary little."""
        if self.mean is None or self.count < RECENT:
            return False
        return self.square - self.mean**2 < (REGULAR * self.mean) ** 2

    def with_sample(self, sample: float) -> float | None:
        """The mean with one more sample; None if there are too few samples."""
        return None if self.count < FEWEST else self.blend(sample)


class Cusum:
    """A mean that restarts when a cumulative sum of deviations exceeds its limit."""

    __slots__ = ("above", "below", "since")

    def __init__(self, size: int = 32) -> None:
        self.since = Exponential(size)  # the samples since the last shift
        self.above = Excess()
        self.below = Excess()

    @property
    def mean(self) -> float | None:
        return self.since.mean

    def add(self, sample: float) -> None:
        """Take a sample."""
        mean = self.since.mean
        if mean and self.since.count >= FEWEST:
            for sums, deviation in ((self.above, sample / mean - 1), (self.below, 1 - sample / mean)):
                if sums.add(deviation - ALLOWANCE, sample) > LIMIT:
                    self.begin(sums)
                    return
        self.since.add(sample)

    def begin(self, sums: Excess) -> None:
        """Begin a new mean with the samples that make up a sum."""
        begun = Exponential(self.since.size)
        for _ in range(min(sums.count, begun.size)):
            begun.add(sums.total / sums.count)
        self.since, self.above, self.below = begun, Excess(), Excess()

    def regular(self) -> bool:
        """Whether samples vary little."""
        return self.since.regular()

    def with_sample(self, sample: float) -> float | None:
        """The mean with one more sample; None if there are too few samples."""
        return self.since.with_sample(sample)


class Excess:
    """A sum of deviations that is never below 0, and the samples since it was last 0."""

    __slots__ = ("count", "sum", "total")

    def __init__(self) -> None:
        self.sum = 0.0
        self.count = 0
        self.total = 0.0

    def add(self, deviation: float, sample: float) -> float:
        self.sum = max(0.0, self.sum + deviation)
        self.count = self.count + 1 if self.sum else 0
        self.total = self.total + sample if self.sum else 0.0
        return self.sum


Detector = MeanShift | SlidingMean | Exponential | Cusum
DETECTORS: dict[str, Callable[[int], Detector]] = {
    "mean-shift": MeanShift,
    "sliding": SlidingMean,
    "exponential": Exponential,
    "cusum": Cusum,
}
