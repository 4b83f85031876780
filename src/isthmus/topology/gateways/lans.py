"""The connections of LANs: gateways, the links between them, fixed routes and regions, resolved and validated.

They define where *relayed* messages go: from the sender's LAN to a gateway, from gateway to gateway, from a gateway to
the hosts of the last LAN. By default the gateways of a cluster are its agent and a second site, with a link along each
WAN link. Relays are correct on trees and on rings of LANs: if the WAN links form neither, the links between gateways
follow the tree of least delay, and configured links that form neither are refused.

`Lans` is a value of plain numbers; separators.py derives zones and routes from it for the members of a view.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from isthmus.core.message import SiteId
from isthmus.core.validation import BadValue
from isthmus.topology.graph import components
from isthmus.topology.model import Region, Topology, WanLink

Gateways = tuple[tuple[SiteId, ...], ...]  # of each LAN
GATEWAYS = 2  # of a cluster that names none
SERVED = "links that form a tree or one ring, over which messages can be relayed, or `gated = true` in [stack.causal]"


class Lans(msgspec.Struct, frozen=True):
    """LANs by number, and their connections."""

    names: tuple[str, ...]
    sites: tuple[tuple[SiteId, ...], ...]  # of each LAN, gateways included
    gateways: tuple[tuple[SiteId, ...], ...]  # of each LAN
    links: tuple[tuple[SiteId, SiteId], ...]  # between gateways of different LANs
    routes: tuple[tuple[int, ...], ...] = ()  # fixed, LAN by LAN
    regions: tuple[Region, ...] = ()
    node_of: tuple[int | None, ...] = ()  # the LAN of each node, None for a LAN; () without nodes

    def nodes(self, number: int) -> list[int]:
        return [node for node, lan in enumerate(self.node_of) if lan == number]

    def is_node(self, number: int) -> bool:
        return bool(self.node_of) and self.node_of[number] is not None

    def lan_of(self) -> dict[SiteId, int]:
        return {site: number for number, sites in enumerate(self.sites) for site in sites}

    def pairs(self) -> list[tuple[int, int]]:
        """The LANs that links join, once each, in order."""
        lan = self.lan_of()
        return sorted({(min(lan[a], lan[b]), max(lan[a], lan[b])) for a, b in self.links})

    def served(self) -> bool:
        """Whether the LANs, nodes apart, form a tree or a ring, over which messages may be relayed."""
        lans = [number for number in range(len(self.sites)) if not self.is_node(number)]
        pairs = [pair for pair in self.pairs() if pair[0] in lans and pair[1] in lans]
        degrees = [sum(number in pair for pair in pairs) for number in lans]
        return len(pairs) < len(lans) or set(degrees) == {2}


def one_lan(sites: tuple[SiteId, ...]) -> Lans:
    """Sites that can all send to each other."""
    return Lans(("",), (sites,), (sites[:1],), ())


def lans_of(topology: Topology, any_graph: bool = False) -> Lans:
    """The LANs of a topology; refuses gateways, routes and regions that contradict it.

    If any graph is served, all WAN links are used.
    """
    gateways = tuple(
        cluster.gateways
        or tuple(dict.fromkeys((cluster.agent, *cluster.sites)))[: GATEWAYS if cluster.node_of is None else 1]
        for cluster in topology.clusters
    )
    lans = Lans(
        tuple(cluster.name for cluster in topology.clusters),
        tuple(cluster.sites for cluster in topology.clusters),
        gateways,
        given_links(topology, gateways) if topology.gateway_links else links_along(topology.links, gateways),
        topology.routes,
        topology.regions,
        tuple(cluster.node_of for cluster in topology.clusters) if has_nodes(topology) else (),
    )
    if not topology.gateway_links and not lans.served() and not any_graph:
        lans = msgspec.structs.replace(lans, links=links_along(least_delay_links(topology), gateways))
    check_nodes(lans)
    check_reach(lans)
    for number, route in enumerate(lans.routes):
        check_route(lans, route, f"routes[{number}].clusters")
    return lans


def has_nodes(topology: Topology) -> bool:
    return any(cluster.node_of is not None for cluster in topology.clusters)


def check_nodes(lans: Lans) -> None:
    for pair in lans.pairs():
        for node, other in (pair, pair[::-1]):
            if lans.is_node(node) and lans.node_of[node] != other:
                found = f"a link from the node {lans.names[node]} to {lans.names[other]}"
                around = lans.names[lans.node_of[node] or 0]
                raise BadValue("gateway_links", found, f"none but to its LAN, {around}")


def given_links(topology: Topology, gateways: Gateways) -> tuple[tuple[SiteId, SiteId], ...]:
    sites = topology.sites
    for number, link in enumerate(topology.gateway_links):
        for end, site in (("from", link.a), ("to", link.b)):
            if site not in gateways[sites[site].cluster]:
                lan = topology.clusters[sites[site].cluster].name
                raise BadValue(f"gateway_links[{number}].{end}", repr(sites[site].name), f"a gateway of {lan}")
        if sites[link.a].cluster == sites[link.b].cluster:
            found = f"{sites[link.b].name!r}, on the same LAN"
            raise BadValue(f"gateway_links[{number}].to", found, "a gateway of another cluster")
    links = [(link.a, link.b) for link in topology.gateway_links]
    linked = [sites[site].cluster for pair in links for site in pair]
    for number, cluster in enumerate(topology.clusters):  # nodes need not be mentioned
        if cluster.node_of is not None and number not in linked:
            links.append((gateways[number][0], gateways[cluster.node_of][0]))
    return tuple(links)


def links_along(
    links: Sequence[WanLink], gateways: tuple[tuple[SiteId, ...], ...]
) -> tuple[tuple[SiteId, SiteId], ...]:
    """A link along each WAN link, assigned to the gateways of each cluster in turn."""
    used = [0] * len(gateways)
    made = []
    for link in links:
        ends = []
        for cluster in (link.a, link.b):
            ends.append(gateways[cluster][used[cluster] % len(gateways[cluster])])
            used[cluster] += 1
        made.append((ends[0], ends[1]))
    return tuple(made)


def least_delay_links(topology: Topology) -> list[WanLink]:
    """WAN links that join all clusters in a tree, shortest first, ties by their order."""
    joined = list(range(len(topology.clusters)))  # of each cluster, the lowest one that it is joined to
    chosen = []
    for link in sorted(topology.links, key=lambda link: link.forward.delay.mean_ms + link.back.delay.mean_ms):
        here, there = joined[link.a], joined[link.b]
        if here != there:
            chosen.append(link)
            joined = [min(here, there) if one in (here, there) else one for one in joined]
    return chosen


def check_reach(lans: Lans) -> None:
    if len(lans.sites) > 1:
        parts = components(len(lans.sites), lans.pairs())
        if len(parts) > 1:
            here, there = (lans.names[part[0]] for part in parts[:2])
            raise BadValue("gateway_links", f"no way from {here} to {there}", "links that reach every cluster")


def check_route(lans: Lans, route: tuple[int, ...], key: str) -> None:
    """Refuse a route that loops, uses a link that is not there, or crosses another of the same source."""
    names = [lans.names[number] for number in route]
    if len(route) < 2:
        raise BadValue(key, ", ".join(names) or "nothing", "the clusters of a way, both ends included")
    if len(set(route)) < len(route):
        raise BadValue(key, f"a loop, {' - '.join(names)}", "each cluster once")
    pairs = lans.pairs()
    for here, there in pairwise(route):
        if (min(here, there), max(here, there)) not in pairs:
            found = f"a step from {lans.names[here]} to {lans.names[there]}"
            raise BadValue(key, found, "clusters that a link between gateways joins")
    before: dict[int, int] = {}
    for other in lans.routes:
        if other[0] == route[0]:
            for here, there in pairwise(other):
                if before.setdefault(there, here) != here:
                    found = f"a second way from {lans.names[route[0]]} to {lans.names[there]}"
                    raise BadValue(key, found, "routes of one source that part and do not meet again")


def check_served(lans: Lans) -> None:
    """Refuse links that relays do not serve: on other graphs they would deadlock."""
    if not lans.served():
        found = f"{len(lans.sites)} LANs joined by {len(lans.pairs())} links, with more than one way round"
        raise BadValue("topology.gateway_links", found, SERVED)
