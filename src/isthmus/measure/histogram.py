"""Percentiles of any number of values in bounded memory.

Values are counted in buckets that grow with them: each power of two is cut into 128 parts, so a percentile is off by
less than one percent of its value, whatever the number of values. Exact where values are below 256. Values gather in a
list and are sorted into buckets many at a time, as a simulator adds one for every delivery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

BITS = 7  # 2 ** BITS buckets for each power of two
FRESH_MAX = 8192


class Histogram:
    """Counts of whole numbers from 0 on, by size."""

    __slots__ = ("_buckets", "_count", "_fresh", "_maximum", "_total")

    def __init__(self) -> None:
        self._fresh: list[int] = []  # added, not yet counted below
        self._buckets: dict[int, int] = {}  # at most a few thousand
        self._count = 0
        self._total = 0
        self._maximum = 0

    def add(self, value: int) -> None:
        fresh = self._fresh
        fresh.append(value)
        if len(fresh) == FRESH_MAX:
            self._fold()

    def merge(self, other: Histogram) -> None:
        self._fold()
        other._fold()
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self._count += other._count
        self._total += other._total
        self._maximum = max(self._maximum, other._maximum)

    def add_all(self, values: np.ndarray) -> None:
        if len(values):
            self._sort_in(values.astype("int64"))

    def _fold(self) -> None:
        """Count what is fresh."""
        if self._fresh:
            import numpy as np  # here: programs that only send and deliver load none

            values = np.array(self._fresh, dtype=np.int64)
            self._fresh.clear()
            self._sort_in(values)

    def _sort_in(self, values: np.ndarray) -> None:
        import numpy as np

        assert values.min() >= 0
        lengths = np.frexp(values.astype(np.float64))[1]  # in bits
        shifts = np.maximum(0, lengths - BITS - 1).astype(np.int64)
        for bucket, count in zip(
            *np.unique((shifts << (BITS + 1)) + (values >> shifts), return_counts=True), strict=True
        ):
            self._buckets[int(bucket)] = self._buckets.get(int(bucket), 0) + int(count)
        self._count += len(values)
        self._total += int(values.sum())
        self._maximum = max(self._maximum, int(values.max()))

    @property
    def count(self) -> int:
        return self._count + len(self._fresh)

    @property
    def maximum(self) -> int:
        self._fold()
        return self._maximum

    def mean(self) -> float:
        self._fold()
        return self._total / self._count if self._count else 0.0

    def percentile(self, share: float) -> int:
        """The middle of the bucket that holds the value at a share of the way, 0 to 100."""
        self._fold()
        rank = max(1, round(share / 100 * self._count))
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= rank:
                shift, value = bucket >> (BITS + 1), bucket & ((2 << BITS) - 1)
                return min(self._maximum, (value << shift) + (1 << shift >> 1))
        return 0
