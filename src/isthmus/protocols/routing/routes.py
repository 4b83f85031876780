"""The sites of a composition at run time, and the route of each class of messages.

Every node of a composition, group or IGP, is a group of the run, with the node's number for its id. Its members are the
processes of the group, then the sites of the routers that join it. A router with replicas is one site per replica.

A *class* is what one group sends to one set of groups. The walk of a class (walks.py) says which copy is made of which,
in which node, by which router: the calculus decides by it and routers forward by it, so that there is one definition.

`RecomputedRoutes` leaves the choice of routes to the routers (router.py). It promises FIFO order only, so a composition
that wants more is refused, and one whose routes are not for routers to choose: other forwarding than plain, several
domains, named routes or IGPs. Replicas are another answer to the same problem and are not combined with it. Datagrams
would lose distances.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from isthmus.core.errors import LocalError, RemoteError
from isthmus.core.message import GroupId, SiteId, Targets
from isthmus.core.validation import BadValue
from isthmus.protocols.routing.calculus.model import KEEPS, Composition, OrderingDomain, RouterSpec
from isthmus.protocols.routing.calculus.semantics import decide
from isthmus.protocols.routing.calculus.shape import Shape
from isthmus.protocols.routing.calculus.walks import SENDER, Walk, walk_of
from isthmus.protocols.routing.wire import Chase, Routed, Steered, Trailer

Class = tuple[int, tuple[int, ...]]  # the group that sends, and the groups that it is for, ascending


def replica_names(router: RouterSpec) -> tuple[str, ...]:
    """Return the sites of a router: its name, with a number where there are several."""
    if router.replicas == 1:
        return (router.name,)
    return tuple(f"{router.name}-{number}" for number in range(router.replicas))


def site_names(composition: Composition) -> tuple[str, ...]:
    """Return all sites of a composition, each once: processes by groups, then routers."""
    processes = (member for group in composition.groups for member in group.members)
    routers = (name for router in composition.routers for name in replica_names(router))
    return tuple(dict.fromkeys((*processes, *routers)))


class WalkTraits(NamedTuple):
    """Traits of a class's walk and the routers on it, computed once."""

    kept: tuple[bool, ...]  # of each copy
    reports: bool
    in_order: bool
    final: bool
    firsts: tuple[Targets, ...]  # the sites of each router that takes the class on from its group


class CompositionRoutes:
    """A composition with its names resolved; the same value at every site."""

    __slots__ = (
        "_domain_of",
        "_fifo",
        "_traits",
        "_walks",
        "composition",
        "group_ids",
        "homes",
        "processes",
        "router_of",
        "shapes",
        "sites",
    )

    recomputed = False  # whether routers recompute routes; missing messages are then sent again without a request

    def __init__(self, composition: Composition, numbers: Mapping[str, SiteId]) -> None:
        self.composition = composition
        self.shapes = tuple(Shape(composition, domain) for domain in composition.domains)
        self.group_ids = {node.name: GroupId(number) for number, node in enumerate(composition.nodes)}
        self.processes: tuple[Targets, ...] = tuple(  # of each node; none of an IGP
            tuple(numbers[name] for name in group.members) for group in composition.groups
        ) + ((),) * len(composition.igps)
        self.sites: tuple[Targets, ...] = tuple(  # of each router
            tuple(numbers[name] for name in replica_names(router)) for router in composition.routers
        )
        self.router_of: dict[SiteId, int] = {site: at for at, sites in enumerate(self.sites) for site in sites}
        self.homes = tuple(  # of each router: the node in whose view its replicas choose the one that forwards
            self.group_ids[router.joins[0]] for router in composition.routers
        )
        self._walks: dict[Class, Walk] = {}
        self._domain_of: dict[Class, int] = {}
        self._traits: dict[Class, WalkTraits] = {}
        self._fifo: dict[int, bool] = {}  # of each domain: whether messages between its groups keep their order

    def members(self, node: int) -> Targets:
        """Return the sites of a node: its processes, then its routers."""
        name = self.composition.nodes[node].name
        joined = [
            site
            for router, sites in zip(self.composition.routers, self.sites, strict=True)
            if name in router.joins
            for site in sites
        ]
        return (*self.processes[node], *joined)

    def receivers(self, to: Iterable[int]) -> Targets:
        """Return the processes of some groups."""
        return tuple(dict.fromkeys(site for group in to for site in self.processes[group]))

    def walk(self, source: int, to: tuple[int, ...]) -> Walk:
        """Return the walk of a class; raises LocalError where no domain has it."""
        key = (source, to)
        if key not in self._walks:
            domain = self.domain_of(source, to)
            self._walks[key] = walk_of(self.shapes[domain], domain, source, to)
        return self._walks[key]

    def stops(self, walk: Walk) -> tuple[int, ...]:
        """Return the groups that a message must reach: its destinations, and its author's where that awaits it."""
        return (*walk.to, walk.source) if walk.holds and walk.source not in walk.to else walk.to

    def is_causal(self, node: int) -> bool:
        return KEEPS[self.composition.nodes[node].semantics].causal

    def is_replicated(self, router: int) -> bool:
        return len(self.sites[router]) > 1

    def keeps(self, walk: Walk, copy: int) -> bool:
        """Whether members keep a copy until it has arrived everywhere.

        They do where a router with replicas takes it, or has made it: it then shows what that router forwarded first.
        """
        return self.traits(walk).kept[copy]

    def reports(self, walk: Walk) -> bool:
        """Whether routers wait for reports on messages of a class."""
        return self.traits(walk).reports

    def first_copy(self, group: GroupId, sender: SiteId, number: int, to: tuple[int, ...]) -> Routed:
        """Return the copy that a process submits in its group, without predecessors and payload."""
        return Routed(group, sender, number, to, 0, ())

    def is_taken_on(self, walk: Walk, members: Targets) -> bool:
        """Whether a view of a group has the routers that take a class from it."""
        return all(any(site in members for site in sites) for sites in self.traits(walk).firsts)

    def trailer(self, group: GroupId, sender: SiteId, chase: Chase) -> Trailer:
        """Return the trailer behind a process's messages; raises RemoteError where none can be lost."""
        if sender not in self.processes[group] or self.refusal(group, chase.to):
            raise RemoteError(f"{chase} of site {sender}, which sends no such messages")
        walk = self.walk(group, chase.to)
        if not self.is_final(walk):
            raise RemoteError(f"{chase} of site {sender}, where what is missing may still come")
        return Trailer(group, sender, chase.number, chase.to, 0, (0,) * len(self.stops(walk)))

    def for_application(self, copy: Routed, walk: Walk, group: int) -> bool:  # noqa: ARG002
        """Whether the processes of a group deliver a copy that has come there."""
        return walk.copies[copy.copy].for_application

    def check_courier(self, copy: Routed, walk: Walk, group: int, courier: SiteId) -> None:
        """Refuse a copy that is off its route, or that its courier may not forward."""
        if copy.copy >= len(walk.copies) or walk.copies[copy.copy].node != group:
            raise RemoteError(f"copy {copy.copy} of {copy.author} in group {group}, which is not on its route")
        router = walk.copies[copy.copy].router
        if courier not in ((copy.sender,) if router == SENDER else self.sites[router]):
            raise RemoteError(
                f"site {courier} forwards {copy.author}, but is neither its author nor a router on its route"
            )

    def in_order(self, walk: Walk) -> bool:
        """Whether an author's messages arrive in order without loss, so that a gap is worth waiting for."""
        return self.traits(walk).in_order

    def is_final(self, walk: Walk) -> bool:
        """Whether nothing is sent again: a message that a later one precedes was overtaken, or is lost."""
        return self.traits(walk).final

    def traits(self, walk: Walk) -> WalkTraits:
        key = (walk.source, walk.to)
        found = self._traits.get(key)
        if found is None:
            found = self._traits[key] = self.traits_of(walk)
        return found

    def traits_of(self, walk: Walk) -> WalkTraits:
        copies, fifo = walk.copies, self.is_fifo(walk.domain)
        made = [one.router != SENDER and self.is_replicated(one.router) for one in copies]
        taken = dict.fromkeys(one.before for one, replicated in zip(copies, made, strict=True) if replicated)
        firsts = dict.fromkeys(one.router for one in copies if one.before == 0 and one.router != SENDER)
        return WalkTraits(
            kept=tuple(replicated or at in taken for at, replicated in enumerate(made)),
            reports=any(made),
            in_order=fifo and all(one.router == SENDER or self.is_replicated(one.router) for one in copies),
            final=not any(made),
            firsts=tuple(self.sites[router] for router in firsts),
        )

    def is_fifo(self, domain: int) -> bool:
        """Whether messages of one author between the groups of a domain keep their order."""
        if domain not in self._fifo:
            one = self.composition.domains[domain]
            self._fifo[domain] = decide(self.composition, (one,), "inter").of("fifo").holds
        return self._fifo[domain]

    def domain_of(self, source: int, to: tuple[int, ...]) -> int:
        """Return the first domain that has a class."""
        reason = self.refusal(source, to)
        if reason:
            raise LocalError(reason)
        return self._domain_of[source, to]

    def refusal(self, source: int, to: tuple[int, ...]) -> str:
        """Return why a group may not send to some groups (ascending); empty where it may."""
        if (source, to) in self._domain_of:
            return ""
        groups = self.composition.groups
        if not to or not all(0 <= group < len(groups) for group in (source, *to)):
            return "a message goes to one or more groups of the composition"
        names = {groups[group].name for group in (source, *to)}
        told = f"from {groups[source].name} to {', '.join(groups[group].name for group in to)}"
        closed = [groups[group].name for group in to if group != source and not groups[group].open]
        if closed:
            return f"a message {told}: {closed[0]} is closed"
        found = [at for at, domain in enumerate(self.composition.domains) if names <= set(domain.groups)]
        if not found:
            return f"a message {told}: no domain has all of these groups"
        for at in found:
            if self.has_flow(self.composition.domains[at], source, to):
                self._domain_of[source, to] = at
                return ""
        return f"a message {told}: the domain {self.composition.domains[found[0]].name} has no such flow"

    def has_flow(self, domain: OrderingDomain, source: int, to: tuple[int, ...]) -> bool:
        """Whether a domain's flows, or its list of groups with messages of their own, have a class."""
        groups = self.composition.groups
        if to == (source,):
            return groups[source].name in domain.intra_groups
        named = {groups[group].name for group in to}
        return not domain.flows or any(
            flow.source == groups[source].name and set(flow.to) == named for flow in domain.flows
        )


class RecomputedRoutes(CompositionRoutes):
    """A composition whose routers recompute routes; raises BadValue where they may not."""

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
            raise RemoteError(f"a copy of {copy.author} without a route")
        own = courier == copy.sender and group == copy.origin
        if not (own if copy.copy == 0 else courier in self.router_of):
            raise RemoteError(f"site {courier} forwards {copy.author}, but is neither its author nor a router")

    def keeps(self, walk: Walk, copy: int) -> bool:  # noqa: ARG002
        return copy == 0

    def reports(self, walk: Walk) -> bool:  # noqa: ARG002
        return True

    def in_order(self, walk: Walk) -> bool:  # noqa: ARG002
        return True

    def is_final(self, walk: Walk) -> bool:  # noqa: ARG002
        return False


def fixed_by(composition: Composition) -> str:
    """Return why the routers of a composition may not choose routes; empty where they may."""
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
