"""The sans-I/O contract: layers react to events, a host carries out effects.

Events enter a layer as calls: `submit` from above, a handler a wire type from below, `timer`, `suspect`, `install`.
Effects leave through the host (`send`, `set_timer`, `trace`) and through the neighbours (`above.deliver`,
`below.submit`). A host records an effect and never re-enters a layer during an event; even a message to oneself
comes back as an event of its own.

A view changes in three steps, the same at every member: the transport is blocked and what it holds is made equal
everywhere (the flush); `install` goes bottom first, so that an ordering layer closes the old view before the
application sees the new one; `resume` goes bottom first, and traffic flows again.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum
from itertools import pairwise
from random import Random
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec

from isthmus.core.errors import LocalError, RemoteError
from isthmus.core.message import ALL, Cast, Codec, Message, SiteId, Targets

Handler = Callable[[SiteId, Any], None]
L = TypeVar("L", bound="Layer")


class Kind(IntEnum):
    """What a row of a trace tells; docs/TRACE.md says what its other columns then mean."""

    SUBMIT = 1
    SEND = 2
    RECEIVE = 3
    TENTATIVE = 4
    DELIVER = 5
    REVOKE = 6
    VIEW = 7
    ROLE = 8
    SUSPECT = 9
    TRUST = 10
    CRASH = 11
    RECOVER = 12
    REFUSE = 13  # a submit that a full buffer turned away
    REJECT = 14  # a peer's packet that was dropped as wrong
    CLOCK = 15  # a reading of the site's clock
    GAUGE = 16  # a quantity that trace.schema.Gauge names


class Finality(Enum):
    """How sure a delivery is."""

    TENTATIVE = 1
    FINAL = 2
    REVOKED = 3  # tentative once, never to be final: its sender died unordered


class View(msgspec.Struct, frozen=True, gc=False):
    """Who is in the group; views are linearly ordered by their number."""

    view_id: int
    members: tuple[SiteId, ...]  # by seniority; members[0] coordinates
    incarnations: tuple[int, ...] = ()  # of the members, in the same order; () where all are 0

    def survivors(self, before: View) -> tuple[SiteId, ...]:
        """The members that were in an earlier view too and have not crashed since."""
        lives = set(zip(before.members, before.incarnations or (0,) * len(before.members), strict=True))
        now = zip(self.members, self.incarnations or (0,) * len(self.members), strict=True)
        return tuple(life[0] for life in now if life in lives)


class Host(Protocol):
    """All that a layer may do to the world."""

    site: SiteId
    incarnation: int  # 0, and one more each time the site comes back from a crash
    now_ns: int  # this site's clock, set before each event: the only clock
    random: Random  # seeded from (run seed, site, incarnation): the only randomness

    def send(self, targets: Targets, message: Message) -> None: ...
    def set_timer(self, layer: Layer, key: int, delay_ns: int) -> None: ...  # the same key re-arms
    def cancel_timer(self, layer: Layer, key: int) -> None: ...
    def trace(self, kind: Kind, subject: Cast | None = None, value: int = 0) -> None: ...


class Layer:
    """One protocol at one site in one group."""

    __slots__ = ("above", "below", "host", "owners")
    timer_names: ClassVar[tuple[str, ...]] = ()  # of keys 0, 1, 2 ...; one that ends in _ is for all from there on
    above: Layer
    below: Layer
    host: Host
    owners: dict[type[Message], Handler]  # for a transport: who owns what it carries

    def handlers(self) -> dict[type[Message], Handler]:
        """The wire types that reach this layer straight from the network."""
        return {}

    def bodies(self) -> dict[type[Message], Handler]:
        """The wire types that reach this layer carried by the transport below, in its order."""
        return {}

    def start(self) -> None:
        """Set up what needs the host; the stack is wired, no view is installed."""

    def timer(self, key: int) -> None:
        raise LocalError(f"{type(self).__name__} sets no timer {key}")

    def timer_name(self, key: int) -> str:
        """A timer for people: Reliable.ack, Reliable.nak_3."""
        place = min(key, len(self.timer_names) - 1)
        name = self.timer_names[place] if place >= 0 else ""
        return f"{type(self).__name__}.{name}" + (str(key - max(0, place)) if not name or name.endswith("_") else "")

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        self.below.submit(message, targets)

    def writable(self) -> bool:
        """Whether the application may submit now; where not, `resume` says when it may again."""
        return self.below.writable()

    def settled(self) -> bool:
        """Whether nothing that was submitted here is still to be sent, ordered or acknowledged."""
        return self.below.settled()

    def consumed(self, cast: Cast) -> None:
        """The application is done with a delivered message: its place may be used again."""
        self.below.consumed(cast)

    def deliver(self, cast: Cast, finality: Finality = Finality.FINAL) -> None:
        self.above.deliver(cast, finality)

    def suspect(self, site: SiteId, suspected: bool) -> None:
        self.above.suspect(site, suspected)

    def install(self, view: View) -> None:
        """Close the old view and open the new one; the first view also starts the layer."""

    def resume(self) -> None:
        """Submissions are taken again: a view was installed, or a full buffer has room."""
        self.above.resume()


class Stack:
    """The layers of one group at one site, top first; wired once, then only called."""

    __slots__ = ("codec", "host", "layers", "routes", "view")

    def __init__(self, host: Host, *layers: Layer) -> None:
        self.host = host
        self.layers = layers
        self.view = View(0, ())
        self.routes: dict[type[Message], Handler] = {}
        bodies: dict[type[Message], Handler] = {}
        for upper, lower in pairwise(layers):
            upper.below, lower.above = lower, upper
        for layer in layers:
            layer.host = host
            layer.owners = bodies
            own(self.routes, layer.handlers(), layer)
            own(bodies, layer.bodies(), layer)
        self.codec = Codec([*self.routes, *(kind for kind in bodies if kind not in self.routes), Cast])
        for layer in reversed(layers):
            layer.start()

    def receive(self, source: SiteId, message: Message) -> None:
        """Hand a message from the network to the layer that owns its type."""
        try:
            handler = self.routes.get(type(message))
            if handler is None:
                raise RemoteError(f"{type(message).__name__} is no wire type of this stack")
            handler(source, message)
        except RemoteError:
            self.host.trace(Kind.REJECT, value=source)

    def install(self, view: View) -> None:
        """Install a view in every layer, bottom first, then let traffic flow again."""
        self.view = view
        for layer in reversed(self.layers):
            layer.install(view)
        self.layers[-1].resume()

    def find(self, kind: type[L]) -> L:
        """The one layer of a kind."""
        for layer in self.layers:
            if isinstance(layer, kind):
                return layer
        raise LocalError(f"the stack {self} has no {kind.__name__}")

    def __str__(self) -> str:
        return " / ".join(type(layer).__name__ for layer in self.layers)


def own(routes: dict[type[Message], Handler], handlers: dict[type[Message], Handler], layer: Layer) -> None:
    """Add a layer's wire types; each has exactly one owner in a stack."""
    for kind, handler in handlers.items():
        if kind in routes:
            raise LocalError(f"{type(layer).__name__} claims {kind.__name__}, which another layer owns")
        routes[kind] = handler
