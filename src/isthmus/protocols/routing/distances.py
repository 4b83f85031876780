"""How far groups are from a router, and which router takes a message on: a distance vector over nodes and routers.

The problem: where a composition has cycles, a router or an IGP may fail and leave another way. The idea: in each node
that it joins, a router tells how many routers lie on its way to each group, itself included, without that node (split
horizon: what it learned there it does not tell there). The routers of a node hear each other, so they agree on who of
them takes what is for a group: the nearest, of several the one with the lowest number. Nobody names a next router.

Invariants:
- What was heard of a router in a node holds while that life of it is in the node's view, and not longer; not while it
  is silent there, either.
- A router goes by what it told itself only when the node has delivered it, as the others do.
- Once nothing changes, the distance falls by one with each router that takes a message on: no loops.
- `limit` routers at most lie on a way without loops; what is farther cannot be reached, so counting up ends.
"""

from __future__ import annotations

from collections.abc import Iterable

from isthmus.core.message import SiteId

Entries = tuple[tuple[int, int], ...]  # groups and how far they are
Heard = tuple[int, dict[int, int]]  # the life of a router, and how far groups are through it


class DistanceTable:
    """What one router has heard in its nodes."""

    __slots__ = ("groups", "heard", "limit", "silent", "site")

    def __init__(self, site: SiteId, nodes: Iterable[int], group_count: int, limit: int) -> None:
        self.site = site
        self.groups = range(group_count)
        self.limit = limit
        self.heard: dict[int, dict[SiteId, Heard]] = {node: {} for node in nodes}
        self.silent: dict[tuple[int, SiteId], None] = {}  # node and router: in its view, and does not answer

    def note(self, node: int, site: SiteId, life: int, entries: Entries) -> None:
        """Take in what a router tells in a node."""
        found = {group: distance for group, distance in entries if group in self.groups and 0 < distance <= self.limit}
        self.heard[node][site] = (life, found)

    def keep_only(self, node: int, lives: dict[SiteId, int]) -> None:
        """Forget what routers told that are not in a node's view any more."""
        heard = self.heard[node]
        self.heard[node] = {site: one for site, one in heard.items() if lives.get(site) == one[0]}

    def entries(self, node: int) -> list[tuple[SiteId, dict[int, int]]]:
        """What counts of what was told in a node, by router."""
        return [(site, found) for site, (_, found) in self.heard[node].items() if (node, site) not in self.silent]

    def beyond(self, node: int, group: int) -> int:
        """How many other routers lie between a node and a group; more than the limit: there is no way."""
        if node == group:
            return 0
        far = self.limit + 1
        return min([found.get(group, far) for site, found in self.entries(node) if site != self.site] + [far])

    def way(self, node: int, group: int) -> tuple[int, int]:
        """How far a group is through this router for what comes from a node, and the node that is next."""
        ways = [(1 + self.beyond(other, group), other) for other in self.heard if other != node]
        return min(ways)

    def told(self, node: int) -> Entries:
        """What this router has to tell in a node."""
        ways = [(group, self.way(node, group)[0]) for group in self.groups if group != node]
        return tuple((group, distance) for group, distance in ways if distance <= self.limit)

    def takes(self, node: int, group: int) -> bool:
        """Whether it is this router that takes on what is in a node and for a group."""
        told = [(found[group], site) for site, found in self.entries(node) if group in found]
        return bool(told) and min(told)[1] == self.site and group != node

    def next_node(self, node: int, group: int) -> int | None:
        """Where this router takes what is in a node and for a group; None: nowhere."""
        if not self.takes(node, group):
            return None
        distance, other = self.way(node, group)
        return other if distance <= self.limit else None
