"""The passage of a packet from site to site: the arrival times of its copies, if any.

A packet passes the channels of the topology in order: their delays add up; any of them may lose it or duplicate it; if
all of them keep order, it does not overtake the one before it; a limited bandwidth makes it queue. Both hosts use this,
one in virtual time, one to emulate a wide area on the loopback. Pure arithmetic: a time comes in, times go out.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from isthmus.topology.model import Channel


class Pipe:
    """A channel of limited bandwidth, one direction."""

    __slots__ = ("free_ns", "ns_per_byte")

    def __init__(self, bandwidth_mbps: float) -> None:
        self.ns_per_byte = 8_000 / bandwidth_mbps
        self.free_ns = 0  # when its last packet will have left

    def pass_through(self, now_ns: int, size_bytes: int) -> int:
        """The time when a packet that enters now has left the pipe."""
        self.free_ns = max(now_ns, self.free_ns) + round(size_bytes * self.ns_per_byte)
        return self.free_ns


class Passage:
    """The path from one site to another."""

    __slots__ = ("delays", "duplicates", "fifo", "last_ns", "losses", "pipes", "random")

    def __init__(self, channels: Sequence[Channel], random: Random, pipes: list[Pipe] | None = None) -> None:
        self.random = random
        self.delays = [channel.delay.sampler(random) for channel in channels]
        self.losses = [channel.loss for channel in channels if channel.loss]
        self.duplicates = [channel.duplicate for channel in channels if channel.duplicate]
        self.fifo = all(channel.fifo for channel in channels)
        limits = [channel.bandwidth_mbps for channel in channels if channel.bandwidth_mbps is not None]
        self.pipes = [Pipe(limit) for limit in limits] if pipes is None else pipes  # given: shared with other paths
        self.last_ns = 0  # arrival of the last packet

    def lost(self) -> bool:
        draw = self.random.random
        return any(draw() < loss for loss in self.losses)

    def delay_ns(self) -> int:
        """The delay of the next packet, without queueing."""
        return sum([sample() for sample in self.delays])

    def arrivals(self, now_ns: int, size_bytes: int) -> list[int]:
        """The arrival times of a packet's copies: none if it is lost, two if it is duplicated."""
        if self.lost():
            return []
        draw = self.random.random
        copies = 2 if any(draw() < duplicate for duplicate in self.duplicates) else 1
        return [self.arrival(now_ns, size_bytes) for _ in range(copies)]

    def arrival(self, now_ns: int, size_bytes: int) -> int:
        at_ns = now_ns
        for pipe in self.pipes:
            at_ns = pipe.pass_through(at_ns, size_bytes)
        at_ns += self.delay_ns()
        if self.fifo:
            at_ns = self.last_ns = max(at_ns, self.last_ns)
        return at_ns
