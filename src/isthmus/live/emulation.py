"""A wide-area network on the loopback: when a datagram that leaves now should arrive.

The topology says what a packet passes on its way from site to site; the sender works out its fate. Its delays add up;
any channel may lose it, or repeat it; where every channel keeps order, it does not overtake the one before it. A
limited bandwidth queues one sender's packets to one target behind each other; senders do not see each other's.

Pure arithmetic: the time comes in, times go out.
"""

from __future__ import annotations

from random import Random

from isthmus.core.message import SiteId
from isthmus.topology.model import Channel, Topology


class Path:
    """The way from this site to another."""

    __slots__ = ("delays", "duplicates", "fifo", "free_ns", "last_ns", "losses", "ns_per_byte", "random")

    def __init__(self, channels: tuple[Channel, ...], random: Random) -> None:
        self.random = random
        self.delays = [channel.delay.sampler(random) for channel in channels]
        self.losses = [channel.loss for channel in channels if channel.loss]
        self.duplicates = [channel.duplicate for channel in channels if channel.duplicate]
        self.fifo = all(channel.fifo for channel in channels)
        self.ns_per_byte = [
            8_000 / channel.bandwidth_mbps for channel in channels if channel.bandwidth_mbps is not None
        ]
        self.free_ns = [0] * len(self.ns_per_byte)  # when each pipe will have let its last packet go
        self.last_ns = 0  # when the last packet arrives

    def arrivals(self, now_ns: int, size_bytes: int) -> list[int]:
        """When the copies of a packet arrive: none where it is lost, two where it is repeated."""
        draw = self.random.random
        if any(draw() < loss for loss in self.losses):
            return []
        copies = 2 if any(draw() < duplicate for duplicate in self.duplicates) else 1
        return [self.arrival(now_ns, size_bytes) for _ in range(copies)]

    def arrival(self, now_ns: int, size_bytes: int) -> int:
        at_ns = now_ns
        for index, ns_per_byte in enumerate(self.ns_per_byte):
            at_ns = self.free_ns[index] = max(at_ns, self.free_ns[index]) + round(size_bytes * ns_per_byte)
        at_ns += sum(sample() for sample in self.delays)
        if self.fifo:
            at_ns = self.last_ns = max(at_ns, self.last_ns)
        return at_ns


class Emulation:
    """The ways from one site to all others."""

    __slots__ = ("paths",)

    def __init__(self, topology: Topology, site: SiteId, random: Random) -> None:
        targets = [SiteId(number) for number in range(len(topology.sites)) if number != site]
        self.paths = {target: Path(topology.channels(site, target), random) for target in targets}

    def arrivals(self, target: SiteId, now_ns: int, size_bytes: int) -> list[int]:
        return self.paths[target].arrivals(now_ns, size_bytes)
