"""A tree of an overlay's links, and what all of its members have: how a flood learns what is stable.

Problem: a message is kept until every member has it. Asking everybody costs n^2. Idea: every member tells its parent in
a tree what it and all below it have, one counter per member; the root knows what all have, and tells it down again. One
report per member and period, each way, along links that exist anyway.

The tree is that of the shortest ways from the lowest id, and among these of the lowest ids: all compute the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from isthmus.core.message import SiteId, Targets
from isthmus.topology.overlay.links import Overlay, neighbours_in


class TreePosition(NamedTuple):
    """Where a member is in the tree."""

    parent: SiteId | None
    children: Targets


@lru_cache(maxsize=64)
def places_in_tree(overlay: Overlay, members: Targets) -> Mapping[SiteId, TreePosition]:
    """The place of every member; one table for all who share a view in this process."""
    near, root = neighbours_in(overlay, members), overlay.ids(members)[0]
    parents: dict[SiteId, SiteId | None] = {root: None}
    children: dict[SiteId, list[SiteId]] = {}
    level = [root]
    while level:
        following = []
        for here in level:
            for there in near[here]:
                if there not in parents:
                    parents[there] = here
                    children.setdefault(here, []).append(there)
                    following.append(there)
        level = following
    return {site: TreePosition(parent, tuple(children.get(site, ()))) for site, parent in parents.items()}


class StableCounts:
    """What is known to be with whom, at one member; counters in the order of the view's members."""

    __slots__ = ("below", "floor", "told")

    def __init__(self, size: int, children: Targets) -> None:
        self.floor = [0] * size  # of each member, all have its messages up to this
        self.told = [0] * size  # what was last told to the parent, or at the root to all
        self.below = {child: [0] * size for child in children}  # what all in a child's branch have

    def note(self, child: SiteId, counts: Sequence[int]) -> None:
        """Take a child's report; what it said before takes nothing back."""
        self.below[child] = list(map(max, self.below[child], counts))

    def least(self, own: Sequence[int]) -> list[int]:
        """What we and all below us have."""
        return list(map(min, own, *self.below.values())) if self.below else list(own)
