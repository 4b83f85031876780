"""A wide-area network on the loopback: when a datagram that leaves now should arrive.

The topology has the channels between two sites; the sender computes the delay or loss of each packet. A limited
bandwidth queues the packets of one sender to one target behind each other, but not those of different senders. Faults
add loss and delay to single links; without a topology they are all that there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import NamedTuple

from isthmus.core.message import BULK_WINDOW_BYTES, SiteId
from isthmus.topology.model import Channel, Passage, Topology


class LinkFault(NamedTuple):
    """What the faults of a scenario add to one link, one direction."""

    loss: float = 0.0  # probability; 1: the link is cut
    factor: float = 1.0  # of the delay,
    add_ns: int = 0  # and then added to it


class EmulatedPath(Passage):
    """The path to one site, with its present fault."""

    __slots__ = ("fault",)

    def __init__(self, channels: Sequence[Channel], random: Random) -> None:
        super().__init__(channels, random)
        self.fault = LinkFault()

    def lost(self) -> bool:
        return self.random.random() < self.fault.loss or super().lost()

    def delay_ns(self) -> int:
        return round(super().delay_ns() * self.fault.factor) + self.fault.add_ns


class Emulation:
    """The paths from one site to all others."""

    __slots__ = ("paths",)

    def __init__(self, paths: dict[SiteId, EmulatedPath]) -> None:
        self.paths = paths

    @classmethod
    def over(cls, topology: Topology, site: SiteId, random: Random) -> Emulation:
        """The network of a topology."""
        targets = [SiteId(number) for number in range(len(topology.sites)) if number != site]
        return cls({target: EmulatedPath(topology.channels(site, target), random) for target in targets})

    @classmethod
    def bare(cls, targets: Iterable[SiteId], random: Random) -> Emulation:
        """A network with nothing but its faults."""
        return cls({target: EmulatedPath((), random) for target in targets})

    def disturb(self, faults: Mapping[SiteId, LinkFault]) -> None:
        """Have links fail as told, and no others."""
        for target, path in self.paths.items():
            path.fault = faults.get(target, LinkFault())

    def bulk_wait_ns(self, target: SiteId, now_ns: int) -> int:
        """How long a bulk datagram has to wait until less than a window is before it on the path."""
        pipes = self.paths[target].pipes
        return max([0, *(pipe.free_ns - now_ns - round(BULK_WINDOW_BYTES * pipe.ns_per_byte) for pipe in pipes)])

    def arrivals(self, target: SiteId, now_ns: int, size_bytes: int) -> list[int]:
        return self.paths[target].arrivals(now_ns, size_bytes)
