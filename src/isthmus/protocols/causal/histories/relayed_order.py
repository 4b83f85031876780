"""Causal multicast over LANs, with gateways that relay and separators that cut what stays in a zone (R9).

A message goes to the sender's LAN, from gateway to gateway along fixed routes, and from a gateway to the hosts of the
last LAN (topology/gateways/hops.py). A gateway is a process like any other: it takes a message when nothing before it
is missing, and sends it on under the same key with what the gateway itself has to report downstream. So it may leave
out what the separators answer for, and puts back what others left out because it would.

A gateway is a courier: on each hop the message is a `Carried` that names its author. A receiver takes it only from the
site that precedes it on the route.

End to end. Hops are reliable, gateways are not. The origin and every site that has a message keep it until the origin
knows that all destinations have delivered it. Destinations acknowledge cumulatively, from time to time
(`DeliveredUpTo`), and each message says up to which earlier one the origin's messages are stable. Acknowledgements go
directly to the origin and may be lost: a later one covers all earlier ones, so none has to wait for another, as it
would in a stream. An origin requests overdue acknowledgements (`AckRequest`). When a view closes, whatever any survivor
keeps reaches all destinations: this layer, not the transport below, answers for the flush. A gateway that fails is
replaced by its twin in the next view, which begins without a past; what had not come through it is delivered before
that view.

Gated (border_gate.py): on graphs with more than one path around, relays put nothing back. A gateway relays a message as
it comes, holds it at the border of its sender's LAN while deliveries in the LAN are unconfirmed, and is no part of the
address.

Safe delivery. Hops say nothing about the whole way, but destinations acknowledge to the origin in any case. Once the
sites that have a message are a quorum of the view, or all its destinations, it is safe, and the origin tells the
destinations up to which of its messages all are (`SafeUpTo`). This is uniform: a quorum agrees on the next view, so one
of the sites that reported has the message and it is in the cut; or all destinations have it, so all of them that
survive do.

Invariants:
- kept[o] has the messages of o that came here and are above stable_of[o]; own ones above the first unacknowledged;
- what is relayed is never kept under the courier's name: origin and counter are the same on every hop;
- safe_up_to[o] = k: the first k messages of o are safe.

Bounds: `keep_max` own messages above the last stable one, then `writable` is false; others keep no more of ours. What
waits for the transport is bounded by flow control: at most a window of each sender for each destination is under way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler, View
from isthmus.core.message import Carried, Cast, Message, SiteId, Targets
from isthmus.protocols.causal.histories.border_gate import BorderGate, DeliveryConfirmation, DeliveryQuery
from isthmus.protocols.causal.histories.coding import Coder, coder_of
from isthmus.protocols.causal.histories.history import ExtendedHistory, Timestamp
from isthmus.protocols.causal.histories.history_order import HistoryOrder
from isthmus.protocols.causal.histories.unacked import UnackedMessages
from isthmus.protocols.causal.options import CausalOptions
from isthmus.protocols.causal.order import CausalArrival, CausalMessage, Count
from isthmus.protocols.membership.quorum import quorum
from isthmus.protocols.transport.reliable.frames import Data
from isthmus.topology.gateways.hops import GatewayHop, GatewayPlan, GatewayRoutes, routes_of
from isthmus.topology.gateways.lans import Lans, one_lan
from isthmus.topology.gateways.separators import Separators, mask_of, separators_of, sites_of
from isthmus.trace.schema import Gauge

ACK, ACK_REQUEST = 1, 2  # timer keys
ACK_REQUEST_PERIODS = 3  # acknowledgement periods after which an origin requests an acknowledgement
ACK_REQUEST_MIN_MS = 100.0  # a reply takes a round trip: sooner, every request would be repeated for nothing
ACKS_PER_WINDOW = 4  # at least, while an origin sends as much as it may keep
SAFE_ACK_MS = 5.0  # the longest acknowledgement period where delivery waits for acknowledgements
EMPTY_ENTRIES = 2  # what an empty message costs besides its entries, about, in entries


class DeliveredUpTo(Message, frozen=True, gc=False, array_like=True, tag=81):
    """Acknowledges the addressee's messages up to a counter."""

    count: Count


class AckRequest(Message, frozen=True, gc=False, array_like=True, tag=79):
    """Requests an acknowledgement of the sender's messages."""


class SafeUpTo(Message, frozen=True, gc=False, array_like=True, tag=103):
    """The sender's messages up to this one are safe."""

    count: Count


class RelayedOrder(HistoryOrder):
    """Delivers multicasts over LANs in causal order, and relays them where this site is a gateway."""

    __slots__ = (
        "ack_armed",
        "ack_request_armed",
        "gate",
        "kept",
        "lans",
        "outbox",
        "owed",
        "relinked",
        "routes",
        "safe_up_to",
        "separators",
        "stable_of",
        "starved",
        "unacked",
    )
    timer_names = ("gauge", "ack", "overdue")

    def __init__(self, options: CausalOptions, safe: bool = False) -> None:
        if safe:
            options = msgspec.structs.replace(options, ack_period_ms=min(options.ack_period_ms, SAFE_ACK_MS))
        self.gate = BorderGate(self.pass_down) if options.gated else None
        super().__init__(options, safe)
        self.lans = options.lans
        self.relinked: tuple[int, Lans] | None = None  # the view from which on other LANs hold

    def reset(self) -> None:
        super().reset()
        self.unacked = UnackedMessages()  # our own messages that are not stable
        self.kept: dict[SiteId, dict[int, CausalMessage[Any]]] = {site: {} for site in self.view.members}
        self.stable_of = dict.fromkeys(self.view.members, 0)  # of others, up to where their messages are stable
        self.safe_up_to = dict.fromkeys(self.view.members, 0)
        self.owed: dict[SiteId, int] = {}  # unacknowledged messages, by origin
        self.outbox: deque[tuple[Message, Targets]] = deque()  # for which the transport has no room yet
        self.ack_armed = self.ack_request_armed = False
        self.starved = False  # `writable` returned False because too much is unstable; `resume` is due
        if self.gate is not None:
            self.gate.reset()

    def install(self, view: View) -> None:
        super().install(view)
        self.stop_timers()

    def stop_timers(self) -> None:
        for key in (ACK, ACK_REQUEST):
            self.host.cancel_timer(self, key)

    def relink(self, view_id: int, lans: Lans) -> None:
        """Relay messages over other links from a view on; all members need the call before they install that view."""
        self.relinked = (view_id, lans)

    def new_history(self) -> ExtendedHistory:
        if self.relinked is not None and self.view.view_id >= self.relinked[0]:
            self.lans = self.relinked[1]
        members = tuple(sorted(self.view.members))
        lans = self.lans or one_lan(members)
        self.routes: GatewayRoutes = routes_of(lans, members)
        self.separators: Separators = separators_of(lans, members)[1]
        return ExtendedHistory(self.host.site, self.separators if self.gate is None else None, self.options)

    def new_coder(self) -> Coder:
        graph = self.routes.graph
        gateways = [mask_of(found) for found in graph.gateways]
        hosts = [lan & ~mask for lan, mask in zip(graph.members, gateways, strict=True)]
        zones = [zone.inside for zone in self.separators.zones]
        known = (self.everyone, *graph.members, *gateways, *hosts, *zones)
        return coder_of(self.everyone, known, self.options.coding, self.entries_most())

    def handlers(self) -> dict[type[Message], Handler]:
        return {DeliveredUpTo: self.on_delivered_up_to, AckRequest: self.on_ack_request}

    def bodies(self) -> dict[type[Message], Handler]:
        bodies = super().bodies()
        if self.gate is not None:
            bodies |= {DeliveryQuery: self.on_query, DeliveryConfirmation: self.gate.on_confirmation}
        if self.safe:
            bodies[SafeUpTo] = self.on_safe_up_to
        return bodies

    # Where messages go

    def plan(self, origin: SiteId, destinations: int) -> GatewayPlan:
        routes = self.routes
        return routes.plan(origin, destinations) if self.gate is None else routes.lean_plan(origin, destinations)

    def address_of(self, origin: SiteId, destinations: int) -> int:
        return self.plan(origin, destinations).address

    def here(self) -> int:
        """The members of our LAN."""
        graph = self.routes.graph
        return graph.members[graph.lan_of[self.host.site]]

    def accepts_author(self, courier: SiteId, carried: Carried[Any]) -> bool:  # noqa: ARG002
        """Accept gateways as couriers; `read` checks the route."""
        graph = self.routes.graph
        if courier == self.host.site or courier not in graph.lan_of:
            return False
        return courier in graph.gateways[graph.lan_of[courier]]

    def read(self, source: SiteId, message: CausalMessage[Any]) -> CausalArrival | None:
        destinations, plan = self.plan_of(source, message)
        if self.gate is None:
            item = self.arrival(message, destinations, plan)
            if item is not None:
                self.take_in(message)
            return item
        self.take_in(message)
        hops = plan.hops.get(self.host.site)
        if hops:  # also of a message that a later one of its origin, addressed to us, has overtaken
            self.relay_as_it_is(message, hops)
        return self.arrival(message, destinations, plan) if destinations >> self.host.site & 1 else None

    def plan_of(self, source: SiteId, message: CausalMessage[Any]) -> tuple[int, GatewayPlan]:
        """The destinations and hops of a message; refuses it from a site that does not precede us on them."""
        origin, cast = message.origin, message.cast
        if origin not in self.kept or cast.sender != source:
            raise RemoteError(f"site {source} sent a message of site {origin} by {cast.sender}")
        destinations = self.destinations_of(cast)
        plan = self.plan(origin, destinations)
        if plan.before.get(self.host.site) != source:
            raise RemoteError(f"site {source} does not precede us on the way of a message of site {origin}")
        if source != origin:
            if not isinstance(cast, Carried):
                raise RemoteError(f"site {source} relays a message of site {origin} without naming its author")
        elif type(cast) is not Cast and not self.others_accept(source, cast):
            raise RemoteError(f"site {source} carries a message that no layer here accepts from it: {cast}")
        return destinations, plan

    def take_in(self, message: CausalMessage[Any]) -> None:
        """Keep a message of another origin, and drop those that it says are stable."""
        origin = message.origin
        if message.cast.number:
            if message.stable > self.stable_of[origin]:
                self.release(origin, message.stable)
            if origin != self.host.site:
                self.kept[origin][message.count] = message

    def others_accept(self, courier: SiteId, carried: Carried[Any]) -> bool:
        if carried.body is not None:
            return True  # an upper layer's own, which the transport has checked
        return any(layer.accepts_author(courier, carried) for layer in self.stack.layers if layer is not self)

    # Relaying

    def take(self, item: CausalArrival) -> None:
        plan = item.plan
        assert plan is not None
        hops = plan.hops.get(self.host.site)
        if self.gate is not None or not hops:
            self.history.deliver(item.key, plan.address, item.timestamp)
        else:
            for hop in hops if self.options.forced and item.message.cast.number else ():
                self.force(hop.reached)
            reached = tuple(hop.reached for hop in hops)
            stamps = self.history.relay(item.key, plan.address, item.timestamp, plan.rest[self.host.site], reached)
            carried = self.carried(item.message)
            for hop, timestamp in zip(hops, stamps, strict=True):
                if self.measures:
                    self.measure_leaving(hop, timestamp)
                self.pass_down(restamped(item.message, carried, self.coder.encode(timestamp)), hop.receivers)
        if item.message.cast.number and item.destinations >> self.host.site & 1:
            self.owe_ack(item.message.origin)

    def relay_as_it_is(self, message: CausalMessage[Any], hops: tuple[GatewayHop, ...]) -> None:
        """Send a message on with its timestamp unchanged, out of its sender's LAN through the gate."""
        here, timestamp = self.here(), self.coder.decode(message.stamp)
        same = restamped(message, self.carried(message), message.stamp)
        for hop in hops:
            if here >> message.origin & 1 and not here & mask_of(hop.receivers):
                self.leave(same, hop.receivers, timestamp)
            else:
                self.pass_down(same, hop.receivers)

    def leave(self, message: CausalMessage[Any], targets: Targets, timestamp: Timestamp) -> None:
        """Send a message out of its sender's LAN through the gate, without the entries that stay in the LAN."""
        assert self.gate is not None
        reported, unconfirmed = self.gate.sift(timestamp, self.here())
        self.gate.leave(restamped(message, message.cast, self.coder.encode(tuple(reported))), targets, unconfirmed)

    def measure_leaving(self, hop: GatewayHop, timestamp: Timestamp) -> None:
        """Trace the entries of messages that never leave a zone that we separate, in a timestamp that does."""
        receivers = mask_of(hop.receivers)
        for zone in self.separators.zones:
            whole = zone.separator | zone.inside
            if zone.separator & self.history.me and receivers & ~whole:
                self.host.gauge(Gauge.ZONE_ENTRIES, sum(not entry.address & ~whole for entry in timestamp))

    def carried(self, message: CausalMessage[Any]) -> Cast:
        """A message of another origin, as this courier carries it."""
        cast, origin = message.cast, message.origin
        author, body = (cast.author, cast.body) if isinstance(cast, Carried) else (None, None)
        author = author or (self.host.group, origin, cast.number)
        return Carried(self.host.site, cast.number, cast.payload, cast.destinations, author, body)

    def force(self, reached: int) -> None:
        """Report to the rest of our separator the entries that it then answers for, where that pays."""
        untold, saved = self.history.forcible(reached)
        if untold:
            cost = (len(self.history.entries_for(untold)) + EMPTY_ENTRIES) * untold.bit_count()
            if (saved - 1) * reached.bit_count() > cost:  # its own entry replaces those that it saves
                self.tell(untold)

    def pass_down(self, message: Message, targets: Targets) -> None:
        """Send over one hop once the transport has room, in one queue with our own messages."""
        self.outbox.append((message, targets))
        self.pump()

    def pump(self) -> None:
        while self.outbox and self.transport.writable():
            self.below.submit(*self.outbox.popleft())

    def resume(self) -> None:
        self.blocked = False
        self.pump()
        super().resume()

    # End to end

    def send_first(self, message: CausalMessage[Any], destinations: int, timestamp: Timestamp) -> None:
        first = self.plan(self.host.site, destinations).first
        if self.gate is None:
            self.pass_down(message, first)
            return
        here = self.here()
        inside = tuple([site for site in first if here >> site & 1])
        outside = tuple([site for site in first if not here >> site & 1])
        if inside:
            self.pass_down(message, inside)
        if outside:
            self.leave(message, outside, timestamp)

    def stamped(self, cast: Cast, count: int, timestamp: Timestamp) -> CausalMessage[Any]:
        stamp = self.coder.encode(timestamp)
        return CausalMessage(cast, self.host.site, count, self.tick(), stamp, self.unacked.stable)

    def keep(self, message: CausalMessage[Any], key: int, destinations: int) -> None:  # noqa: ARG002
        self.kept[self.host.site][message.count] = message
        self.unacked.add(message.count, destinations)
        if not self.ack_request_armed:
            self.arm_ack_request()

    def tell(self, destinations: int) -> None:
        super().tell(destinations)
        self.unacked.pass_over(self.history.count)

    def arm_ack_request(self) -> None:
        """Set the timer that finds overdue acknowledgements."""
        self.ack_request_armed = True
        wait_ms = max(ACK_REQUEST_MIN_MS, ACK_REQUEST_PERIODS * self.options.ack_period_ms)
        self.host.set_timer(self, ACK_REQUEST, round(wait_ms * self.unacked.backoff() * 1e6))

    def request_acks(self) -> None:
        """Request the acknowledgements that are overdue."""
        late = self.unacked.overdue() & ~self.history.me
        if late:
            self.send(sites_of(late), AckRequest())
        if self.unacked.lacking:
            self.arm_ack_request()

    def on_ack_request(self, source: SiteId, _request: AckRequest) -> None:
        if source not in self.kept:
            raise RemoteError(f"site {source} requests an acknowledgement, outside view {self.view.view_id}")
        if not self.blocked and self.delivered.get(source, 0):
            self.owed.pop(source, None)
            self.acknowledge(source)

    def writable(self) -> bool:
        if self.blocked or self.outbox:
            return False
        if self.history.count - self.unacked.stable >= self.options.keep_max:
            self.starved = True
            return False
        return super().writable()

    def settled(self) -> bool:
        held = self.gate is not None and self.gate.held
        return not (self.unacked.lacking or self.owed or self.outbox or held) and super().settled()

    def note(self, item: CausalArrival) -> None:
        super().note(item)
        if item.message.origin == self.host.site:
            self.collect(self.history.me, item.message.count)

    def owe_ack(self, origin: SiteId) -> None:
        """Have a message acknowledged: soon, or at once where its origin may be blocked for lack of it."""
        self.owed[origin] = self.owed.get(origin, 0) + 1
        if self.owed[origin] >= self.options.keep_max // ACKS_PER_WINDOW:
            self.acknowledge(origin)
            del self.owed[origin]
        elif not self.ack_armed:
            self.ack_armed = True
            self.host.set_timer(self, ACK, round(self.options.ack_period_ms * 1e6))

    def timer(self, key: int) -> None:
        if key == ACK:
            self.ack_armed = False
            for origin in () if self.blocked else self.owed:
                self.acknowledge(origin)
            self.owed.clear()
        elif key == ACK_REQUEST:
            self.ack_request_armed = False
            if not self.blocked:
                self.request_acks()
        else:
            super().timer(key)

    def acknowledge(self, origin: SiteId) -> None:
        self.send((origin,), DeliveredUpTo(self.delivered[origin]))

    def on_delivered_up_to(self, source: SiteId, received: DeliveredUpTo) -> None:
        if source not in self.kept:
            raise RemoteError(f"an acknowledgement of site {source}, outside view {self.view.view_id}")
        if received.count > self.history.count:
            last = self.history.count
            raise RemoteError(f"site {source} acknowledges message {received.count} of ours; the last is {last}")
        if not self.blocked:  # what was reported as kept to the flush stays kept
            self.collect(1 << source, received.count)
            self.let_go()

    def on_stamped(self, source: SiteId, message: CausalMessage[Any]) -> None:
        item = self.read(source, message)
        if item is not None:
            self.consider(item)
        if self.starved:  # our own copy may have been the last
            self.let_go()
        if self.gate is not None and self.gate.queries:
            self.gate.reply(self.delivered)

    def let_go(self) -> None:
        """Resume the application once enough is stable."""
        if self.starved and 2 * (self.history.count - self.unacked.stable) < self.options.keep_max:
            self.starved = False
            self.above.resume()

    def collect(self, site: int, count: int) -> None:
        """Record an acknowledgement: drop the messages that are stable now, and announce those that are safe now."""
        mine, lacking, me = self.kept[self.host.site], self.unacked.lacking, self.host.site
        before = self.safe_up_to[me]
        unsafe = [(n, self.destinations_of(mine[n].cast)) for n in lacking if n > before] if self.safe else ()
        for stable in self.unacked.note(site, count):
            del mine[stable]
        safe, sites = before, 0
        for number, destinations in unsafe:
            if not self.has_quorum(destinations, lacking.get(number, 0)):
                break
            safe, sites = number, sites | destinations
        if safe > before:
            self.safe_up_to[me] = safe
            others = sites_of(sites & ~self.history.me)
            if others:
                self.pass_down(SafeUpTo(safe), others)
            self.deliver_safe()

    def release(self, origin: SiteId, stable: int) -> None:
        """Drop the messages that their origin says are stable."""
        self.stable_of[origin] = stable
        kept = self.kept[origin]
        for count in [count for count in kept if count <= stable]:
            del kept[count]

    # Gate and safe delivery

    def on_query(self, source: SiteId, query: DeliveryQuery) -> None:
        assert self.gate is not None
        self.gate.queries.append((source, query))
        self.gate.reply(self.delivered)

    def is_safe(self, message: CausalMessage[Any]) -> bool:
        return message.count <= self.safe_up_to[message.origin]

    def has_quorum(self, destinations: int, lacking: int) -> bool:
        """Whether all destinations have a message, or those that do are a quorum with us."""
        if not lacking:
            return True
        having = destinations & ~lacking | self.history.me
        return quorum(self.view, [life for life in self.view.lives() if having >> life[0] & 1])

    def on_safe_up_to(self, source: SiteId, safe: SafeUpTo) -> None:
        if source not in self.safe_up_to or source == self.host.site:
            raise RemoteError(f"site {source} announces safe messages, outside view {self.view.view_id}")
        self.safe_up_to[source] = max(self.safe_up_to[source], safe.count)
        self.deliver_safe()

    def unsafe_bodies(self) -> dict[type[Message], Handler]:
        return {}  # the transport sees hops; what is safe end to end is not known there

    # View change

    def unstable(self, origin: SiteId) -> Mapping[int, Message]:
        return {count: Data(count, message) for count, message in self.kept.get(origin, {}).items()}

    def freeze(self) -> None:
        super().freeze()
        self.stop_timers()
        self.ack_armed = self.ack_request_armed = False

    def frames(self, origin: SiteId) -> Mapping[int, Any]:
        return self.unstable(origin)

    def holding(self, origin: SiteId) -> tuple[int, list[int], list[int]]:
        """Report everything kept as handed up: none of it is lost, as clocks order it over any gap."""
        stable = self.unacked.stable if origin == self.host.site else self.stable_of[origin]
        return stable, sorted(self.kept[origin]), []

    def drop_held(self) -> None:
        for origin, kept in self.kept.items():
            for count in [count for count in kept if count > self.delivered.get(origin, 0)]:
                del kept[count]

    def absorb(self, origin: SiteId, frame: Message, over_gap: bool = False) -> bool:  # noqa: ARG002
        message = frame.body if isinstance(frame, Data) else None
        if not isinstance(message, CausalMessage) or (message.origin, message.count) != (origin, frame.seq):  # type: ignore[attr-defined]
            raise RemoteError(f"a frame of site {origin} that carries no message of site {origin}: {frame}")
        addressed = self.destinations_of(message.cast) >> self.host.site & 1
        if addressed and message.count > self.delivered.get(origin, 0):
            self.kept[origin].setdefault(message.count, message)
        return True

    def left_over(self) -> list[CausalArrival]:
        """The kept messages addressed to us that are not delivered."""
        found = []
        for origin, kept in self.kept.items():
            for count, message in kept.items():
                destinations = self.destinations_of(message.cast)
                if destinations >> self.host.site & 1 and count > self.delivered.get(origin, 0):
                    found.append(CausalArrival(message, 0, destinations, ()))
        return found

    def lagging(self) -> Targets:
        return sites_of(self.unacked.everyone())


def restamped(message: CausalMessage[Any], cast: Cast, stamp: bytes) -> CausalMessage[Any]:
    """The same message as carried over the next hop."""
    return CausalMessage(cast, message.origin, message.count, message.clock, stamp, message.stable)
