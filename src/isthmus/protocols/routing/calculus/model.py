"""Compositions: groups, the protocols between them, the routers that join them, and the domains that want an order.

A *composition* says what is joined to what and what is wanted; it says nothing of machines, delays or time. Groups and
inter-group protocols (IGPs) are alike to a router: protocols that it is a member of, each with the order that it keeps.
Both are called *nodes* here. A *domain* is a set of groups that exchange messages and want one order of them.

Invariants, checked on construction: names are unique; a router is in two or more nodes; a link has two routers; the
groups of a domain share no process, and neither do groups of domains that are connected through shared groups;
whatever needs a tree has one (`shape.py`, by the loader). Every mistake raises `BadValue`, naming the key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from isthmus.core.validation import BadValue, one_of, show

Semantics = Literal["none", "fifo", "causal", "total", "fifo-total", "causal-total"]
Wanted = Literal["none", "fifo", "causal", "total", "fifo-total", "causal-total"]
Forwarding = Literal["plain", "total", "hierarchical", "shadow-and-hold"]
IgpKind = Literal["datagrams", "link", "group"]
DomainScope = Literal["inter", "all"]
REPLICAS_MAX = 100


class Keeps(msgspec.Struct, frozen=True):
    """The orders that a protocol keeps among its members.

    In one group, where every member delivers every message, FIFO and total order together give causal order: what a
    member delivered before it sent is ahead in the one order, and so are its own earlier messages.
    """

    fifo: bool
    causal: bool
    total: bool


KEEPS: dict[str, Keeps] = {
    "none": Keeps(False, False, False),
    "fifo": Keeps(True, False, False),
    "causal": Keeps(True, True, False),
    "total": Keeps(False, False, True),
    "fifo-total": Keeps(True, True, True),
    "causal-total": Keeps(True, True, True),
}
Part = Literal["fifo", "causal", "total"]
PARTS: dict[str, tuple[Part, ...]] = {  # what a wanted order is made of
    "none": (),
    "fifo": ("fifo",),
    "causal": ("fifo", "causal"),
    "total": ("total",),
    "fifo-total": ("fifo", "total"),
    "causal-total": ("fifo", "causal", "total"),
}


class ProcessGroup(msgspec.Struct, frozen=True):
    """Processes that multicast to each other by one protocol; others reach them through a router, if it is open."""

    name: str
    members: tuple[str, ...]
    semantics: Semantics
    stack: str = ""  # the named stack that gives these semantics; empty: only the semantics are known
    open: bool = True  # other groups may send to it

    def __post_init__(self) -> None:
        if not self.members:
            raise BadValue("members", "no member", "at least one")
        if twice := first_twice(self.members):
            raise BadValue("members", f"{twice!r} twice", "each member once")


class Igp(msgspec.Struct, frozen=True):
    """An inter-group protocol: what routers speak with each other."""

    name: str
    semantics: Semantics
    kind: IgpKind = "group"  # datagrams may be lost, too
    stack: str = ""


class RouterSpec(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A process that is in several nodes and forwards between them, in FIFO order for each output."""

    name: str
    joins: tuple[str, ...]  # groups and IGPs
    replicas: int = 1  # processes that stand in for each other; one router to the calculus

    def __post_init__(self) -> None:
        if twice := first_twice(self.joins):
            raise BadValue("joins", f"{twice!r} twice", "each group or IGP once")
        if len(self.joins) < 2:
            found = f"only {self.joins[0]!r}" if self.joins else "nothing"
            raise BadValue("joins", found, "two or more groups or IGPs, between which it forwards")
        if not 1 <= self.replicas <= REPLICAS_MAX:
            raise BadValue("replicas", show(self.replicas), f"a number from 1 to {REPLICAS_MAX}")


class GroupFlow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"source": "from"}):
    """Messages that the members of one group send to other groups, with their own among them or not."""

    source: str
    to: tuple[str, ...]


class OrderingDomain(msgspec.Struct, frozen=True, omit_defaults=True):
    """Groups that want one order of the messages between them, or of all their messages."""

    name: str
    groups: tuple[str, ...]
    wants: Wanted
    scope: DomainScope = "inter"  # inter: messages that pass between groups; all: those inside a group, too
    forwarding: Forwarding = "plain"
    flows: tuple[GroupFlow, ...] = ()  # empty: any group sends to any groups, its own among them
    intra: tuple[str, ...] | None = None  # groups with messages of their own, which stay inside; None: all
    igps: tuple[str, ...] = ()  # that it uses; empty: those on a way between its groups
    root: str = ""  # the IGP at the top; empty: the one in the middle
    prioritised: bool = False  # messages between groups overtake those inside a group

    @property
    def intra_groups(self) -> tuple[str, ...]:
        return self.groups if self.intra is None else self.intra

    def __post_init__(self) -> None:
        if len(self.groups) < 2:
            raise BadValue("groups", show(list(self.groups)), "two or more groups")
        if twice := first_twice(self.groups):
            raise BadValue("groups", f"{twice!r} twice", "each group once")
        for key, names in (("intra", self.intra_groups), *((f"flows[{at}]", groups_in(f)) for at, f in self.numbered)):
            for name in names:
                if name not in self.groups:
                    raise BadValue(key, show(name), f"a group of the domain: {one_of(name, self.groups)}")
        for at, flow in self.numbered:
            if not flow.to or first_twice(flow.to) or flow.to == (flow.source,):
                raise BadValue(f"flows[{at}].to", show(list(flow.to)), "other groups, each once; intra is for its own")

    @property
    def numbered(self) -> list[tuple[int, GroupFlow]]:
        return list(enumerate(self.flows))


class StaticRoute(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"source": "from"}):
    """The routers that messages of a group pass on their way to another; needed only where there is a choice."""

    source: str
    to: str
    via: tuple[str, ...]


class Composition(msgspec.Struct, frozen=True):
    """Groups joined by routers, and the domains that want an order."""

    name: str
    groups: tuple[ProcessGroup, ...]
    routers: tuple[RouterSpec, ...]
    domains: tuple[OrderingDomain, ...]
    igps: tuple[Igp, ...] = ()
    routes: tuple[StaticRoute, ...] = ()

    def __post_init__(self) -> None:
        check_unique_names(self)
        check_routers(self)
        check_ordering_domains(self)

    @property
    def nodes(self) -> tuple[ProcessGroup | Igp, ...]:
        return (*self.groups, *self.igps)

    def node(self, name: str) -> ProcessGroup | Igp:
        return next(node for node in self.nodes if node.name == name)

    def group(self, name: str) -> ProcessGroup:
        return next(group for group in self.groups if group.name == name)

    def routers_of(self, name: str) -> list[RouterSpec]:
        """The routers that are members of a node."""
        return [router for router in self.routers if name in router.joins]


def groups_in(flow: GroupFlow) -> tuple[str, ...]:
    return (flow.source, *flow.to)


def first_twice(names: Iterable[str]) -> str:
    """The first name that is there twice; empty where none is."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""


def check_unique_names(composition: Composition) -> None:
    """Refuse names that are empty or taken."""
    taken: dict[str, str] = {}
    kinds = {
        "groups": [group.name for group in composition.groups],
        "igps": [igp.name for igp in composition.igps],
        "routers": [router.name for router in composition.routers],
    }
    for key, names in kinds.items():
        for at, name in enumerate(names):
            if not name.strip():
                raise BadValue(f"{key}[{at}].name", show(name), "a name")
            if name in taken:
                raise BadValue(f"{key}[{at}].name", f"{name!r}, already one of the {taken[name]}", "a unique name")
            taken[name] = key
    for at, group in enumerate(composition.groups):
        for member in group.members:
            if member in taken:
                found = f"{member!r}, already the name of one of the {taken[member]}"
                raise BadValue(f"groups[{at}].members", found, "a name of its own for each process")
    for at, domain in enumerate(composition.domains):
        if not domain.name.strip():
            raise BadValue(f"domains[{at}].name", show(domain.name), "a name")
    if twice := first_twice(domain.name for domain in composition.domains):
        raise BadValue("domains", f"two domains named {twice!r}", "a name of its own for each")


def check_routers(composition: Composition) -> None:
    """Refuse routers in unknown nodes, and IGPs with too few of them, or links with too many."""
    names = [node.name for node in composition.nodes]
    for at, router in enumerate(composition.routers):
        for place, name in enumerate(router.joins):
            if name not in names:
                raise BadValue(f"routers[{at}].joins[{place}]", show(name), f"a group or an IGP: {one_of(name, names)}")
    for at, igp in enumerate(composition.igps):
        count = len(composition.routers_of(igp.name))
        if count < 2 or (igp.kind == "link" and count > 2):
            found = f"{igp.name!r} with {count} router{'' if count == 1 else 's'}"
            raise BadValue(
                f"igps[{at}]", found, "two routers at a link" if igp.kind == "link" else "two or more routers"
            )
    known = [router.name for router in composition.routers]
    groups = [group.name for group in composition.groups]
    for at, route in enumerate(composition.routes):
        for key, name, among in (("from", route.source, groups), ("to", route.to, groups)):
            if name not in among:
                raise BadValue(f"routes[{at}].{key}", show(name), f"a group: {one_of(name, among)}")
        for place, name in enumerate(route.via):
            if name not in known:
                raise BadValue(f"routes[{at}].via[{place}]", show(name), f"a router: {one_of(name, known)}")


def check_ordering_domains(composition: Composition) -> None:
    """Refuse domains of unknown, closed or overlapping groups."""
    groups = {group.name: group for group in composition.groups}
    igps = [igp.name for igp in composition.igps]
    if not composition.domains:
        raise BadValue("domains", "nothing", "at least one [[domains]] table")
    for at, domain in enumerate(composition.domains):
        key = f"domains[{at}]"
        for place, name in enumerate(domain.groups):
            if name not in groups:
                raise BadValue(f"{key}.groups[{place}]", show(name), f"a group: {one_of(name, groups)}")
        for field, names in (("igps", domain.igps), ("root", (domain.root,) if domain.root else ())):
            for name in names:
                if name not in igps:
                    raise BadValue(f"{key}.{field}", show(name), f"an IGP: {one_of(name, igps)}")
        if not domain.flows and not any(groups[name].open for name in domain.groups):
            raise BadValue(f"{key}.groups", "closed groups only", "at least one open group")
        for number, flow in domain.numbered:
            closed = [to for to in flow.to if to != flow.source and not groups[to].open]
            if closed:
                found = f"{closed[0]!r}, which is closed"
                raise BadValue(f"{key}.flows[{number}].to", found, "open groups")
    for part in connected_domains(composition.domains):
        check_apart(composition, part)


def check_apart(composition: Composition, part: Sequence[OrderingDomain]) -> None:
    """Refuse a process in two groups of one domain, or of domains that are connected through shared groups."""
    home: dict[str, tuple[str, OrderingDomain]] = {}
    for domain in part:
        for name in domain.groups:
            for member in composition.group(name).members:
                other, its = home.setdefault(member, (name, domain))
                if other == name:
                    continue
                place = f"domains[{composition.domains.index(domain)}].groups"
                found = f"{member!r} in both {other} and {name}"
                if its is not domain and name not in its.groups:
                    raise BadValue(place, found, f"groups without a common process, as {its.name} is connected to it")
                raise BadValue(place, found, "groups without a common process")


def connected_domains(domains: Sequence[OrderingDomain]) -> list[list[OrderingDomain]]:
    """The domains in parts: those of one part are connected through groups that they share."""
    parts: list[list[OrderingDomain]] = []
    for domain in domains:
        joined = [part for part in parts if any(set(one.groups) & set(domain.groups) for one in part)]
        merged = [one for part in joined for one in part]
        parts = [part for part in parts if part not in joined] + [[*merged, domain]]
    order = {domain.name: at for at, domain in enumerate(domains)}
    return sorted((sorted(part, key=lambda one: order[one.name]) for part in parts), key=lambda p: order[p[0].name])


def connected_to(composition: Composition, domain: OrderingDomain) -> list[OrderingDomain]:
    """A domain with those that it is connected to: in a run its groups deliver their messages, too."""
    return next(part for part in connected_domains(composition.domains) if domain in part)
