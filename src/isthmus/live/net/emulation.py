"""A wide-area network on the loopback: when a datagram that leaves now should arrive.

The topology says what a packet passes on its way from site to site; the sender works out its fate. A limited bandwidth
queues one sender's packets to one target behind each other; senders do not see each other's.
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
