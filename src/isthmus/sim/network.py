"""The network between sites: a delay distribution a pair, FIFO or not, with loss, duplication and bandwidth.

A packet from site to site passes the channels of the topology in order; their delays add up, and it is lost where any
of them loses it. Packets that pass a channel of limited bandwidth queue behind each other, whoever sent them. A packet
to oneself arrives at once, as an event of its own.

Most links of most studies have a constant delay and no faults. They are kept as plain numbers in `constant`, so that
such a packet costs one look-up and one heap entry; -1 sends it the long way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappush
from itertools import pairwise
from random import Random

from isthmus.core.message import Message, SiteId, Targets
from isthmus.sim.scheduler import Scheduler
from isthmus.topology.model import Channel, Topology

Receive = Callable[[SiteId, Message], None]
THE_LONG_WAY = -1


class Pipe:
    """A channel of limited bandwidth, one direction."""

    __slots__ = ("free_ns", "ns_per_byte")

    def __init__(self, bandwidth_mbps: float) -> None:
        self.ns_per_byte = 8_000 / bandwidth_mbps
        self.free_ns = 0  # when its last packet will have left

    def pass_through(self, now_ns: int, size_bytes: int) -> int:
        """When a packet that comes now has left the pipe."""
        self.free_ns = max(now_ns, self.free_ns) + round(size_bytes * self.ns_per_byte)
        return self.free_ns


class Link:
    """The way from one site to another, with the faults that hold now."""

    __slots__ = (
        "add_ns",
        "cut_count",
        "delays",
        "duplicate",
        "factor",
        "fifo",
        "last_ns",
        "losses",
        "pipes",
        "steady_ns",
    )

    def __init__(self, channels: tuple[Channel, ...], pipes: list[Pipe], random: Random) -> None:
        self.delays = [channel.delay.sampler(random) for channel in channels]
        fixed = [channel.delay.constant_ns() for channel in channels]
        self.fifo = all(channel.fifo for channel in channels)
        self.losses = [channel.loss for channel in channels if channel.loss]
        self.duplicate = 1.0
        for channel in channels:
            self.duplicate *= 1 - channel.duplicate
        self.duplicate = 1 - self.duplicate
        self.pipes = pipes
        simple = not (self.losses or self.duplicate or pipes)
        self.steady_ns = sum(ns for ns in fixed if ns is not None) if simple and None not in fixed else THE_LONG_WAY
        self.last_ns = 0  # arrival of the last packet, where none may overtake it
        self.cut_count = 0  # partitions that cut this link
        self.factor = 1.0
        self.add_ns = 0

    def faultless(self) -> bool:
        return self.cut_count == 0 and self.factor == 1 and self.add_ns == 0


class Network:
    """Carries messages between hosts by scheduling their reception."""

    __slots__ = (
        "constant",
        "dropped_count",
        "latest_ns",
        "links",
        "needs_sizes",
        "packet_count",
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
        self.constant: list[list[int]] = [[0] * len(row) for row in self.links]
        self.refresh()

    def refresh(self) -> None:
        """Work out anew which links are constant, after a fault began or ended."""
        for source, row in enumerate(self.links):
            for target, link in enumerate(row):
                self.constant[source][target] = link.steady_ns if link.faultless() else THE_LONG_WAY
            self.constant[source][source] = 0

    def send(self, source: SiteId, targets: Targets, message: Message, size_bytes: int) -> None:
        """Put a copy to each target under way."""
        scheduler = self.scheduler
        heap, now, counter, latest = scheduler.heap, scheduler.now_ns, scheduler.counter, self.latest_ns
        constant, receivers = self.constant[source], self.receivers
        for target in targets:
            delay = constant[target]
            if delay >= 0:
                counter += 1
                arrival = now + delay
                if arrival > latest:
                    latest = arrival
                heappush(heap, (arrival, counter, receivers[target], source, message))
            else:
                for arrival in self.arrivals(self.links[source][target], now, size_bytes):
                    counter += 1
                    if arrival > latest:
                        latest = arrival
                    heappush(heap, (arrival, counter, receivers[target], source, message))
        self.packet_count += len(targets)
        scheduler.counter, self.latest_ns = counter, latest

    def arrivals(self, link: Link, now_ns: int, size_bytes: int) -> Iterable[int]:
        """When the copies of a packet arrive: none where it is lost, two where it is repeated."""
        draw = self.random.random
        if link.cut_count or any(draw() < loss for loss in link.losses):
            self.dropped_count += 1
            return
        for _ in range(2 if link.duplicate and draw() < link.duplicate else 1):
            arrival = now_ns
            for pipe in link.pipes:
                arrival = pipe.pass_through(arrival, size_bytes)
            delay = sum(sample() for sample in link.delays)
            arrival += round(delay * link.factor) + link.add_ns
            if link.fifo:
                arrival = link.last_ns = max(arrival, link.last_ns)
            yield arrival

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
            if here.cluster != there.cluster and len(channels) == len(topology.route(here.cluster, there.cluster)) - 1:
                hops = [("wan", *hop) for hop in pairwise(topology.route(here.cluster, there.cluster))]
            else:  # on a LAN, or a pair with a channel of its own: one port a sender
                hops = [("port", a, b if here.cluster != there.cluster else -1)]
            used = [
                pipes.setdefault(hop, Pipe(channel.bandwidth_mbps))
                for hop, channel in zip(hops, channels, strict=False)
                if channel.bandwidth_mbps is not None
            ]
            row.append(Link(channels, used, random))
        rows.append(row)
    return rows
