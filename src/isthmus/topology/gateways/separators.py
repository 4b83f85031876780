"""Causal zones and the separators around them, for the members of a view.

A *separator* is a set of sites whose removal cuts the graph of direct communication into parts. The gateways of a LAN
separate its hosts from the rest; the gateways with links out of a region separate its LANs from the others; a node is a
LAN of its own behind its communication server. Each part that a separator encloses is a *zone*; zones are nested.
Separators come from the configuration and are checked by a component search, never searched for. Sites are bits of an
int.

In a view that lacks gateways, the rest take over the links of the missing ones, or the lowest member of the LAN serves.
A LAN without members is contracted, so that a tree stays a tree, and a ring a smaller ring.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from isthmus.core.message import SiteId
from isthmus.core.validation import BadValue
from isthmus.topology.gateways.lans import Lans, lans_of
from isthmus.topology.model import Region, Topology

Cut = tuple[int, int]  # a separator, and the sites on its far side
CUTS_MAX = 4096  # destinations whose cuts are cached


def mask_of(sites: Iterable[int]) -> int:
    mask = 0
    for site in sites:
        mask |= 1 << site
    return mask


def sites_of(mask: int) -> tuple[SiteId, ...]:
    found = []
    while mask:
        low = mask & -mask
        found.append(SiteId(low.bit_length() - 1))
        mask ^= low
    return tuple(found)


class Zone(msgspec.Struct, frozen=True):
    """Sites behind a separator."""

    name: str
    level: str  # node, LAN or region
    separator: int
    inside: int
    parts: tuple[int, ...]  # of the graph without the separator, by lowest site


class LanGraph:
    """The LANs of one view: their members, serving gateways and links."""

    __slots__ = ("everyone", "gateways", "joints", "lan_of", "lans", "members", "neighbours")

    def __init__(self, lans: Lans, members: tuple[SiteId, ...]) -> None:
        self.lans = lans
        self.everyone = mask_of(members)
        all_of = lans.lan_of()
        self.lan_of = {site: all_of[site] for site in sorted(members)}
        self.members = [mask_of(sites) & self.everyone for sites in lans.sites]
        self.gateways = [self.serving(number) for number in range(len(lans.sites))]
        self.joints: dict[tuple[int, int], tuple[SiteId, SiteId]] = {}  # LANs to their ends of the link
        self.neighbours: list[list[int]] = [[] for _ in lans.sites]
        self.join_lans(all_of)

    def serving(self, number: int) -> tuple[SiteId, ...]:
        """The gateways of a LAN in the view; if there are none, its lowest member."""
        there = tuple(site for site in self.lans.gateways[number] if self.everyone >> site & 1)
        return there or sites_of(self.members[number])[:1]

    def join_lans(self, all_of: dict[SiteId, int]) -> None:
        ends: dict[tuple[int, int], tuple[SiteId, SiteId]] = {}
        for a, b in self.lans.links:
            here, there = all_of[a], all_of[b]
            ends.setdefault((here, there), (a, b))
            ends.setdefault((there, here), (b, a))
        joined: dict[int, dict[int, tuple[SiteId, SiteId]]] = {k: {} for k in range(len(self.members))}
        for (here, there), pair in sorted(ends.items()):
            joined[here][there] = pair
        for number, mask in enumerate(self.members):
            if not mask:
                contract(joined, number)
        for here, others in joined.items():
            self.neighbours[here] = sorted(others)
            for there, (a, _) in others.items():
                b = joined[there][here][0]
                self.joints[here, there] = (self.stands_in(here, a), self.stands_in(there, b))

    def stands_in(self, number: int, gateway: SiteId) -> SiteId:
        """The gateway itself while it is in the view, otherwise its twin."""
        return gateway if gateway in self.gateways[number] else self.gateways[number][0]

    def reachable(self, start: int, without: int) -> int:
        """The members that a member can reach with some sites removed, itself included."""
        found = frontier = 1 << start
        while frontier:
            low = frontier & -frontier
            frontier ^= low
            site = SiteId(low.bit_length() - 1)
            number = self.lan_of[site]
            near = self.members[number]
            for there in self.neighbours[number]:
                ours, theirs = self.joints[number, there]
                if ours == site:
                    near |= 1 << theirs
            fresh = near & ~without & ~found
            found |= fresh
            frontier |= fresh
        return found

    def parts(self, separator: int) -> tuple[int, ...]:
        """The parts left by removing a separator, by lowest site."""
        left, found = self.everyone & ~separator, []
        while left:
            part = self.reachable((left & -left).bit_length() - 1, separator)
            found.append(part)
            left &= ~part
        return tuple(found)


def contract(joined: dict[int, dict[int, tuple[SiteId, SiteId]]], number: int) -> None:
    """Take a LAN without members out of the graph, and join its neighbours to the lowest of them."""
    around = joined.pop(number)
    joined[number] = {}
    near = sorted(around)
    for there in near:
        del joined[there][number]
    for there in near[1:]:
        if there not in joined[near[0]]:
            joined[near[0]][there] = (around[near[0]][1], around[there][1])
            joined[there][near[0]] = (around[there][1], around[near[0]][1])


def zones_of(graph: LanGraph) -> list[Zone]:
    """The zones of a graph of LANs, from the innermost outward."""
    if sum(map(bool, graph.members)) < 2:
        return []
    order = sorted(range(len(graph.members)), key=lambda number: not graph.lans.is_node(number))  # nodes first
    found = [lan_zone(graph, number) for number in order]
    found += [region_zone(graph, region) for region in graph.lans.regions]
    return [zone for zone in found if zone.inside]


def lan_zone(graph: LanGraph, number: int) -> Zone:
    """A LAN with its nodes behind its gateways, or a node behind its server."""
    separator = mask_of(graph.gateways[number])
    level = "node" if graph.lans.is_node(number) else "LAN"
    inside = with_nodes(graph, number) & ~separator
    return Zone(graph.lans.names[number], level, separator, inside, graph.parts(separator))


def with_nodes(graph: LanGraph, number: int) -> int:
    members = graph.members[number]
    for node in graph.lans.nodes(number):
        members |= graph.members[node]
    return members


def region_zone(graph: LanGraph, region: Region) -> Zone:
    """A region behind its configured separator or, if a site of that has failed, behind its links."""
    within = 0
    for number in region.clusters:
        within |= with_nodes(graph, number)
    separator = mask_of(region.separator)
    if not separator or separator & ~graph.everyone:
        nodes = [node for number in region.clusters for node in graph.lans.nodes(number)]
        ends = [ours for (here, there), (ours, _) in graph.joints.items() if leaves(region, here, there, nodes)]
        separator = mask_of(ends)
    return Zone(region.name, "region", separator, within & ~separator, graph.parts(separator))


class Separators:
    """Zones, and the sites that each separator cuts off."""

    __slots__ = ("_cuts", "_far", "zones")

    def __init__(self, zones: list[Zone]) -> None:
        self.zones = zones
        self._cuts: dict[tuple[int, int], dict[int, tuple[Cut, ...]]] = {}
        self._far: dict[int, dict[int, tuple[Cut, ...]]] = {}

    def check(self) -> None:
        """Refuse a separator that a path bypasses."""
        for zone in self.zones:
            if any(part & zone.inside and part & ~zone.inside for part in zone.parts):
                raise BadValue("regions", f"a way past the separator of {zone.name}", "sites that cut it off")

    def cuts(self, destinations: int, through: int = 0) -> dict[int, tuple[Cut, ...]]:
        """By lowest site on the far side: the cuts that leave destinations on the near side, or at the separator.

        If `through` is given, only separators that contain it and none of the destinations.
        """
        found = self._cuts.get((destinations, through))
        if found is None:
            if len(self._cuts) >= CUTS_MAX:
                self._cuts.clear()
            cuts = [
                (zone.separator, sum(far))
                for zone in self.zones
                if not through or (zone.separator & through and not zone.separator & destinations)
                if (far := [part for part in zone.parts if not part & destinations])
            ]
            found = self._cuts[destinations, through] = by_site(cuts)
        return found

    def behind(self, site: int) -> dict[int, tuple[Cut, ...]]:
        """By site on the far side: the cuts between a site, given as a mask, and the others."""
        found = self._far.get(site)
        if found is None:
            zones = [zone for zone in self.zones if not zone.separator & site]
            parts = [(zone.separator, [part for part in zone.parts if not part & site]) for zone in zones]
            found = self._far[site] = by_site([(separator, sum(far)) for separator, far in parts if far])
        return found


def by_site(cuts: list[Cut]) -> dict[int, tuple[Cut, ...]]:
    """The cuts that have a site on their far side, smallest first, by the mask of the site."""
    found: dict[int, list[Cut]] = {}
    for cut in sorted(cuts, key=lambda cut: (cut[1].bit_count(), cut)):
        for site in sites_of(cut[1]):
            found.setdefault(1 << site, []).append(cut)
    return {site: tuple(listed) for site, listed in found.items()}


def leaves(region: Region, here: int, there: int, nodes: list[int]) -> bool:
    return here in region.clusters and there not in region.clusters and there not in nodes


@lru_cache(maxsize=256)
def separators_of(lans: Lans, members: tuple[SiteId, ...]) -> tuple[LanGraph, Separators]:
    """The graph and the separators of a view; all sites of a process share them."""
    graph = LanGraph(lans, members)
    return graph, Separators(zones_of(graph))


def check_zones(topology: Topology) -> tuple[LanGraph, Separators]:
    """The zones of a whole topology; refuses impossible gateways, links, routes and regions."""
    graph, separators = separators_of(lans_of(topology), tuple(SiteId(n) for n in range(len(topology.sites))))
    separators.check()
    return graph, separators
