"""The network between sites: a delay distribution a pair, FIFO or not, with loss, duplication and bandwidth.

A packet from site to site passes the channels of the topology in order; their delays add up, and it is lost where any
of them loses it. Packets that pass a channel of limited bandwidth queue behind each other, whoever sent them. A packet
to oneself arrives at once, as an event of its own.

Most links of most studies have a constant delay and no faults. Where all targets of a multicast are reached over such
links, those with the same delay share one entry of the heap: nothing could come between them anyway, as their entries
would follow each other. Such a plan is made once for each set of targets, and anew after every fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappush
from itertools import pairwise
from random import Random

from isthmus.core.message import Message, SiteId, Targets
from isthmus.scenario.faults import DelayShift, Loss
from isthmus.scenario.workload import NS_PER_MS
from isthmus.sim.scheduler import Scheduler
from isthmus.topology.model import Channel, Topology
from isthmus.topology.passage import Passage, Pipe

Receive = Callable[[SiteId, Message], None]
Plan = list[tuple[int, tuple[Receive, ...]]]  # a delay, and those whom a packet reaches after it
VARIES = -1
PLANS_MAX = 4096  # sets of targets whose plans are kept; then all are made anew


class Link(Passage):
    """The way from one site to another, with the faults that hold now."""

    __slots__ = ("cut_count", "faults", "simple", "steady_ns")

    def __init__(self, channels: tuple[Channel, ...], random: Random, pipes: list[Pipe]) -> None:
        super().__init__(channels, random, pipes)
        fixed = [channel.delay.constant_ns() for channel in channels]
        self.simple = not (self.losses or self.duplicates or self.pipes)  # a packet is late, and nothing else
        self.steady_ns = sum(ns for ns in fixed if ns is not None) if self.simple and None not in fixed else VARIES
        self.cut_count = 0  # partitions that cut this link
        self.faults: list[Loss | DelayShift] = []

    def steady_now(self, now_ns: int) -> int:
        """The delay where it is constant and nothing is wrong, nor slowed down and still ahead; otherwise VARIES."""
        if self.cut_count or self.faults or now_ns + self.steady_ns < self.last_ns:
            return VARIES
        return self.steady_ns

    def disturb(self, fault: Loss | DelayShift, now_ns: int) -> None:
        """Let a fault begin; what was sent over a constant link just now is not to be overtaken."""
        if self.fifo and not self.faults and self.steady_ns != VARIES:
            self.last_ns = max(self.last_ns, now_ns + self.steady_ns)
        self.faults.append(fault)

    def calm(self, fault: Loss | DelayShift) -> None:
        self.faults.remove(fault)

    def lost(self) -> bool:
        draw = self.random.random
        if self.cut_count or super().lost():
            return True
        return any(isinstance(fault, Loss) and draw() < fault.probability for fault in self.faults)

    def arrivals(self, now_ns: int, size_bytes: int) -> list[int]:
        if self.simple and not self.cut_count and not self.faults:
            return [self.arrival(now_ns, size_bytes)]
        return super().arrivals(now_ns, size_bytes)

    def delay_ns(self) -> int:
        delay = super().delay_ns()
        for fault in self.faults:
            if isinstance(fault, DelayShift):
                delay = round(delay * fault.factor) + round(fault.add_ms * NS_PER_MS)
        return delay


class Network:
    """Carries messages between hosts by scheduling their reception."""

    __slots__ = (
        "dropped_count",
        "latest_ns",
        "links",
        "needs_sizes",
        "packet_count",
        "plans",
        "random",
        "receivers",
        "scheduler",
    )

    def __init__(self, topology: Topology, scheduler: Scheduler, random: Random) -> None:
        self.scheduler = scheduler
        self.random = random
        self.packet_count = 0  # copies that were sent
        self.dropped_count = 0
        self.latest_ns = 0  # when all that is under way now will have arrived
        self.links = links_of(topology, random)
        self.needs_sizes = any(link.pipes for row in self.links for link in row)
        self.receivers: list[Receive] = [lambda _source, _message: None] * len(topology.sites)
        self.plans: dict[tuple[SiteId, Targets], Plan | None] = {}  # None: some link varies

    def attach(self, site: SiteId, receive: Receive) -> None:
        """Let a host receive what is sent to a site from now on."""
        self.receivers[site] = receive
        self.plans.clear()

    def faults_changed(self) -> None:
        self.plans.clear()

    def plan(self, source: SiteId, targets: Targets) -> Plan | None:
        """How a multicast reaches its targets, if every link on the way is constant and without faults."""
        groups: dict[int, list[Receive]] = {}
        for target in targets:
            link = self.links[source][target]
            delay = 0 if target == source else link.steady_now(self.scheduler.now_ns)
            groups.setdefault(delay, []).append(self.receivers[target])
        if len(self.plans) >= PLANS_MAX:
            self.plans.clear()
        made = None if VARIES in groups else [(delay, tuple(group)) for delay, group in groups.items()]
        self.plans[source, targets] = made
        return made

    def send(self, source: SiteId, targets: Targets, message: Message, size_bytes: int) -> None:
        """Put a copy to each target under way."""
        self.packet_count += len(targets)
        key = (source, targets)
        plan = self.plans[key] if key in self.plans else self.plan(source, targets)
        if plan is None:
            self.send_one_by_one(source, targets, message, size_bytes)
            return
        scheduler = self.scheduler
        now = scheduler.now_ns
        for delay, group in plan:
            scheduler.counter += 1
            if now + delay > self.latest_ns:
                self.latest_ns = now + delay
            if len(group) == 1:
                heappush(scheduler.heap, (now + delay, scheduler.counter, group[0], source, message))
            else:
                heappush(scheduler.heap, (now + delay, scheduler.counter, self.arrive, (source, message), group))

    def arrive(self, packet: tuple[SiteId, Message], group: tuple[Receive, ...]) -> None:
        """Hand one packet to all whom it reaches at this moment."""
        source, message = packet
        self.scheduler.event_count += len(group) - 1
        for receive in group:
            receive(source, message)

    def send_one_by_one(self, source: SiteId, targets: Targets, message: Message, size_bytes: int) -> None:
        scheduler = self.scheduler
        now = scheduler.now_ns
        for target in targets:
            link = self.links[source][target]
            arrivals = [now] if target == source else link.arrivals(now, size_bytes)
            self.dropped_count += not arrivals
            for arrival in arrivals:
                self.latest_ns = max(self.latest_ns, arrival)
                scheduler.at(arrival, self.receivers[target], source, message)

    def between(self, sources: Targets, targets: Targets) -> Iterable[Link]:
        """The links from some sites to others."""
        for source in sources:
            for target in targets:
                if source != target:
                    yield self.links[source][target]


def links_of(topology: Topology, random: Random) -> list[list[Link]]:
    """A link for each ordered pair of sites; pipes are shared by all who pass them."""
    pipes: dict[tuple[object, ...], Pipe] = {}
    rows: list[list[Link]] = []
    for a, here in enumerate(topology.sites):
        row = []
        for b, there in enumerate(topology.sites):
            channels = topology.channels(SiteId(a), SiteId(b))
            hops: list[tuple[object, ...]]
            if topology.has_own_channel(SiteId(a), SiteId(b)):
                hops = [("pair", a, b)]
            elif here.cluster == there.cluster:  # on a LAN: one port a sender
                hops = [("port", a)]
            else:
                hops = [("wan", *hop) for hop in pairwise(topology.route(here.cluster, there.cluster))]
            used = [
                pipes.setdefault(hop, Pipe(channel.bandwidth_mbps))
                for hop, channel in zip(hops, channels, strict=False)
                if channel.bandwidth_mbps is not None
            ]
            row.append(Link(channels, random, used))
        rows.append(row)
    return rows
