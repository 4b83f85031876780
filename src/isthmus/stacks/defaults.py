"""What the name of a stack means in a topology: its own defaults, over which a program's options are laid.

Some defaults differ between stacks, or follow from the topology: which sites are active and by which rule, how far
sites are from each other, and over which gateways messages are relayed. In `StackOptions` each has a value that says
"not given" (None, or an empty tuple), so that options given in part change only what they name.
"""

from __future__ import annotations

import msgspec

from isthmus.core.message import SiteId, Targets
from isthmus.protocols.causal.options import CausalOptions
from isthmus.protocols.total.hybrid.wire import HybridOptions, RuleName
from isthmus.stacks.registry import STACKS, StackOptions
from isthmus.topology.gateways.hops import check_ways
from isthmus.topology.gateways.lans import check_served, lans_of
from isthmus.topology.model import Topology

RULES: dict[str, RuleName] = {"everyone": "fixed", "given": "fixed", "changing": "planned"}  # by a stack's roles


def resolve_options(stack: str, topology: Topology, given: StackOptions | None = None) -> StackOptions:
    """Return the options of a stack in a topology: those given, and the stack's own defaults for the rest.

    Raises BadValue where the LANs of the topology cannot relay as the stack needs.
    """
    given = given or StackOptions()
    return msgspec.structs.replace(
        given,
        hybrid=resolve_roles(stack, topology, given.hybrid),
        causal=resolve_lans(stack, topology, given.causal),
        clusters=given.clusters or tuple(site.cluster for site in topology.sites),
    )


def resolve_roles(stack: str, topology: Topology, given: HybridOptions) -> HybridOptions:
    """Add the rule, the active sites and the distances that a ticket protocol starts from."""
    roles = STACKS[stack].roles
    if not roles:
        return given
    sites = [SiteId(number) for number in range(len(topology.sites))]
    active: Targets | None = given.active
    if active is None and roles == "given":
        active = tuple(cluster.agent for cluster in topology.clusters)
    distances = given.distances or tuple(tuple(0.0 if a == b else topology.mean_ms(a, b) for b in sites) for a in sites)
    return msgspec.structs.replace(given, rule=given.rule or RULES[roles], active=active, distances=distances)


def resolve_lans(stack: str, topology: Topology, given: CausalOptions) -> CausalOptions:
    """Add the LANs that a causal stack relays over; refuses LANs that messages cannot be relayed over."""
    if not STACKS[stack].relays or given.lans is not None:
        return given
    lans = lans_of(topology, given.gated)
    if not given.gated:
        check_served(lans)
        check_ways(lans)
    return msgspec.structs.replace(given, lans=lans)
