"""Random runs of extended histories alone: no stack, no transport, thousands in minutes.

Each run is the function of a seed: a graph with separators (one hop from neighbour to neighbour, a ring or a tree of
LANs with relaying gateways, the same with nodes on the LANs and a region around some, or with any number of gateways,
given routes and regions of several LANs), delays without any order and with a heavy tail, messages to random sets, and
replies on delivery, which make causal chains. What is judged is exact:
the past of every message is a set; no process may deliver a message while one of its past that is addressed to it is
missing; and at the end everything must be delivered, as several wrong readings of the rules only block.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import combinations
from random import Random
from typing import Literal, NamedTuple

from isthmus.core.message import SiteId
from isthmus.protocols.causal.histories.history import ExtendedHistory, HistoryRules, Timestamp
from isthmus.topology.delay import Constant
from isthmus.topology.gateways.hops import GatewayPlan, GatewayRoutes, direct_plan
from isthmus.topology.gateways.lans import Lans, lans_of
from isthmus.topology.gateways.separators import LanGraph, Separators, Zone, mask_of, sites_of, zones_of
from isthmus.topology.model import Channel, Cluster, Region, Topology, TopologySite, WanLink
from isthmus.topology.shapes import shape

Kind = Literal["one-hop", "lan-ring", "lan-tree", "nodes", "routed"]
KINDS: tuple[Kind, ...] = ("one-hop", "lan-ring", "lan-tree", "nodes", "routed")
MakeHistory = Callable[[SiteId, Separators | None, HistoryRules], ExtendedHistory]
ANY = Channel(Constant(1.0))
TAIL = 1.2  # of the Pareto distribution of delays: the variance is infinite


class Packet(NamedTuple):
    """A message on one hop."""

    key: int
    number: int  # of the message in the run; below 0 for an empty one
    plan: GatewayPlan
    timestamp: Timestamp


class Sent(NamedTuple):
    """A message of the run."""

    past: int  # the messages before it, as a mask of numbers
    destinations: int


class CausalWorld:
    """Processes with extended histories on a graph."""

    def __init__(self, kind: Kind, seed: int, make: MakeHistory = ExtendedHistory, count: int = 60) -> None:
        self.random = Random(f"causal/{kind}/{seed}")
        self.kind = kind
        self.count = count  # messages in all
        self.make = make
        self.policies = random_policies(self.random)
        self.history_max = self.random.choice([4, 8, 16, 1000, 1000, 1000])
        self.lay_out()
        self.histories = {site: self.history_of(site) for site in self.sites}
        self.held: dict[SiteId, list[Packet]] = {site: [] for site in self.sites}
        self.sent: list[Sent] = []
        self.past = dict.fromkeys(self.sites, 0)  # what each process sent or delivered, and all before that
        self.has = dict.fromkeys(self.sites, 0)  # what each process delivered
        self.heap: list[tuple[float, int, SiteId, Packet | None]] = []
        self.tick = 0
        self.now = 0.0
        self.found: list[str] = []

    def history_of(self, site: SiteId) -> ExtendedHistory:
        return self.make(site, self.separators, self.policies)

    # The graph

    def lay_out(self) -> None:
        random = self.random
        if self.kind == "one-hop":
            self.lay_out_graph(random.randint(4, 9))
            return
        if self.kind == "routed":
            joined, self.hosts = routed_lans(random)
            self.join(joined)
            return
        lans = random.randint(2, 5)
        size = random.randint(1, 3)
        topology = with_nodes(random) if self.kind == "nodes" else shape(self.kind, lans, size, ANY, ANY)
        if (
            self.kind != "nodes" and random.random() < 0.3
        ):  # gateways that are hosts too, as many as there are sites for
            topology = shape("ring" if self.kind == "lan-ring" else "star", lans, size, ANY, ANY)
        self.join(lans_of(topology))
        self.hosts = [s for s in self.sites if s not in topology.clusters[topology.sites[s].cluster].gateways]

    def join(self, lans: Lans) -> None:
        """Lay out LANs, all of whose sites are there."""
        self.sites = sorted(lans.lan_of())
        self.graph = LanGraph(lans, tuple(self.sites))
        self.separators = Separators(zones_of(self.graph))
        self.routes = GatewayRoutes(self.graph)

    def lay_out_graph(self, size: int) -> None:
        """A connected random graph, and some of the sets that cut it."""
        random = self.random
        self.hosts = self.sites = [SiteId(number) for number in range(size)]
        edges = {(random.randrange(number), number) for number in range(1, size)}
        edges |= {pair for pair in combinations(range(size), 2) if random.random() < 0.25}
        self.near = [mask_of(b if a == s else a for a, b in edges if s in (a, b)) | 1 << s for s in range(size)]
        cuts = [cut for length in (1, 2, 3) for cut in combinations(range(size), length)]
        zones = []
        for cut in random.sample(cuts, min(len(cuts), 40)):
            separator = mask_of(cut)
            parts = parts_of(self.near, mask_of(range(size)) & ~separator)
            if len(parts) > 1:
                zones.append(Zone("", "", separator, parts[0], parts))
        self.separators = Separators(zones)

    def plan(self, sender: SiteId, destinations: int) -> GatewayPlan:
        if self.kind == "one-hop":
            return direct_plan(sender, destinations)
        return self.routes.plan(sender, destinations)

    def draw_destinations(self, sender: SiteId) -> int:
        random = self.random
        if self.kind == "one-hop":
            near = [site for site in sites_of(self.near[sender]) if site != sender]
            return mask_of(random.sample(near, random.randint(1, len(near))))
        among = self.hosts
        if random.random() < 0.6:
            home = self.graph.lan_of[sender]
            among = [site for site in self.hosts if self.graph.lan_of[site] == home]
        among = [site for site in among if site != sender] or [site for site in self.hosts if site != sender]
        return mask_of(random.sample(among, random.randint(1, min(4, len(among)))))

    # A run

    def run(self) -> list[str]:
        """What went wrong, a sentence each."""
        for _ in range(self.count // 2):
            self.at(self.random.uniform(0, 30), self.random.choice(self.hosts), None)
        while self.heap and not self.found:
            self.now, _, site, packet = heappop(self.heap)
            if packet is None:
                self.send(site)
            else:
                self.receive(site, packet)
        if not self.found:
            self.check_complete()
        return self.found

    def at(self, time: float, site: SiteId, packet: Packet | None) -> None:
        self.tick += 1
        heappush(self.heap, (time, self.tick, site, packet))

    def transmit(self, receivers: tuple[SiteId, ...], packet: Packet) -> None:
        for site in receivers:
            self.at(self.now + self.random.paretovariate(TAIL), site, packet)

    def send(self, sender: SiteId) -> None:
        if len(self.sent) >= self.count:
            return
        destinations = self.draw_destinations(sender)
        plan = self.plan(sender, destinations)
        number = len(self.sent)
        self.sent.append(Sent(self.past[sender], destinations))
        self.past[sender] |= 1 << number
        self.tell_first(sender)
        key, timestamp = self.histories[sender].send(plan.address)
        self.transmit(plan.first, Packet(key, number, plan, timestamp))

    def tell_first(self, site: SiteId) -> None:
        """Tell a long history to all whom it concerns by an empty message, and now and then for no reason."""
        history = self.histories[site]
        if len(history.told) > self.history_max or self.random.random() < 0.1:
            others = history.concerned() & ~(1 << site)
            if self.kind == "one-hop":
                others &= self.near[site]
            if others:
                plan = self.plan(site, others)
                key, timestamp = history.send(plan.address)
                self.transmit(plan.first, Packet(key, -1, plan, timestamp))

    def receive(self, site: SiteId, packet: Packet) -> None:
        self.held[site].append(packet)
        moved = True
        while moved:
            moved = False
            for packet in self.held[site]:
                if not self.histories[site].missing(packet.timestamp):
                    self.held[site].remove(packet)
                    self.take(site, packet)
                    moved = True
                    break

    def take(self, site: SiteId, packet: Packet) -> None:
        """Deliver a packet that is ready, or pass it on, or both."""
        history, plan = self.histories[site], packet.plan
        if hops := plan.hops.get(site):
            if packet.number >= 0:
                self.tell_first(site)
            stamps = history.relay(
                packet.key, plan.address, packet.timestamp, plan.rest[site], tuple(hop.reached for hop in hops)
            )
            for hop, stamp in zip(hops, stamps, strict=True):
                self.transmit(hop.receivers, packet._replace(timestamp=stamp))
        else:
            history.deliver(packet.key, plan.address, packet.timestamp)
        if packet.number >= 0 and self.sent[packet.number].destinations >> site & 1:
            self.deliver(site, packet.number)

    def deliver(self, site: SiteId, number: int) -> None:
        past = self.sent[number].past
        early = [n for n in sites_of(past & ~self.has[site]) if self.sent[n].destinations >> site & 1]
        if early or self.has[site] >> number & 1:
            self.found.append(f"site {site} delivers message {number} before {early[:1] or 'itself'}")
        self.has[site] |= 1 << number
        self.past[site] |= past | 1 << number
        if self.random.random() < 0.5:
            self.send(site)

    def check_complete(self) -> None:
        for number, sent in enumerate(self.sent):
            lacking = [site for site in sites_of(sent.destinations) if not self.has[site] >> number & 1]
            if lacking:
                self.found.append(f"message {number} never reached site {lacking[0]}")
                return


def with_nodes(random: Random) -> Topology:
    """LANs in a ring or a tree, some with nodes behind communication servers, and perhaps a region around one."""
    plain = shape(random.choice(["lan-ring", "lan-tree"]), random.randint(2, 4), random.randint(1, 2), ANY, ANY)
    sites, clusters, links = list(plain.sites), list(plain.clusters), list(plain.links)
    for lan in range(len(plain.clusters)):
        for _ in range(random.choice([0, 0, 1, 2])):
            node, size = len(clusters), random.randint(2, 3)
            ids = tuple(SiteId(len(sites) + place) for place in range(size))
            sites += [TopologySite(f"n{node}-{place}", node) for place in range(size)]
            clusters.append(Cluster(f"n{node}", ids, ids[0], ANY, gateways=ids[:1], node_of=lan))
            links.append(WanLink(lan, node, ANY, ANY))
    region = Region("region", (random.randrange(len(plain.clusters)),))
    regions = (region,) if random.random() < 0.5 else ()
    return Topology("nodes", tuple(sites), tuple(clusters), tuple(links), (), plain.gateway_links, (), regions)


def routed_lans(random: Random) -> tuple[Lans, list[SiteId]]:
    """A ring or a tree of LANs with one to three gateways, hosts too or not, any routes that go on alike, and regions.

    Also the sites that send.
    """
    count, first = random.randint(2, 6), 0
    sites, gateways, hosts = [], [], list[SiteId]()
    for _ in range(count):
        size, serving = random.randint(1, 3), random.randint(1, 3)
        dedicated = random.random() < 0.7
        ids = tuple(SiteId(first + place) for place in range(size + serving if dedicated else max(size, serving)))
        gateways.append(ids[size:] if dedicated else tuple(random.sample(ids, serving)))
        hosts += ids[:size] if dedicated else ids
        sites.append(ids)
        first += len(ids)
    ring = count > 2 and random.random() < 0.7
    order = random.sample(range(count), count)
    pairs = [(order[place - 1], order[place]) for place in range(count)] if ring else []
    pairs = pairs or [(order[random.randrange(place)], order[place]) for place in range(1, count)]
    links = tuple((random.choice(gateways[a]), random.choice(gateways[b])) for a, b in pairs)
    routes = random_routes(random, order) if ring and random.random() < 0.7 else ()
    width, start = random.randint(1, count - 1), random.randrange(count)
    within = tuple(sorted((order * 2)[start : start + width]))
    regions = (Region("region", within),) if ring and random.random() < 0.5 else ()
    names = tuple(f"c{number}" for number in range(count))
    return Lans(names, tuple(sites), tuple(gateways), links, routes, regions), hosts


def random_routes(random: Random, order: list[int]) -> tuple[tuple[int, ...], ...]:
    """Routes round a ring, so many LANs clockwise from each, of which each goes on as that of the next LAN."""
    count = len(order)
    others = count - 1
    while True:
        ahead = [random.randint(0, others) for _ in order]
        follows = [ahead[(place + 1) % count] >= ahead[place] - 1 for place in range(count) if ahead[place] > 1]
        back = [ahead[place - 1] <= ahead[place] + 1 for place in range(count) if others - ahead[place] > 1]
        if all(follows) and all(back):
            break
    ways = []
    for place, clockwise in enumerate(ahead):
        ways.append(tuple(order[(place + step) % count] for step in range(clockwise + 1)))
        ways.append(tuple(order[place - step] for step in range(count - clockwise)))
    return tuple(way for way in ways if len(way) > 1)


def random_policies(random: Random) -> HistoryRules:
    """All rules on in half of the runs, otherwise any of them."""
    if random.random() < 0.5:
        return HistoryRules(extended=random.random() < 0.7)
    drawn = [random.random() < 0.5 for _ in range(6)]
    return HistoryRules(*drawn)


def parts_of(near: list[int], left: int) -> tuple[int, ...]:
    """The connected parts of what is left of a graph given by neighbourhoods."""
    found = []
    while left:
        part = frontier = left & -left
        while frontier:
            low = frontier & -frontier
            fresh = near[low.bit_length() - 1] & left & ~part
            part |= fresh
            frontier = frontier & ~low | fresh
        found.append(part)
        left &= ~part
    return tuple(found)
