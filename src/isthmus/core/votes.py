"""Quorums: pure arithmetic over members and their votes, for the agreement on views and for the judge.

A quorum has more than half of the weight of all members, or exactly half and with it the first member that has any
weight. That tie-break is fixed by the order of the members, never by an opinion: two halves cannot both have the same
member. Of two members of equal weight the first alone is a quorum.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

M = TypeVar("M")


def is_quorum(members: Sequence[M], weights: Sequence[int], some: Collection[M]) -> bool:
    """Whether some of the members are a quorum of all; without weights, each has one vote."""
    votes = weights or (1,) * len(members)
    total = sum(votes)
    found = sum([vote for member, vote in zip(members, votes, strict=True) if member in some])
    if 2 * found != total:
        return 2 * found > total
    first = next((member for member, vote in zip(members, votes, strict=True) if vote > 0), None)
    return first is not None and first in some
