"""A router: one site in several nodes that takes each copy from one of them and submits the next in others.

The problem: a message must go on from node to node so that no order which the nodes keep is lost between them. Idea:
a router takes copies in the order in which a node delivers them, and has one FIFO queue per *output*. Which copies
follow from one is what its class's walk says (walks.py). A slow output holds up no other.

A `Router` is one object per site; each node that it joins has a `RouterPort`, a layer below a silent application. What
is passed on is an event of its own in the other node's port, made by a timer without delay: a host never re-enters a
layer during an event, and no layer needs to know its host.

*Replicas.* A router may be several sites. All of them take copies, and all members of the node keep them (keeping.py).
One forwards: the eldest replica in the view of the first node that the router joins. When a view makes another one the
eldest, it begins a new epoch and forwards again all that is kept. So it does where a node's view has a router that was
not there before, as that one may have lost what it was given, or processes of which none was there before. Receivers
drop what they have. What is kept must not be lost with those who delivered it, so nodes with replicated routers deliver
safely.

*What is settled.* A router gathers the reports of the processes of its groups; what all processes in the view are done
with is settled, and told to all members of its other nodes, from router to router. Whoever keeps a message drops it
once it is settled in all its destination groups.

Packing: a router may put several waiting copies into one message of the node (`pack_max`). It then submits only while
the node sends at once, so that copies gather here while a token is away or credit is short; and it may wait for company
(`pack_ms`).

*What is lost.* A router without replicas loses with its life what it had in hand, and what its nodes delivered while it
was away. A process that waits for such a message asks for a trailer: a router of its group sends one once it has taken
that message, or knows that it never will, as the view of its delivery was before this router's first.

Bounds: a queue holds what the senders' end-to-end credit lets them have under way; `ASKERS_MAX` enquiries are known.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Kind, View
from isthmus.core.message import ALL, Carried, GroupId, SiteId, Targets
from isthmus.core.port import INCARNATION_SHIFT
from isthmus.protocols.routing.ends import NodeEnd, ReceivedCopy
from isthmus.protocols.routing.keeping import KeptCopy, KeptKey, SettledTable
from isthmus.protocols.routing.options import RouterOptions
from isthmus.protocols.routing.routes import CompositionRoutes
from isthmus.protocols.routing.wire import (
    Chase,
    ConsumedReport,
    Enquire,
    Entry,
    Forgotten,
    Missing,
    Pack,
    Routed,
    Settled,
    StreamKey,
    Trailer,
)

WAKE, TELL, ENQUIRE, RENEW = 0, 1, 2, 3  # timer keys
STANDBY_ROLE, FORWARDING_ROLE = 0, 1  # roles, as traced
ASKERS_MAX = 10_000
BACKOFF_MAX = 4


class Router:
    """What the ports of one site that forwards share."""

    __slots__ = ("asked", "epoch", "forwards", "number", "options", "passed", "ports", "routes", "settled", "turn")

    def __init__(self, routes: CompositionRoutes, site: SiteId, options: RouterOptions) -> None:
        self.routes = routes
        self.number = routes.router_of[site]
        self.options = options
        self.ports: dict[GroupId, RouterPort] = {}
        self.settled = SettledTable()
        self.forwards = not self.has_replicas  # where it has replicas, one of them does
        self.epoch = 0
        self.passed: dict[KeptKey, KeptCopy] = {}  # where it has replicas: what it has queued, and is not settled
        self.asked: dict[SiteId, int] = {}  # the last enquiry of each asker
        self.turn = 0

    @property
    def has_replicas(self) -> bool:
        return self.routes.is_replicated(self.number)

    @property
    def keeps_any(self) -> bool:
        return any(port.kept.copies for port in self.ports.values())

    def port(self, node: GroupId) -> RouterPort:
        """The layer of a node's stack at this router."""
        made = self.ports[node] = RouterPort(self)
        return made

    def pass_on(self, copy: Routed) -> None:
        """Queue what follows from a copy that was taken, for each output."""
        walk = self.routes.walk(copy.origin, copy.to)
        for number, other in enumerate(walk.copies):
            if other.before == copy.copy and other.router == self.number:
                self.ports[GroupId(other.node)].enter(msgspec.structs.replace(copy, copy=number, epoch=self.epoch))

    def become_forwarding(self, epoch: int) -> None:
        """Take over from a replica that is gone."""
        self.forwards, self.epoch = True, epoch
        self.forward_again()

    def become_standby(self) -> None:
        self.forwards = False
        for port in self.ports.values():
            port.queue.clear()

    def forward_again(self) -> None:
        """Queue all that is kept, in the order in which it was taken."""
        if not self.has_replicas or not self.forwards:
            return
        self.passed.clear()
        for port in self.ports.values():
            port.queue.clear()
            port.kept.pending = deque(port.kept.copies)
        self.advance()

    def advance(self) -> None:
        """Pass on what is kept and was not passed on, each node's in its order, and no message before its cause."""
        moved = True
        while moved:
            moved = False
            for port in self.ports.values():
                while (kept := port.kept.first_pending()) is not None and self.may_pass(kept):
                    self.passed[port.kept.pending.popleft()] = kept
                    self.pass_on(kept.copy)
                    moved = True

    def may_pass(self, kept: KeptCopy) -> bool:
        """Whether what a copy of this router's own was made of has been passed on here, too.

        Messages from node 1 and node 2 go to node 3. Replica a takes m from 1, forwards it to 2 and to 3; somebody in 2
        answers. Replica b takes the answer from 2 before m from 1, and a crashes. Forwarded as they came, the answer
        would be in 3 before m. But b has seen a's copy of m in 2 before the answer, and so waits for m. That a node
        which is not causal delivered one before the other says nothing, and waiting for it might never end.
        """
        made = self.routes.walk(kept.copy.origin, kept.copy.to).copies[kept.copy.copy]
        return (
            made.router != self.number
            or not self.routes.is_causal(made.node)
            or (kept.copy.author, made.before) in self.passed
            or self.settled.has(*kept)
        )

    def learn(self, group: int, entries: tuple[Entry, ...], source: GroupId | None) -> None:
        """Take in what is settled, and have the other nodes told."""
        news = tuple((key, number) for key, number in entries if self.settled.note(group, key, number))
        if news:
            self.passed = {key: kept for key, kept in self.passed.items() if not self.settled.has(*kept)}
            for node, port in self.ports.items():
                port.kept.trim(self.settled)
                if node != source:
                    port.tell(group, news)


class RouterPort(NodeEnd):
    """One output of a router, and one input."""

    __slots__ = (
        *("asked_count", "enquire_armed", "lives", "news", "passing", "queue", "reported", "restored", "router"),
        *("first_view", "forming", "renew_armed", "taken", "tell_armed", "wake_armed"),
    )
    timer_names = ("wake", "tell", "enquire", "renew")

    def __init__(self, router: Router) -> None:
        super().__init__(router.routes, router.settled)
        self.router = router
        self.queue: deque[Routed] = deque()  # to be submitted in this node
        self.forming = False  # a live node begins, and not all its sites are in: nothing is submitted yet
        self.reported: dict[SiteId, dict[StreamKey, int]] = {}  # up to where each process here is done
        self.news: dict[int, dict[StreamKey, int]] = {}  # by group: what is settled, to be told here
        self.passing: list[Enquire] = []  # of other nodes, to be passed on here
        self.lives: dict[SiteId, int] = {}  # of the view before
        self.restored = False  # the state of another member was taken over since
        self.first_view = 0  # of this life in this node
        self.taken: dict[SiteId, int] = {}  # the last message that each process here has sent on its way, as taken here
        self.asked_count = 0  # enquiries since anything was settled
        self.wake_armed = self.tell_armed = self.enquire_armed = self.renew_armed = False

    # Out

    def enter(self, copy: Routed) -> None:
        """Have a copy submitted here, in an event of its own."""
        if isinstance(copy, Trailer) and copy in self.queue:
            return
        self.queue.append(copy)
        if not self.wake_armed:
            self.wake_armed = True
            options = self.router.options
            wait_ms = options.pack_ms if options.pack_max > 1 else 0.0
            self.host.set_timer(self, WAKE, round(wait_ms * 1e6))
        elif len(self.queue) == self.router.options.pack_max > 1:
            self.host.set_timer(self, WAKE, 0)

    def timer(self, key: int) -> None:
        if key == WAKE:
            self.wake_armed = False
            self.forward()
        elif key == TELL:
            self.tell_armed = False
            self.tell_news()
        elif key == ENQUIRE:
            self.enquire_armed = False
            self.enquire()
        else:
            self.renew_armed = False
            self.renew()

    def forward(self) -> None:
        """Submit what waits, in order, as far as this node takes it."""
        most = self.router.options.pack_max
        takes = self.below.writable if most == 1 else self.straight  # what waits further down cannot be packed
        while self.queue and not self.forming and takes():
            copies = [self.queue.popleft()]
            room = self.host.frame_bytes - len(copies[0].payload)
            while self.queue and len(copies) < most and len(self.queue[0].payload) <= room:
                copies.append(self.queue.popleft())
                room -= len(copies[-1].payload)
            body = copies[0] if len(copies) == 1 else Pack(tuple(copies))
            carried: Carried[Any] = Carried(self.host.site, self.host.next_number(), b"", ALL, None, body)
            self.below.submit(carried)

    def note_formed(self) -> None:
        """Pass on what has waited for the node's sites: those that it lacked would have missed it."""
        self.forming = False
        self.forward()

    def straight(self) -> bool:
        """Whether what is submitted now leaves at once."""
        return self.below.sends_at_once(ALL)

    def settled(self) -> bool:
        waits = self.renew_armed or (self.router.has_replicas and self.router.forwards and self.kept.first_pending())
        return not self.queue and not waits and self.below.settled()

    # In

    def take_all(self, cast: Carried[Any], copies: tuple[Routed, ...]) -> None:
        for copy in copies:
            walk = self.checked(cast.sender, copy)
            if walk is None:
                continue
            self.note_begun(copy, walk)
            if copy.copy == 0:
                self.taken[copy.sender] = max(copy.number, self.taken.get(copy.sender, 0))
            if not isinstance(copy, Trailer):
                self.sift(ReceivedCopy(cast.sender, cast.number, copy), walk)
            fresh = self.keep(copy, walk)
            if self.router.forwards and not self.router.has_replicas:
                self.router.pass_on(copy)
            elif self.router.forwards and fresh:
                self.router.advance()
        if self.kept.copies:
            for port in self.router.ports.values():
                port.enquire_later()
        self.below.consumed(cast)

    # What is settled

    def others(self) -> Targets:
        return tuple(site for site in self.stack.view.members if site != self.host.site)

    def on_report(self, source: SiteId, report: ConsumedReport) -> None:
        if source not in self.routes.processes[self.host.group]:
            raise RemoteError(f"a Report of site {source}, which is no process of group {self.host.group}")
        told = self.reported.setdefault(source, {})
        for key, number in report.entries:
            told[key] = max(number, told.get(key, 0))
        self.gather([key for key, _ in report.entries])

    def gather(self, keys: list[StreamKey]) -> None:
        """Find out what all processes here are done with."""
        processes = [site for site in self.stack.view.members if site in self.routes.processes[self.host.group]]
        if processes:
            rows = [self.reported.get(site, {}) for site in processes]
            entries = tuple((key, min([row.get(key, 0) for row in rows])) for key in keys)
            self.router.learn(self.host.group, entries, None)

    def on_settled(self, source: SiteId, settled: Settled) -> None:
        if source not in self.routes.router_of:
            raise RemoteError(f"site {source} is no router, and tells what is settled")
        self.asked_count = 0
        self.router.learn(settled.group, settled.entries, self.host.group)

    def tell(self, group: int, entries: tuple[Entry, ...]) -> None:
        """Have the members of this node told what is settled, soon."""
        self.news.setdefault(group, {}).update(entries)
        self.tell_soon(self.router.options.report_ms)

    def tell_soon(self, wait_ms: float) -> None:
        if not self.tell_armed:
            self.tell_armed = True
            self.host.set_timer(self, TELL, round(wait_ms * 1e6))

    def tell_news(self) -> None:
        news, self.news = self.news, {}
        passing, self.passing = self.passing, []
        others = self.others()
        if others:
            for group, entries in news.items():
                self.send(others, Settled(group, tuple(entries.items())))
            for enquire in passing:
                self.send(others, enquire)

    def enquire_later(self) -> None:
        """Have this node asked in a while, unless all is settled by then."""
        if not self.enquire_armed:
            self.enquire_armed = True
            wait_ms = self.router.options.enquire_ms * 2 ** min(self.asked_count, BACKOFF_MAX)
            self.host.set_timer(self, ENQUIRE, round(wait_ms * 1e6))

    def enquire(self) -> None:
        router, others = self.router, self.others()
        if not router.keeps_any:
            self.asked_count = 0
            return
        self.asked_count += 1
        router.turn += 1
        turn = (self.host.incarnation << INCARNATION_SHIFT) + router.turn
        if others:
            self.send(others, Enquire(self.host.site, turn))
        self.enquire_later()

    def on_enquire(self, source: SiteId, enquire: Enquire) -> None:
        """Tell what is settled, and ask on in the other nodes."""
        for group, entries in self.router.settled.entries().items():
            self.send((source,), Settled(group, entries))
        asked = self.router.asked
        if enquire.turn > asked.get(enquire.asker, -1) and len(asked) < ASKERS_MAX:
            asked[enquire.asker] = enquire.turn
            for node, port in self.router.ports.items():
                if node != self.host.group:
                    port.passing.append(enquire)
                    port.tell_soon(0.0)

    def on_missing(self, source: SiteId, missing: Missing) -> None:
        """Forward a message once more, or say that it is kept no more."""
        group, sender, _, _ = missing.stream
        author = (GroupId(group), SiteId(sender), missing.number)
        found = [kept for port in self.router.ports.values() for kept in port.kept.find(author)]
        for kept in found:
            self.router.pass_on(kept.copy)
        if not found:
            self.send((source,), Forgotten(missing.stream, missing.number))

    def on_chase(self, source: SiteId, chase: Chase) -> None:
        """Send a trailer behind what a process has sent, unless some of it is still to come here."""
        trailer = self.routes.trailer(self.host.group, source, chase)
        if self.taken.get(source, 0) >= chase.number or chase.view < self.first_view:
            self.router.pass_on(trailer)

    # Views

    def install(self, view: View) -> None:
        super().install(view)
        self.first_view = self.first_view or view.view_id
        self.renew_armed = True
        self.host.set_timer(self, RENEW, 0)  # once all layers have installed it

    def restore(self, state: bytes) -> None:
        super().restore(state)
        self.restored = self.renew_armed = True
        self.host.set_timer(self, RENEW, 0)

    def resume(self) -> None:
        self.forward()
        self.above.resume()

    def renew(self) -> None:
        """See what a view changes: who forwards, what is to be forwarded again, what is settled."""
        view, router = self.stack.view, self.router
        again = self.restored or self.is_renewed(view)
        self.restored, self.lives = False, dict(view.lives())
        if router.has_replicas and self.host.group == self.routes.homes[router.number]:
            eldest = next(site for site in view.members if site in self.routes.sites[router.number])
            if eldest == self.host.site and not router.forwards:
                self.host.trace(Kind.ROLE, value=FORWARDING_ROLE)
                router.become_forwarding(view.view_id)
            elif eldest != self.host.site and router.forwards:
                self.host.trace(Kind.ROLE, value=STANDBY_ROLE)
                router.become_standby()
        if again:
            router.forward_again()
        self.gather(list(dict.fromkeys(key for row in self.reported.values() for key in row)))

    def is_renewed(self, view: View) -> bool:
        """Whether there is a router, or after none at all a process, that may lack what it was given before."""
        old = [site for site, life in view.lives() if self.lives.get(site) == life]
        new = [site for site, life in view.lives() if self.lives.get(site) != life and site != self.host.site]
        processes = self.routes.processes[self.host.group]
        return any(site in self.routes.router_of for site in new) or (
            any(site in processes for site in new) and not any(site in processes for site in old)
        )
