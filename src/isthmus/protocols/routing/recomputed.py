"""Routes that are recomputed when a router or an IGP fails: steering by distances, and the flush that keeps FIFO order.

The problem: what is in the hands of a router that fails is lost, and what goes another way from then on overtakes what
is still under way on the old one. The idea has two halves, and neither does without the other:

*Keep and send again.* All members of a message's own group keep it until all groups that it is for are done with it
(keeping.py). The router that takes on what leaves that group for another one sends again, in order, all that the other
is not known to be done with: when its way there changes (the flush), and as long as nothing of an author is settled
there between two enquiries, as a way may have changed far off. Routers further on keep nothing.

*Hold.* A process takes an author's messages in the author's order, whatever ways they came: each tells the number of
the one before it to the same group. What comes early waits; what comes again is dropped.

*Silence.* A node's view may stand though a router in it is gone or cut off: a link has two sites, and one of two is no
majority. While something is not settled, routers ask each other in all nodes, and answer. One that has not answered for
`SILENT_ENQUIRIES` enquiries is silent: what it told does not count until it answers. Whether it is heard by itself says
nothing: what is sent to it may be lost.

So FIFO order per author does not depend on routes at all; while they change a message may come twice, late, or go
astray, but it comes. Which router takes a copy on, and where to, is found by distances (distances.py), which routers
tell as messages of the nodes that they share: none is lost, and they are told again in every view.

Invariants:
- A copy has passed at most as many routers as there are: one that strays is dropped.
- What is for a group and not settled there is kept by every member of its author's group.
- A router never takes on what it has submitted itself.

Not kept: a message whose author crashes with all others that had it. What the author sent later to the same group is
then not delivered there.

Only FIFO order is promised, so a composition that wants more is refused, and one whose ways are not for routers to
choose: other forwarding than plain, several domains, named routes or IGPs. Replicas are another answer to the same
question and are not mixed with this one. Datagrams would lose distances.

Bounds: as with static routes; a queue never has the same copy twice by sending again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Mapping
from typing import Any

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Kind
from isthmus.core.message import ALL, Carried, GroupId, SiteId, Targets
from isthmus.core.validation import BadValue
from isthmus.protocols.routing.calculus.model import Composition
from isthmus.protocols.routing.calculus.walks import Walk
from isthmus.protocols.routing.distances import DistanceTable
from isthmus.protocols.routing.ends import ReceivedCopy
from isthmus.protocols.routing.filter import stream_of
from isthmus.protocols.routing.options import RouterOptions
from isthmus.protocols.routing.router import WAKE, Router, RouterPort
from isthmus.protocols.routing.routes import CompositionRoutes
from isthmus.protocols.routing.wire import Alive, Distances, Enquire, Missing, Routed, Steered, StreamKey

SILENT_ENQUIRIES = 5  # times `enquire_ms` without an answer to what was asked


class RecomputedRoutes(CompositionRoutes):
    """A composition whose routers find the ways; raises BadValue where they may not."""

    __slots__ = ()
    recomputed = True

    def __init__(self, composition: Composition, numbers: Mapping[str, SiteId]) -> None:
        reason = fixed_by(composition)
        if reason:
            right = "static, or plain forwarding in one domain of all groups that wants fifo, without replicas"
            raise BadValue("router.routes", f"'recomputed' with {reason}", right)
        super().__init__(composition, numbers)

    @property
    def limit(self) -> int:
        return len(self.sites)

    def first_copy(self, group: GroupId, sender: SiteId, number: int, to: tuple[int, ...]) -> Routed:
        return Steered(group, sender, number, to, 0, (), remaining=to)

    def for_application(self, copy: Routed, walk: Walk, group: int) -> bool:  # noqa: ARG002
        return isinstance(copy, Steered) and group in copy.remaining

    def is_taken_on(self, walk: Walk, members: Targets) -> bool:  # noqa: ARG002
        return True  # it is kept, and sent again when there is a way

    def check_courier(self, copy: Routed, walk: Walk, group: int, courier: SiteId) -> None:
        if not isinstance(copy, Steered) or copy.copy > self.limit or any(one not in walk.to for one in copy.remaining):
            raise RemoteError(f"a copy of {copy.author} that leads nowhere")
        own = courier == copy.sender and group == copy.origin
        if not (own if copy.copy == 0 else courier in self.router_of):
            raise RemoteError(f"site {courier} brings {copy.author}, which is not its message, nor is it a router")

    def keeps(self, walk: Walk, copy: int) -> bool:  # noqa: ARG002
        return copy == 0

    def reports(self, walk: Walk) -> bool:  # noqa: ARG002
        return True

    def in_order(self, walk: Walk) -> bool:  # noqa: ARG002
        return True

    def is_final(self, walk: Walk) -> bool:  # noqa: ARG002
        return False


def fixed_by(composition: Composition) -> str:
    """What keeps the routers of a composition from choosing ways; empty where nothing does."""
    domain = composition.domains[0]
    reasons = {
        f"{len(composition.domains)} domains": len(composition.domains) > 1,
        f"{domain.forwarding} forwarding": domain.forwarding != "plain",
        f"a domain that wants {domain.wants}": domain.wants not in ("none", "fifo"),
        "groups outside the domain": len(domain.groups) < len(composition.groups),
        "a domain that names its IGPs": bool(domain.igps),
        "[[routes]] tables": bool(composition.routes),
        "replicas of a router": any(router.replicas > 1 for router in composition.routers),
        "an IGP of datagrams": any(igp.kind == "datagrams" for igp in composition.igps),
    }
    return next((reason for reason, is_so in reasons.items() if is_so), "")


class SteeringRouter(Router):
    """What the ports of one site that finds ways share."""

    __slots__ = ("steering", "table", "ways")

    def __init__(self, routes: RecomputedRoutes, site: SiteId, options: RouterOptions) -> None:
        super().__init__(routes, site, options)
        joined = [routes.group_ids[name] for name in routes.composition.routers[self.number].joins]
        self.table = DistanceTable(site, joined, len(routes.composition.groups), routes.limit)
        self.steering: dict[GroupId, SteeringPort] = {}
        self.ways: dict[tuple[int, int], tuple[int, int] | None] = {}  # node and group: how far, and where to

    def port(self, node: GroupId) -> RouterPort:
        made = self.ports[node] = self.steering[node] = SteeringPort(self)
        return made

    def send_on(self, node: int, copy: Steered, groups: Iterable[int], again: bool = False) -> None:
        """Queue what follows from a copy in a node for some groups, as far as this router takes it on."""
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
        """Tell the nodes what has changed for them, and send again what has another way now."""
        for node, port in self.steering.items():
            if self.table.told(node) != port.told:
                port.owe_distances()
        for node, port in self.steering.items():
            changed = [group for group in self.table.groups if self.is_changed(node, group)]
            if changed:
                port.send_again(changed)

    def is_changed(self, node: int, group: int) -> bool:
        """Whether there is a way from a node to a group, and not the one before."""
        way = self.table.way(node, group) if self.table.next_node(node, group) is not None else None
        before, self.ways[node, group] = self.ways.get((node, group)), way
        return way is not None and way != before


class SteeringPort(RouterPort):
    """One output and one input of a router that finds ways."""

    __slots__ = ("asked_ns", "owes", "seen", "steerer", "told")

    def __init__(self, router: SteeringRouter) -> None:
        super().__init__(router)
        self.steerer = router
        self.owes = False  # distances are to be told here
        self.told: tuple[tuple[int, int], ...] = ()  # that were told last
        self.asked_ns: dict[SiteId, int] = {}  # when routers here were asked that have said nothing since
        self.seen: dict[tuple[int, StreamKey], int] = {}  # what was settled at the last enquiry, where not all was

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

    def take_all(self, cast: Carried[Any], copies: tuple[Routed, ...]) -> None:
        for copy in copies:
            walk = self.checked(cast.sender, copy)
            if walk is None or not isinstance(copy, Steered):
                continue
            self.sift(ReceivedCopy(cast.sender, cast.number, copy), walk)
            if self.keep(copy, walk) and cast.sender != self.host.site:
                self.steerer.send_on(self.host.group, copy, copy.remaining)
        if self.kept.copies:
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

    def on_enquire(self, source: SiteId, enquire: Enquire) -> None:
        if source in self.routes.router_of:
            self.send((source,), Alive())
        super().on_enquire(source, enquire)

    def on_missing(self, source: SiteId, missing: Missing) -> None:
        raise RemoteError(f"{missing} of site {source}, where what is missing comes unasked")

    # Silence

    def note_asked(self) -> None:
        """Take in that routers here are asked, and which have not answered for long."""
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
        """Whether a copy that waits has a way through this node; where not, it comes again by another one."""
        table, node = self.steerer.table, self.host.group
        return isinstance(copy, Steered) and any(table.beyond(node, one) <= table.limit for one in copy.remaining)

    def tell_news(self) -> None:
        if self.passing:
            self.note_asked()
        super().tell_news()

    # Sending again

    def send_again(self, groups: Container[int], stuck: Container[tuple[int, StreamKey]] | None = None) -> None:
        """Send again what is kept here for some groups and not settled there, in order; of stuck authors, or of all."""
        for kept in self.kept.copies.values():
            copy, key = kept.copy, stream_of(kept.copy, kept.domain)
            lacking = [
                group
                for group in kept.stops
                if group in groups
                and self.known.of(group, key) < copy.number
                and (stuck is None or (group, key) in stuck)
            ]
            if lacking and isinstance(copy, Steered):
                self.steerer.send_on(self.host.group, copy, lacking, again=True)

    def enquire(self) -> None:
        """Ask what is settled; and where nothing of an author was since the last time, do not wait for an answer."""
        if self.router.keeps_any:
            self.note_asked()
        else:
            self.asked_ns.clear()  # nobody is asked while nothing is under way
        super().enquire()
        seen: dict[tuple[int, StreamKey], int] = {}
        for kept in self.kept.copies.values():
            key = stream_of(kept.copy, kept.domain)
            for group in kept.stops:
                if self.known.of(group, key) < kept.copy.number:
                    seen[group, key] = self.known.of(group, key)
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
