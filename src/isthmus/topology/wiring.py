"""Wiring: the duplex links between nodes of a packet network, and the routes over them.

Duplex link j is the directed links 2j (from the lower node to the higher one) and 2j + 1, so that `link ^ 1` is the
other direction. Times are whole ns and rates whole ps per byte, the same in every engine. Routes go by hop count: from
each node over the lowest link that leads one hop nearer to the target; the multicast tree of a source is the routes to
it, reversed.

Wiring is *random*, G(n, p) redrawn until it is connected, or *from a topology*: its sites are the nodes, the sites of a
LAN are joined with each other, agents along WAN links, and pairs with channels of their own by links of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from math import log
from random import Random
from typing import NamedTuple

from isthmus.core.units import NS_PER_MS
from isthmus.core.validation import BadValue
from isthmus.topology.model import Channel, Topology
from isthmus.topology.overlay.links import reaches_all

PS_PER_BYTE_AT_1_MBPS = 8_000_000
DRAWS_MAX = 1000  # of a random graph, until one is connected
NOWHERE = -1  # as the next link: the node is the target


class DuplexLink(NamedTuple):
    """A duplex link, equal in both directions."""

    a: int
    b: int
    propagation_ns: int
    ps_per_byte: int


class Wiring:
    """Nodes and the directed links between them; frozen once made."""

    __slots__ = ("heads", "into", "nodes", "propagation_ns", "ps_per_byte", "routes", "tails")

    def __init__(self, nodes: int, wires: Iterable[DuplexLink]) -> None:
        self.nodes = nodes
        self.tails: list[int] = []  # where each directed link begins
        self.heads: list[int] = []  # where it ends
        self.propagation_ns: list[int] = []
        self.ps_per_byte: list[int] = []
        self.into: list[list[int]] = [[] for _ in range(nodes)]  # the links that end at each node, ascending
        self.routes: dict[int, list[int]] = {}  # by target, those that were requested
        for wire in wires:
            for tail, head in ((wire.a, wire.b), (wire.b, wire.a)):
                self.into[head].append(len(self.tails))
                self.tails.append(tail)
                self.heads.append(head)
                self.propagation_ns.append(wire.propagation_ns)
                self.ps_per_byte.append(wire.ps_per_byte)

    @property
    def links(self) -> int:
        return len(self.tails)

    def routes_to(self, target: int) -> list[int]:
        """The next link of every node on its way to a target; NOWHERE at the target."""
        found = self.routes.get(target)
        if found is None:
            found = self.routes[target] = self.search(target)
        return found

    def search(self, target: int) -> list[int]:
        """A breadth-first search against the links, level by level."""
        following, level = [NOWHERE] * self.nodes, [NOWHERE] * self.nodes
        level[target] = 0
        reached = [target]
        for node in reached:  # grows while it is walked
            beyond = level[node] + 1
            for link in self.into[node]:
                tail = self.tails[link]
                if level[tail] == NOWHERE:
                    level[tail] = beyond
                    following[tail] = link
                    reached.append(tail)
                elif level[tail] == beyond and link < following[tail]:
                    following[tail] = link
        return following

    def path(self, source: int, target: int) -> list[int]:
        following, found = self.routes_to(target), []
        while source != target:
            found.append(following[source])
            source = self.heads[found[-1]]
        return found

    def hop_counts(self, source: int) -> list[int]:
        """The number of hops from a source to each node."""
        counts = [0] * self.nodes
        following = self.routes_to(source)  # links are duplex: there are as many hops back
        for node in range(self.nodes):
            at = node
            while at != source:
                counts[node] += 1
                at = self.heads[following[at]]
        return counts


def random_wiring(
    nodes: int, mean_degree: float, bandwidth_mbps: float, propagation_ms: tuple[float, float], random: Random
) -> Wiring:
    """G(n, p) with p = mean_degree / n, redrawn until it is connected; propagation uniform within a range."""
    rate = ps_per_byte(bandwidth_mbps)
    low, high = (round(ms * NS_PER_MS) for ms in propagation_ms)
    for _ in range(DRAWS_MAX):
        pairs = gnp(nodes, min(1.0, mean_degree / nodes), random)
        near: list[list[int]] = [[] for _ in range(nodes)]
        for a, b in pairs:
            near[a].append(b)
            near[b].append(a)
        if reaches_all(tuple(map(tuple, near))):
            return Wiring(nodes, [DuplexLink(a, b, random.randint(low, high), rate) for a, b in pairs])
    found, expected = repr(mean_degree), f"one with which {nodes} nodes are connected once in {DRAWS_MAX} draws"
    raise BadValue("mean_degree", found, expected)


def gnp(nodes: int, probability: float, random: Random) -> list[tuple[int, int]]:
    """Each pair of nodes with a probability, in order: the gaps between those that are drawn are geometric."""
    if probability >= 1:
        return list(combinations(range(nodes), 2))
    found: list[tuple[int, int]] = []
    scale, low, high = log(1 - probability), -1, 1  # pairs (low, high) with low < high, by their higher node
    while high < nodes:
        low += 1 + int(log(1 - random.random()) / scale)
        while low >= high and high < nodes:
            low -= high
            high += 1
        if high < nodes:
            found.append((low, high))
    return sorted(found)


def topology_wiring(topology: Topology, bandwidth_mbps: float) -> Wiring:
    """The links of a topology; those of unlimited bandwidth get the given one."""

    def wire(a: int, b: int, channel: Channel) -> DuplexLink:
        rate = channel.bandwidth_mbps or bandwidth_mbps
        return DuplexLink(min(a, b), max(a, b), round(channel.delay.mean_ms * NS_PER_MS), ps_per_byte(rate))

    made: dict[tuple[int, int], DuplexLink] = {}
    for cluster in topology.clusters:
        for a, b in combinations(cluster.sites, 2):
            made[a, b] = wire(a, b, cluster.lan)
    agents = [cluster.agent for cluster in topology.clusters]
    for link in topology.links:
        joined = wire(agents[link.a], agents[link.b], link.forward)
        made[joined.a, joined.b] = joined
    for pair in topology.overrides:
        joined = wire(pair.a, pair.b, pair.forward)
        made[joined.a, joined.b] = joined
    return Wiring(len(topology.sites), [made[key] for key in sorted(made)])


def ps_per_byte(bandwidth_mbps: float) -> int:
    return round(PS_PER_BYTE_AT_1_MBPS / bandwidth_mbps)
