"""The distances of groups from a router, and the choice of the next router: a distance vector over nodes and routers.

Problem: where a composition has cycles, a router or an IGP may fail and another route remains. Idea: in each node that
it joins, a router announces how many routers lie on its route to each group, itself included, without that node (split
horizon: distances learned in a node are not announced there). The routers of a node hear each other, so they agree on
the router that takes messages for a group: the nearest, among equals the one with the lowest number. No message names
its next router.

Invariants:
- A distance announced in a node holds while that life of the router is in the node's view and the router is not silent.
- A router uses its own announcement only once the node has delivered it, as the others do.
- Once nothing changes, the distance falls by one with each router on a route: no loops.
- At most `limit` routers lie on a route without loops; a greater distance means unreachable, so counting up ends.
"""

from __future__ import annotations

from collections.abc import Iterable

from isthmus.core.message import SiteId

Entries = tuple[tuple[int, int], ...]  # groups and how far they are
Heard = tuple[int, dict[int, int]]  # the life of a router, and how far groups are through it


class DistanceTable:
    """The distances announced to one router in its nodes."""

    __slots__ = ("groups", "heard", "limit", "silent", "site")

    def __init__(self, site: SiteId, nodes: Iterable[int], group_count: int, limit: int) -> None:
        self.site = site
        self.groups = range(group_count)
        self.limit = limit
        self.heard: dict[int, dict[SiteId, Heard]] = {node: {} for node in nodes}
        self.silent: dict[tuple[int, SiteId], None] = {}  # node and router: in the view, but not answering

    def note(self, node: int, site: SiteId, life: int, entries: Entries) -> None:
        """Take in the distances that a router announces in a node."""
        found = {group: distance for group, distance in entries if group in self.groups and 0 < distance <= self.limit}
        self.heard[node][site] = (life, found)

    def keep_only(self, node: int, lives: dict[SiteId, int]) -> None:
        """Forget the distances of routers that have left a node's view."""
        heard = self.heard[node]
        self.heard[node] = {site: one for site, one in heard.items() if lives.get(site) == one[0]}

    def entries(self, node: int) -> list[tuple[SiteId, dict[int, int]]]:
        """Return the valid distances announced in a node, by router."""
        return [(site, found) for site, (_, found) in self.heard[node].items() if (node, site) not in self.silent]

    def beyond(self, node: int, group: int) -> int:
        """Return how many other routers lie between a node and a group; above the limit: unreachable."""
        if node == group:
            return 0
        far = self.limit + 1
        return min([found.get(group, far) for site, found in self.entries(node) if site != self.site] + [far])

    def way(self, node: int, group: int) -> tuple[int, int]:
        """Return the distance of a group through this router from a node, and the next node."""
        ways = [(1 + self.beyond(other, group), other) for other in self.heard if other != node]
        return min(ways)

    def told(self, node: int) -> Entries:
        """Return the distances that this router announces in a node."""
        ways = [(group, self.way(node, group)[0]) for group in self.groups if group != node]
        return tuple((group, distance) for group, distance in ways if distance <= self.limit)

    def takes(self, node: int, group: int) -> bool:
        """Whether this router takes messages in a node for a group."""
        told = [(found[group], site) for site, found in self.entries(node) if group in found]
        return bool(told) and min(told)[1] == self.site and group != node

    def next_node(self, node: int, group: int) -> int | None:
        """Return the node to which this router forwards messages in a node for a group; None: it does not."""
        if not self.takes(node, group):
            return None
        distance, other = self.way(node, group)
        return other if distance <= self.limit else None
