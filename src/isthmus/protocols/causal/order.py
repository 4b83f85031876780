"""What all causal orders share: a stamp on each message, a place for those that came too early, the end of a view.

Problem: the network brings messages in any order; one must not be delivered before what it depends on. Idea: a message
carries a stamp by which a receiver knows the next message that is still missing here; it waits for that one, and is
looked at again when that one was delivered.

A causal layer is the transport of what is above it, end to end and in order. What a view change asks of a transport it
hands on to the one below; only where messages are relayed does it answer itself (relay.py).

When a view closes, every survivor holds the same messages, but what they depend on may have died with its sender. Each
message therefore also carries a logical clock, above those of all messages before it. Survivors deliver what is left
in the order of clocks, ties by sender. That is a causal order, whatever is missing in between: the chain from i over a
lost m to m2 is nowhere told, yet the clock of i is below that of m2.

Bounds: at most window times members messages are under way to a site (flow control); where more than `hold_max` wait
here, `writable` is false until they are fewer. What they wait for was sent before and needs no leave to come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Annotated, Any, Generic, NamedTuple

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler, View
from isthmus.core.message import ALL, B, Carried, Cast, Message, SiteId, Targets
from isthmus.protocols.causal.histories.history import SENDER, SENDER_BITS
from isthmus.protocols.transport.base import Transport
from isthmus.topology.gateways.separators import mask_of
from isthmus.trace.schema import Gauge

Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
HOLD_MAX = 65_536  # messages that wait, unless the options say otherwise
MASKS_MAX = 4096  # destinations that are remembered


class CausalMessage(Message, Generic[B], frozen=True, gc=False, array_like=True, tag=80):
    """A message with what a receiver must know to deliver it in causal order."""

    cast: B  # of the application; of another courier where it is relayed; numbered 0: empty, it only tells
    origin: SiteId  # who submitted it
    count: Count  # the origin's counter in this view, from 1
    clock: Count  # above those of all messages before it
    stamp: bytes
    stable: Count = 0  # the origin's messages up to this one are wherever they should be

    def payload_bytes(self) -> int:
        return len(self.cast.payload)  # type: ignore[attr-defined]

    def subjects(self) -> tuple[Cast, ...]:
        if not isinstance(self.cast, Cast):
            raise RemoteError(f"a stamp on {type(self.cast).__name__}, which is no message to order")
        return (self.cast,) if self.cast.number else ()


class CausalArrival(NamedTuple):
    """A message that has come, with its stamp as its layer reads it."""

    message: CausalMessage[Any]
    key: int  # counter and sender
    destinations: int
    timestamp: Any
    way: Any = None  # of a relayed message: where it goes


class CausalOrder(Transport):
    """Delivers a message when nothing before it is missing."""

    __slots__ = (
        "clock",
        "delivered",
        "everyone",
        "hold_max",
        "masks",
        "measures",
        "refusing",
        "waiting",
        "waiting_count",
    )

    def __init__(self, hold_max: int = HOLD_MAX, measures: bool = False) -> None:
        super().__init__()
        self.hold_max = hold_max
        self.measures = measures  # whether the size of each timestamp is traced
        self.refusing = False  # `writable` said no because of what waits here; `resume` is owed
        self.reset()

    def reset(self) -> None:
        """Begin a view without a past."""
        self.everyone = mask_of(self.view.members)
        self.masks: dict[Targets, int] = {ALL: self.everyone}  # of destinations
        self.clock = 0
        self.delivered: dict[int, int] = {}  # of each sender, the last message
        self.waiting: dict[
            int, list[tuple[int, CausalArrival]]
        ] = {}  # by the sender waited for: its counter, what waits
        self.waiting_count = 0

    def bodies(self) -> dict[type[Message], Handler]:
        return {CausalMessage: self.on_stamped}

    # Sending

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        assert isinstance(message, Cast)
        if not self.blocked:
            self.stamp(message, mask_of(targets) & self.everyone if targets else self.everyone)

    def stamp(self, cast: Cast, destinations: int) -> None:
        """Send a message with its stamp."""
        raise NotImplementedError

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
        return not self.waiting_count and self.below.settled()

    # Receiving

    def on_stamped(self, source: SiteId, message: CausalMessage[Any]) -> None:
        item = self.read(source, message)
        if item is not None:
            self.consider(item)

    def read(self, source: SiteId, message: CausalMessage[Any]) -> CausalArrival | None:
        """A message with its stamp decoded; None for one that is to be passed over."""
        raise NotImplementedError

    def missing(self, item: CausalArrival) -> int:
        """The key of a message that must be delivered here before; 0 where none is missing."""
        raise NotImplementedError

    def note(self, item: CausalArrival) -> None:
        """Take an item that is ready into what we know."""
        raise NotImplementedError

    def check_source(self, source: SiteId, message: CausalMessage[Any]) -> int:
        """The destinations of a message that comes straight from its origin."""
        if message.origin != source or message.cast.sender != source:
            raise RemoteError(f"site {source} sent a message of site {message.origin}, which it does not relay for")
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
        """Deliver an item and what waits for it, or let it wait."""
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
        """What waited for the last message of a sender, or an earlier one."""
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
        """Deliver a message to the layer above, where it is for this site."""
        message = item.message
        if message.clock > self.clock:
            self.clock = message.clock
        cast = message.cast
        if item.destinations >> self.host.site & 1 and cast.number:
            self.above.deliver(cast if cast.sender == message.origin else self.unwrapped(message))

    def unwrapped(self, message: CausalMessage[Any]) -> Cast:
        """A relayed message as its origin submitted it."""
        carried: Carried[Any] = message.cast
        origin, number = message.origin, carried.number
        author = carried.author
        if author == (self.host.group, origin, number):
            if carried.body is None:
                return Cast(origin, number, carried.payload, carried.destinations)
            author = None
        return Carried(origin, number, carried.payload, carried.destinations, author, carried.body)

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
        for item in sorted(self.left_over(), key=lambda item: (item.message.clock, item.message.origin)):
            self.hand_over(item)
        super().install(view)
        self.reset()

    def left_over(self) -> list[CausalArrival]:
        """What the flush has left undelivered."""
        return [item for waiting in self.waiting.values() for _, item in waiting]
