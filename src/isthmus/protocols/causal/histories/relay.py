"""Causal multicast over LANs, with gateways that relay and separators that cut what stays in a zone (R9).

A message goes to the sender's LAN, from gateway to gateway along fixed routes, and from a gateway to the hosts of the
last LAN (topology/gateways/hops.py). A gateway is a process like any other: it takes a message when nothing before it
is missing, and sends it on under the same name with what *it* has to tell those downstream. So it may leave out what
the separators answer for, and puts back in what others left out because it would.

A gateway is a courier: on each hop the message is a `Carried` that names its author. A receiver takes it only from the
site that is before it on the route.

End to end. Hops are reliable, gateways are not. The origin and everyone who has a message keep it until the origin
knows that all destinations have delivered it; they acknowledge now and then how far they have come (`DeliveredUpTo`),
and each message says up to which the earlier ones are stable. Acknowledgements go straight to the origin and may be
lost: a later one says all that an earlier one said, so none has to wait for another, as it would in a stream. An origin
asks those whose acknowledgements are overdue (`AckRequest`). When a view closes, what any survivor keeps reaches all
destinations: this layer, not the transport below, answers for the flush. A gateway that fails is replaced by its twin
in the next view, which begins without a past; what had not come through it is delivered before that view.

Invariants:
- kept[o] has the messages of o that came here and are above stable[o]; own ones above the first unacknowledged;
- what is relayed is never kept by name of the courier: origin and counter are the same on every hop.

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
from isthmus.protocols.causal.histories.coding import Coder, coder_of
from isthmus.protocols.causal.histories.dues import UnackedMessages
from isthmus.protocols.causal.histories.extended import ExtendedOrder
from isthmus.protocols.causal.histories.history import ExtendedHistory, Timestamp
from isthmus.protocols.causal.options import CausalOptions
from isthmus.protocols.causal.order import CausalArrival, CausalMessage, Count
from isthmus.protocols.transport.reliable.frames import Data
from isthmus.topology.gateways.hops import GatewayHop, GatewayPlan, GatewayRoutes, routes_of
from isthmus.topology.gateways.lans import Lans, one_lan
from isthmus.topology.gateways.separators import Separators, mask_of, separators_of, sites_of
from isthmus.trace.schema import Gauge

ACK, OVERDUE = 1, 2  # timer keys
OVERDUE_PERIODS = 3  # of acknowledgements, after which an origin asks for them
OVERDUE_LEAST_MS = 100.0  # an answer takes a round trip: to ask sooner is to ask everybody again for nothing
ACKS_A_WINDOW = 4  # at least, while an origin sends as much as it may keep
EMPTY_ENTRIES = 2  # what an empty message costs besides its entries, about, in entries


class DeliveredUpTo(Message, frozen=True, gc=False, array_like=True, tag=81):
    """How far a destination has come with the addressee's messages."""

    count: Count


class AckRequest(Message, frozen=True, gc=False, array_like=True, tag=79):
    """Asks how far the addressee has come with the sender's messages."""


class RelayedOrder(ExtendedOrder):
    """Delivers multicasts over LANs in causal order, and relays them where it is a gateway."""

    __slots__ = (
        *("ack_armed", "dues", "kept", "lans", "outbox", "overdue_armed", "owed", "relinked", "routes", "separators"),
        *("stable_of", "starved"),
    )
    timer_names = ("gauge", "ack", "overdue")

    def __init__(self, options: CausalOptions) -> None:
        super().__init__(options)
        self.lans = options.lans
        self.relinked: tuple[int, Lans] | None = None  # from which view on others hold

    def reset(self) -> None:
        super().reset()
        self.dues = UnackedMessages()  # our own messages that are not stable
        self.kept: dict[SiteId, dict[int, CausalMessage[Any]]] = {site: {} for site in self.view.members}
        self.stable_of = dict.fromkeys(self.view.members, 0)  # of others, up to which they say they are stable
        self.owed: dict[SiteId, int] = {}  # whom an acknowledgement is due to, and of how many messages
        self.outbox: deque[tuple[Message, Targets]] = deque()  # for which the transport has no room yet
        self.ack_armed = self.overdue_armed = False
        self.starved = False  # `writable` said no because too much is unstable; `resume` is owed

    def install(self, view: View) -> None:
        super().install(view)
        self.stop_timers()

    def stop_timers(self) -> None:
        for key in (ACK, OVERDUE):
            self.host.cancel_timer(self, key)

    def relink(self, view_id: int, lans: Lans) -> None:
        """Have messages relayed over other links, from a view on: all members must be told before they install it."""
        self.relinked = (view_id, lans)

    def new_history(self) -> ExtendedHistory:
        if self.relinked is not None and self.view.view_id >= self.relinked[0]:
            self.lans = self.relinked[1]
        members = tuple(sorted(self.view.members))
        lans = self.lans or one_lan(members)
        self.routes: GatewayRoutes = routes_of(lans, members)
        self.separators: Separators = separators_of(lans, members)[1]
        return ExtendedHistory(self.host.site, self.separators, self.options.rules())

    def new_coder(self) -> Coder:
        graph = self.routes.graph
        gateways = [mask_of(found) for found in graph.gateways]
        hosts = [lan & ~mask for lan, mask in zip(graph.members, gateways, strict=True)]
        zones = [zone.inside for zone in self.separators.zones]
        known = (self.everyone, *graph.members, *gateways, *hosts, *zones)
        return coder_of(self.everyone, known, self.options.coding, self.entries_most())

    def handlers(self) -> dict[type[Message], Handler]:
        return {DeliveredUpTo: self.on_received, AckRequest: self.on_overdue}

    # Where messages go

    def plan(self, origin: SiteId, destinations: int) -> GatewayPlan:
        return self.routes.plan(origin, destinations)

    def address_of(self, origin: SiteId, destinations: int) -> int:
        return self.plan(origin, destinations).address

    def first_of(self, destinations: int) -> Targets:
        return self.plan(self.host.site, destinations).first

    def accepts_author(self, courier: SiteId, carried: Carried[Any]) -> bool:  # noqa: ARG002
        """Gateways carry what others wrote; `read` looks closer."""
        graph = self.routes.graph
        if courier == self.host.site or courier not in graph.lan_of:
            return False
        return courier in graph.gateways[graph.lan_of[courier]]

    def read(self, source: SiteId, message: CausalMessage[Any]) -> CausalArrival | None:
        destinations, plan = self.way_of(source, message)
        item = self.item(message, destinations, plan)
        if item is not None:
            self.take_in(message)
        return item

    def way_of(self, source: SiteId, message: CausalMessage[Any]) -> tuple[int, GatewayPlan]:
        """The destinations and the way of a message; refuses it from anyone who is not before us on that."""
        origin, cast = message.origin, message.cast
        if origin not in self.kept or cast.sender != source:
            raise RemoteError(f"site {source} sent a message of site {origin} by {cast.sender}")
        destinations = self.destinations_of(cast)
        plan = self.plan(origin, destinations)
        if plan.before.get(self.host.site) != source:
            raise RemoteError(f"site {source} is not before us on the way of a message of site {origin}")
        if source == origin and type(cast) is not Cast and not self.others_vouch(source, cast):
            raise RemoteError(f"site {source} carries a message that no layer here accepts from it: {cast}")
        return destinations, plan

    def take_in(self, message: CausalMessage[Any]) -> None:
        """Keep a message of another origin, and forget what its origin says is stable."""
        origin = message.origin
        if message.cast.number:
            if message.stable > self.stable_of[origin]:
                self.release(origin, message.stable)
            if origin != self.host.site:
                self.kept[origin][message.count] = message

    def others_vouch(self, courier: SiteId, carried: Carried[Any]) -> bool:
        if carried.body is not None:
            return True  # an upper layer's own, which the transport has looked at
        return any(layer.accepts_author(courier, carried) for layer in self.stack.layers if layer is not self)

    # Relaying

    def take(self, item: CausalArrival) -> None:
        plan: GatewayPlan = item.way
        hops = plan.hops.get(self.host.site)
        if not hops:
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
                self.pass_down(self.passed_on(item.message, carried, timestamp), hop.receivers)
        if item.message.cast.number and item.destinations >> self.host.site & 1:
            self.owe_received(item.message.origin)

    def measure_leaving(self, hop: GatewayHop, timestamp: Timestamp) -> None:
        """Trace what a timestamp tells outside a zone that we separate of messages that never leave it."""
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

    def passed_on(self, message: CausalMessage[Any], carried: Cast, timestamp: Timestamp) -> CausalMessage[Any]:
        stamp = self.coder.encode(timestamp)
        return CausalMessage(carried, message.origin, message.count, message.clock, stamp, message.stable)

    def force(self, reached: int) -> None:
        """Tell the rest of our separator what it would then answer for, where that costs less than it saves."""
        untold, saved = self.history.forcible(reached)
        if untold:
            cost = (len(self.history.entries_for(untold)) + EMPTY_ENTRIES) * untold.bit_count()
            if (saved - 1) * reached.bit_count() > cost:  # it is told of in place of what it saves
                self.tell(untold)

    def pass_down(self, message: Message, targets: Targets) -> None:
        """Send over one hop, when the transport has room: what others wrote takes its turn like our own."""
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

    def stamped(self, cast: Cast, count: int, timestamp: Timestamp) -> CausalMessage[Any]:
        made = super().stamped(cast, count, timestamp)
        return msgspec.structs.replace(made, stable=self.dues.stable)

    def keep(self, message: CausalMessage[Any], key: int, destinations: int) -> None:  # noqa: ARG002
        self.kept[self.host.site][message.count] = message
        self.dues.add(message.count, destinations)
        if not self.overdue_armed:
            self.ask_later()

    def tell(self, destinations: int) -> None:
        super().tell(destinations)
        self.dues.pass_over(self.history.count)

    def ask_later(self) -> None:
        """See to it that those are asked who do not acknowledge by themselves."""
        self.overdue_armed = True
        wait_ms = max(OVERDUE_LEAST_MS, OVERDUE_PERIODS * self.options.ack_period_ms) * self.dues.patience()
        self.host.set_timer(self, OVERDUE, round(wait_ms * 1e6))

    def ask_overdue(self) -> None:
        late = self.dues.overdue() & ~self.history.me
        if late:
            self.send(sites_of(late), AckRequest())
        if self.dues.lacking:
            self.ask_later()

    def on_overdue(self, source: SiteId, overdue: AckRequest) -> None:  # noqa: ARG002
        if source not in self.kept:
            raise RemoteError(f"site {source} asks for acknowledgements, outside view {self.view.view_id}")
        if not self.blocked and self.delivered.get(source, 0):
            self.owed.pop(source, None)
            self.acknowledge(source)

    def writable(self) -> bool:
        if self.blocked or self.outbox:
            return False
        if self.history.count - self.dues.stable >= self.options.keep_max:
            self.starved = True
            return False
        return super().writable()

    def settled(self) -> bool:
        return not (self.dues.lacking or self.owed or self.outbox) and super().settled()

    def note(self, item: CausalArrival) -> None:
        super().note(item)
        if item.message.origin == self.host.site:
            self.collect(self.history.me, item.message.count)

    def owe_received(self, origin: SiteId) -> None:
        """See to it that a message is acknowledged: soon, or at once where its origin may be waiting for that."""
        self.owed[origin] = self.owed.get(origin, 0) + 1
        if self.owed[origin] >= self.options.keep_max // ACKS_A_WINDOW:
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
        elif key == OVERDUE:
            self.overdue_armed = False
            if not self.blocked:
                self.ask_overdue()
        else:
            super().timer(key)

    def acknowledge(self, origin: SiteId) -> None:
        self.send((origin,), DeliveredUpTo(self.delivered[origin]))

    def on_received(self, source: SiteId, received: DeliveredUpTo) -> None:
        if source not in self.kept:
            raise RemoteError(f"an acknowledgement of site {source}, outside view {self.view.view_id}")
        if received.count > self.history.count:
            raise RemoteError(f"site {source} has message {received.count} of ours; the last is {self.history.count}")
        if not self.blocked:  # what a view that closes was told is kept stays kept
            self.collect(1 << source, received.count)
            self.let_go()

    def on_stamped(self, source: SiteId, message: CausalMessage[Any]) -> None:
        item = self.read(source, message)
        if item is not None:
            self.consider(item)
        if self.starved:  # our own copy may have been the last
            self.let_go()

    def let_go(self) -> None:
        """Let the application go on, where enough has become stable."""
        if self.starved and 2 * (self.history.count - self.dues.stable) < self.options.keep_max:
            self.starved = False
            self.above.resume()

    def collect(self, site: int, count: int) -> None:
        """Note who has our messages up to a count, and forget those that are where they should be."""
        mine = self.kept[self.host.site]
        for stable in self.dues.note(site, count):
            del mine[stable]

    def release(self, origin: SiteId, stable: int) -> None:
        """Forget what an origin says is stable."""
        self.stable_of[origin] = stable
        kept = self.kept[origin]
        for count in [count for count in kept if count <= stable]:
            del kept[count]

    # View change

    def unstable(self, origin: SiteId) -> Mapping[int, Message]:
        return {count: Data(count, message) for count, message in self.kept.get(origin, {}).items()}

    def freeze(self) -> None:
        super().freeze()
        self.stop_timers()
        self.ack_armed = self.overdue_armed = False

    def frames(self, origin: SiteId) -> Mapping[int, Any]:
        return self.unstable(origin)

    def holding(self, origin: SiteId) -> tuple[int, list[int], list[int]]:
        """What is kept, all of it as if it were handed up: none of it is lost, as clocks order it over any gap."""
        stable = self.dues.stable if origin == self.host.site else self.stable_of[origin]
        return stable, sorted(self.kept[origin]), []

    def drop_held(self) -> None:
        for origin, kept in self.kept.items():
            for count in [count for count in kept if count > self.delivered.get(origin, 0)]:
                del kept[count]

    def absorb(self, origin: SiteId, frame: Message, over_gap: bool = False) -> bool:  # noqa: ARG002
        message = frame.body if isinstance(frame, Data) else None
        if not isinstance(message, CausalMessage) or (message.origin, message.count) != (origin, frame.seq):  # type: ignore[attr-defined]
            raise RemoteError(f"a frame of site {origin} that is no message of it: {frame}")
        addressed = self.destinations_of(message.cast) >> self.host.site & 1
        if addressed and message.count > self.delivered.get(origin, 0):
            self.kept[origin].setdefault(message.count, message)
        return True

    def left_over(self) -> list[CausalArrival]:
        """What is kept, is for us and was not delivered."""
        found = []
        for origin, kept in self.kept.items():
            for count, message in kept.items():
                destinations = self.destinations_of(message.cast)
                if destinations >> self.host.site & 1 and count > self.delivered.get(origin, 0):
                    found.append(CausalArrival(message, 0, destinations, ()))
        return found

    def lagging(self) -> Targets:
        return sites_of(self.dues.everyone())
