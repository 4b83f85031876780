"""Nodes of a composition as groups of a scenario, with their stacks.

A node that names a stack runs it, with the scenario's options if it is the scenario's stack, or with the options of a
[[groups]] table of the scenario. A node that only gives its semantics runs the simplest stack that provides them. A
link is the stack fifo between two routers; datagrams are packets as delivered by the network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from isthmus.core.errors import InputError
from isthmus.core.message import GroupId, SiteId
from isthmus.core.validation import one_of, show
from isthmus.protocols.routing.calculus.model import KEEPS, Composition, Igp, ProcessGroup
from isthmus.protocols.routing.calculus.walks import is_safe
from isthmus.protocols.routing.options import RouterOptions
from isthmus.protocols.routing.process import ComposedProcess
from isthmus.protocols.routing.router import Router, SteeringRouter
from isthmus.protocols.routing.routes import CompositionRoutes, replica_names
from isthmus.scenario.composition.check import recomputed_routes_of, routes_of
from isthmus.scenario.composition.load import semantics_of_stack
from isthmus.scenario.model import GroupSpec, StackSpec
from isthmus.stacks.registry import STACKS, StackOptions
from isthmus.topology.model import Topology

PLAINEST = {
    "none": "unordered",
    "fifo": "fifo",
    "causal": "causal-vector",
    "total": "optimistic-arrival",
    "fifo-total": "token-site",
    "causal-total": "token-site",
}


def nodes_as_groups(
    composition: Composition, given: Sequence[GroupSpec] = (), stack: StackSpec | None = None, source: str = ""
) -> tuple[GroupSpec, ...]:
    """Return one group per node; `given` may set the options of a node's stack."""
    names = [node.name for node in composition.nodes]
    specs: dict[str, StackSpec] = {}
    for index, group in enumerate(given):
        if group.name not in names:
            raise InputError(source, f"groups[{index}].name", repr(group.name), f"a node: {one_of(group.name, names)}")
        if group.sites or group.stack is None:
            raise InputError(source, f"groups[{index}]", "sites" if group.sites else "no stack", "a stack alone")
        specs[group.name] = group.stack
    made = []
    for node in composition.nodes:
        own = stack_of_node(node, stack)
        chosen = specs.get(node.name, own)
        needed, kept = KEEPS[node.semantics], KEEPS[semantics_of_stack(chosen.name)]
        if not all(has or not needs for has, needs in zip(parts(kept), parts(needed), strict=True)):
            key = f"groups[{names.index(node.name)}].stack.name"
            raise InputError(
                source, key, show(chosen.name), f"a stack that keeps {node.semantics}, as {node.name} must"
            )
        if is_safe(composition, node.name):
            chosen = safely(chosen, node.name, source, f"groups[{names.index(node.name)}].stack.name")
        made.append(GroupSpec(name=node.name, sites=sites_of(composition, node), stack=chosen))
    return tuple(made)


Routing = Callable[[GroupId, StackOptions], StackOptions]  # per incarnation of a site: adds what a node's stack needs


def routing_at(composition: Composition, topology: Topology, site: SiteId, options: RouterOptions) -> Routing:
    """Return what one incarnation of a site adds to its stacks: the filters of a process, or the ends of a router."""
    routes: CompositionRoutes
    if options.routes == "recomputed":
        routes = found = recomputed_routes_of(composition, topology)
        router: Router | None = SteeringRouter(found, site, options) if site in routes.router_of else None
    else:
        routes = routes_of(composition, topology)
        router = Router(routes, site, options) if site in routes.router_of else None
    prioritised = {  # processes of domains that prioritise messages between groups
        process: None
        for domain in composition.domains
        if domain.prioritised
        for name in domain.groups
        for process in routes.processes[routes.group_ids[name]]
    }

    def routed(node: GroupId, given: StackOptions) -> StackOptions:
        layer = ComposedProcess(routes, options) if router is None else router.port(node)
        members = routes.members(node)
        first = any(member in prioritised for member in members)
        twice = tuple(member for member in members if member in routes.router_of) if first else ()
        return msgspec.structs.replace(given, routing=layer, twice=twice)

    return routed


def safely(stack: StackSpec, node: str, source: str, key: str) -> StackSpec:
    """Return the stack with safe delivery, which a node with replicated routers requires."""
    if "safe" not in STACKS[stack.name].options or stack.transport != "reliable":
        able = ", ".join(name for name, known in STACKS.items() if "safe" in known.options)
        found = f"{stack.name!r} over the {stack.transport} transport" if stack.transport != "reliable" else stack.name
        raise InputError(source, key, found, f"a stack that delivers safely, as {node} has replicated routers: {able}")
    return msgspec.structs.replace(stack, safe=True)


def parts(keeps: object) -> tuple[bool, ...]:
    return tuple(getattr(keeps, name) for name in ("fifo", "causal", "total"))


def sites_of(composition: Composition, node: ProcessGroup | Igp) -> tuple[str, ...]:
    """Return the members of a node: its processes and its routers."""
    processes = node.members if isinstance(node, ProcessGroup) else ()
    routers = [name for router in composition.routers_of(node.name) for name in replica_names(router)]
    return (*processes, *routers)


def stack_of_node(node: ProcessGroup | Igp, stack: StackSpec | None) -> StackSpec:
    """Return the default stack of a node."""
    name = node.stack or PLAINEST[node.semantics]
    return stack if stack is not None and stack.name == name else StackSpec(name=name)
