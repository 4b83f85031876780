"""Percentiles of any number of values in bounded memory.

Values are counted in buckets that grow with them: each power of two is cut into 128 parts, so a percentile is off by
less than one percent of its value, whatever the number of values. Exact where values are below 256.
"""

from __future__ import annotations

BITS = 7  # 2 ** BITS buckets for each power of two


class Histogram:
    """Counts of whole numbers from 0 on, by size."""

    __slots__ = ("buckets", "count", "maximum", "total")

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}  # at most a few thousand
        self.count = 0
        self.total = 0
        self.maximum = 0

    def add(self, value: int) -> None:
        assert value >= 0
        shift = value.bit_length() - BITS - 1
        bucket = (shift << (BITS + 1)) + (value >> shift) if shift > 0 else value
        buckets = self.buckets
        buckets[bucket] = buckets.get(bucket, 0) + 1
        self.count += 1
        self.total += value
        if value > self.maximum:
            self.maximum = value

    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def percentile(self, share: float) -> int:
        """The middle of the bucket that holds the value at a share of the way, 0 to 100."""
        rank = max(1, round(share / 100 * self.count))
        seen = 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= rank:
                shift, value = bucket >> (BITS + 1), bucket & ((2 << BITS) - 1)
                return min(self.maximum, (value << shift) + (1 << shift >> 1))
        return 0
