"""Safe delivery of causal multicasts: taken and passed on as they come, delivered once they cannot be lost.

Problem: what a member delivers, all who go on must deliver, though that member crashes (transport/safe.py). A causal
order must not simply wait for it: a message that is not taken yet is not passed on by a gateway, and a history leaves
out what everybody is known to have, an author its own message first of all.

Idea: take messages in causal order as before, and put a queue between taking and delivering. Its head leaves once it is
safe; what follows it waits, so that the order stays causal. What is taken but not delivered counts as part of the past
of what is sent here, which asks for more than causal order does, never for less.

When is a message safe? Where it goes straight to its destinations, the transport knows (`SecuredOrder`): it hands
bodies up on arrival and tells again once they are safe. Where gateways relay, hops say nothing of the whole way
(`EndToEnd`): destinations acknowledge to the origin in any case; once those who have a message are a quorum of the
view, or all whom it is for, the origin tells the destinations up to which of its messages all are.

Why it is uniform. A quorum agrees on the next view, so one of those who report has the message and it is in the cut; or
all destinations have it, so all who go on and are concerned do. What has been taken is delivered before the next view.

Invariants: `pending` is in the order of taking; what is delivered was safe, or came by the flush; `secure_of[o]` = k:
the first k messages of o are safe.

Bounds: a window of each sender waits (flow control); an origin keeps its messages until all destinations have them.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler, View
from isthmus.core.message import Message, SiteId
from isthmus.protocols.causal.histories.extended import ExtendedOrder
from isthmus.protocols.causal.histories.gated import GatedOrder
from isthmus.protocols.causal.histories.relay import RelayedOrder
from isthmus.protocols.causal.options import CausalOptions
from isthmus.protocols.causal.order import CausalArrival, CausalMessage, Count
from isthmus.protocols.membership.quorum import quorum
from isthmus.topology.gateways.separators import sites_of

ACK_MS = 5.0  # an acknowledgement waits this long for others to leave with it


class SafeUpTo(Message, frozen=True, gc=False, array_like=True, tag=103):
    """The sender's messages up to this one are safe."""

    count: Count


class Queued(ExtendedOrder):
    """A queue between taking and delivering."""

    __slots__ = ()
    pending: deque[CausalArrival]
    closing: bool

    def reset(self) -> None:
        super().reset()
        self.pending = deque()  # type: ignore[misc]  # a slot of its subclasses
        self.closing = False  # type: ignore[misc]  # the view ends: all that is left is delivered

    def is_secure(self, message: CausalMessage[Any]) -> bool:
        raise NotImplementedError

    def hand_over(self, item: CausalArrival) -> None:
        message = item.message
        if self.closing or not (item.destinations >> self.host.site & 1 and message.cast.number):
            super().hand_over(item)
            return
        self.clock = max(self.clock, message.clock)
        self.pending.append(item)
        self.let_through()

    def let_through(self) -> None:
        """Deliver what is safe, in the order in which it was taken."""
        while self.pending and self.is_secure(self.pending[0].message):
            super().hand_over(self.pending.popleft())

    def settled(self) -> bool:
        return not self.pending and super().settled()

    def install(self, view: View) -> None:
        while self.pending:
            super().hand_over(self.pending.popleft())
        self.closing = True  # type: ignore[misc]
        super().install(view)


class SecuredOrder(Queued):
    """Causal order of what goes straight to its destinations; the transport says what is safe."""

    __slots__ = ("closing", "pending", "secured")

    def reset(self) -> None:
        super().reset()
        self.secured: dict[tuple[SiteId, int], bool] = {}  # origin and counter of what is safe and not delivered

    def unsafe_bodies(self) -> dict[type[Message], Handler]:
        return {CausalMessage: self.on_safe}

    def on_safe(self, source: SiteId, message: CausalMessage[Any]) -> None:  # noqa: ARG002
        if message.cast.number and message.count > 0:
            self.secured[message.origin, message.count] = True
            self.let_through()

    def is_secure(self, message: CausalMessage[Any]) -> bool:
        return self.secured.pop((message.origin, message.count), False)


class EndToEnd(Queued, RelayedOrder):
    """Causal order over gateways; each origin says what is safe."""

    __slots__ = ()
    secure_of: dict[SiteId, int]

    def __init__(self, options: CausalOptions) -> None:
        super().__init__(msgspec.structs.replace(options, ack_period_ms=min(options.ack_period_ms, ACK_MS)))

    def reset(self) -> None:
        super().reset()
        self.secure_of = dict.fromkeys(self.view.members, 0)

    def bodies(self) -> dict[type[Message], Handler]:
        return super().bodies() | {SafeUpTo: self.on_secured}

    def is_secure(self, message: CausalMessage[Any]) -> bool:
        return message.count <= self.secure_of[message.origin]

    def collect(self, site: int, count: int) -> None:
        """Note who has our messages, and tell the destinations of those that are safe now."""
        before = self.secure_of[self.host.site]
        lacking = self.dues.lacking
        waiting = [(number, self.concerned(number)) for number in lacking if number > before]
        super().collect(site, count)
        secure, told = before, 0
        for number, destinations in waiting:
            if not self.has_quorum(destinations, lacking.get(number, 0)):
                break
            secure, told = number, told | destinations
        if secure > before:
            self.secure_of[self.host.site] = secure
            others = sites_of(told & ~self.history.me)
            if others:
                self.pass_down(SafeUpTo(secure), others)
            self.let_through()

    def concerned(self, number: int) -> int:
        """The destinations of an own message."""
        return self.destinations_of(self.kept[self.host.site][number].cast)

    def has_quorum(self, destinations: int, lacking: int) -> bool:
        """Whether all destinations have a message, or those who do are a quorum with us."""
        if not lacking:
            return True
        having = destinations & ~lacking | self.history.me
        return quorum(self.view, [life for life in self.view.lives() if having >> life[0] & 1])

    def on_secured(self, source: SiteId, secured: SafeUpTo) -> None:
        if source not in self.secure_of or source == self.host.site:
            raise RemoteError(f"site {source} tells of its messages, and is not in the view")
        self.secure_of[source] = max(self.secure_of[source], secured.count)
        self.let_through()


class SecuredRelay(EndToEnd):
    """With what the separators answer for left out."""

    __slots__ = ("closing", "pending", "secure_of")


class SecuredGates(EndToEnd, GatedOrder):
    """The same where gateways pass on what the destinations may have."""

    __slots__ = ("closing", "pending", "secure_of")
