"""Couriers of a view change: messages packed into one datagram per pair of LANs and step, not one per pair of sites.

Problem: a view is agreed on by all with all. Of n sites in L LANs nearly n² packets cross the WAN, within one round
trip. Idea: the agent of a LAN, its most senior unsuspected member, gathers the messages of its neighbours to remote
LANs for `pack_ms`, and sends them in one datagram to the agent there, which passes them on inside. The proposal and
the first votes on it leave together. With D for one delay a change takes 4 D and a few times `pack_ms`, and
L (L - 1) + 3 (L - 1) datagrams.

Nothing depends on an agent: a repeated message goes straight to its targets, and so does one to a site outside the view
or to one site alone, except for promises, which all go to one.

Invariants: a message that is passed on names its author, and reaches the membership as from there. A courier passes on
to other LANs only what its author gave it.

Bounds: `SENT_MAX` messages are remembered as sent.
"""

from __future__ import annotations

from typing import Generic

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler, Kind, Layer, View
from isthmus.core.message import B, Message, SiteId, Targets
from isthmus.protocols.membership.wire import Accepted, Decide, Prepare, Promise, Propose

PACK = 0  # timer key
SENT_MAX = 64
PACKED: dict[type[Message], bool] = {kind: kind is Promise for kind in (Prepare, Promise, Propose, Accepted, Decide)}


class Parcel(msgspec.Struct, Generic[B], frozen=True, gc=False, array_like=True):
    """A message on its way through a courier."""

    author: SiteId
    targets: Targets  # the sites that its receiver passes it on to; () at the last hop
    message: B


class Parcels(Message, Generic[B], frozen=True, gc=False, array_like=True, tag=62):
    """Messages of several authors that travel together."""

    viewless = True
    wraps = True
    parcels: tuple[Parcel[B], ...]


class Couriers(Layer):
    """Packs the messages of the membership above it for remote LANs."""

    __slots__ = ("clusters", "pack_armed", "pack_ns", "sent", "suspected", "view", "waiting")
    timer_names = ("pack",)

    def __init__(self, clusters: tuple[int, ...], pack_ms: float = 1.0) -> None:
        self.clusters = clusters  # of each site, by its number
        self.pack_ns = round(pack_ms * 1e6)
        self.suspected: dict[SiteId, bool] = {}
        self.view = View(0, ())
        self.sent: dict[tuple[type[Message], int, object], bool] = {}  # kind, view and ballot; oldest first
        self.waiting: dict[int, list[Parcel[Message]]] = {}  # by remote LAN
        self.pack_armed = False

    def handlers(self) -> dict[type[Message], Handler]:
        return {Parcels: self.on_parcels}

    def install(self, view: View) -> None:
        self.view = view

    def suspect(self, site: SiteId, suspected: bool) -> None:
        self.suspected[site] = suspected
        self.above.suspect(site, suspected)

    def agent(self, lan: int) -> SiteId | None:
        """The most senior unsuspected member of a LAN."""
        found = (site for site in self.view.members if self.clusters[site] == lan and not self.suspected.get(site))
        return next(found, None)

    # Sending

    def carry(self, targets: Targets, message: Message) -> None:
        alone = PACKED.get(type(message))
        if alone is None or (len(targets) == 1 and not alone) or self.is_repeated(message):
            self.send(targets, message)
            return
        here = self.clusters[self.host.site]
        far = tuple([site for site in targets if self.clusters[site] != here and site in self.view.members])
        straight = tuple([site for site in targets if site not in far])
        if straight:
            self.send(straight, message)
        if far:
            self.post(Parcel(self.host.site, far, message))

    def is_repeated(self, message: Message) -> bool:
        """Whether a message was sent before: it, or its courier, may have been lost."""
        if isinstance(message, Decide):
            key: tuple[type[Message], int, object] = (Decide, message.proposal.view_id, None)
        else:
            assert isinstance(message, Prepare | Promise | Propose | Accepted)
            key = (type(message), message.view_id, message.ballot)
        known = key in self.sent
        self.sent[key] = True
        if len(self.sent) > SENT_MAX:
            del self.sent[next(iter(self.sent))]
        return known

    def post(self, parcel: Parcel[Message]) -> None:
        """Give a message to the agent of this LAN; the agent itself keeps it until the pack timer fires."""
        agent = self.agent(self.clusters[self.host.site])
        if agent != self.host.site and agent is not None and parcel.author == self.host.site:
            self.send((agent,), Parcels((parcel,)))
            return
        for site in parcel.targets:
            messages = self.waiting.setdefault(self.clusters[site], [])
            if messages and messages[-1].message is parcel.message:
                messages[-1] = Parcel(parcel.author, (*messages[-1].targets, site), parcel.message)
            else:
                messages.append(Parcel(parcel.author, (site,), parcel.message))
        if not self.pack_armed:
            self.pack_armed = True
            self.host.set_timer(self, PACK, self.pack_ns)

    def timer(self, key: int) -> None:
        assert key == PACK
        self.pack_armed = False
        waiting, self.waiting = self.waiting, {}
        for lan, parcels in waiting.items():
            agent = self.agent(lan)
            if agent is not None:
                self.send((agent,), Parcels(tuple(parcels)))
                continue
            for parcel in parcels:
                self.send(parcel.targets, Parcels((Parcel(parcel.author, (), parcel.message),)))

    # Receiving

    def on_parcels(self, source: SiteId, parcels: Parcels[Message]) -> None:
        """Take the messages for this site, and pass on the others."""
        here = self.clusters[self.host.site]
        onward: dict[Targets, list[Parcel[Message]]] = {}
        for parcel in parcels.parcels:
            if not all(0 <= site < len(self.clusters) for site in (source, parcel.author, *parcel.targets)):
                raise RemoteError(f"site {source} passes on a message of or to a site outside all LANs")
            if type(parcel.message) not in PACKED or parcel.author == self.host.site:
                raise RemoteError(f"site {source} passes on a {type(parcel.message).__name__} of site {parcel.author}")
            far = tuple([site for site in parcel.targets if self.clusters[site] != here])
            if far and source != parcel.author:
                raise RemoteError(f"site {source} passes a message of site {parcel.author} on to a further LAN")
            if far:
                self.post(Parcel(parcel.author, far, parcel.message))
            near = tuple([site for site in parcel.targets if site not in (*far, self.host.site)])
            if near:
                onward.setdefault(near, []).append(Parcel(parcel.author, (), parcel.message))
            if not parcel.targets or self.host.site in parcel.targets:
                self.give(parcel)
        for near, messages in onward.items():
            self.send(near, Parcels(tuple(messages)))

    def give(self, parcel: Parcel[Message]) -> None:
        try:
            self.stack.routes[type(parcel.message)](parcel.author, parcel.message)
        except RemoteError:
            self.host.trace(Kind.REJECT, value=parcel.author)
