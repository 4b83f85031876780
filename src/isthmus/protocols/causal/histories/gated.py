"""Causal multicast over gateways on any graph: what stays in a LAN is delivered there before anything after it leaves.

Problem: relays that put left-out entries back in make messages wait for others that are not in their past. On trees and
rings that ends well. With more ways round, two messages can be told of each other by two relays, and wait for ever.

Idea (stability-gated stripping): a gateway holds a message back at the border of its sender's LAN until every message
of its timestamp that is addressed within that LAN alone is delivered at all its addressees. It asks them; they answer
when they have it. These entries then need not be told to anybody: no one can deliver anything before them any more. So
there is nothing to put back in, relays add nothing, wait for nothing and are no part of the address; between sites the
rules R1 to R8 hold as if there were no relays.

It blocks nothing: a message is held for messages of its past, which wait for messages of theirs. It costs a round trip
of the LAN per message that leaves it with news of the LAN.

Invariants: what leaves a LAN names no message that is addressed within it alone; a held message is kept here and at its
origin like any other, so that a view that closes delivers it.

Bounds: a message is held at most once per way out; flow control bounds how many are under way.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from isthmus.core.layer import Handler
from isthmus.core.message import Message, SiteId, Targets
from isthmus.protocols.causal.histories.history import SENDER, SENDER_BITS, ExtendedHistory, Timestamp
from isthmus.protocols.causal.histories.relay import RelayedOrder
from isthmus.protocols.causal.options import CausalOptions
from isthmus.protocols.causal.order import CausalArrival, CausalMessage, Count
from isthmus.topology.gateways.hops import PLANS_MAX, GatewayHop, GatewayPlan
from isthmus.topology.gateways.separators import mask_of, sites_of

Counts = tuple[tuple[Count, Count], ...]  # senders, and a counter of each


class DeliveryQuery(Message, frozen=True, gc=False, array_like=True, tag=86):
    """Asks to be told when messages are delivered."""

    number: Count  # of what is held back
    counts: Counts


class DeliveryConfirmation(Message, frozen=True, gc=False, array_like=True, tag=87):
    """Answers that they are."""

    number: Count


class GatedMessage(NamedTuple):
    """A message at the border."""

    message: CausalMessage[Any]  # as it will leave
    targets: Targets
    lacking: dict[SiteId, Counts]  # who has yet to answer, what


class GatedOrder(RelayedOrder):
    """Delivers multicasts over LANs in causal order; as a gateway it holds back what would have to tell of its LAN."""

    __slots__ = ("gate", "gate_count", "known", "lean_plans", "open_asks")

    def __init__(self, options: CausalOptions) -> None:
        super().__init__(options)
        self.gate_count = 0  # messages held so far

    def reset(self) -> None:
        super().reset()
        self.gate: dict[int, GatedMessage] = {}
        self.known: dict[tuple[SiteId, int], int] = {}  # of a member and a sender, the last known to be delivered
        self.open_asks: list[tuple[SiteId, DeliveryQuery]] = []  # what others ask, and is not delivered here yet
        self.lean_plans: dict[tuple[SiteId, int], GatewayPlan] = {}

    def new_history(self) -> ExtendedHistory:
        super().new_history()  # routes and zones
        return ExtendedHistory(self.host.site, None, self.options.rules())

    def bodies(self) -> dict[type[Message], Handler]:
        return super().bodies() | {DeliveryQuery: self.on_ask, DeliveryConfirmation: self.on_have}

    def settled(self) -> bool:
        return not self.gate and super().settled()

    # Where messages go

    def plan(self, origin: SiteId, destinations: int) -> GatewayPlan:
        found = self.lean_plans.get((origin, destinations))
        if found is None:
            if len(self.lean_plans) >= PLANS_MAX:
                self.lean_plans.clear()
            found = self.lean_plans[origin, destinations] = lean(super().plan(origin, destinations), destinations)
        return found

    def address_of(self, origin: SiteId, destinations: int) -> int:  # noqa: ARG002
        return destinations

    def here(self) -> int:
        """The members of our LAN."""
        graph = self.routes.graph
        return graph.members[graph.lan_of[self.host.site]]

    # Sending and relaying

    def send_first(self, message: CausalMessage[Any], destinations: int, timestamp: Timestamp) -> None:
        first, here = self.first_of(destinations), self.here()
        inside = tuple([site for site in first if here >> site & 1])
        outside = tuple([site for site in first if not here >> site & 1])
        if inside:
            self.pass_down(message, inside)
        if outside:
            self.leave(message, outside, timestamp)

    def read(self, source: SiteId, message: CausalMessage[Any]) -> CausalArrival | None:
        destinations, plan = self.way_of(source, message)
        self.take_in(message)
        hops = plan.hops.get(self.host.site)
        if hops:  # also of a message that a later one of its origin, which was for us, has overtaken
            self.relay(message, hops, self.coder.decode(message.stamp))
        return self.item(message, destinations) if destinations >> self.host.site & 1 else None

    def relay(self, message: CausalMessage[Any], hops: tuple[GatewayHop, ...], timestamp: Timestamp) -> None:
        carried, here = self.carried(message), self.here()
        same = CausalMessage(carried, message.origin, message.count, message.clock, message.stamp, message.stable)
        for hop in hops:
            if here >> message.origin & 1 and not here & mask_of(hop.receivers):
                self.leave(same, hop.receivers, timestamp)
            else:
                self.pass_down(same, hop.receivers)

    def take(self, item: CausalArrival) -> None:
        self.history.deliver(item.key, item.destinations, item.timestamp)
        if item.message.cast.number:
            self.owe_received(item.message.origin)

    # The gate

    def leave(self, message: CausalMessage[Any], targets: Targets, timestamp: Timestamp) -> None:
        """Send a message out of its sender's LAN, once what it would have to tell of that is delivered there."""
        here = self.here()
        wanted: dict[SiteId, dict[int, int]] = {}
        told = []
        for entry in timestamp:
            if entry.address & ~here:
                told.append(entry)
                continue
            sender, count = entry.key & SENDER, entry.key >> SENDER_BITS
            for site in sites_of(entry.address):
                if self.known.get((site, sender), 0) < count:
                    counts = wanted.setdefault(site, {})
                    counts[sender] = max(count, counts.get(sender, 0))
        stamp = self.coder.encode(tuple(told))
        stripped = CausalMessage(message.cast, message.origin, message.count, message.clock, stamp, message.stable)
        if not wanted:
            self.pass_down(stripped, targets)
            return
        self.gate_count += 1
        lacking = {site: tuple(counts.items()) for site, counts in wanted.items()}
        self.gate[self.gate_count] = GatedMessage(stripped, targets, lacking)
        for site, asked in lacking.items():
            self.pass_down(DeliveryQuery(self.gate_count, asked), (site,))

    def on_ask(self, source: SiteId, ask: DeliveryQuery) -> None:
        self.open_asks.append((source, ask))
        self.answer()

    def answer(self) -> None:
        """Answer those who asked for what is delivered by now."""
        left = []
        for source, ask in self.open_asks:
            if all(self.delivered.get(sender, 0) >= count for sender, count in ask.counts):
                self.pass_down(DeliveryConfirmation(ask.number), (source,))
            else:
                left.append((source, ask))
        self.open_asks = left

    def on_stamped(self, source: SiteId, message: CausalMessage[Any]) -> None:
        super().on_stamped(source, message)
        if self.open_asks:
            self.answer()

    def on_have(self, source: SiteId, have: DeliveryConfirmation) -> None:
        held = self.gate.get(have.number)
        if held is None or source not in held.lacking:
            return
        for sender, count in held.lacking.pop(source):
            self.known[source, sender] = max(count, self.known.get((source, sender), 0))
        if not held.lacking:
            del self.gate[have.number]
            self.pass_down(held.message, held.targets)


def lean(plan: GatewayPlan, destinations: int) -> GatewayPlan:
    """A way without the gateways that neither relay nor are destinations."""
    useful = destinations | mask_of(plan.hops)

    def trimmed(sites: Targets) -> Targets:
        return tuple([site for site in sites if useful >> site & 1])

    hops = {
        site: tuple([GatewayHop(trimmed(hop.receivers), hop.reached) for hop in made if trimmed(hop.receivers)])
        for site, made in plan.hops.items()
    }
    before = {site: source for site, source in plan.before.items() if useful >> site & 1}
    return GatewayPlan(destinations, trimmed(plan.first), hops, {}, before)
