"""Causal broadcast by vectors: one counter per member.

Every message goes to every member, even one that only some are to deliver: the others count it. Its timestamp says how
many messages of each member its origin had delivered, and how many of its own it had sent. A message is delivered once
it is the next of its origin and everything that its origin had delivered is delivered here.

Invariants: delivered[k] is the number of messages of k taken here, without a gap; a timestamp is the sender's delivered
vector with its own count in its own position.
"""

from __future__ import annotations

from typing import Any

from isthmus.core.errors import RemoteError
from isthmus.core.layer import View
from isthmus.core.message import ALL, Cast, SiteId
from isthmus.protocols.causal.histories.coding import put_varints, read_varints
from isthmus.protocols.causal.histories.history import SENDER, SENDER_BITS, key_of
from isthmus.protocols.causal.order import CausalArrival, CausalMessage, CausalOrder


class VectorOrder(CausalOrder):
    """Delivers broadcasts in causal order."""

    __slots__ = ("count", "place")

    def install(self, view: View) -> None:
        super().install(view)
        self.count = 0  # of our own messages
        self.delivered = dict.fromkeys(view.members, 0)
        self.place = {site: place for place, site in enumerate(view.members)}

    def stamp(self, cast: Cast, destinations: int) -> None:  # noqa: ARG002  they are in the message
        self.count += 1
        vector = list(self.delivered.values())
        vector[self.place[self.host.site]] = self.count
        message = CausalMessage(cast, self.host.site, self.count, self.tick(), put_varints(vector))
        self.measure(message, len(vector))
        self.below.submit(message, ALL)

    def read(self, source: SiteId, message: CausalMessage[Any]) -> CausalArrival:
        destinations = self.check_source(source, message)
        vector = read_varints(message.stamp, len(self.view.members))
        if vector[self.place[source]] != message.count or not message.count:
            raise RemoteError(f"message {message.count} of site {source} has a vector that does not match")
        return CausalArrival(message, key_of(source, message.count), destinations, vector)

    def missing(self, item: CausalArrival) -> int:
        origin = item.message.origin
        for (site, delivered), told in zip(self.delivered.items(), item.timestamp, strict=True):
            wanted = told - 1 if site == origin else told
            if delivered < wanted:
                return key_of(SiteId(site), wanted)
        return 0

    def note(self, item: CausalArrival) -> None:
        self.delivered[item.key & SENDER] = item.key >> SENDER_BITS
