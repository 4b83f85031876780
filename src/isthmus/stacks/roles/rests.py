"""How long after a random moment the next packet of a site comes: its *rest*, as a survival function.

The rest of a periodic stream is uniform on (0, t), that of a Poisson stream exponential. Of several streams the first
packet counts: survival functions multiply. Let S be the product, A the time since the last packet and B the time to
the next one; nothing at all comes between with probability P(A > a, B > b) = S(a + b).

A site may break its silence: with a null once its last packet is null_ms old and something has been heard since. Where
the latter takes no time, its packets are at most a *cycle* c = null_ms apart, otherwise c is longer. The rest is above
y < c where B is, and where A lies no more than c - y behind a multiple of c:

    P(rest > y) = sum over k >= 0 of S(k c + y) - S((k + 1) c)

which is the truncated exponential for a Poisson stream, and all but uniform on (0, c) for one that is hardly ever
heard of. From a moment on at which something certainly has been heard, the site does not wait for the end of its cycle:

    P(rest > y) = sum over k >= 0 of S(k c + y) - S(k c + null_ms)

Integrals are taken by Gauss' rule between the kinks of the integrand. It is smooth there, and mostly a polynomial, for
which the rule is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, exp, inf, isfinite
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from isthmus.core.validation import BadValue

Vector = NDArray[np.float64]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)
TAIL = 32.0  # means of an exponential after which nothing is left of it
CYCLES_MAX = 100  # in the longest silence of the streams, beyond which a rest is as good as uniform


class MessageStream(msgspec.Struct, frozen=True, gc=False):
    """One source of messages at a site."""

    kind: Literal["periodic", "poisson"]
    period_ms: float  # mean time between two messages, above 0

    def __post_init__(self) -> None:
        if not (isfinite(self.period_ms) and self.period_ms > 0):
            raise BadValue("period_ms", repr(self.period_ms), "a finite number above 0")


class Rest:
    """The rest of one site's streams, and of its nulls where it sends any."""

    __slots__ = ("cycle_ms", "longest_ms", "null_ms", "periods_ms", "rate")

    def __init__(self, streams: Sequence[MessageStream], null_ms: float = inf, cycle_ms: float = inf) -> None:
        self.periods_ms = sorted(stream.period_ms for stream in streams if stream.kind == "periodic")
        self.rate = sum(1 / stream.period_ms for stream in streams if stream.kind == "poisson")
        self.longest_ms = min([*self.periods_ms[:1], *([TAIL / self.rate] if self.rate else [])], default=inf)
        self.null_ms = null_ms  # inf: there are none
        self.cycle_ms = cycle_ms  # at least null_ms

    @property
    def is_regular(self) -> bool:
        """Whether nulls never wait until something is heard."""
        return self.cycle_ms <= self.null_ms * (1 + 1e-9)

    def kinks_ms(self) -> list[float]:
        """Where a survival function is not smooth, its end included."""
        kinks = [self.longest_ms, self.null_ms, self.cycle_ms]
        if self.periods_ms and isfinite(self.cycle_ms):
            kinks += [self.periods_ms[0] % self.cycle_ms, (self.periods_ms[0] - self.null_ms) % self.cycle_ms]
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
        return self.before(y, self.cycle_ms) if isfinite(self.cycle_ms) else self.of_streams(y)

    def survival_heard(self, y: Vector) -> Vector:
        """The same where something has been heard by then."""
        return self.before(y, self.null_ms) if isfinite(self.null_ms) else self.of_streams(y)

    def before(self, y: Vector, end_ms: float) -> Vector:
        """The probability of no packet within y, where a null comes `end_ms` after the last packet or null."""
        if self.longest_ms > CYCLES_MAX * self.cycle_ms:
            return np.maximum(0.0, end_ms - y) / self.cycle_ms
        silent = not isfinite(self.longest_ms)  # and its cycle never ends: the last packet is long ago
        cycles = 1 if silent or not isfinite(self.cycle_ms) else ceil(self.longest_ms / self.cycle_ms)
        starts = np.array([k * self.cycle_ms if k else 0.0 for k in range(cycles)])
        within = y < end_ms
        ahead = self.of_streams(starts[:, None] + y[within]) - self.of_streams(starts + end_ms)[:, None]
        result: Vector = np.zeros_like(y)
        result[within] = ahead.sum(axis=0)
        return result


def panels(low: float, high: float, edges: Iterable[float]) -> tuple[Vector, Vector]:
    """Points and weights of an integral from low to high by Gauss' rule between edges."""
    points = np.unique(np.array([low, high, *(edge for edge in edges if low < edge < high)], dtype=np.float64))
    half = np.diff(points) / 2
    x = (points[:-1] + half)[:, None] + half[:, None] * NODES
    return x.ravel(), (half[:, None] * WEIGHTS).ravel()


def first_of(streams: Sequence[MessageStream], least_ms: float = 0.0) -> float:
    """The mean time until the first message of streams, or `least_ms` where that is longer; inf of no streams."""
    rest = Rest(streams)
    if rest.longest_ms <= least_ms:
        return least_ms
    if not streams:
        return inf
    if not rest.periods_ms:
        return least_ms + exp(-rest.rate * least_ms) / rest.rate
    x, weights = panels(least_ms, rest.longest_ms, rest.steps_ms())
    return least_ms + float(weights @ rest.of_streams(x))


def products(rows: Vector) -> tuple[Vector, Vector]:
    """For each row the product of all others, and the product of all; without a division, as rows may be 0."""
    before, after = np.ones_like(rows), np.ones_like(rows)
    np.cumprod(rows[:-1], axis=0, out=before[1:])
    after[:-1] = np.cumprod(rows[:0:-1], axis=0)[::-1]
    others = before * after
    return others, others[0] * rows[0]
