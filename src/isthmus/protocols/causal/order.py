"""What all causal orders share: a timestamp on each message, a hold-back queue, and the end of a view.

Problem: the network delivers messages in any order; none may be delivered before a message that it depends on. Idea: a
message carries a timestamp from which a receiver computes the next message still missing here. The message waits for
that one and is examined again once that one is delivered.

A causal layer is the transport of the layers above it, end to end and in order. It passes what a view change asks of a
transport on to the transport below; only where messages are relayed does it answer itself (relayed_order.py).

When a view closes, every survivor holds the same messages, but some of what they depend on may be lost with its sender.
Each message therefore also carries a logical clock, above the clocks of all messages before it. Survivors deliver the
rest in the order of clocks, ties by sender. This is a causal order whatever is missing in between: no survivor may know
of the chain from i over a lost m to m2, yet the clock of i is below that of m2.

Safe delivery (transport/safe.py) must not delay *taking* a message: a gateway passes on only what it has taken, and a
history leaves out what every member is known to have, an author its own message first of all. So messages are taken in
causal order as before, and a queue stands between taking and delivering (`pending`). Its head leaves once it is safe,
the rest waits behind it, so that the order stays causal. What is taken but not delivered counts as part of the past of
what is sent here, which is stricter than causal order, never weaker. Everything taken is delivered before the next
view.

Invariants: `pending` is in the order of taking; whatever is delivered was safe, or came by the flush.

Bounds: at most window times members messages are under way to a site (flow control); while more than `hold_max` wait
here, `writable` is false. The messages that they wait for were sent earlier and need no permission to arrive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import Annotated, Any, Generic, NamedTuple

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler, View
from isthmus.core.message import ALL, B, Carried, Cast, Message, SiteId, Targets
from isthmus.protocols.causal.histories.history import SENDER, SENDER_BITS
from isthmus.protocols.transport.base import Transport
from isthmus.topology.gateways.hops import GatewayPlan
from isthmus.topology.gateways.separators import mask_of
from isthmus.trace.schema import Gauge

Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
HOLD_MAX = 65_536  # messages that wait, unless the options say otherwise
MASKS_MAX = 4096  # destinations that are remembered


class CausalMessage(Message, Generic[B], frozen=True, gc=False, array_like=True, tag=80):
    """A message with what a receiver must know to deliver it in causal order."""

    cast: B  # of the application; of another courier where it is relayed; number 0: empty, for its timestamp alone
    origin: SiteId  # that submitted it
    count: Count  # the origin's counter in this view, from 1
    clock: Count  # above those of all messages before it
    stamp: bytes
    stable: Count = 0  # all destinations have the origin's messages up to this one

    def payload_bytes(self) -> int:
        return len(self.cast.payload)  # type: ignore[attr-defined]

    def subjects(self) -> tuple[Cast, ...]:
        if not isinstance(self.cast, Cast):
            raise RemoteError(f"a timestamp on {type(self.cast).__name__}, which is not ordered")
        return (self.cast,) if self.cast.number else ()


class CausalArrival(NamedTuple):
    """A message that has arrived, with its timestamp decoded."""

    message: CausalMessage[Any]
    key: int  # counter and sender
    destinations: int
    timestamp: Any
    plan: GatewayPlan | None = None  # of a relayed message: its hops


class CausalOrder(Transport, ABC):
    """Delivers a message once nothing before it is missing; a subclass knows what its timestamps say."""

    __slots__ = (
        "clock",
        "delivered",
        "everyone",
        "hold_max",
        "masks",
        "measures",
        "pending",
        "refusing",
        "safe",
        "waiting",
        "waiting_count",
    )

    def __init__(self, hold_max: int = HOLD_MAX, measures: bool = False, safe: bool = False) -> None:
        super().__init__()
        self.hold_max = hold_max
        self.measures = measures  # whether the size of each timestamp is traced
        self.safe = safe  # whether messages are delivered only once they are safe
        self.refusing = False  # `writable` returned False because of the messages waiting here; `resume` is due
        self.reset()

    def reset(self) -> None:
        """Begin a view without a past."""
        self.everyone = mask_of(self.view.members)
        self.masks: dict[Targets, int] = {ALL: self.everyone}  # of destinations
        self.clock = 0
        self.delivered: dict[int, int] = {}  # of each sender, the last message
        self.waiting: dict[int, list[tuple[int, CausalArrival]]] = {}  # by the sender waited for: counter, arrival
        self.waiting_count = 0
        self.pending: deque[CausalArrival] | None = deque() if self.safe else None  # taken, not known to be safe

    def bodies(self) -> dict[type[Message], Handler]:
        return {CausalMessage: self.on_stamped}

    # Sending

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        assert isinstance(message, Cast)
        if not self.blocked:
            self.stamp(message, mask_of(targets) & self.everyone if targets else self.everyone)

    @abstractmethod
    def stamp(self, cast: Cast, destinations: int) -> None:
        """Send a message with its timestamp."""

    def measure(self, message: CausalMessage[Any], entries: int) -> None:
        """Trace the size of a timestamp."""
        if self.measures:
            self.host.gauge(Gauge.TIMESTAMP_ENTRIES, entries, message.cast)
            self.host.gauge(Gauge.TIMESTAMP_BYTES, len(message.stamp), message.cast)

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def writable(self) -> bool:
        if self.waiting_count >= self.hold_max:
            self.refusing = True
            return False
        return not self.blocked and self.below.writable()

    def settled(self) -> bool:
        return not self.waiting_count and not self.pending and self.below.settled()

    # Receiving

    def on_stamped(self, source: SiteId, message: CausalMessage[Any]) -> None:
        item = self.read(source, message)
        if item is not None:
            self.consider(item)

    @abstractmethod
    def read(self, source: SiteId, message: CausalMessage[Any]) -> CausalArrival | None:
        """Decode a message's timestamp; None for a message to ignore."""

    @abstractmethod
    def missing(self, item: CausalArrival) -> int:
        """The key of a message that must be delivered here first; 0 if none is missing."""

    @abstractmethod
    def note(self, item: CausalArrival) -> None:
        """Record a message that is taken."""

    def is_safe(self, message: CausalMessage[Any]) -> bool:  # noqa: ARG002
        """Whether every survivor will deliver a message; asked only of an order that delivers safely."""
        return True

    def check_source(self, source: SiteId, message: CausalMessage[Any]) -> int:
        """The destinations of a message that comes directly from its origin."""
        if message.origin != source or message.cast.sender != source:
            raise RemoteError(f"site {source} sent a message of site {message.origin}, for which it does not relay")
        return self.destinations_of(message.cast)

    def destinations_of(self, cast: Cast) -> int:
        named = cast.destinations
        known = self.masks.get(named)
        if known is not None:
            return known
        if min(named) < 0 or max(named) > SENDER:
            raise RemoteError(f"a message to sites {named[:3]} ..., which do not exist")
        if len(self.masks) >= MASKS_MAX:
            self.masks = {ALL: self.everyone}
        mask = self.masks[named] = mask_of(named) & self.everyone
        return mask

    def consider(self, item: CausalArrival) -> None:
        """Take a message and those that wait for it, or let it wait."""
        if not self.waiting_count and not self.missing(item):  # as nearly always
            self.note(item)
            self.hand_over(item)
            return
        ready = deque([item])
        while ready:
            item = ready.popleft()
            wait = self.missing(item)
            if wait:
                self.waiting.setdefault(wait & SENDER, []).append((wait >> SENDER_BITS, item))
                self.waiting_count += 1
                continue
            self.note(item)
            self.hand_over(item)
            if self.waiting_count:
                ready.extend(self.awake(item.key & SENDER))
        if self.refusing and 2 * self.waiting_count < self.hold_max:
            self.refusing = False
            self.above.resume()

    def awake(self, sender: int) -> list[CausalArrival]:
        """The messages that waited for the last message of a sender, or an earlier one."""
        waiting = self.waiting.get(sender)
        if not waiting:
            return []
        reached = self.delivered.get(sender, 0)
        found = [item for count, item in waiting if count <= reached]
        if found:
            self.waiting[sender] = [entry for entry in waiting if entry[0] > reached]
            self.waiting_count -= len(found)
        return found

    def hand_over(self, item: CausalArrival) -> None:
        """Deliver a message that is taken, if this site is a destination: at once, or once it is safe."""
        message = item.message
        if message.clock > self.clock:
            self.clock = message.clock
        cast = message.cast
        if item.destinations >> self.host.site & 1 and cast.number:
            if self.pending is None:
                self.above.deliver(cast if cast.sender == message.origin else self.as_submitted(message))
            else:
                self.pending.append(item)
                self.deliver_safe()

    def deliver_safe(self) -> None:
        """Deliver the messages that are safe, in the order of taking."""
        while self.pending and self.is_safe(self.pending[0].message):
            self.above.deliver(self.as_submitted(self.pending.popleft().message))

    def as_submitted(self, message: CausalMessage[Any]) -> Cast:
        """A message as its origin submitted it, without its courier."""
        cast: Cast = message.cast
        origin, number = message.origin, cast.number
        if cast.sender == origin:
            return cast
        assert isinstance(cast, Carried)
        author = cast.author
        if author == (self.host.group, origin, number):
            if cast.body is None:
                return Cast(origin, number, cast.payload, cast.destinations)
            author = None
        return Carried(origin, number, cast.payload, cast.destinations, author, cast.body)

    # View change

    def block(self) -> None:
        super().block()
        self.transport.block()

    def unstable(self, origin: SiteId) -> Mapping[int, Message]:
        return self.transport.unstable(origin)

    def absorb(self, origin: SiteId, frame: Message, over_gap: bool = False) -> bool:
        return self.transport.absorb(origin, frame, over_gap)

    def freeze(self) -> None:
        super().block()
        self.transport.freeze()

    def frames(self, origin: SiteId) -> Mapping[int, Any]:
        return self.transport.frames(origin)

    def holding(self, origin: SiteId) -> tuple[int, list[int], list[int]]:
        return self.transport.holding(origin)

    def drop_held(self) -> None:
        self.transport.drop_held()

    def lagging(self) -> Targets:
        return self.transport.lagging()

    @property
    def transport(self) -> Transport:
        assert isinstance(self.below, Transport)
        return self.below

    def install(self, view: View) -> None:
        pending, self.pending = self.pending, None
        for item in pending or ():
            self.above.deliver(self.as_submitted(item.message))
        for item in sorted(self.left_over(), key=lambda item: (item.message.clock, item.message.origin)):
            self.hand_over(item)
        super().install(view)
        self.reset()

    def left_over(self) -> list[CausalArrival]:
        """The messages that the flush has left undelivered."""
        return [item for waiting in self.waiting.values() for _, item in waiting]
