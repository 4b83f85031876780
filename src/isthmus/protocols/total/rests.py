"""How long after a random moment the next packet of a site comes: its *rest*, as a survival function.

The rest of a periodic stream is uniform on (0, t), that of a Poisson stream exponential. Of several streams the first
packet counts: survival functions multiply. Let S be the product, A the time since the last packet and B the time to
the next one; nothing at all comes between with probability P(A > a, B > b) = S(a + b).

A site may break its silence: with a null whenever its last packet is a *cycle* c old. Then the rest is above y < c
where B is, and where A lies no more than c - y behind a multiple of c:

    P(rest > y) = sum over k >= 0 of S(k c + y) - S((k + 1) c)

which is the truncated exponential for a Poisson stream, and all but uniform on (0, c) for one that is hardly ever
heard of.

Integrals are taken by Gauss' rule between the kinks of the integrand. It is smooth there, and mostly a polynomial, for
which the rule is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, inf, isfinite
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from isthmus.core.document import Invalid

Vector = NDArray[np.float64]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)
TAIL = 32.0  # means of an exponential after which nothing is left of it
CYCLES_MAX = 100  # in the longest silence of the streams, beyond which a rest is as good as uniform


class Stream(msgspec.Struct, frozen=True, gc=False):
    """One source of messages at a site."""

    kind: Literal["periodic", "poisson"]
    period_ms: float  # mean time between two messages, above 0

    def __post_init__(self) -> None:
        if not (isfinite(self.period_ms) and self.period_ms > 0):
            raise Invalid("period_ms", repr(self.period_ms), "a finite number above 0")


class Rest:
    """The rest of one site's streams, and of its nulls where it has a cycle."""

    __slots__ = ("cycle_ms", "longest_ms", "periods_ms", "rate")

    def __init__(self, streams: Sequence[Stream], cycle_ms: float = inf) -> None:
        self.periods_ms = sorted(stream.period_ms for stream in streams if stream.kind == "periodic")
        self.rate = sum(1 / stream.period_ms for stream in streams if stream.kind == "poisson")
        self.longest_ms = min([*self.periods_ms[:1], *([TAIL / self.rate] if self.rate else [])], default=inf)
        self.cycle_ms = cycle_ms

    @property
    def end_ms(self) -> float:
        """Nothing is left of the rest beyond."""
        return min(self.longest_ms, self.cycle_ms)

    def kinks_ms(self) -> list[float]:
        """Where the survival function is not smooth, its end included; nothing of a silent site."""
        kinks = [self.end_ms, *([self.periods_ms[0] % self.cycle_ms] if self.periods_ms else [])]
        return [kink for kink in kinks if isfinite(kink)]

    def steps_ms(self) -> list[float]:
        """Steps that grow with the time constant of an exponential, to its end."""
        return [2.0**k / self.rate for k in range(-1, 6)] if self.rate else []

    def of_streams(self, y: Vector) -> Vector:
        """The probability that no message comes within y, nulls aside; y at least 0."""
        survival = np.exp(-self.rate * y)
        for period_ms in self.periods_ms:
            survival *= np.maximum(0.0, 1.0 - y / period_ms)
        return survival

    def survival(self, y: Vector) -> Vector:
        """The probability that no packet comes within y; y at least 0."""
        cycle_ms = self.cycle_ms
        if not isfinite(cycle_ms):
            return self.of_streams(y)
        if self.longest_ms > CYCLES_MAX * cycle_ms:
            return np.maximum(0.0, 1.0 - y / cycle_ms)
        within = y < cycle_ms
        starts = cycle_ms * np.arange(ceil(self.longest_ms / cycle_ms), dtype=np.float64)
        ahead = self.of_streams(starts[:, None] + y[within]) - self.of_streams(starts + cycle_ms)[:, None]
        result: Vector = np.zeros_like(y)
        result[within] = ahead.sum(axis=0)
        return result


def panels(low: float, high: float, edges: Iterable[float]) -> tuple[Vector, Vector]:
    """Points and weights of an integral from low to high by Gauss' rule between edges."""
    points = np.unique(np.array([low, high, *(edge for edge in edges if low < edge < high)], dtype=np.float64))
    half = np.diff(points) / 2
    x = (points[:-1] + half)[:, None] + half[:, None] * NODES
    return x.ravel(), (half[:, None] * WEIGHTS).ravel()


def first_of(rests: Sequence[Rest], delays_ms: Sequence[float]) -> float:
    """The mean time until the first packet of several sites, each after a delay of its own; inf of the silent."""
    ends = [delay + rest.longest_ms for rest, delay in zip(rests, delays_ms, strict=True)]
    if not ends or not isfinite(min(ends)):
        return inf
    steps = [[0.0, *rest.periods_ms[:1], *rest.steps_ms()] for rest in rests]
    edges = [delay + step for own, delay in zip(steps, delays_ms, strict=True) for step in own]
    x, weights = panels(min(delays_ms), min(ends), edges)
    missing = np.ones_like(x)
    for rest, delay in zip(rests, delays_ms, strict=True):
        missing *= rest.of_streams(np.maximum(0.0, x - delay))
    return min(delays_ms) + float(weights @ missing)


def products(rows: Vector) -> tuple[Vector, Vector]:
    """For each row the product of all others, and the product of all; without a division, as rows may be 0."""
    before, after = np.ones_like(rows), np.ones_like(rows)
    np.cumprod(rows[:-1], axis=0, out=before[1:])
    after[:-1] = np.cumprod(rows[:0:-1], axis=0)[::-1]
    others = before * after
    return others, others[0] * rows[0]
