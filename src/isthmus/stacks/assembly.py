"""The assembly of a site, the same for both hosts: a stack's options in a topology, and what stands on its ports.

What the name of a stack means in a topology are its own defaults, over which a program's options are laid. Some differ
between stacks, or follow from the topology: which sites are active and by which rule, how far sites are from each
other, and over which gateways messages are relayed. In `StackOptions` each has a value that says "not given" (None, or
an empty tuple), so that options given in part change only what they name.

A site has a port per group, which carries the group's stack, and where its members agree on views one more, which
carries the suspicion of other sites that all its groups share. A host makes the ports; which layers stand on them, and
how a relay learns that a site is unreachable, is decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from isthmus.core.layer import Host, Layer, Stack
from isthmus.core.message import SiteId, Targets
from isthmus.protocols.causal.options import CausalOptions
from isthmus.protocols.membership.suspicion import Suspicion
from isthmus.protocols.total.hybrid.wire import HybridOptions, RuleName
from isthmus.protocols.transport.relay import Relay
from isthmus.protocols.transport.safe import Safe
from isthmus.stacks.registry import STACKS, StackOptions
from isthmus.topology.gateways.hops import check_ways
from isthmus.topology.gateways.lans import check_served, lans_of
from isthmus.topology.model import Topology

Builder = Callable[[Host, Any, StackOptions], Stack]  # from the top layer and the options
RULES: dict[str, RuleName] = {"everyone": "fixed", "given": "fixed", "changing": "planned"}  # by a stack's roles


class AttachablePort(Host, Protocol):
    """A port of either host."""

    def attach(self, stack: Stack) -> None: ...


def attach_group(
    port: AttachablePort,
    build: Builder,
    application: Layer,
    options: StackOptions,
    suspicion: Suspicion | None,
) -> Stack:
    """Put the stack of a group on its port; a relay goes round sites that the suspicion takes for unreachable."""
    stack = build(port, application, options)
    port.attach(stack)
    if suspicion is not None and options.relay is not None:
        stack.find(Relay).reaches = suspicion.reaches
    return stack


def directory_stack(port: Host, top: Layer, options: StackOptions) -> Stack:
    """A site's part of a directory group: what is delivered there a quorum has."""
    assert options.membership is not None
    return Stack(port, top, Safe(options.reliable), options.membership)


def attach_suspicion(
    port: AttachablePort, suspicion: Suspicion, previous: Suspicion | None, *beside: Layer
) -> Suspicion:
    """Put the suspicion of a site on its port; it keeps what that of an earlier life has learnt of delays."""
    port.attach(Stack(port, suspicion, *beside))
    if previous is not None:
        suspicion.inherit(previous)
    return suspicion


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
