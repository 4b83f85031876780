"""Causal multicast by matrices (Raynal, Schiper, Toueg), the baseline: one counter per pair of members.

A process knows how many messages each member has sent to each other member, and puts the whole matrix on every message.
A message waits at q until q has delivered as many messages of each member as the matrix counts as sent to q before it.

Invariants: delivered[k] is the number of messages of k to us delivered here; sent only grows, entry by entry.
"""

from __future__ import annotations

from typing import Any

from isthmus.core.layer import View
from isthmus.core.message import Cast, SiteId
from isthmus.protocols.causal.histories.coding import put_varints, read_varints
from isthmus.protocols.causal.histories.history import key_of
from isthmus.protocols.causal.order import CausalArrival, CausalMessage, CausalOrder
from isthmus.topology.gateways.separators import sites_of


class MatrixOrder(CausalOrder):
    """Delivers multicasts in causal order by the number of messages of each member to each other."""

    __slots__ = ("count", "place", "sent")

    def install(self, view: View) -> None:
        super().install(view)
        self.count = 0  # of our own messages
        self.delivered = dict.fromkeys(view.members, 0)
        self.place = {site: place for place, site in enumerate(view.members)}
        self.sent = [0] * len(view.members) ** 2  # row by sender, column by receiver

    def stamp(self, cast: Cast, destinations: int) -> None:
        self.count += 1
        targets = sites_of(destinations)
        message = CausalMessage(cast, self.host.site, self.count, self.tick(), put_varints(self.sent))
        self.measure(message, len(self.sent))
        self.note_sent(self.host.site, targets)
        if targets:
            self.below.submit(message, targets)

    def note_sent(self, sender: SiteId, targets: tuple[SiteId, ...]) -> None:
        row = self.place[sender] * len(self.place)
        for target in targets:
            self.sent[row + self.place[target]] += 1

    def read(self, source: SiteId, message: CausalMessage[Any]) -> CausalArrival:
        destinations = self.check_source(source, message)
        matrix = read_varints(message.stamp, len(self.sent))
        return CausalArrival(message, key_of(source, message.count), destinations, matrix)

    def missing(self, item: CausalArrival) -> int:
        width, mine = len(self.place), self.place[self.host.site]
        for (site, delivered), told in zip(self.delivered.items(), item.timestamp[mine::width], strict=True):
            if delivered < told:
                return key_of(SiteId(site), told)
        return 0

    def note(self, item: CausalArrival) -> None:
        origin = item.message.origin
        self.delivered[origin] += 1
        if origin == self.host.site:
            return
        row = self.place[origin] * len(self.place)
        for target in sites_of(item.destinations):
            item.timestamp[row + self.place[target]] += 1  # m itself; of its own row an origin knows all
        self.sent = list(map(max, self.sent, item.timestamp))
