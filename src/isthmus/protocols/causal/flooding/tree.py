"""Stability detection of a flood: a tree of the overlay's links, and what all of its members have.

Problem: a message is kept until every member has it. Reports from all to all cost n^2. Idea: every member reports to
its parent in a tree what it and all below it have, one counter per member; the root thus knows what all have, and sends
that down again. One report per member and period, each way, along links that exist anyway.

The tree has the shortest paths from the lowest id, and among these the lowest ids: all members compute the same tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from isthmus.core.message import SiteId, Targets
from isthmus.topology.overlay.links import Overlay, neighbours_in


class TreePosition(NamedTuple):
    """The neighbours of a member in the tree."""

    parent: SiteId | None
    children: Targets


@lru_cache(maxsize=64)
def places_in_tree(overlay: Overlay, members: Targets) -> Mapping[SiteId, TreePosition]:
    """The position of every member; one table for all sites of this process in the same view."""
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
    """What one member knows of the others' progress; counters in the order of the view's members."""

    __slots__ = ("below", "floor", "reported")

    def __init__(self, size: int, children: Targets) -> None:
        self.floor = [0] * size  # all members have the messages of each up to this
        self.reported = [0] * size  # last sent to the parent, or at the root to all
        self.below = {child: [0] * size for child in children}  # what all in a child's subtree have

    def note(self, child: SiteId, counts: Sequence[int]) -> None:
        """Record a child's report; counters never decrease."""
        self.below[child] = list(map(max, self.below[child], counts))

    def least(self, own: Sequence[int]) -> list[int]:
        """What this member and all below it have."""
        return list(map(min, own, *self.below.values())) if self.below else list(own)
