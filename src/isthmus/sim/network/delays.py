"""The network between sites: a delay distribution per pair, FIFO or not, with loss, duplication and bandwidth.

A packet from site to site passes the channels of the topology in order; their delays add up, and it is lost if any of
them loses it. Packets that pass a channel of limited bandwidth queue behind each other, whatever their senders. A
packet to the sender itself arrives at once, as a separate event. Bulk messages wait at the sender, in a queue for each
target, while more than a window of bytes has yet to leave a channel of limited bandwidth.

Most links of most studies have a constant delay and no faults. Where all targets of a multicast are reached over such
links, those with the same delay share one heap entry: no other event could come between them anyway, as their entries
would be adjacent. Such a plan is made once per set of targets, and again after every fault.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from heapq import heappush
from itertools import pairwise
from random import Random
from typing import Protocol

from isthmus.core.layer import Stack
from isthmus.core.message import BULK_WINDOW_BYTES, GroupId, Message, SiteId, Targets
from isthmus.core.units import NS_PER_MS
from isthmus.measure.summary import RunSummary
from isthmus.scenario.faults import DelayShift, Loss
from isthmus.sim.scheduler import Scheduler
from isthmus.topology.model import Channel, Passage, Pipe, Topology

Stamp = tuple[SiteId, int]  # sender and view of a message; 0: it belongs to none
Receive = Callable[[Stamp, Message], None]
Steps = list[tuple[int, tuple[Receive, ...]]]  # a delay, and the receivers reached after it
Plan = tuple[int, Steps | None]  # copies that leave the LAN; None: some link varies
VARIES = -1
PLANS_MAX = 4096  # sets of targets with a cached plan; beyond it the cache is cleared


class Link(Passage):
    """The path from one site to another, with its current faults."""

    __slots__ = ("bulk", "cut_count", "faults", "simple", "steady_ns")

    def __init__(self, channels: tuple[Channel, ...], random: Random, pipes: list[Pipe]) -> None:
        super().__init__(channels, random, pipes)
        fixed = [channel.delay.constant_ns() for channel in channels]
        self.simple = not (self.losses or self.duplicates or self.pipes)  # nothing but delay
        self.steady_ns = sum(ns for ns in fixed if ns is not None) if self.simple and None not in fixed else VARIES
        self.cut_count = 0  # partitions that cut this link
        self.faults: list[Loss | DelayShift] = []
        self.bulk: deque[tuple[Stamp, GroupId, Message, int]] = deque()  # waits at the sender

    def bulk_wait_ns(self, now_ns: int) -> int:
        """How long the next bulk message has to wait."""
        return max([0, *(pipe.free_ns - now_ns - round(BULK_WINDOW_BYTES * pipe.ns_per_byte) for pipe in self.pipes)])

    def steady_now(self, now_ns: int) -> int:
        """Return the delay if it is constant, without faults or slower packets still in flight; otherwise VARIES."""
        if self.cut_count or self.faults or now_ns + self.steady_ns < self.last_ns:
            return VARIES
        return self.steady_ns

    def disturb(self, fault: Loss | DelayShift, now_ns: int) -> None:
        """Begin a fault; on a FIFO link, later packets do not overtake those already sent."""
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


class Network(Protocol):
    """The interface of a network to its sites: carries messages between ports."""

    packet_count: int
    dropped_count: int

    def after_arrivals(self, then: Callable[..., None]) -> None: ...  # call back when all in flight has arrived
    def attach(self, site: SiteId, group: GroupId, receive: Receive) -> None: ...
    def send(self, stamp: Stamp, group: GroupId, targets: Targets, message: Message, size_bytes: int) -> None: ...


class DelayNetwork:
    """A network of delays: schedules the reception of each packet; links are created on first use."""

    __slots__ = (
        "dropped_count", "latest_ns", "links", "needs_sizes", "packet_count", "pipes", "plans", "random",
        "receivers", "scheduler", "topology", "wan_bytes", "wan_count",
    )  # fmt: skip

    def __init__(self, topology: Topology, scheduler: Scheduler, random: Random) -> None:
        self.topology = topology
        self.scheduler = scheduler
        self.random = random
        self.packet_count = 0  # copies sent, including copies to the sender itself
        self.dropped_count = 0
        self.wan_count = 0  # copies sent to another LAN
        self.wan_bytes = 0  # of these; 0 where sizes are not measured
        self.latest_ns = 0  # when all packets now in flight will have arrived
        self.links: dict[tuple[SiteId, SiteId], Link] = {}
        self.pipes: dict[tuple[object, ...], Pipe] = {}  # shared by all links that pass them
        self.needs_sizes = any(channel.bandwidth_mbps is not None for channel in topology.all_channels())
        self.receivers: dict[tuple[SiteId, GroupId], Receive] = {}
        self.plans: dict[tuple[SiteId, GroupId, Targets], Plan] = {}

    def attach(self, site: SiteId, group: GroupId, receive: Receive) -> None:
        """Register a port as the receiver of messages to a site in a group."""
        self.receivers[site, group] = receive
        self.plans.clear()

    def faults_changed(self) -> None:
        self.plans.clear()

    def after_arrivals(self, then: Callable[..., None]) -> None:
        """Call back when all packets now in flight have arrived."""
        self.scheduler.at(self.latest_ns, then)

    def figures(self, _summary: RunSummary) -> dict[str, float]:
        """Return the measurements specific to a network, by name."""
        return {}

    def is_idle(self) -> bool:
        """Return whether a run may end: always, as packets in flight count as undelivered at their sites."""
        return True

    def watch_queue(self, site: SiteId, stack: Stack) -> None:
        """Do nothing: only the packet network measures delivery queues."""

    def begin_background(self, random_of: Callable[..., Random], end_ns: int) -> None:
        """Do nothing: only the packet network has background traffic."""

    def link(self, source: SiteId, target: SiteId) -> Link:
        """Return the link from one site to another."""
        link = self.links.get((source, target))
        if link is None:
            link = self.links[source, target] = self.make_link(source, target)
        return link

    def make_link(self, a: SiteId, b: SiteId) -> Link:
        topology = self.topology
        here, there = topology.sites[a], topology.sites[b]
        channels = topology.channels(a, b)
        hops: list[tuple[object, ...]]
        if topology.has_own_channel(a, b):
            hops = [("pair", a, b)]
        elif here.cluster == there.cluster:  # on a LAN: one port per sender
            hops = [("port", a)]
        else:
            hops = [("wan", *hop) for hop in pairwise(topology.route(here.cluster, there.cluster))]
        used = [
            self.pipes.setdefault(hop, Pipe(channel.bandwidth_mbps))
            for hop, channel in zip(hops, channels, strict=False)
            if channel.bandwidth_mbps is not None
        ]
        return Link(channels, self.random, used)

    def plan(self, source: SiteId, group: GroupId, targets: Targets) -> Plan:
        """Plan a multicast: its steps if every link on the way is constant and without faults."""
        sites = self.topology.sites
        wan = sum(sites[target].cluster != sites[source].cluster for target in targets)
        groups: dict[int, list[Receive]] = {}
        for target in targets:
            delay = 0 if target == source else self.link(source, target).steady_now(self.scheduler.now_ns)
            groups.setdefault(delay, []).append(self.receivers.get((target, group), nobody))
        if len(self.plans) >= PLANS_MAX:
            self.plans.clear()
        steps = None if VARIES in groups else [(delay, tuple(reached)) for delay, reached in groups.items()]
        self.plans[source, group, targets] = (wan, steps)
        return (wan, steps)

    def send(self, stamp: Stamp, group: GroupId, targets: Targets, message: Message, size_bytes: int) -> None:
        """Send a copy to each target."""
        self.packet_count += len(targets)
        key = (stamp[0], group, targets)
        wan, steps = self.plans[key] if key in self.plans else self.plan(*key)
        self.wan_count += wan
        self.wan_bytes += wan * size_bytes
        if steps is None:
            self.send_one_by_one(stamp, group, targets, message, size_bytes)
            return
        scheduler = self.scheduler
        now = scheduler.now_ns
        for delay, reached in steps:
            scheduler.counter += 1
            if now + delay > self.latest_ns:
                self.latest_ns = now + delay
            if len(reached) == 1:
                heappush(scheduler.heap, (now + delay, scheduler.counter, reached[0], stamp, message))
            else:
                heappush(scheduler.heap, (now + delay, scheduler.counter, self.arrive, (stamp, message), reached))

    def arrive(self, packet: tuple[Stamp, Message], reached: tuple[Receive, ...]) -> None:
        """Deliver one packet to all receivers reached at this instant."""
        stamp, message = packet
        self.scheduler.event_count += len(reached) - 1
        for receive in reached:
            receive(stamp, message)

    def send_one_by_one(
        self, stamp: Stamp, group: GroupId, targets: Targets, message: Message, size_bytes: int
    ) -> None:
        for target in targets:
            link = None if target == stamp[0] else self.link(stamp[0], target)
            if message.bulk and link is not None and link.pipes:
                link.bulk.append((stamp, group, message, size_bytes))
                if len(link.bulk) == 1:
                    self.send_bulk(link, target)
            else:
                self.pass_packet(link, target, stamp, group, message, size_bytes)

    def send_bulk(self, link: Link, target: SiteId) -> None:
        """Send what waits for a link as far as its window goes, and the rest later."""
        while link.bulk:
            wait_ns = link.bulk_wait_ns(self.scheduler.now_ns)
            if wait_ns:
                self.scheduler.at(self.scheduler.now_ns + wait_ns, self.send_bulk, link, target)
                return
            self.pass_packet(link, target, *link.bulk.popleft())

    def pass_packet(
        self, link: Link | None, target: SiteId, stamp: Stamp, group: GroupId, message: Message, size_bytes: int
    ) -> None:
        now = self.scheduler.now_ns
        arrivals = [now] if link is None else link.arrivals(now, size_bytes)
        self.dropped_count += not arrivals
        receive = self.receivers.get((target, group), nobody)
        for arrival in arrivals:
            self.latest_ns = max(self.latest_ns, arrival)
            self.scheduler.at(arrival, receive, stamp, message)

    def between(self, sources: Targets, targets: Targets) -> Iterable[Link]:
        """Yield the links from some sites to others."""
        for source in sources:
            for target in targets:
                if source != target:
                    yield self.link(source, target)


def nobody(_stamp: Stamp, _message: Message) -> None:
    """Drop a message: the site is not in the group."""
