"""The copies that a member of a node has taken: what processes and routers know alike, and hand to a member that joins.

A process filters copies for its application; a router takes them on to other nodes. Both sift them by author, so that
a member that joins can take over the state of any other member: how far each author's messages have come (`filter`),
copies that arrived ahead of one that is missing (`early`), and copies that a router may have to forward again (`kept`).

Bounds: `EARLY_MAX` copies per author wait for a missing one; the next copy is taken out of order. With recomputed
routes it is dropped instead, as it will be sent again.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from isthmus.core.errors import LocalError, RemoteError
from isthmus.core.layer import Handler, Host, Kind
from isthmus.core.message import GroupId, Message, SiteId
from isthmus.protocols.routing.calculus.walks import Walk
from isthmus.protocols.routing.filter import Fate, Filter, StreamState, stream_of
from isthmus.protocols.routing.keeping import KeptCopy, KeptTable, SettledTable
from isthmus.protocols.routing.routes import CompositionRoutes
from isthmus.protocols.routing.wire import (
    Distances,
    Pack,
    Routed,
    Steered,
    StreamKey,
    Trailer,
)

EARLY_MAX = 1024
NOBODY = SiteId(-1)  # courier of a copy taken over from another member


ORDERED = (Routed, Pack, Steered, Trailer, Distances)


def unintercepted(source: SiteId, body: Message) -> None:
    raise LocalError(f"{body} of site {source} was not intercepted")


def refuse(receivers: str) -> Handler:
    """A handler of messages that are for other receivers."""

    def refused(source: SiteId, message: Message) -> None:
        raise RemoteError(f"{message} of site {source} is for {receivers}")

    return refused


class ReceivedCopy(NamedTuple):
    """A copy as received: the site that submitted it here, and the number of that message."""

    courier: SiteId
    number: int
    copy: Routed


class UnfinishedMessage(NamedTuple):
    """The last message of an author to some groups that has left its group while the author awaits its shadow."""

    sender: SiteId
    to: tuple[int, ...]
    number: int
    view: int  # in which it left


class IntakeState(NamedTuple):
    """The state that a member takes over as it joins."""

    streams: tuple[StreamState, ...]
    early: tuple[Routed | Steered, ...]
    kept: tuple[KeptCopy, ...]
    settled: tuple[tuple[int, StreamKey, int], ...]
    begun: tuple[UnfinishedMessage, ...]


class CopyIntake:
    """The copies that one member has taken in one node."""

    __slots__ = ("begun", "early", "filter", "host", "kept", "known", "routes", "view_id")
    host: Host  # set as the layer that owns this starts

    def __init__(self, routes: CompositionRoutes, known: SettledTable) -> None:
        self.routes = routes
        self.known = known  # how far each group has consumed each author's messages
        self.filter = Filter()
        self.early: dict[StreamKey, dict[int, ReceivedCopy]] = {}  # by the missing number before each
        self.kept = KeptTable()
        self.begun: dict[tuple[SiteId, tuple[int, ...]], UnfinishedMessage] = {}  # for a later life of each author
        self.view_id = 0  # the view of the messages being delivered

    def checked(self, courier: SiteId, copy: Routed) -> Walk | None:
        """Return the walk of a copy, or None for a copy that does not belong here, which is rejected."""
        try:
            return checked_walk(self.routes, self.host.group, courier, copy)
        except RemoteError:
            self.host.trace(Kind.REJECT, value=courier)
            return None

    def note_begun(self, copy: Routed, walk: Walk) -> None:
        """Note a message of this group: a later life of its author must wait until its shadow returns."""
        if copy.copy == 0 < walk.own and walk.holds:
            self.begun[copy.sender, copy.to] = UnfinishedMessage(copy.sender, copy.to, copy.number, self.view_id)

    def keep(self, copy: Routed, walk: Walk) -> bool:
        """Keep a copy that may have to be forwarded again; return whether it is new and not settled."""
        if not self.routes.keeps(walk, copy.copy):
            return True
        kept = KeptCopy(copy, walk.domain, self.routes.stops(walk))
        return not self.known.has(*kept) and self.kept.add(kept)

    def sift(self, arrived: ReceivedCopy, walk: Walk) -> list[ReceivedCopy] | None:
        """Return what a copy makes deliverable, in order; None for a duplicate, or a copy that only passes through."""
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
            waiting[before] = ReceivedCopy(NOBODY, 0, copy) if recomputed else arrived  # gives credit back at once
            return []
        return [arrived, *self.next_of(key)]

    def next_of(self, key: StreamKey) -> list[ReceivedCopy]:
        """Return the early copies whose predecessors have arrived or are given up."""
        stream, waiting, found = self.filter.of(key), self.early.get(key, {}), []
        while ready := [before for before in waiting if before <= stream.last]:
            arrived = waiting.pop(min(ready))
            before = self.before_of(arrived.copy, self.routes.walk(arrived.copy.origin, arrived.copy.to))
            if stream.take(arrived.copy.number, before, in_order=True) is Fate.TAKEN:
                found.append(arrived)
        return found

    def is_end(self, copy: Routed, walk: Walk) -> bool:
        """Whether a message ends here with this copy: it is delivered, or is the shadow that its author awaits."""
        shadow = copy.copy == walk.own > 0 and copy.origin == self.host.group
        return shadow or self.routes.for_application(copy, walk, self.host.group)

    def before_of(self, copy: Routed, walk: Walk) -> int:
        return copy.before[self.routes.stops(walk).index(self.host.group)]

    def state(self) -> bytes:
        early = tuple(arrived.copy for waiting in self.early.values() for arrived in waiting.values())
        settled = tuple((group, key, number) for (group, key), number in self.known.numbers.items())
        kept, begun = tuple(self.kept.copies.values()), tuple(self.begun.values())
        return msgspec.msgpack.encode(IntakeState(self.filter.states(), early, kept, settled, begun))

    def restore(self, state: bytes) -> None:
        taken = msgspec.msgpack.decode(state, type=IntakeState)
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
    """Return the walk of a copy; raises RemoteError for a copy that its courier may not forward here."""
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
