"""A router: one site in several nodes that takes each copy from one of them and submits the next in others.

The problem: a message must go on from node to node so that no order which the nodes keep is lost between them. Idea:
a router takes copies in the order in which a node delivers them, and has one FIFO queue per *output*. Which copies
follow from one is what its class's walk says (walks.py). A slow output holds up no other.

A `Router` is one object per site; each node that it joins has a `RouterPort`, a layer below a silent application. What
is passed on is an event of its own in the other node's port, made by a timer without delay: a host never re-enters a
layer during an event, and no layer needs to know its host.

Packing: a router may put several waiting copies into one message of the node (`pack_max`), and wait for company
(`pack_ms`).

Bounds: a queue holds what the senders' end-to-end credit lets them have under way.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from isthmus.core.document import LONGEST_MS, within
from isthmus.core.errors import LocalError, RemoteError
from isthmus.core.layer import Finality, Handler, Kind, Layer
from isthmus.core.message import ALL, Carried, Cast, GroupId, Message, SiteId
from isthmus.protocols.routing.member import checked_walk
from isthmus.protocols.routing.routes import Routes
from isthmus.protocols.routing.wire import Pack, Routed

WAKE = 0  # timer keys
PACK_MAX = 1024
FINAL = Finality.FINAL


class RouterOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How routers forward."""

    pack_max: int = 1  # copies in one message of a node
    pack_ms: float = 0.0  # how long a copy waits for others to share a message with

    def __post_init__(self) -> None:
        within("pack_max", self.pack_max, 1, PACK_MAX, "a whole number")
        within("pack_ms", self.pack_ms, 0, LONGEST_MS)


class Router:
    """What the ports of one site that forwards share."""

    __slots__ = ("number", "options", "ports", "routes")

    def __init__(self, routes: Routes, site: SiteId, options: RouterOptions) -> None:
        self.routes = routes
        self.number = routes.router_of[site]
        self.options = options
        self.ports: dict[GroupId, RouterPort] = {}

    def port(self, node: GroupId) -> RouterPort:
        """The layer of a node's stack at this router."""
        made = self.ports[node] = RouterPort(self)
        return made

    def take(self, node: GroupId, courier: SiteId, copy: Routed) -> None:
        """Pass on what follows from a copy that a node has delivered."""
        walk = checked_walk(self.routes, node, courier, copy)
        for number, other in enumerate(walk.copies):
            if other.before == copy.copy and other.router == self.number:
                self.ports[GroupId(other.node)].enter(msgspec.structs.replace(copy, copy=number))


class RouterPort(Layer):
    """One output of a router, and one input."""

    __slots__ = ("queue", "router", "wake_armed")

    timer_names = ("wake",)

    def __init__(self, router: Router) -> None:
        self.router = router
        self.queue: deque[Routed] = deque()  # to be submitted in this node
        self.wake_armed = False

    def ordered(self) -> dict[type[Message], Handler]:
        return {Routed: self.on_bare, Pack: self.on_bare}

    def on_bare(self, source: SiteId, body: Message) -> None:
        raise LocalError(f"{body} of site {source} passed the router")

    # Out

    def enter(self, copy: Routed) -> None:
        """Have a copy submitted here, in an event of its own."""
        self.queue.append(copy)
        if not self.wake_armed:
            self.wake_armed = True
            options = self.router.options
            wait_ms = options.pack_ms if options.pack_max > 1 else 0.0
            self.host.set_timer(self, WAKE, round(wait_ms * 1e6))
        elif len(self.queue) == self.router.options.pack_max > 1:
            self.host.set_timer(self, WAKE, 0)

    def timer(self, key: int) -> None:
        assert key == WAKE
        self.wake_armed = False
        self.forward()

    def forward(self) -> None:
        """Submit what waits, in order, as far as this node takes it; where copies are packed, once it takes them on."""
        most = self.router.options.pack_max
        while self.queue and (self.below.writable() if most == 1 else self.below.passes(ALL)):
            copies = tuple(self.queue.popleft() for _ in range(min(most, len(self.queue))))
            body = copies[0] if len(copies) == 1 else Pack(copies)
            carried: Carried[Any] = Carried(self.host.site, self.host.next_number(), b"", ALL, None, body)
            self.below.submit(carried)

    def resume(self) -> None:
        self.forward()
        self.above.resume()

    def settled(self) -> bool:
        return not self.queue and self.below.settled()

    # In

    def deliver(self, cast: Cast, finality: Finality = FINAL) -> None:
        if not isinstance(cast, Carried) or not isinstance(cast.body, Routed | Pack):
            self.above.deliver(cast, finality)  # of the group alone: the silent application reads it
            return
        if finality is not FINAL:
            return
        copies = (cast.body,) if isinstance(cast.body, Routed) else cast.body.copies
        for copy in copies:
            try:
                self.router.take(self.host.group, cast.sender, copy)
            except RemoteError:
                self.host.trace(Kind.REJECT, value=cast.sender)
        self.below.consumed(cast)
