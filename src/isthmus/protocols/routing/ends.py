"""What a process and a router have in common as members of a node: they sift copies by author, and keep them.

A member that joins a node gets the state of any member that stayed, process or router: so both know what was taken of
each author (`filter`), what came too early for its author's order (`early`), and what a router may have to forward
again (`kept`).

Bounds: `EARLY_MAX` copies per author wait for one before them; one more is taken out of order. Where routes are
recomputed it is dropped, as it will come again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from isthmus.core.errors import LocalError, RemoteError
from isthmus.core.layer import Finality, Handler, Kind, Layer, View
from isthmus.core.message import Carried, Cast, GroupId, Message, SiteId
from isthmus.protocols.routing.calculus.walks import Walk
from isthmus.protocols.routing.filter import Fate, Filter, StreamState, stream_of
from isthmus.protocols.routing.keeping import KeptCopy, KeptTable, SettledTable
from isthmus.protocols.routing.routes import CompositionRoutes
from isthmus.protocols.routing.wire import (
    Alive,
    Chase,
    ConsumedReport,
    Distances,
    Enquire,
    Forgotten,
    Missing,
    Pack,
    Routed,
    Settled,
    Steered,
    StreamKey,
    Trailer,
)

FINAL = Finality.FINAL
EARLY_MAX = 1024
NOBODY = SiteId(-1)  # as a courier: of a copy that was taken over from another member


class ReceivedCopy(NamedTuple):
    """A copy as it came: who submitted it here, as which message."""

    courier: SiteId
    number: int
    copy: Routed


class UnfinishedMessage(NamedTuple):
    """The last message of an author of this group to some groups that has left, and whose shadow it waits for."""

    sender: SiteId
    to: tuple[int, ...]
    number: int
    view: int  # in which it left


class EndState(NamedTuple):
    """What a member that joins takes over."""

    streams: tuple[StreamState, ...]
    early: tuple[Routed | Steered, ...]
    kept: tuple[KeptCopy, ...]
    settled: tuple[tuple[int, StreamKey, int], ...]
    begun: tuple[UnfinishedMessage, ...]


class NodeEnd(Layer):
    """One member's end of one node."""

    __slots__ = ("begun", "early", "filter", "kept", "known", "routes", "view_id")

    def __init__(self, routes: CompositionRoutes, known: SettledTable) -> None:
        self.routes = routes
        self.known = known  # what destinations are done with
        self.filter = Filter()
        self.early: dict[StreamKey, dict[int, ReceivedCopy]] = {}  # by the number that is missing before each
        self.kept = KeptTable()
        self.begun: dict[tuple[SiteId, tuple[int, ...]], UnfinishedMessage] = {}  # for another life of their authors
        self.view_id = 0  # of the view that messages are of which are handed up now

    def ordered(self) -> dict[type[Message], Handler]:
        return dict.fromkeys((Routed, Pack, Steered, Trailer, Distances), self.on_bare)

    def handlers(self) -> dict[type[Message], Handler]:
        return {
            ConsumedReport: self.on_report,
            Settled: self.on_settled,
            Enquire: self.on_enquire,
            Missing: self.on_missing,
            Forgotten: self.on_forgotten,
            Chase: self.on_chase,
            Alive: self.on_alive,
        }

    def on_bare(self, source: SiteId, body: Message) -> None:
        raise LocalError(f"{body} of site {source} was not intercepted")

    def on_report(self, source: SiteId, report: ConsumedReport) -> None:
        raise RemoteError(f"{report} of site {source} is for routers")

    def on_missing(self, source: SiteId, missing: Missing) -> None:
        raise RemoteError(f"{missing} of site {source} is for routers")

    def on_alive(self, source: SiteId, alive: Alive) -> None:
        raise RemoteError(f"{alive} of site {source} is for routers that find ways")

    def on_chase(self, source: SiteId, chase: Chase) -> None:
        raise RemoteError(f"{chase} of site {source} is for routers")

    def on_forgotten(self, source: SiteId, forgotten: Forgotten) -> None:
        raise RemoteError(f"{forgotten} of site {source} is for processes")

    def on_settled(self, source: SiteId, settled: Settled) -> None:
        raise NotImplementedError

    def on_enquire(self, source: SiteId, enquire: Enquire) -> None:
        raise NotImplementedError

    # Receiving

    def deliver(self, cast: Cast, finality: Finality = FINAL) -> None:
        if isinstance(cast, Carried) and isinstance(cast.body, Distances):
            if finality is FINAL:
                self.on_distances(cast.sender, cast.body)
                self.below.consumed(cast)
        elif not isinstance(cast, Carried) or not isinstance(cast.body, Routed | Pack):
            self.above.deliver(cast, finality)  # of the group alone
        elif finality is FINAL:
            self.take_all(cast, (cast.body,) if isinstance(cast.body, Routed) else cast.body.copies)

    def on_distances(self, source: SiteId, distances: Distances) -> None:
        """Take in how far groups are through a router; processes do not mind."""

    def take_all(self, cast: Carried[Any], copies: tuple[Routed, ...]) -> None:
        """Take the copies that one message brings."""
        raise NotImplementedError

    def checked(self, courier: SiteId, copy: Routed) -> Walk | None:
        """The walk of a copy; None, and the copy is refused, where it has no business here."""
        try:
            return checked_walk(self.routes, self.host.group, courier, copy)
        except RemoteError:
            self.host.trace(Kind.REJECT, value=courier)
            return None

    def note_begun(self, copy: Routed, walk: Walk) -> None:
        """Note a message of this group whose author, should it come back in another life, must wait for its shadow."""
        if copy.copy == 0 < walk.own and walk.holds:
            self.begun[copy.sender, copy.to] = UnfinishedMessage(copy.sender, copy.to, copy.number, self.view_id)

    def keep(self, copy: Routed, walk: Walk) -> bool:
        """Keep a copy that may have to be forwarded again; whether it is not known to be in hand, or done with."""
        if not self.routes.keeps(walk, copy.copy):
            return True
        kept = KeptCopy(copy, walk.domain, self.routes.stops(walk))
        return not self.known.has(*kept) and self.kept.add(kept)

    def sift(self, arrived: ReceivedCopy, walk: Walk) -> list[ReceivedCopy] | None:
        """What may be delivered now that a copy has come, in order; None: the copy was known, or only passes."""
        copy = arrived.copy
        if not self.is_end(copy, walk):
            return None
        key, before = stream_of(copy, walk.domain), self.before_of(copy, walk)
        waiting = self.early.setdefault(key, {})
        recomputed, full = self.routes.recomputed, len(waiting) >= EARLY_MAX
        in_order = self.routes.in_order(walk) and (recomputed or not full)
        fate = self.filter.of(key).take(copy.number, before, in_order)
        if fate is Fate.KNOWN or (fate is Fate.EARLY and (before in waiting or full)):
            return None
        if fate is Fate.EARLY:
            waiting[before] = (
                ReceivedCopy(NOBODY, 0, copy) if recomputed else arrived
            )  # its courier gets credit at once
            return []
        return [arrived, *self.next_of(key)]

    def next_of(self, key: StreamKey) -> list[ReceivedCopy]:
        """Those that waited for what has come, or is no longer waited for."""
        stream, waiting, found = self.filter.of(key), self.early.get(key, {}), []
        while ready := [before for before in waiting if before <= stream.last]:
            arrived = waiting.pop(min(ready))
            before = self.before_of(arrived.copy, self.routes.walk(arrived.copy.origin, arrived.copy.to))
            if stream.take(arrived.copy.number, before, in_order=True) is Fate.TAKEN:
                found.append(arrived)
        return found

    def is_end(self, copy: Routed, walk: Walk) -> bool:
        """Whether a message ends its way here with this copy: it is delivered, or is the shadow that comes back."""
        shadow = copy.copy == walk.own > 0 and copy.origin == self.host.group
        return shadow or self.routes.for_application(copy, walk, self.host.group)

    def before_of(self, copy: Routed, walk: Walk) -> int:
        return copy.before[self.routes.stops(walk).index(self.host.group)]

    # Views

    def install(self, view: View) -> None:
        """Begin a view; what the layers below hand up before, with the stack in the next one, is of the last one."""
        self.view_id = view.view_id

    def state(self) -> bytes:
        early = tuple(arrived.copy for waiting in self.early.values() for arrived in waiting.values())
        settled = tuple((group, key, number) for (group, key), number in self.known.numbers.items())
        kept, begun = tuple(self.kept.copies.values()), tuple(self.begun.values())
        return msgspec.msgpack.encode(EndState(self.filter.states(), early, kept, settled, begun))

    def restore(self, state: bytes) -> None:
        taken = msgspec.msgpack.decode(state, type=EndState)
        self.filter.restore(taken.streams)
        for copy in taken.early:
            walk = self.routes.walk(copy.origin, copy.to)
            key = stream_of(copy, walk.domain)
            self.early.setdefault(key, {})[self.before_of(copy, walk)] = ReceivedCopy(NOBODY, 0, copy)
        for group, key, number in taken.settled:
            self.known.note(group, key, number)
        for kept in taken.kept:
            self.kept.add(kept)
        self.begun = {(one.sender, one.to): one for one in taken.begun}


def checked_walk(routes: CompositionRoutes, group: GroupId, courier: SiteId, copy: Routed) -> Walk:
    """The walk of a copy; raises RemoteError where its courier has no business to bring it here."""
    reason = routes.refusal(copy.origin, copy.to)
    if reason:
        raise RemoteError(reason)
    walk = routes.walk(copy.origin, copy.to)
    if len(copy.before) != len(routes.stops(walk)):
        raise RemoteError(f"{copy.author} with predecessors in {len(copy.before)} groups")
    routes.check_courier(copy, walk, group, courier)
    if isinstance(copy, Trailer) and copy.copy == 0:
        raise RemoteError(f"a trailer of {copy.author} from its author: routers begin them")
    if isinstance(copy, Trailer) and not routes.is_final(walk):
        raise RemoteError(f"a trailer of {copy.author}, where what is missing may still come")
    return walk
