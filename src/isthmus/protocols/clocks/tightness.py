"""Measured tightness of a LAN's receptions: pure arithmetic on the tables that a round exchanges anyway.

Problem: the interval of a clock counts on Gamma, the spread of the instants at which members receive one transmission.
A simulation sets it; on a real network it is unknown. One candidate does not show it, as the members' clocks differ by
unknown offsets.

Idea: a round has several candidates within a few milliseconds, in which offsets hardly change. Let i and j stamp
candidate c; the difference of their stamps is offset(i, j) + e_i(c) - e_j(c), where each e is between 0 and Gamma. Over
all candidates of a round it varies by 2 Gamma at most. So its range is what is published: where a reception is late, it
shows in the same round, before the round's time is agreed on. The largest range of the last rounds counts, as one quiet
round proves little.

Limit: a member that is late by the same time for every candidate is not detected. Copies that are sent one after
another would make the last one late each time; so senders begin with different members, and the lateness shows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import combinations

from isthmus.protocols.clocks.agreement import Table

ROUNDS_KEPT = 16
ROUNDS_LEAST = 4  # that must be measured before anything is published


def spread_ns(tables: Sequence[Table]) -> int | None:
    """The largest range of the differences between two members' stamps; None: nothing to compare."""
    found: list[int] = []
    for one, two in combinations(tables, 2):
        pairs = [(a, b) for a, b in zip(one, two, strict=True) if a is not None and b is not None]
        apart = [a.stamp_ns - b.stamp_ns for a, b in pairs if a.attempt == b.attempt]
        if len(apart) > 1:
            found.append(max(apart) - min(apart))
    return max(found, default=None)


class Tightness:
    """The tightness of a LAN over its last rounds."""

    __slots__ = ("ranges",)

    def __init__(self) -> None:
        self.ranges: deque[int] = deque(maxlen=ROUNDS_KEPT)

    def add(self, tables: Sequence[Table]) -> None:
        """Record the tables of a round; a LAN of one site has a spread of 0."""
        found = 0 if len(tables) == 1 else spread_ns(tables)
        if found is not None:
            self.ranges.append(found)

    def published_ns(self) -> int | None:
        """The tightness to rely on; None: too few rounds were measured."""
        return max(self.ranges) if len(self.ranges) >= ROUNDS_LEAST else None
