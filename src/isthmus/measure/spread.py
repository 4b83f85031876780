"""The distribution of a latency as a few figures, for tables, pictures and JSON."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from isthmus.core.units import NS_PER_MS
from isthmus.measure.histogram import Histogram

SHARES = (1, 5, 25, 50, 75, 90, 95, 99)  # percentiles that are written out


class LatencySpread(msgspec.Struct, frozen=True):
    """The distribution of a latency over messages or deliveries, ms."""

    count: int
    mean: float
    percentiles: dict[str, float]  # p1, p5 ...
    maximum: float


def spread_of(histograms: Sequence[Histogram]) -> LatencySpread:
    pooled = Histogram()
    for one in histograms:
        pooled.merge(one)
    shares = {f"p{share}": pooled.percentile(share) / NS_PER_MS for share in SHARES}
    return LatencySpread(pooled.count, pooled.mean() / NS_PER_MS, shares, pooled.maximum / NS_PER_MS)
