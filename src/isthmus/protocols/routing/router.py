"""A router: one site in several nodes that takes each copy from one node and submits the next copy in others.

Problem: a message must pass from node to node so that no order that the nodes keep is lost between them. Idea: a router
takes copies in the order in which a node delivers them, and has one FIFO queue per *output*. The walk of a class
(walks.py) says which copies follow from one. A slow output delays no other output.

A `Router` is one object per site; each node that it joins has a `RouterPort`, a layer below a silent application. A
copy enters the other node's port by a timer without delay: a host never re-enters a layer during an event, and no layer
needs to know its host.

*Replicas.* A router may be several sites. All of them take copies, and all members of a node keep them (keeping.py).
One replica forwards: the eldest in the view of the first node that the router joins. When a view makes another replica
the eldest, it begins a new epoch and forwards all that is kept again. It also does so when a node's view has a new
router, which may have lost what it had been given, or the first processes after there was none. Receivers drop
duplicates. Kept copies must survive the members that delivered them, so nodes with replicated routers deliver safely.

*Settled messages.* A router collects the reports of the processes of its groups. What all processes in the view have
consumed is settled; routers announce it to the members of all other nodes, from router to router. A member drops a copy
once it is settled in all destination groups.

*Packing.* A router may put several waiting copies into one message of a node (`pack_max`). It then submits only while
the node sends at once, so that copies gather while a token is away or credit is short, and may wait for more copies
(`pack_ms`).

*Losses.* A router without replicas loses the copies in its queues when it crashes, and what its nodes deliver while it
is down. A process that waits for such a message asks for a trailer: a router of its group sends one once it has taken
the message, or knows that it never will because the message was delivered in a view before the router's first.

*Recomputed routes* (`SteeringRouter`, `SteeringPort`). When a router or an IGP fails, the copies in its queues are
lost, and messages that take another route overtake those still under way. Two measures keep FIFO order per author:

- Keep and send again. All members of a message's own group keep it until all its destination groups have consumed it.
  The router that takes a copy from that group sends again, in order, all that a destination group is not known to have
  consumed: when its route there changes (the flush), and while nothing of an author is settled there between two
  enquiries, as a route may have changed far away. Routers further on keep nothing.
- Hold. A process takes an author's messages in the author's order, whatever their routes: each carries the number of
  its predecessor to the same group. Early copies wait; duplicates are dropped.

Routes follow distances (distances.py), which routers announce as messages of the nodes that they share: none is lost,
and they are announced again in every view. A node's view may stand although a router in it has failed: a link has two
sites, and one of two is no majority. While something is unsettled, routers query each other in all nodes; a router that
has not answered for `SILENT_ENQUIRIES` enquiries is silent, and its distances do not count until it answers. That it is
heard does not matter: messages to it may be lost.

Invariants of recomputed routes:
- a copy passes at most as many routers as there are; beyond that it is dropped;
- a message that is not settled in a destination group is kept by every member of its author's group;
- a router never takes a copy that it submitted itself.

Not kept: a message whose author crashes together with all other members that had it. Later messages of that author to
the same group are then not delivered there.

Bounds: a queue holds what the senders' end-to-end credit admits, and no copy twice by sending again; `ASKERS_MAX`
enquiries are remembered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable
from typing import Any

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Finality, Handler, Kind, Layer, View
from isthmus.core.message import ALL, Carried, Cast, GroupId, Message, SiteId, Targets
from isthmus.core.port import INCARNATION_SHIFT
from isthmus.protocols.routing.distances import DistanceTable
from isthmus.protocols.routing.filter import stream_of
from isthmus.protocols.routing.intake import ORDERED, CopyIntake, ReceivedCopy, refuse, unintercepted
from isthmus.protocols.routing.keeping import KeptCopy, KeptKey, SettledTable
from isthmus.protocols.routing.options import RouterOptions
from isthmus.protocols.routing.routes import CompositionRoutes, RecomputedRoutes
from isthmus.protocols.routing.wire import (
    Alive,
    Chase,
    ConsumedReport,
    Distances,
    Enquire,
    Entry,
    Forgotten,
    Missing,
    Pack,
    Routed,
    Settled,
    Steered,
    StreamKey,
    Trailer,
)

WAKE, TELL, ENQUIRE, RENEW = 0, 1, 2, 3  # timer keys
STANDBY_ROLE, FORWARDING_ROLE = 0, 1  # roles, as traced
ASKERS_MAX = 10_000
BACKOFF_MAX = 4
SILENT_ENQUIRIES = 5  # times `enquire_ms` without an answer, after which a router counts as silent


class Router:
    """The state that the ports of one forwarding site share."""

    __slots__ = ("asked", "epoch", "forwards", "number", "options", "passed", "ports", "routes", "settled", "turn")

    def __init__(self, routes: CompositionRoutes, site: SiteId, options: RouterOptions) -> None:
        self.routes = routes
        self.number = routes.router_of[site]
        self.options = options
        self.ports: dict[GroupId, RouterPort] = {}
        self.settled = SettledTable()
        self.forwards = not self.has_replicas  # with replicas, one of them does
        self.epoch = 0
        self.passed: dict[KeptKey, KeptCopy] = {}  # with replicas: queued and not settled
        self.asked: dict[SiteId, int] = {}  # the last enquiry of each asker
        self.turn = 0

    @property
    def has_replicas(self) -> bool:
        return self.routes.is_replicated(self.number)

    @property
    def keeps_any(self) -> bool:
        return any(port.intake.kept.copies for port in self.ports.values())

    def port(self, node: GroupId) -> RouterPort:
        """Make the layer of a node's stack at this router."""
        made = self.ports[node] = RouterPort(self)
        return made

    def pass_on(self, copy: Routed) -> None:
        """Queue the copies that follow from one that was taken, for each output."""
        walk = self.routes.walk(copy.origin, copy.to)
        for number, other in enumerate(walk.copies):
            if other.before == copy.copy and other.router == self.number:
                self.ports[GroupId(other.node)].enter(msgspec.structs.replace(copy, copy=number, epoch=self.epoch))

    def become_forwarding(self, epoch: int) -> None:
        """Take over from a replica that has failed."""
        self.forwards, self.epoch = True, epoch
        self.forward_again()

    def become_standby(self) -> None:
        self.forwards = False
        for port in self.ports.values():
            port.queue.clear()

    def forward_again(self) -> None:
        """Queue all kept copies, in the order in which they were taken."""
        if not self.has_replicas or not self.forwards:
            return
        self.passed.clear()
        for port in self.ports.values():
            port.queue.clear()
            port.intake.kept.pending = deque(port.intake.kept.copies)
        self.advance()

    def advance(self) -> None:
        """Queue kept copies not passed on yet: each node's in its order, and no message before its cause."""
        moved = True
        while moved:
            moved = False
            for port in self.ports.values():
                while (kept := port.intake.kept.first_pending()) is not None and self.may_pass(kept):
                    self.passed[port.intake.kept.pending.popleft()] = kept
                    self.pass_on(kept.copy)
                    moved = True

    def may_pass(self, kept: KeptCopy) -> bool:
        """Whether the origin of a copy that a replica of this router made has been passed on here, too.

        Messages from node 1 and node 2 go to node 3. Replica a takes m from 1, forwards it to 2 and to 3; a member of 2
        answers. Replica b takes the answer from 2 before m from 1, and a crashes. Forwarded in that order, the answer
        would be in 3 before m. But b has seen a's copy of m in 2 before the answer, and so waits for m. In a node that
        is not causal the order of delivery means nothing, and waiting for it might never end.
        """
        made = self.routes.walk(kept.copy.origin, kept.copy.to).copies[kept.copy.copy]
        return (
            made.router != self.number
            or not self.routes.is_causal(made.node)
            or (kept.copy.author, made.before) in self.passed
            or self.settled.has(*kept)
        )

    def learn(self, group: int, entries: tuple[Entry, ...], source: GroupId | None) -> None:
        """Take in what is settled, and announce news in the other nodes."""
        news = tuple((key, number) for key, number in entries if self.settled.note(group, key, number))
        if news:
            self.passed = {key: kept for key, kept in self.passed.items() if not self.settled.has(*kept)}
            for node, port in self.ports.items():
                port.intake.kept.trim(self.settled)
                if node != source:
                    port.tell(group, news)


class RouterPort(Layer):
    """One output of a router, and one input."""

    __slots__ = (
        "asked_count",
        "enquire_armed",
        "first_view",
        "forming",
        "intake",
        "lives",
        "news",
        "passing",
        "queue",
        "renew_armed",
        "reported",
        "restored",
        "router",
        "routes",
        "taken",
        "tell_armed",
        "wake_armed",
    )
    timer_names = ("wake", "tell", "enquire", "renew")

    def __init__(self, router: Router) -> None:
        self.routes = router.routes
        self.intake = CopyIntake(router.routes, router.settled)
        self.router = router
        self.queue: deque[Routed] = deque()  # to be submitted in this node
        self.forming = False  # a live node whose sites have not all joined: nothing is submitted yet
        self.reported: dict[SiteId, dict[StreamKey, int]] = {}  # how far each process here has consumed each stream
        self.news: dict[int, dict[StreamKey, int]] = {}  # by group: settled, to be announced here
        self.passing: list[Enquire] = []  # enquiries of other nodes, to be passed on here
        self.lives: dict[SiteId, int] = {}  # of the view before
        self.restored = False  # the state of another member was taken over since the last renewal
        self.first_view = 0  # of this life in this node
        self.taken: dict[SiteId, int] = {}  # the last message of each process that was taken here
        self.asked_count = 0  # enquiries since anything was settled
        self.wake_armed = self.tell_armed = self.enquire_armed = self.renew_armed = False

    # Out

    def enter(self, copy: Routed) -> None:
        """Queue a copy, to be submitted here in an event of its own."""
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
        """Submit queued copies in order, as far as this node is writable."""
        most = self.router.options.pack_max
        takes = self.below.writable if most == 1 else self.straight  # copies that wait in layers below cannot be packed
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
        """Submit the copies that waited until all sites of the node had joined."""
        self.forming = False
        self.forward()

    def straight(self) -> bool:
        """Whether a message submitted now leaves at once."""
        return self.below.sends_at_once(ALL)

    def settled(self) -> bool:
        waits = self.renew_armed or (
            self.router.has_replicas and self.router.forwards and self.intake.kept.first_pending()
        )
        return not self.queue and not waits and self.below.settled()

    # In

    def start(self) -> None:
        self.intake.host = self.host

    def ordered(self) -> dict[type[Message], Handler]:
        return dict.fromkeys(ORDERED, unintercepted)

    def handlers(self) -> dict[type[Message], Handler]:
        return {
            ConsumedReport: self.on_report,
            Settled: self.on_settled,
            Enquire: self.on_enquire,
            Missing: self.on_missing,
            Forgotten: refuse("processes"),
            Chase: self.on_chase,
            Alive: refuse("routers that find ways"),
        }

    def deliver(self, cast: Cast, finality: Finality = Finality.FINAL) -> None:
        body = cast.body if isinstance(cast, Carried) else None
        if isinstance(body, Routed | Pack):
            if finality is Finality.FINAL:
                self.take_all(cast, body.copies if isinstance(body, Pack) else (body,))
        elif not isinstance(body, Distances):
            self.above.deliver(cast, finality)  # of the group alone
        elif finality is Finality.FINAL:
            self.on_distances(cast.sender, body)
            self.below.consumed(cast)

    def on_distances(self, source: SiteId, distances: Distances) -> None:
        """Take in the distances that a router announces; with static routes there is nothing to do."""

    def take_all(self, cast: Cast, copies: tuple[Routed, ...]) -> None:
        for copy in copies:
            walk = self.intake.checked(cast.sender, copy)
            if walk is None:
                continue
            self.intake.note_begun(copy, walk)
            if copy.copy == 0:
                self.taken[copy.sender] = max(copy.number, self.taken.get(copy.sender, 0))
            if not isinstance(copy, Trailer):
                self.intake.sift(ReceivedCopy(cast.sender, cast.number, copy), walk)
            fresh = self.intake.keep(copy, walk)
            if self.router.forwards and not self.router.has_replicas:
                self.router.pass_on(copy)
            elif self.router.forwards and fresh:
                self.router.advance()
        if self.intake.kept.copies:
            for port in self.router.ports.values():
                port.enquire_later()
        self.below.consumed(cast)

    # Settled messages

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
        """Compute what all processes here have consumed."""
        processes = [site for site in self.stack.view.members if site in self.routes.processes[self.host.group]]
        if processes:
            rows = [self.reported.get(site, {}) for site in processes]
            entries = tuple((key, min([row.get(key, 0) for row in rows])) for key in keys)
            self.router.learn(self.host.group, entries, None)

    def on_settled(self, source: SiteId, settled: Settled) -> None:
        if source not in self.routes.router_of:
            raise RemoteError(f"a Settled of site {source}, which is no router")
        self.asked_count = 0
        self.router.learn(settled.group, settled.entries, self.host.group)

    def tell(self, group: int, entries: tuple[Entry, ...]) -> None:
        """Schedule an announcement of settled messages in this node."""
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
        """Enquire in this node after a while, unless all is settled by then."""
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
        """Answer with what is settled, and pass the enquiry on to the other nodes."""
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
        """Forward a message once more, or answer that it is no longer kept."""
        group, sender, _, _ = missing.stream
        author = (GroupId(group), SiteId(sender), missing.number)
        found = [kept for port in self.router.ports.values() for kept in port.intake.kept.find(author)]
        for kept in found:
            self.router.pass_on(kept.copy)
        if not found:
            self.send((source,), Forgotten(missing.stream, missing.number))

    def on_chase(self, source: SiteId, chase: Chase) -> None:
        """Send a trailer behind the messages of a process, unless some are still to arrive here."""
        trailer = self.routes.trailer(self.host.group, source, chase)
        if self.taken.get(source, 0) >= chase.number or chase.view < self.first_view:
            self.router.pass_on(trailer)

    # Views

    def install(self, view: View) -> None:
        self.intake.view_id = view.view_id
        self.first_view = self.first_view or view.view_id
        self.renew_armed = True
        self.host.set_timer(self, RENEW, 0)  # once all layers have installed it

    def state(self) -> bytes:
        return self.intake.state()

    def restore(self, state: bytes) -> None:
        self.intake.restore(state)
        self.restored = self.renew_armed = True
        self.host.set_timer(self, RENEW, 0)

    def resume(self) -> None:
        self.forward()
        self.above.resume()

    def renew(self) -> None:
        """Apply a view: which replica forwards, what is forwarded again, what is settled."""
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
        """Whether a new router, or the first process after none, may lack copies that were forwarded before."""
        old = [site for site, life in view.lives() if self.lives.get(site) == life]
        new = [site for site, life in view.lives() if self.lives.get(site) != life and site != self.host.site]
        processes = self.routes.processes[self.host.group]
        return any(site in self.routes.router_of for site in new) or (
            any(site in processes for site in new) and not any(site in processes for site in old)
        )


class SteeringRouter(Router):
    """A router that recomputes routes: the state that its ports share."""

    __slots__ = ("steering", "table", "ways")

    def __init__(self, routes: RecomputedRoutes, site: SiteId, options: RouterOptions) -> None:
        super().__init__(routes, site, options)
        joined = [routes.group_ids[name] for name in routes.composition.routers[self.number].joins]
        self.table = DistanceTable(site, joined, len(routes.composition.groups), routes.limit)
        self.steering: dict[GroupId, SteeringPort] = {}
        self.ways: dict[tuple[int, int], tuple[int, int] | None] = {}  # by node and group: distance and next node

    def port(self, node: GroupId) -> RouterPort:
        made = self.ports[node] = self.steering[node] = SteeringPort(self)
        return made

    def send_on(self, node: int, copy: Steered, groups: Iterable[int], again: bool = False) -> None:
        """Queue the copies that follow from one in a node for some groups, where this router is the next hop."""
        if copy.copy >= self.table.limit:
            return
        found: dict[int, list[int]] = {}
        for group in groups:
            other = self.table.next_node(node, group)
            if other is not None:
                found.setdefault(other, []).append(group)
        for other, remaining in found.items():
            port = self.steering.get(GroupId(other))
            made = msgspec.structs.replace(copy, copy=copy.copy + 1, remaining=tuple(remaining))
            if port is not None and not (again and made in port.queue):
                port.enter(made)

    def refresh(self) -> None:
        """Announce changed distances, and send again what has another route now."""
        for node, port in self.steering.items():
            if self.table.told(node) != port.told:
                port.owe_distances()
        for node, port in self.steering.items():
            changed = [group for group in self.table.groups if self.is_changed(node, group)]
            if changed:
                port.send_again(changed)

    def is_changed(self, node: int, group: int) -> bool:
        """Whether a node has a route to a group other than before."""
        way = self.table.way(node, group) if self.table.next_node(node, group) is not None else None
        before, self.ways[node, group] = self.ways.get((node, group)), way
        return way is not None and way != before


class SteeringPort(RouterPort):
    """The port of a router that recomputes routes."""

    __slots__ = ("asked_ns", "owes", "seen", "steerer", "told")

    def __init__(self, router: SteeringRouter) -> None:
        super().__init__(router)
        self.steerer = router
        self.owes = False  # distances are to be announced here
        self.told: tuple[tuple[int, int], ...] = ()  # the last ones announced
        self.asked_ns: dict[SiteId, int] = {}  # unanswered enquiries: the time of the first, by router
        self.seen: dict[tuple[int, StreamKey], int] = {}  # unsettled streams at the last enquiry, and how far they were

    # Out

    def owe_distances(self) -> None:
        self.owes = True
        if not self.wake_armed:
            self.wake_armed = True
            self.host.set_timer(self, WAKE, 0)

    def forward(self) -> None:
        if self.owes and not self.forming and self.below.writable():
            self.owes = False
            self.told = self.steerer.table.told(self.host.group)
            body = Distances(self.told)
            carried: Carried[Any] = Carried(self.host.site, self.host.next_number(), b"", ALL, None, body)
            self.below.submit(carried)
        super().forward()

    def settled(self) -> bool:
        return not self.owes and super().settled()

    # In

    def take_all(self, cast: Cast, copies: tuple[Routed, ...]) -> None:
        for copy in copies:
            walk = self.intake.checked(cast.sender, copy)
            if walk is None or not isinstance(copy, Steered):
                continue
            self.intake.sift(ReceivedCopy(cast.sender, cast.number, copy), walk)
            if self.intake.keep(copy, walk) and cast.sender != self.host.site:
                self.steerer.send_on(self.host.group, copy, copy.remaining)
        if self.intake.kept.copies:
            for port in self.router.ports.values():
                port.enquire_later()
        self.below.consumed(cast)

    def on_distances(self, source: SiteId, distances: Distances) -> None:
        life = dict(self.stack.view.lives()).get(source)
        if source not in self.routes.router_of:
            self.host.trace(Kind.REJECT, value=source)
        elif life is not None:
            self.steerer.table.note(self.host.group, source, life, distances.entries)
            self.steerer.refresh()

    def handlers(self) -> dict[type[Message], Handler]:
        return super().handlers() | {Alive: self.on_alive}

    def on_enquire(self, source: SiteId, enquire: Enquire) -> None:
        if source in self.routes.router_of:
            self.send((source,), Alive())
        super().on_enquire(source, enquire)

    def on_missing(self, source: SiteId, missing: Missing) -> None:
        raise RemoteError(f"{missing} of site {source}, where missing messages are sent without a request")

    # Silence

    def note_asked(self) -> None:
        """Note an enquiry to the routers here, and which of them have become silent."""
        now_ns, table, node = self.host.now_ns, self.steerer.table, self.host.group
        longest_ns = SILENT_ENQUIRIES * self.router.options.enquire_ms * 1e6
        for site in self.others():
            if site in self.routes.router_of:
                since_ns = self.asked_ns.setdefault(site, now_ns)
                if now_ns - since_ns > longest_ns and (node, site) not in table.silent:
                    table.silent[node, site] = None
                    self.steerer.refresh()
                    self.queue = deque(copy for copy in self.queue if self.leads_on(copy))

    def on_alive(self, source: SiteId, alive: Alive) -> None:  # noqa: ARG002
        self.asked_ns.pop(source, None)
        if (self.host.group, source) in self.steerer.table.silent:
            del self.steerer.table.silent[self.host.group, source]
            self.steerer.refresh()

    def leads_on(self, copy: Routed) -> bool:
        """Whether a queued copy has a route through this node; otherwise it is sent again by another route."""
        table, node = self.steerer.table, self.host.group
        return isinstance(copy, Steered) and any(table.beyond(node, one) <= table.limit for one in copy.remaining)

    def tell_news(self) -> None:
        if self.passing:
            self.note_asked()
        super().tell_news()

    # Sending again

    def send_again(self, groups: Container[int], stuck: Container[tuple[int, StreamKey]] | None = None) -> None:
        """Send kept copies for some groups that are not settled there again, in order; of stuck authors, or of all."""
        for kept in self.intake.kept.copies.values():
            copy, key = kept.copy, stream_of(kept.copy, kept.domain)
            lacking = [
                group
                for group in kept.stops
                if group in groups
                and self.intake.known.of(group, key) < copy.number
                and (stuck is None or (group, key) in stuck)
            ]
            if lacking and isinstance(copy, Steered):
                self.steerer.send_on(self.host.group, copy, lacking, again=True)

    def enquire(self) -> None:
        """Query what is settled; where nothing of an author was since the last time, send it again at once."""
        if self.router.keeps_any:
            self.note_asked()
        else:
            self.asked_ns.clear()  # no enquiries while nothing is under way
        super().enquire()
        seen: dict[tuple[int, StreamKey], int] = {}
        for kept in self.intake.kept.copies.values():
            key = stream_of(kept.copy, kept.domain)
            for group in kept.stops:
                if self.intake.known.of(group, key) < kept.copy.number:
                    seen[group, key] = self.intake.known.of(group, key)
        stuck = {name: None for name, number in seen.items() if self.seen.get(name) == number}
        self.seen = seen
        if stuck:
            self.send_again(self.steerer.table.groups, stuck)

    # Views

    def renew(self) -> None:
        super().renew()
        table, node = self.steerer.table, self.host.group
        table.keep_only(node, dict(self.stack.view.lives()))
        table.silent = {key: None for key in table.silent if key[0] != node}
        self.asked_ns.clear()
        self.owe_distances()
        self.steerer.refresh()
