"""One-way delays of packets, as distributions: written in milliseconds, sampled in whole nanoseconds.

`sampler` binds a distribution to one source of randomness; `constant_ns` lets a caller skip even that. Invariants: no
sample is negative; the same seed gives the same samples; every value is frozen, hashable and checked when it is made.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite
from random import Random

import msgspec

from isthmus.core.units import NS_PER_MS
from isthmus.core.validation import BadValue

Sampler = Callable[[], int]


def to_ns(ms: float) -> int:
    return round(ms * NS_PER_MS)


def check_ms(key: str, value: float, at_least: float = 0.0, why: str = "") -> None:
    """Refuse a number of milliseconds that is not finite or too small."""
    if not isfinite(value) or value < at_least:
        raise BadValue(key, repr(value), why or f"a finite number of at least {at_least:g}")


class Constant(msgspec.Struct, frozen=True, gc=False, tag="constant", tag_field="kind", forbid_unknown_fields=True):
    """The same delay for every packet."""

    ms: float

    def __post_init__(self) -> None:
        check_ms("ms", self.ms)

    @property
    def mean_ms(self) -> float:
        return self.ms

    longest_ms = mean_ms

    def constant_ns(self) -> int | None:
        return to_ns(self.ms)

    def sampler(self, random: Random) -> Sampler:  # noqa: ARG002
        value = to_ns(self.ms)
        return lambda: value


class Uniform(msgspec.Struct, frozen=True, gc=False, tag="uniform", tag_field="kind", forbid_unknown_fields=True):
    """Uniform from low to high."""

    low_ms: float
    high_ms: float

    def __post_init__(self) -> None:
        check_ms("low_ms", self.low_ms)
        check_ms("high_ms", self.high_ms, self.low_ms, f"a finite number of at least low_ms ({self.low_ms:g})")

    @property
    def mean_ms(self) -> float:
        return (self.low_ms + self.high_ms) / 2

    @property
    def longest_ms(self) -> float:
        return self.high_ms

    def constant_ns(self) -> int | None:
        return to_ns(self.low_ms) if self.low_ms == self.high_ms else None

    def sampler(self, random: Random) -> Sampler:
        low, span, draw = to_ns(self.low_ms), (self.high_ms - self.low_ms) * NS_PER_MS, random.random
        return lambda: low + int(span * draw())


class Normal(msgspec.Struct, frozen=True, gc=False, tag="normal", tag_field="kind", forbid_unknown_fields=True):
    """The normal distribution, redrawn below zero; `mean_ms` is the mean before that."""

    mean_ms: float  # at least 0, so that at least half of the draws are kept
    sd_ms: float

    def __post_init__(self) -> None:
        check_ms("mean_ms", self.mean_ms)
        check_ms("sd_ms", self.sd_ms)

    @property
    def longest_ms(self) -> float:
        return inf if self.sd_ms else self.mean_ms

    def constant_ns(self) -> int | None:
        return to_ns(self.mean_ms) if self.sd_ms == 0 else None

    def sampler(self, random: Random) -> Sampler:
        mean, sd, draw = self.mean_ms * NS_PER_MS, self.sd_ms * NS_PER_MS, random.gauss

        def sample() -> int:
            while (value := draw(mean, sd)) < 0:
                pass
            return int(value)

        return sample


class Gamma(msgspec.Struct, frozen=True, gc=False, tag="gamma", tag_field="kind", forbid_unknown_fields=True):
    """A least delay plus a gamma-distributed queueing delay, the usual shape of a long-haul path."""

    mean_ms: float  # of the whole delay, the shift included
    variance_ms2: float
    shift_ms: float = 0.0  # the least delay

    def __post_init__(self) -> None:
        check_ms("shift_ms", self.shift_ms)
        if not isfinite(self.mean_ms) or self.mean_ms <= self.shift_ms:
            raise BadValue("mean_ms", repr(self.mean_ms), f"a finite number above shift_ms ({self.shift_ms:g})")
        if not isfinite(self.variance_ms2) or self.variance_ms2 <= 0:
            raise BadValue("variance_ms2", repr(self.variance_ms2), "a finite number above 0")

    @property
    def longest_ms(self) -> float:
        return inf

    def constant_ns(self) -> int | None:
        return None

    def sampler(self, random: Random) -> Sampler:
        queueing = self.mean_ms - self.shift_ms
        shape, scale = queueing**2 / self.variance_ms2, self.variance_ms2 / queueing * NS_PER_MS
        shift, draw = to_ns(self.shift_ms), random.gammavariate
        return lambda: shift + int(draw(shape, scale))


class Empirical(msgspec.Struct, frozen=True, tag="empirical", tag_field="kind", forbid_unknown_fields=True):
    """One of the measured delays, each with its measured frequency."""

    samples_ms: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.samples_ms:
            raise BadValue("samples_ms", "an empty list", "at least one delay")
        for index, sample in enumerate(self.samples_ms):
            check_ms(f"samples_ms[{index}]", sample)

    @property
    def mean_ms(self) -> float:
        return sum(self.samples_ms) / len(self.samples_ms)

    @property
    def longest_ms(self) -> float:
        return max(self.samples_ms)

    def constant_ns(self) -> int | None:
        return to_ns(self.samples_ms[0]) if len(set(self.samples_ms)) == 1 else None

    def sampler(self, random: Random) -> Sampler:
        samples, count, draw = tuple(map(to_ns, self.samples_ms)), len(self.samples_ms), random.random
        return lambda: samples[int(count * draw())]


Delay = Constant | Uniform | Normal | Gamma | Empirical
