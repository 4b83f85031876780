"""The top of every stack: numbers the application's messages, hands deliveries to it, traces both.

Invariants: a message is numbered only once it is certain to be taken; numbers of one incarnation are consecutive, but
for those that upper layers use for messages of their own; those of a later incarnation are all higher, so that no
identity is ever used twice. A message that does not fit into a frame goes out, and comes in, by way of `fragments`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from isthmus.core.errors import Busy, LocalError, RemoteError
from isthmus.core.layer import Finality, Handler, Kind, Layer, StateKeeper, View
from isthmus.core.message import ALL, Author, Carried, Cast, GroupId, Message, SiteId, Targets
from isthmus.protocols.fragments import BytesRead, Fragments, Piece
from isthmus.protocols.routing.process import ComposedProcess
from isthmus.protocols.routing.wire import ROUTED_MAX

OnDeliver = Callable[[Cast, Finality], None]
DELIVER, FINAL = Kind.DELIVER, Finality.FINAL
PLAIN = {Cast}
DESTINATIONS = attrgetter("destinations")
KIND = {Finality.TENTATIVE: Kind.TENTATIVE, Finality.REVOKED: Kind.REVOKE}


class Application(Layer):
    """The application's end of a stack, as callbacks."""

    __slots__ = (
        "auto_consume",
        "delivered_count",
        "fragments",
        "on_deliver",
        "on_deliver_all",
        "on_restore",
        "on_resume",
        "on_state",
        "on_view",
        "state_keeper",
        "wants",
    )

    def __init__(
        self,
        on_deliver: OnDeliver | None = None,
        on_view: Callable[[View], None] | None = None,
        on_resume: Callable[[], None] | None = None,
        auto_consume: bool = True,
        wants: tuple[Finality, ...] = tuple(Finality),
        on_deliver_all: Callable[[Sequence[Cast]], None] | None = None,
        on_state: Callable[[], bytes] | None = None,
        on_restore: Callable[[bytes], None] | None = None,
        keeper: StateKeeper | None = None,
    ) -> None:
        self.delivered_count = 0  # final deliveries
        self.on_deliver = on_deliver
        self.on_deliver_all = on_deliver_all  # final deliveries in lists; otherwise each goes to on_deliver
        self.on_view = on_view
        self.on_resume = on_resume
        self.wants = wants  # the deliveries that on_deliver gets: tentative, final, or both
        self.auto_consume = auto_consume  # False: the application calls `consumed` when it is done with a message
        self.on_state = on_state  # a snapshot for a member that joins, as of the view just installed
        self.on_restore = on_restore
        self.state_keeper = keeper  # in place of both, for a state that takes time
        self.fragments = Fragments(self)  # large messages, on their way out and in

    def bodies(self) -> dict[type[Message], Handler]:
        return {BytesRead: self.fragments.on_read}

    def ordered(self) -> dict[type[Message], Handler]:
        return {Piece: self.on_bare_piece}

    def start(self) -> None:
        self.fragments.start()

    def cast(self, payload: bytes, destinations: Targets = ALL) -> Cast:
        """Multicast to the members, or to some of them; raises Busy if a buffer is full."""
        if not self.writable():
            self.host.trace(Kind.REFUSE)
            raise Busy("the stack takes no message now: its send queue is full")
        cast = self.prepare(payload, destinations)
        self.submit(cast, cast.destinations)
        return cast

    def writable(self) -> bool:
        return self.below.writable() and not self.fragments.is_busy()

    def settled(self) -> bool:
        return not self.fragments.is_busy() and self.below.settled()

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        """Submit a prepared message; a large one, and those behind it, leave as buffers allow."""
        if not self.fragments.is_busy():
            self.below.submit(message, targets)
            return
        assert isinstance(message, Cast)
        self.fragments.submit(message)
        self.fragments.pump()

    def submit_all(self, casts: Sequence[Cast]) -> None:
        if not self.fragments.is_busy():
            self.below.submit_all(casts)
            return
        for cast in casts:
            self.fragments.submit(cast)
        self.fragments.pump()

    def consumed(self, cast: Cast) -> None:
        if self.fragments.unread:
            self.fragments.note_consumed(cast)
        self.below.consumed(cast)

    def consumed_all(self, casts: Sequence[Cast]) -> None:
        if self.fragments.unread:
            for cast in casts:
                self.fragments.note_consumed(cast)
        self.below.consumed_all(casts)

    def prepare(self, payload: bytes, destinations: Targets = ALL) -> Cast:
        """Prepare a message with its number; submit it before preparing the next one, or together with it."""
        host = self.host
        if destinations:
            destinations = tuple(sorted(set(destinations)))  # a destination named twice is one reader
        large = len(payload) > self.fragments.piece_bytes
        number = self.fragments.reserve(len(payload)) if large else host.next_number()
        cast = Cast(host.site, number, payload, destinations)
        if host.traces:
            host.trace(Kind.SUBMIT, cast)
        return cast

    def multicast(self, payload: bytes, groups: Sequence[GroupId]) -> Cast:
        """Multicast to the processes of composed groups, one's own among them or not; raises Busy as `cast` does."""
        to = tuple(sorted(set(groups)))
        self.stack.find(ComposedProcess).receivers(to)  # raises where it may not
        if to == (self.host.group,):
            return self.cast(payload)
        if not self.writable():
            self.host.trace(Kind.REFUSE)
            raise Busy("the stack takes no message now: its send queue is full")
        cast = self.prepare_routed(payload, to)
        self.route(cast, to)
        return cast

    def prepare_routed(self, payload: bytes, to: tuple[GroupId, ...]) -> Cast:
        """Prepare a message to groups, ascending, with its number; route it before preparing the next one."""
        receivers = self.stack.find(ComposedProcess).receivers(to)
        if len(payload) > ROUTED_MAX:
            raise LocalError(f"a message of {len(payload)} bytes to other groups, which take {ROUTED_MAX} at most")
        cast = Cast(self.host.site, self.host.next_number(), payload, receivers)
        if self.host.traces:
            self.host.trace(Kind.SUBMIT, cast)
        return cast

    def route(self, cast: Cast, to: tuple[GroupId, ...]) -> None:
        """Submit a prepared message to groups."""
        self.stack.find(ComposedProcess).route(cast, to)

    def carry_on(self, payload: bytes, author: Author, destinations: Targets = ALL) -> Cast:
        """Multicast a message of another author, which keeps its identity; raises Busy if a buffer is full.

        A layer must accept the author: others would refuse the frame, and with it all later ones of this site.
        """
        if not self.below.writable():
            raise Busy("the stack takes no message now: its send queue is full")
        host = self.host
        carried: Carried[Any] = Carried(host.site, 0, payload, destinations, author)
        if not self.stack.accepts_author(host.site, carried):
            raise LocalError(f"no layer of {self.stack} lets site {host.site} carry a message of {author}")
        carried = msgspec.structs.replace(carried, number=host.next_number())
        if host.traces:
            host.trace(Kind.SUBMIT, carried)
        self.below.submit(carried, destinations)
        return carried

    def deliver(self, cast: Cast, finality: Finality = FINAL) -> None:
        host = self.host
        if type(cast) is not Cast and isinstance(cast, Carried) and cast.body is not None:
            self.take_ordered(cast, finality)
            return
        if cast.destinations and host.site not in cast.destinations:
            host.trace(Kind.REJECT, value=cast.sender)
            return
        if finality is not FINAL:
            self.deliver_unsure(cast, finality)
            return
        self.delivered_count += 1
        if host.traces:
            host.trace(DELIVER, cast)
        if self.on_deliver is not None:
            if FINAL in self.wants:
                self.on_deliver(cast, FINAL)
        elif self.on_deliver_all is not None:
            self.on_deliver_all((cast,))
        if self.auto_consume:
            if self.fragments.unread:
                self.fragments.note_consumed(cast)
            self.below.consumed(cast)

    def deliver_unsure(self, cast: Cast, finality: Finality) -> None:
        """Report a delivery that is tentative or revoked."""
        if self.host.traces:
            self.host.trace(KIND[finality], cast)
        if self.on_deliver is not None and finality in self.wants:
            self.on_deliver(cast, finality)

    def deliver_all(self, casts: Sequence[Cast]) -> None:
        if self.on_deliver_all is None or set(map(type, casts)) != PLAIN or any(map(DESTINATIONS, casts)):
            super().deliver_all(casts)
            return
        self.delivered_count += len(casts)
        if self.host.traces:
            for cast in casts:
                self.host.trace(Kind.DELIVER, cast)
        self.on_deliver_all(casts)
        if self.auto_consume:
            self.below.consumed_all(casts)

    def take_ordered(self, carried: Carried[Any], finality: Finality) -> None:
        """Hand a message of another layer to its owner, at its position in the order."""
        if finality is not FINAL:
            return
        body = carried.body
        assert isinstance(body, Message)
        try:
            if type(body) is Piece:
                self.fragments.take(carried, body)
                return
            self.stack.ordered[type(body)](carried.sender, body)
        except RemoteError:
            self.host.trace(Kind.REJECT, value=carried.sender)
        self.below.consumed(carried)

    def on_bare_piece(self, source: SiteId, piece: Piece) -> None:
        raise LocalError(f"{piece} of site {source} outside a message")

    def suspect(self, site: SiteId, suspected: bool) -> None:
        self.host.trace(Kind.SUSPECT if suspected else Kind.TRUST, value=site)

    def install(self, view: View) -> None:
        self.fragments.install(view)
        self.host.trace(Kind.VIEW, value=view.view_id)
        if self.on_view is not None:
            self.on_view(view)

    def keeper(self) -> StateKeeper | None:
        return self.state_keeper

    def state(self) -> bytes:
        return b"" if self.on_state is None or self.keeper() is not None else self.on_state()

    def restore(self, state: bytes) -> None:
        if self.on_restore is None:
            raise LocalError(f"the application was given a state of {len(state)} bytes and has no on_restore")
        self.on_restore(state)

    def resume(self) -> None:
        self.fragments.resume()
        if self.fragments.backlog:
            return  # the application waits until that has left
        if self.on_resume is not None:
            self.on_resume()
