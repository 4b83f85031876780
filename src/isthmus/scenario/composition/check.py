"""Checks of a composition against its scenario, its routes, and the ordering domains of its judge.

The sites of the topology are the processes and routers of the composition, matched by name. Nodes are the groups of the
run, in the order of the composition: groups, then IGPs. Routers are members of their nodes but not processes: they
submit nothing of their own, and the views in a trace do not list them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Protocol

from isthmus.core.errors import InputError
from isthmus.core.message import SiteId, Targets
from isthmus.core.validation import BadValue, one_of, show, with_prefix
from isthmus.protocols.routing.calculus.model import PARTS, Composition, Igp, OrderingDomain, connected_domains
from isthmus.protocols.routing.calculus.semantics import decide
from isthmus.protocols.routing.options import RouterOptions
from isthmus.protocols.routing.routes import CompositionRoutes, RecomputedRoutes, site_names
from isthmus.protocols.routing.wire import ROUTED_MAX
from isthmus.scenario.workload import Workload, named_sites
from isthmus.topology.model import Topology
from isthmus.trace.domain import Domain


class Named(Protocol):
    """A group of a scenario."""

    @property
    def name(self) -> str: ...


@cache
def routes_of(composition: Composition, topology: Topology) -> CompositionRoutes:
    """Return the routes of a composition over the sites of a topology."""
    numbers = {site.name: SiteId(number) for number, site in enumerate(topology.sites)}
    return CompositionRoutes(composition, numbers)


@cache
def recomputed_routes_of(composition: Composition, topology: Topology) -> RecomputedRoutes:
    """Return the routes with routers that compute them; raise BadValue where they may not."""
    numbers = {site.name: SiteId(number) for number, site in enumerate(topology.sites)}
    return RecomputedRoutes(composition, numbers)


def couriers_of(composition: Composition, topology: Topology) -> Targets:
    """Return the sites that only forward: the routers."""
    return tuple(sorted(routes_of(composition, topology).router_of))


def is_bare(composition: Composition, number: int) -> bool:
    """Return whether a group is a node of bare datagrams."""
    node = composition.nodes[number]
    return isinstance(node, Igp) and node.kind == "datagrams"


def check_views(composition: Composition, agreed: bool) -> None:
    """Reject agreed views over datagrams: lost messages of a view could not be recovered from any member."""
    bare = [igp.name for igp in composition.igps if igp.kind == "datagrams"]
    if agreed and bare:
        right = "ideal membership in a simulation, or static"
        raise BadValue("membership", f"agreed, where {bare[0]} is datagrams", right)


def check_composition(
    composition: Composition, topology: Topology, workloads: Sequence[Workload], groups: Sequence[Named]
) -> None:
    """Reject sites missing from the topology, and messages that the composition does not accept."""
    missing = missing_site(composition, topology)
    if missing:
        raise BadValue("composition", *missing)
    assert [group.name for group in groups] == [node.name for node in composition.nodes]
    routes = routes_of(composition, topology)
    for index, workload in enumerate(workloads):
        with_prefix(f"workloads[{index}]", partial(check_traffic, routes, topology, workload))


def check_recomputed(composition: Composition, topology: Topology, options: RouterOptions) -> None:
    """Reject recomputed routes where routers may not choose routes."""
    if options.routes == "recomputed":
        recomputed_routes_of(composition, topology)


def check_traffic(routes: CompositionRoutes, topology: Topology, workload: Workload) -> None:
    """Reject messages from or to routers, messages without a route, and oversized messages."""
    composition = routes.composition
    group = group_number(composition, workload.group)
    name, processes = composition.groups[group].name, routes.processes[group]
    if not workload.senders(topology, processes):
        raise BadValue(
            "sites", show(list(workload.sites)), f"processes of {name}; routers and other groups do not send"
        )
    if not isinstance(workload.to, str | int):
        for site in named_sites(topology, workload.to, "to"):
            if site in routes.router_of:
                raise BadValue("to", f"{topology.sites[site].name!r}, a router", f"processes of {name}")
    most = len(workload.candidates(topology, processes))
    if isinstance(workload.to, int) and workload.to > most:
        raise BadValue("to", repr(workload.to), f"at most the {most} processes of {name}")
    for to in addressed(routes, workload, group):
        reason = routes.refusal(group, to)
        if reason:
            raise BadValue("to_groups", reason, "messages of a domain's flows, to open groups")
        if to != (group,) and workload.largest_bytes() > ROUTED_MAX:
            found = f"a message of {workload.largest_bytes():,} bytes to other groups"
            raise BadValue("payload_bytes", found, f"at most {ROUTED_MAX:,}; larger ones go to their own group alone")


def missing_site(composition: Composition, topology: Topology) -> tuple[str, str] | None:
    """Return the first composition site that the topology lacks, as (found, expected); None if all exist."""
    known = [site.name for site in topology.sites]
    name = next((name for name in site_names(composition) if name not in known), None)
    if name is None:
        return None
    expected = f"a topology with a site of that name for each process and router: {one_of(name, known)}"
    return f"{name!r}, which is no site", expected


def check_sites(composition: Composition, topology: Topology, source: str) -> None:
    """Reject a composition with sites that a topology lacks."""
    missing = missing_site(composition, topology)
    if missing:
        raise InputError(source, "", *missing)


def group_number(composition: Composition, name: str) -> int:
    """Return the number of the sending group by name; the first group if no name is given."""
    names = [group.name for group in composition.groups]
    if name and name not in names:
        raise BadValue("group", repr(name), f"a group of the composition: {one_of(name, names)}")
    return names.index(name) if name else 0


def addressed(routes: CompositionRoutes, workload: Workload, source: int) -> list[tuple[int, ...]]:
    """Return the sets of destination groups of a workload; one is drawn per message."""
    given, composition = workload.to_groups, routes.composition
    if not given:
        return [(source,)]
    if not isinstance(given, str):
        names = [group.name for group in composition.groups]
        for index, name in enumerate(given):
            if name not in names:
                raise BadValue(f"to_groups[{index}]", repr(name), f"a group of the composition: {one_of(name, names)}")
        return [tuple(sorted({names.index(name) for name in given}))]
    own = composition.groups[source].name
    domain = next((one for one in composition.domains if own in one.groups), None)
    reach = [] if domain is None else [routes.group_ids[name] for name in domain.groups if is_open(composition, name)]
    others = tuple(group for group in sorted(reach) if group != source)
    if given == "other":
        return [(other,) for other in others]
    return [others if given == "others" else tuple(sorted({*others, source}))]


def is_open(composition: Composition, name: str) -> bool:
    return composition.group(name).open


def check_wanted(composition: Composition, source: str) -> None:
    """Reject a composition that gives less than its domains require, with the answer of the calculus.

    A domain is judged together with all domains that share groups with it: deliveries in its groups are also theirs.
    """
    for part in connected_domains(composition.domains):
        for domain in part:
            found = decide(composition, part, domain.scope)
            if not found.gives(domain.wants):
                lacks = found.lacking(domain.wants)
                key = f"domains[{composition.domains.index(domain)}].wants"
                told = f"{domain.wants!r} over {domain.scope} messages, where {lacks.order} is not kept: {lacks.reason}"
                right = f"{found.gets!r} at most, or a change that `isthmus compose check` tells"
                raise InputError(source, key, told, right)


def domains_of(composition: Composition) -> tuple[Domain, ...]:
    """Return the domains in the form that the checks use: groups by number."""
    numbers = {node.name: number for number, node in enumerate(composition.nodes)}
    return tuple(
        Domain(domain.name, tuple(sorted(numbers[name] for name in domain.groups)), domain.scope)
        for domain in composition.domains
    )


def wanted_properties(domain: OrderingDomain) -> tuple[str, ...]:
    """Return the properties checked of a domain: integrity, and the orders that it requires."""
    return ("integrity", *PARTS[domain.wants])
