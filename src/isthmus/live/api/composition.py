"""The nodes of a composition as the groups of a live site; one that promises less than it wants is refused."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec

from isthmus.core.errors import InputError
from isthmus.core.validation import BadValue
from isthmus.live.net.hello import digest
from isthmus.live.node.plans import AgreedPlan, GroupPlan, SiteConfig, agreed_plan
from isthmus.live.node.runtime import Composed
from isthmus.protocols.routing.calculus.model import Composition
from isthmus.protocols.routing.options import RouterOptions
from isthmus.scenario.composition.check import (
    check_recomputed,
    check_sites,
    check_views,
    check_wanted,
    couriers_of,
    is_bare,
    routes_of,
)
from isthmus.scenario.composition.load import load_composition
from isthmus.scenario.composition.nodes import nodes_as_groups, routing_at
from isthmus.stacks.registry import StackOptions
from isthmus.topology.model import Topology

NodeOptions = Mapping[str, StackOptions]  # by node, the same at all its sites


def composed(
    topology: Topology, site: str, composition: Composition | Path | str, options: NodeOptions, config: SiteConfig
) -> tuple[list[GroupPlan], AgreedPlan | None, Composed]:
    """The groups that the nodes of a composition are, how they agree on views, and what a site of it needs besides."""
    made = composition if isinstance(composition, Composition) else load_composition(Path(composition))
    source = made.name if isinstance(composition, Composition) else str(composition)
    check_wanted(made, source)
    check_sites(made, topology, source)
    router = config.router or RouterOptions()
    try:
        check_recomputed(made, topology, router)
    except BadValue as error:
        raise error.at(source, "") from None
    unknown = next((name for name in options if all(node.name != name for node in made.nodes)), None)
    if unknown is not None:
        names = ", ".join(node.name for node in made.nodes)
        raise InputError("options", "", repr(unknown), f"a node of the composition: {names}")
    plans = []
    for number, node in enumerate(nodes_as_groups(made)):
        assert node.stack is not None
        given = options.get(node.name) or StackOptions()
        given = msgspec.structs.replace(given, safe=given.safe or node.stack.safe, bare=is_bare(made, number))
        shared = digest((made, router.routes)).hex()
        plans.append(GroupPlan(node.name, node.stack.name, node.sites, given, composition=shared))
    agreed = agreed_plan(config.membership, plans)
    try:
        check_views(made, agreed is not None)
        own = topology.site_id(site)
    except BadValue as error:
        raise error.at(source, "") from None
    routing = partial(routing_at, made, topology, own, router)
    return plans, agreed, Composed(routes_of(made, topology), routing, couriers_of(made, topology))
