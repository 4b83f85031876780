"""Flooding whose membership changes while messages flow: links become safe before they carry anything.

Problem: a new link u->v may be faster than the paths by which v gets what u has sent so far; what u sends on it could
overtake that, and break causal order. A link that is closed too soon loses what would have come over it.

Idea (after PC-broadcast): u opens a link by sending a numbered PING to v over links that are safe already, in the same
FIFOs as messages. Whatever u had delivered before is ahead of it on every hop. From then on u keeps what it delivers in
a buffer of the new link. v answers PONG by any route. On the PONG of the current number u sends the buffer in order,
and the link is safe: what v still lacked is in the buffer, and what it did not need is ahead of it. An answer to an
earlier number proves nothing, because the buffer was emptied since. docs/design/flooding.md has the proof.

A link becomes safe in one of three ways:
- PING and PONG, as above; greedily by id, and by flooding where that fails or was tried before;
- by vector, where no PING gets through or the buffer is full: v sends what it has delivered, u sends from its log what
  v lacks, in order. If the log no longer has it, v is *stranded*, is notified, and must begin a new life;
- by welcome: a joiner's contact sends its own vector first, and everything after it. The joiner has nothing that its
  contact lacks, so the reverse link is safe at once. All its other links are opened.

Which links. Ids are positions in the view's list of members, and the view's number is the number of the change: the
service that serialises changes appends a joiner, and gives a leaver's id to the last member, so that a change moves
O(log n) links. `install` opens new links and closes none; `commit`, once `is_ready` holds at all members, closes the
rest by a marker through their own FIFO. Nothing stops in between: wire types are viewless, and a view is no barrier.

Invariants:
- a link is in `links` from `open` on; messages are sent on it only once it is safe, and in the order of delivery;
- `seen` is the last number delivered of each sender; numbers of one sender come in ascending order over safe links;
- the log, and before it the vector `forgotten`, are all that was delivered here.

What arrives before the first view waits unhandled. A founder that handled it at once would have no links to forward it
on, and links that begin with the view would not be safe: the founder's next message could overtake what it received.

Bounds: buffers and log (DynamicOptions); `PINGS_MAX` floods of PING per origin; once `EARLY_MAX` messages wait for the
first view, frames are dropped unacknowledged until then, and so repeated.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler, Kind, View
from isthmus.core.message import ALL, Carried, Cast, Message, SiteId, Targets
from isthmus.core.port import EARLY_MAX, INCARNATION_SHIFT
from isthmus.protocols.causal.flooding.safe_wire import (
    Close,
    DynamicOptions,
    LinkMessage,
    Ping,
    Pong,
    Stranded,
    Vector,
    VectorReply,
    VectorRequest,
    Welcome,
)
from isthmus.protocols.transport.base import Transport
from isthmus.protocols.transport.links.links import Links
from isthmus.topology.overlay.links import Overlay

PINGS_MAX = 64
DOUBLINGS_MAX = 3
HOPS_MAX = 64  # of a PING


class OutgoingLink:
    """One direction of a link, from here to a neighbour."""

    __slots__ = ("buffer", "number", "safe", "tries")

    def __init__(self, safe: bool = False) -> None:
        self.safe = safe
        self.number = 0  # of the last attempt
        self.tries = 0
        self.buffer: list[LinkMessage[Any]] = []  # delivered since that attempt; empty once it is safe


class SafeFlooding(Transport):
    """Floods messages along safe links, and opens and closes links while they flow."""

    __slots__ = (
        "attached",
        "begun",
        "dead",
        "early",
        "forgotten",
        "ids",
        "into",
        "leaving",
        "links",
        "log",
        "near",
        "number",
        "options",
        "overlay",
        "own_due",
        "pings",
        "seen",
        "stranded",
        "stranded_by",
    )
    timer_names = ("open_",)

    def __init__(self, overlay: Overlay | None = None, options: DynamicOptions | None = None) -> None:
        super().__init__()
        self.overlay = overlay or Overlay()
        self.options = options or DynamicOptions()
        self.attached = False  # whether this site is a founder, or was welcomed
        self.begun = False  # whether the first view is resumed
        self.ids: dict[SiteId, int] = {}  # of the members
        self.near: Targets = ()  # our neighbours in the view
        self.links: dict[SiteId, OutgoingLink] = {}
        self.into: dict[SiteId, bool] = {}  # incoming links that were used and are not closed
        self.dead: dict[SiteId, bool] = {}  # members that are known to have crashed
        self.number = 0  # of the last attempt to open a link
        self.seen: dict[SiteId, int] = {}
        self.own_due: deque[Cast] = deque()
        self.early: list[tuple[SiteId, LinkMessage[Any]]] = []  # source and message, before the first view
        self.leaving = False
        self.log: deque[LinkMessage[Any]] = deque()
        self.forgotten: dict[SiteId, int] = {}  # the last number of each sender that is no longer in the log
        self.pings: dict[tuple[SiteId, int], dict[int, bool]] = {}  # floods forwarded here, by origin and life
        self.stranded_by: dict[SiteId, bool] = {}  # neighbours that no longer have what we lack
        self.stranded = False  # no neighbour has it: a new life is needed

    def bodies(self) -> dict[type[Message], Handler]:
        return {LinkMessage: self.on_link_message, Ping: self.on_ping, Close: self.on_close, Welcome: self.on_welcome}

    def handlers(self) -> dict[type[Message], Handler]:
        return {
            Pong: self.on_pong,
            VectorRequest: self.on_vector_request,
            VectorReply: self.on_vector_reply,
            Stranded: self.on_stranded,
        }

    @property
    def channels(self) -> Links:
        assert isinstance(self.below, Links)
        return self.below

    # Messages

    def submit(self, message: Message, targets: Targets = ALL) -> None:  # noqa: ARG002  they are in the message
        assert isinstance(message, Cast)
        if self.blocked:
            return
        self.forward(LinkMessage(message), self.host.site)
        self.own_due.append(message)
        self.host.turn_due = True

    def end_turn(self) -> None:
        """Deliver our own messages to ourselves."""
        while self.own_due:
            self.hand_over(self.own_due.popleft())

    def on_link_message(self, source: SiteId, passed: LinkMessage[Any]) -> None:
        cast = passed.cast
        if not isinstance(cast, Cast) or cast.sender < 0:
            raise RemoteError(f"site {source} forwarded {cast}, which is no message")
        self.into[source] = True
        self.stranded_by.clear()
        if not self.begun:
            self.early.append((source, passed))
            self.channels.deaf = len(self.early) >= EARLY_MAX
        elif cast.number > self.seen.get(cast.sender, 0):
            if cast.sender == self.host.site and cast.number >> INCARNATION_SHIFT >= self.host.incarnation:
                raise RemoteError(f"site {source} forwarded message {cast.number} of ours, which we never wrote")
            self.end_turn()
            self.forward(passed, source)
            self.hand_over(cast)

    def forward(self, passed: LinkMessage[Any], source: SiteId) -> None:
        """Forward a message over safe links, and keep it for the others and the log."""
        cast = passed.cast
        self.seen[cast.sender] = cast.number
        targets = []
        for peer, link in self.links.items():
            if peer == source:
                continue
            if link.safe:
                targets.append(peer)
            elif len(link.buffer) < self.options.buffer_max:
                link.buffer.append(passed)
            else:
                self.try_by_vector(peer, link)
        if targets:
            self.below.submit(passed, tuple(targets))
        self.log.append(passed)
        if len(self.log) > self.options.log_max:
            oldest = self.log.popleft().cast
            self.forgotten[oldest.sender] = oldest.number

    def hand_over(self, cast: Cast) -> None:
        if isinstance(cast, Carried) and not self.stack.accepts_author(cast.sender, cast):
            self.host.trace(Kind.REJECT, value=cast.sender)  # as at every member
        elif not cast.destinations or self.host.site in cast.destinations:
            self.above.deliver(cast)

    def writable(self) -> bool:
        return not self.blocked and self.below.writable()

    def settled(self) -> bool:
        return not self.own_due and self.below.settled()

    # Opening

    def open(self, peer: SiteId) -> None:
        """Start to make a link safe."""
        if peer in self.links:
            return
        link = self.links[peer] = OutgoingLink()
        self.try_by_ping(peer, link)

    def begin_try(self, peer: SiteId, link: OutgoingLink) -> None:
        """Start an attempt with a new number and an empty buffer."""
        self.number += 1
        link.number, link.buffer = self.number, []
        wait_ms = self.options.retry_ms * 2 ** min(link.tries, DOUBLINGS_MAX)
        self.host.set_timer(self, peer, round(wait_ms * 1e6))

    def try_by_ping(self, peer: SiteId, link: OutgoingLink) -> None:
        self.begin_try(peer, link)
        flooded = link.tries > 0
        ping = Ping(self.host.site, self.host.incarnation, peer, link.number, HOPS_MAX, flooded)
        self.pass_ping(ping, self.host.site)

    def try_by_vector(self, peer: SiteId, link: OutgoingLink) -> None:
        self.begin_try(peer, link)
        life = self.channels.life_of.get(peer)
        if life is not None:
            self.send((peer,), VectorRequest(self.host.incarnation, life, link.number))

    def timer(self, key: int) -> None:
        link = self.links[SiteId(key)]
        link.tries += 1
        if link.tries % (self.options.ping_max + 1) < self.options.ping_max:
            self.try_by_ping(SiteId(key), link)
        else:
            self.try_by_vector(SiteId(key), link)

    def pass_ping(self, ping: Ping, source: SiteId) -> None:
        """Forward a Ping: to the safe neighbour nearest to its target by id, or to all."""
        if not ping.hops:
            return  # it circulates, as views differ; the next attempt will find them equal
        onward = Ping(ping.origin, ping.life, ping.target, ping.number, ping.hops - 1, ping.flooded)
        safe = [peer for peer, link in self.links.items() if link.safe and peer != source]
        target = self.ids.get(ping.target)
        if not ping.flooded and target is not None:
            here = self.ids.get(self.host.site, -1) ^ target
            ranked = sorted([(self.ids[peer] ^ target, peer) for peer in safe if peer in self.ids])
            if ranked and (ranked[0][0] < here or here < 0):
                self.below.submit(onward, (ranked[0][1],))
                return
        if safe and self.is_first(ping):
            self.below.submit(msgspec.structs.replace(onward, flooded=True), tuple(safe))

    def is_first(self, ping: Ping) -> bool:
        """Whether a Ping was not flooded from here before."""
        known = self.pings.setdefault((ping.origin, ping.life), {})
        if ping.number in known:
            return False
        known[ping.number] = True
        if len(known) > PINGS_MAX:
            del known[next(iter(known))]
        return True

    def on_ping(self, source: SiteId, ping: Ping) -> None:
        self.into[source] = True
        self.stranded_by.clear()
        if ping.target == self.host.site:
            self.send((ping.origin,), Pong(ping.life, ping.number))
        elif ping.origin != self.host.site:
            self.pass_ping(ping, source)

    def on_pong(self, source: SiteId, pong: Pong) -> None:
        link = self.links.get(source)
        if link is None or link.safe or pong.life != self.host.incarnation or not self.is_current(link, pong):
            return
        buffer = link.buffer
        self.become_safe(source, link)
        for passed in buffer:
            self.below.submit(passed, (source,))

    def is_current(self, link: OutgoingLink, pong: Pong) -> bool:
        return pong.number == link.number

    def become_safe(self, peer: SiteId, link: OutgoingLink) -> None:
        link.safe, link.buffer = True, []
        self.host.cancel_timer(self, peer)

    def on_vector_request(self, source: SiteId, request: VectorRequest) -> None:
        if request.target_life == self.host.incarnation and self.attached:
            self.send((source,), VectorReply(request.life, request.number, self.vector()))

    def on_vector_reply(self, source: SiteId, reply: VectorReply) -> None:
        link = self.links.get(source)
        if link is None or link.safe or reply.life != self.host.incarnation or reply.number != link.number:
            return
        theirs = dict(reply.vector)
        if any(number > theirs.get(sender, 0) for sender, number in self.forgotten.items()):
            self.send((source,), Stranded(self.channels.life_of[source]))
            return
        self.become_safe(source, link)
        for passed in self.log:
            if passed.cast.number > theirs.get(passed.cast.sender, 0):
                self.below.submit(passed, (source,))

    def on_stranded(self, source: SiteId, stranded: Stranded) -> None:
        if stranded.target_life != self.host.incarnation:
            return
        self.stranded_by[source] = True
        self.stranded |= all(peer in self.stranded_by or peer in self.dead for peer in self.near)

    def vector(self) -> Vector:
        return tuple(sorted(self.seen.items()))

    # Closing

    def close(self, peer: SiteId) -> None:
        """Send nothing more to a neighbour; what was sent still arrives."""
        link = self.links.pop(peer, None)
        if link is None:
            return
        self.host.cancel_timer(self, peer)
        if link.safe:
            self.below.submit(Close(), (peer,))

    def on_close(self, source: SiteId, _close: Close) -> None:
        self.into.pop(source, None)

    # Joining and leaving

    def admit(self, joiner: SiteId, life: int) -> None:
        """Act as the contact of a joiner: send it our vector, and everything that follows."""
        self.channels.meet(joiner, life)
        self.dead.pop(joiner, None)
        self.links[joiner] = OutgoingLink(safe=True)
        self.below.submit(Welcome(self.vector()), (joiner,))

    def on_welcome(self, source: SiteId, welcome: Welcome) -> None:
        if self.attached:
            raise RemoteError(f"site {source} welcomes us, but we have joined before")
        self.attached = True
        self.take_vector(welcome.vector)
        self.into[source] = True
        self.links[source] = OutgoingLink(safe=True)

    def take_vector(self, vector: Vector) -> None:
        """Start from what a contact has delivered, which will never be delivered here."""
        self.seen = dict(vector)
        self.forgotten = dict(vector)

    def leave(self) -> None:
        """Stop submitting and close all links; what arrives until the others close theirs is still delivered."""
        self.blocked = self.leaving = True
        for peer in list(self.links):
            self.close(peer)

    def is_detached(self) -> bool:
        """Whether all incoming links are closed, and everything that we sent has arrived."""
        return not self.into and not self.links and self.settled()

    # The view

    def install(self, view: View) -> None:
        """Take over a change: open new links; those no longer needed stay until `commit`."""
        super().install(view)
        founding = not self.attached
        self.attached = True
        for site, life in view.lives():
            if site != self.host.site:
                if self.channels.life_of.get(site) != life:
                    self.drop(site)
                self.channels.meet(site, life)
                self.dead.pop(site, None)
        self.ids = {site: number for number, site in enumerate(view.members)}
        near = self.overlay.adjacency(len(view.members))[self.ids[self.host.site]]
        self.near = tuple(view.members[number] for number in near)
        for peer in self.near:
            if founding:
                self.links[peer] = OutgoingLink(safe=True)
            else:
                self.open(peer)

    def resume(self) -> None:
        """Accept submissions, and handle what arrived before the first view."""
        if self.leaving:
            return
        self.begun = True
        super().resume()
        early, self.early, self.channels.deaf = self.early, [], False
        for source, passed in early:
            self.channels.hand_up(source, passed)

    def is_ready(self) -> bool:
        """Whether all our links in the view are safe, except those to crashed members."""
        return all(peer in self.dead or (peer in self.links and self.links[peer].safe) for peer in self.near)

    def commit(self) -> None:
        """Close the links that are not in the view: all members are ready."""
        for peer in [peer for peer in self.links if peer not in self.near]:
            self.close(peer)

    def suspect(self, site: SiteId, suspected: bool) -> None:
        """Give up the present life of a site that the directory has taken off the list."""
        if suspected:
            self.end_life(site, self.channels.life_of.get(site, -1))

    def end_life(self, site: SiteId, life: int) -> None:
        """Give up a life of a site, unless a later one is known: its first frames may come before the record."""
        if self.channels.life_of.get(site, life) <= life:
            self.dead[site] = True
            self.drop(site)
            self.channels.end(site, life)

    def drop(self, site: SiteId) -> None:
        if self.links.pop(site, None) is not None:
            self.host.cancel_timer(self, site)
        self.into.pop(site, None)
