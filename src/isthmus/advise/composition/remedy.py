"""The cheapest change that gives a domain the order that it wants, by itself and with those it shares groups with.

Stronger protocols never lose a guarantee. So for each way of forwarding, all protocols are made as strong as they can
be; if that is enough, each in turn is made as weak as it may be, the dearest first; what remains changed is the remedy
of that forwarding, and the cheapest is returned. To strengthen a protocol costs its members (routers count) times the
steps of the ladder none, fifo, causal, fifo-total; to forward in another way, one per router. A link or datagrams that
must do more become a group.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from isthmus.protocols.routing.calculus.model import (
    Composition,
    Forwarding,
    Igp,
    OrderingDomain,
    ProcessGroup,
    Semantics,
)
from isthmus.protocols.routing.calculus.semantics import grants

LADDER: tuple[Semantics, ...] = ("none", "fifo", "causal", "fifo-total")
STEPS: dict[str, int] = {"none": 0, "fifo": 1, "causal": 2, "total": 2, "fifo-total": 3, "causal-total": 3}
STRONGEST: Semantics = "fifo-total"
MODES: tuple[Forwarding, ...] = ("plain", "total", "hierarchical", "shadow-and-hold")


class Remedy(NamedTuple):
    """Changes that give a domain what it wants."""

    composition: Composition
    changes: tuple[str, ...]  # in words
    cost: int


def remedy(composition: Composition, domain: OrderingDomain) -> Remedy | None:
    """The cheapest change of protocols and forwarding; None: only another scope or other flows would help."""
    found = [one for changed in forwardings(composition, domain) for one in strengthened(composition, changed, domain)]
    return min(found, key=lambda one: (one.cost, len(one.changes)), default=None)


def forwardings(composition: Composition, domain: OrderingDomain) -> Iterator[Composition]:
    """Yield the composition unchanged, then with other forwarding of the domain."""
    at = composition.domains.index(domain)
    for mode in (domain.forwarding, *(mode for mode in MODES if mode != domain.forwarding)):
        plain = {"prioritised": False} if domain.prioritised else {}
        for changes in ({}, plain) if plain else ({},):
            changed = msgspec.structs.replace(domain, forwarding=mode, **changes)
            domains = (*composition.domains[:at], changed, *composition.domains[at + 1 :])
            yield msgspec.structs.replace(composition, domains=domains)


def strengthened(before: Composition, composition: Composition, domain: OrderingDomain) -> Iterator[Remedy]:
    """Yield the least strengthening that suffices under the forwarding of a composition."""
    at = before.domains.index(domain)
    nodes = {node.name: node.semantics for node in composition.nodes}
    chosen: dict[str, Semantics] = dict.fromkeys(nodes, STRONGEST)

    def is_enough(tried: dict[str, Semantics]) -> bool:
        changed = with_semantics(composition, tried)
        return grants(changed, changed.domains[at])

    def relaxed(names: list[str], chosen: dict[str, Semantics]) -> dict[str, Semantics]:
        """Leave as many of some protocols as they were as can be; half by half, as most need no change."""
        tried = chosen | {name: nodes[name] for name in names}
        if is_enough(tried):
            return tried
        if len(names) > 1:
            middle = len(names) // 2
            return relaxed(names[middle:], relaxed(names[:middle], chosen))
        options = [chosen | {names[0]: kind} for kind in LADDER if STEPS[kind] >= STEPS[nodes[names[0]]]]
        return next(option for option in options if is_enough(option))

    if not is_enough(chosen):
        return
    result = with_semantics(composition, relaxed(sorted(nodes, key=lambda name: -members(composition, name)), chosen))
    yield Remedy(result, *priced(before, result, at))


def with_semantics(composition: Composition, chosen: dict[str, Semantics]) -> Composition:
    """The composition with other semantics; where they differ, a stack is no longer named."""
    groups = tuple(
        group
        if chosen[group.name] == group.semantics
        else msgspec.structs.replace(group, semantics=chosen[group.name], stack="")
        for group in composition.groups
    )
    igps = tuple(
        igp if chosen[igp.name] == igp.semantics else Igp(igp.name, chosen[igp.name]) for igp in composition.igps
    )
    return msgspec.structs.replace(composition, groups=groups, igps=igps)


def members(composition: Composition, name: str) -> int:
    """How many processes a protocol has, routers among them."""
    node = composition.node(name)
    own = len(node.members) if isinstance(node, ProcessGroup) else 0
    return own + sum(router.replicas for router in composition.routers_of(name))


def priced(before: Composition, after: Composition, at: int) -> tuple[tuple[str, ...], int]:
    changes, cost = [], 0
    old, new = before.domains[at], after.domains[at]
    if old.forwarding != new.forwarding:
        changes.append(f"forward {old.name} by {new.forwarding} instead of {old.forwarding}")
        cost += len(before.routers)
    if old.prioritised != new.prioritised:
        changes.append(f"give the messages between groups of {old.name} no priority")
        cost += len(before.routers)
    for one, other in zip(before.nodes, after.nodes, strict=True):
        if one.semantics != other.semantics:
            was = one.kind if isinstance(one, Igp) and one.kind != "group" else one.stack or one.semantics
            changes.append(f"make {one.name} {other.semantics} instead of {was}")
            cost += members(before, one.name) * max(1, STEPS[other.semantics] - STEPS[one.semantics])
    return tuple(changes), cost
