"""A wide-area network on the loopback: when a datagram that leaves now should arrive.

The topology has the channels between two sites; the sender computes the delay or loss of each packet. A limited
bandwidth queues the packets of one sender to one target behind each other, but not those of different senders.
"""

from __future__ import annotations

from random import Random

from isthmus.core.message import SiteId
from isthmus.topology.model import Topology
from isthmus.topology.passage import Passage


class Emulation:
    """The ways from one site to all others."""

    __slots__ = ("ways",)

    def __init__(self, topology: Topology, site: SiteId, random: Random) -> None:
        targets = [SiteId(number) for number in range(len(topology.sites)) if number != site]
        self.ways = {target: Passage(topology.channels(site, target), random) for target in targets}

    def arrivals(self, target: SiteId, now_ns: int, size_bytes: int) -> list[int]:
        return self.ways[target].arrivals(now_ns, size_bytes)
