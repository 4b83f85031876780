"""The sans-I/O contract: layers react to events, a host carries out effects.

A *site* is one process: it owns the clocks, timers, randomness, log and network endpoint. For each of its groups it has
a *port*, which is the `Host` of that group's stack. Several groups at a site share what the site owns, nothing else.

Events enter a layer as calls: `submit` from above, one handler per wire type from below, `timer`, `suspect`, `install`,
`end_turn`. Effects leave through the host (`set_timer`, `trace`, `install` ...), through `send`, and through the
neighbours (`above.deliver`, `below.submit`). A host records an effect and never re-enters a layer during an event; even
a message to oneself comes back as an event of its own.

`send` reaches the nearest lower layer that overrides `carry`, or the network if there is none: a relay at the bottom
sees everything that leaves.

A *turn* is one event in the simulator and one iteration of the event loop live. The output of a turn may leave
together: a layer that has batched something sets `host.turn_due` and gets a call of `end_turn`, top layer first. Lists
pass through the stack whole (`submit_all`, `deliver_all`, `consumed_all`); the calls for one message are the special
case.

A view changes in these steps, driven by a membership service, ideal or agreed on:
- the transport is blocked, and the survivors exchange what each of them lacks (the flush);
- `host.install(view)`, an effect: after the event, `install` goes bottom first, so that an ordering layer closes the
  old view before the application sees the new one;
- a joining member takes over the `state` of one that stayed, layer by layer, by `restore`;
- `host.resume()`, an effect: `resume` goes bottom first, and traffic flows again.
Members need not do this at the same time: a port queues the messages of a view that it has not installed yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, IntEnum
from functools import lru_cache
from itertools import pairwise
from random import Random
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import msgspec

from isthmus.core.errors import LocalError, RemoteError
from isthmus.core.message import ALL, Batch, Carried, Cast, GroupId, Message, SiteId, Targets, codec_of

Handler = Callable[[SiteId, Any], None]
Send = Callable[[Targets, Message], None]
L = TypeVar("L", bound="Layer")


class Kind(IntEnum):
    """The kind of event in a row of a trace; docs/TRACE.md defines the other columns for each."""

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
    REFUSE = 13  # a submit that a full buffer refused
    REJECT = 14  # a peer's packet that was dropped as wrong
    CLOCK = 15  # a reading of the site's clock
    GAUGE = 16  # a measured value; the row's gauge names the quantity
    RECORD = 17  # the recording at the process began, ended, or was cut short


class Finality(Enum):
    """How sure a delivery is."""

    TENTATIVE = 1
    FINAL = 2
    REVOKED = 3  # tentative once, never to be final in this life of the site, which ends


class ClockState(IntEnum):
    """The synchronisation state of a site's clock service."""

    FREE_RUNNING = 1  # never synchronised in this life
    HOLD_OVER = 2  # synchronised once; without a reference now, so that the error bound grows
    SYNCHRONISED = 3  # with true time, by a reference


class Reading(NamedTuple):
    """Calendar time and its error bound."""

    time_ns: int
    error_ns: int | None  # None: no bound is known
    state: ClockState | None = None  # None: no clock service runs here

    def interval(self) -> tuple[int, int] | None:
        """The earliest and latest possible true time; None: no bound is known."""
        return None if self.error_ns is None else (self.time_ns - self.error_ns, self.time_ns + self.error_ns)


Life = tuple[SiteId, int]  # a site and its incarnation


class View(msgspec.Struct, frozen=True, gc=False):
    """The members of a group; views are linearly ordered by their number."""

    view_id: int  # 1, 2, 3 ...; 0 before the first
    members: tuple[SiteId, ...]  # by seniority; members[0] coordinates
    incarnations: tuple[int, ...] = ()  # of the members, in the same order; () where all are 0
    weights: tuple[int, ...] = ()  # votes of the members, in the same order; () where all have one
    last: tuple[Life, ...] = ()  # the highest incarnation ever admitted of each site, by site; () where unknown

    def lives(self) -> tuple[Life, ...]:
        """The members with their incarnations."""
        return tuple(zip(self.members, self.incarnations or (0,) * len(self.members), strict=True))

    def survivors(self, before: View) -> tuple[SiteId, ...]:
        """The members that were in an earlier view too and have not crashed since."""
        lives = set(before.lives())
        return tuple(life[0] for life in self.lives() if life in lives)


@lru_cache(maxsize=64)
def places(members: Targets) -> Mapping[SiteId, int]:
    """The position of each member by seniority; one table for all sites of this process in the same view."""
    return {site: place for place, site in enumerate(members)}


class StateKeeper(Protocol):
    """The state of an application of any size, taken and restored beside the event loop, at one place of the order.

    All four are called by the membership at this site, as part of an event of the port, and take effect in the order in
    which they are called; none may block.
    - `snapshot`, at the member that gives the state: after a view was installed, before any of its messages. The state
      as of this point is to be captured; its bytes may come later, from a thread.
    - `hold`, at the member that lacks the state, at the same point of the same view: deliveries from here on are kept.
      Again, in a later view: what was kept is dropped, as the state of the later view contains it.
    - `restore`: take over a state, then deliver what was kept, in order; None: none is to be had, so deliver what
      was kept, at once. Where it fails, deliveries are still kept: `hold` follows, or this site stops.

    `done` is called later, as an event of its own of the port (`Port.run`), at most once: not after a later `hold`, and
    not after the end of this life. A keeper that fails keeps its error for its caller: `Home.fail` follows.
    """

    def snapshot(self, done: Callable[[bytes | None], None]) -> None: ...  # None: it cannot be taken
    def hold(self) -> None: ...
    def held_bytes(self) -> int: ...  # kept now
    def restore(self, state: bytes | None, done: Callable[[bool], None]) -> None: ...  # whether it was taken over


class Host(Protocol):
    """Everything that a layer may do to the outside world, in one group."""

    site: SiteId
    group: GroupId
    incarnation: int  # 0, and one more each time the site comes back from a crash
    now_ns: int  # the site's monotonic clock, set before each event: for intervals and time-outs
    random: Random  # seeded from (run seed, site, incarnation): the only randomness
    traces: bool  # whether trace rows are recorded
    turn_due: bool  # set by a layer that needs a call of `end_turn`
    frame_bytes: int  # the size that a frame should not exceed where it can be split

    def clock(self) -> Reading: ...
    def heard_ns(self, site: SiteId) -> int | None: ...  # when a packet of a site last arrived; None: never
    def next_number(self) -> int: ...  # of this site's next message in this group
    def send(self, targets: Targets, message: Message) -> None: ...
    def set_timer(self, layer: Layer, key: int, delay_ns: int) -> None: ...  # the same key re-arms
    def cancel_timer(self, layer: Layer, key: int) -> None: ...
    def trace(self, kind: Kind, subject: Cast | None = None, value: int = 0) -> None: ...
    def gauge(self, gauge: int, value: int, subject: Cast | None = None) -> None: ...
    def freeze(self) -> None: ...  # take no more messages of this view
    def install(self, view: View) -> None: ...
    def resume(self) -> None: ...


class Layer:
    """One protocol at one site in one group."""

    __slots__ = ("above", "below", "host", "send", "stack")
    timer_names: ClassVar[tuple[str, ...]] = ()  # of keys 0, 1, 2 ...; one that ends in _ is for all from there on
    above: Layer
    below: Layer
    host: Host
    send: Send  # to the network, through the layers below that carry
    stack: Stack

    def handlers(self) -> dict[type[Message], Handler]:
        """The wire types that reach this layer directly from the network."""
        return {}

    def bodies(self) -> dict[type[Message], Handler]:
        """The wire types that reach this layer carried by the transport below, in its order."""
        return {}

    def unsafe_bodies(self) -> dict[type[Message], Handler]:
        """The bodies handed to this layer on arrival even under safe delivery, and a second time once they are safe."""
        return {}

    def ordered(self) -> dict[type[Message], Handler]:
        """The wire types of this layer that are ordered and delivered like messages of the application."""
        return {}

    def start(self) -> None:
        """Set up what needs the host; the stack is wired, no view is installed."""

    def timer(self, key: int) -> None:
        raise LocalError(f"{type(self).__name__} sets no timer {key}")

    def timer_name(self, key: int) -> str:
        """A timer's readable name: Reliable.ack, Reliable.nak_3."""
        place = min(key, len(self.timer_names) - 1)
        name = self.timer_names[place] if place >= 0 else ""
        return f"{type(self).__name__}.{name}" + (str(key - max(0, place)) if not name or name.endswith("_") else "")

    def carry(self, targets: Targets, message: Message) -> None:
        """Send for a layer above; an override intercepts everything that the layers above it send."""
        self.send(targets, message)

    def accepts_author(self, courier: SiteId, carried: Carried[Any]) -> bool:  # noqa: ARG002
        """Whether this layer accepts a message of another author from a courier; if no layer does, it is refused."""
        return False

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        self.below.submit(message, targets)

    def submit_all(self, casts: Sequence[Cast]) -> None:
        """Submit messages of one turn, in order."""
        for cast in casts:
            self.submit(cast, cast.destinations)

    def submit_ordered(self, body: Message, targets: Targets = ALL) -> None:
        """Submit a message of this layer to be ordered and delivered like the application's."""
        self.below.submit(Carried(self.host.site, self.host.next_number(), b"", targets, None, body), targets)

    def writable(self) -> bool:
        """Whether the application may submit now; if not, `resume` is called once it may."""
        return self.below.writable()

    def allowance(self) -> int:
        """The maximum number of messages to submit before calling `writable` again."""
        return self.below.allowance()

    def sends_at_once(self, destinations: Targets) -> bool:
        """Whether a message submitted now reaches the transport at once; if not, `resume` is called when to retry."""
        return self.below.sends_at_once(destinations)

    def settled(self) -> bool:
        """Whether everything submitted here is sent, ordered and acknowledged."""
        return self.below.settled()

    def consumed(self, cast: Cast) -> None:
        """Note that the application has consumed a delivered message: its buffer space is free again."""
        self.below.consumed(cast)

    def consumed_all(self, casts: Sequence[Cast]) -> None:
        for cast in casts:
            self.consumed(cast)

    def deliver(self, cast: Cast, finality: Finality = Finality.FINAL) -> None:
        self.above.deliver(cast, finality)

    def deliver_all(self, casts: Sequence[Cast]) -> None:
        """Deliver messages finally, in order; positions, if any, are consecutive."""
        stack = self.stack
        for cast in casts:
            self.deliver(cast)
            if stack.position:
                stack.position += 1

    def suspect(self, site: SiteId, suspected: bool) -> None:
        self.above.suspect(site, suspected)

    def end_turn(self) -> None:
        """Act on what this turn has batched."""

    def install(self, view: View) -> None:
        """Close the old view and open the new one; the first view also starts the layer."""

    def state(self) -> bytes:
        """The state that a joining member needs of this layer, as of the view just installed; b"" for none."""
        return b""

    def restore(self, state: bytes) -> None:
        """Take over the state of a member that stayed, after `install` and before `resume`."""
        raise LocalError(f"{type(self).__name__} has no state to take over, yet was given {len(state)} bytes")

    def keeper(self) -> StateKeeper | None:
        """What keeps the application's state, at the top of a stack; None: `state` and `restore` of the layers do."""
        return None

    def resume(self) -> None:
        """Accept submissions again: a view was installed, or a full buffer has room."""
        self.above.resume()

    def take_back(self) -> None:
        """Revoke what is tentative: others went on without this life of the site, which begins another."""


class Stack:
    """The layers of one group at one site, top first; wired once, then only called."""

    __slots__ = ("codec", "host", "layers", "ordered", "owners", "position", "routes", "turn_layers", "view")

    def __init__(self, host: Host, *layers: Layer) -> None:
        self.host = host
        self.layers = layers
        self.view = View(0, ())
        self.position = 0  # of the message being delivered finally, the first of a list; 0: the order is not total
        self.routes: dict[type[Message], Handler] = {}  # of messages from the network
        self.owners: dict[type[Message], Handler] = {}  # of bodies that the transport carries
        self.ordered: dict[type[Message], Handler] = {}  # of bodies that are delivered like messages
        for upper, lower in pairwise(layers):
            upper.below, lower.above = lower, upper
        send: Send = host.send
        for layer in reversed(layers):
            layer.host, layer.stack, layer.send = host, self, send
            if type(layer).carry is not Layer.carry:
                send = layer.carry
        for layer in layers:
            own(self.owners, layer.bodies(), layer)
            own(self.ordered, layer.ordered(), layer)
        for layer in layers:
            own(self.routes, layer.handlers(), layer)
        self.turn_layers = tuple(layer for layer in layers if type(layer).end_turn is not Layer.end_turn)
        bodies = dict.fromkeys([*self.owners, *self.ordered, Cast, Carried, Batch])
        self.codec = codec_of(tuple(self.routes), tuple(bodies))
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

    def accepts_author(self, courier: SiteId, carried: Carried[Any]) -> bool:
        """Whether a message may come from this courier: it belongs to a layer, or a layer accepts its author."""
        if carried.body is not None:
            if type(carried.body) not in self.ordered:
                return False
            if carried.author is None:
                return True
        return any(layer.accepts_author(courier, carried) for layer in self.layers)

    def install(self, view: View) -> None:
        """Install a view in every layer, bottom first."""
        self.view = view
        for layer in reversed(self.layers):
            layer.install(view)

    def state(self) -> tuple[bytes, ...]:
        """The state of every layer, top first, for a member that joins."""
        return tuple(layer.state() for layer in self.layers)

    def restore(self, states: Sequence[bytes]) -> None:
        """Take over the state of a member that stayed, bottom first."""
        if len(states) != len(self.layers):
            raise RemoteError(f"a state of {len(states)} layers for a stack of {len(self.layers)}: {self}")
        for layer, state in zip(reversed(self.layers), reversed(states), strict=True):
            if state:
                layer.restore(state)

    def keeper(self) -> StateKeeper | None:
        """What keeps the application's state; None: it is part of `state`."""
        return self.layers[0].keeper()

    def resume(self) -> None:
        """Let traffic flow again, bottom first."""
        self.layers[-1].resume()

    def take_back(self) -> None:
        """Have every layer take back what will not be final in this life, bottom first."""
        for layer in reversed(self.layers):
            layer.take_back()

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
