"""The border gate: a message leaves its sender's LAN once what stays in the LAN is delivered there.

Problem: relays that put omitted entries back into timestamps make messages wait for others that are not in their past.
On trees and rings that wait ends. With more than one path around, two relays can each put one of two messages into the
timestamp of the other, and both wait for ever.

Idea (stability-gated stripping): a gateway holds a message at the border of its sender's LAN until every message in
its timestamp that is addressed within that LAN alone is delivered at all its addressees. The gateway asks them, and
they reply once they have delivered it. These entries then need not be reported to any site: none can deliver anything
before them any more. So there is nothing to put back, and relays add nothing, wait for nothing and are no part of the
address; between sites the rules R1 to R8 hold as if there were no relays.

It cannot deadlock: a message is held for messages of its past, which wait for messages of theirs. It costs a round trip
of the LAN per message that leaves it with news of the LAN.

Invariants: what leaves a LAN names no message that is addressed within it alone; a held message is kept here and at its
origin like any other, so that a view that closes delivers it.

Bounds: a message is held at most once per way out; flow control bounds how many are under way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from isthmus.core.message import Message, SiteId, Targets
from isthmus.protocols.causal.histories.history import SENDER, SENDER_BITS, Entry, Timestamp
from isthmus.protocols.causal.order import CausalMessage, Count
from isthmus.topology.gateways.separators import sites_of

Counts = tuple[tuple[Count, Count], ...]  # senders, and a counter of each


class DeliveryQuery(Message, frozen=True, gc=False, array_like=True, tag=86):
    """Asks for a confirmation once messages are delivered."""

    number: Count  # of the held message
    counts: Counts


class DeliveryConfirmation(Message, frozen=True, gc=False, array_like=True, tag=87):
    """Confirms that the messages of a query are delivered."""

    number: Count


class GatedMessage(NamedTuple):
    """A message held at the border."""

    message: CausalMessage[Any]  # as it will leave
    targets: Targets
    lacking: dict[SiteId, Counts]  # what each site has yet to confirm


class BorderGate:
    """The messages held at a border, and the open queries of other gateways."""

    __slots__ = ("held", "held_count", "known", "queries", "send")

    def __init__(self, send: Callable[[Message, Targets], None]) -> None:
        self.send = send
        self.held_count = 0  # messages held so far, in all views
        self.reset()

    def reset(self) -> None:
        """Begin a view without a past."""
        self.held: dict[int, GatedMessage] = {}
        self.known: dict[tuple[SiteId, int], int] = {}  # of a member and a sender, the last known to be delivered
        self.queries: list[tuple[SiteId, DeliveryQuery]] = []  # those whose messages are not all delivered here yet

    def sift(self, timestamp: Timestamp, here: int) -> tuple[list[Entry], dict[SiteId, dict[int, int]]]:
        """The entries to report outside our LAN, and the deliveries inside that are not confirmed yet, by site."""
        reported: list[Entry] = []
        unconfirmed: dict[SiteId, dict[int, int]] = {}
        for entry in timestamp:
            if entry.address & ~here:
                reported.append(entry)
                continue
            sender, count = entry.key & SENDER, entry.key >> SENDER_BITS
            for site in sites_of(entry.address):
                if self.known.get((site, sender), 0) < count:
                    counts = unconfirmed.setdefault(site, {})
                    counts[sender] = max(count, counts.get(sender, 0))
        return reported, unconfirmed

    def leave(self, message: CausalMessage[Any], targets: Targets, unconfirmed: dict[SiteId, dict[int, int]]) -> None:
        """Send a message out of the LAN, once all deliveries inside are confirmed."""
        if not unconfirmed:
            self.send(message, targets)
            return
        self.held_count += 1
        lacking = {site: tuple(counts.items()) for site, counts in unconfirmed.items()}
        self.held[self.held_count] = GatedMessage(message, targets, lacking)
        for site, counts in lacking.items():
            self.send(DeliveryQuery(self.held_count, counts), (site,))

    def reply(self, delivered: Mapping[int, int]) -> None:
        """Confirm the queries whose messages are all delivered by now."""
        left = []
        for source, query in self.queries:
            if all(delivered.get(sender, 0) >= count for sender, count in query.counts):
                self.send(DeliveryConfirmation(query.number), (source,))
            else:
                left.append((source, query))
        self.queries = left

    def on_confirmation(self, source: SiteId, confirmation: DeliveryConfirmation) -> None:
        held = self.held.get(confirmation.number)
        if held is None or source not in held.lacking:
            return
        for sender, count in held.lacking.pop(source):
            self.known[source, sender] = max(count, self.known.get((source, sender), 0))
        if not held.lacking:
            del self.held[confirmation.number]
            self.send(held.message, held.targets)
