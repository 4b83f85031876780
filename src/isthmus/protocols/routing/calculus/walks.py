"""How each kind of message goes: the copies that are made of it, from its sender to every receiver.

A *class* is what one group sends to one set of groups. Every message has an *ordering node* X: it tunnels undelivered
from its group to X, and floods away from X to its destinations.

| forwarding | X |
|---|---|
| plain | the sender's group |
| total | the root |
| hierarchical | the lowest common ancestor of the destinations; with one destination, its parent |
| shadow-and-hold | the lowest common ancestor of the destinations and the sender's group |

What stays inside a group has that group as X. A *walk* is the tree of copies of one message: the sender submits the
first to its own group; a router takes a copy from one node and submits the next in another. A copy that is for the
application says so; all others, and the shadow that a holding sender waits for, pass its filter silently.

Where any group may send to any groups, sets of one and two destinations stand for all: an ordering node, the edges that
two receivers lie on both sides of, and the receivers that two classes share are those of some pair.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

from isthmus.protocols.routing.calculus.model import KEEPS, Composition, DomainScope, Igp, Keeps, OrderingDomain
from isthmus.protocols.routing.calculus.shape import RouteStep, Shape

SENDER = -1  # as a router: the sender itself


class Copy(NamedTuple):
    """One copy of a message in one node."""

    node: int
    before: int  # the copy that it is made of; -1: none, it is the sender's own
    router: int  # that made it; SENDER
    for_application: bool


class Walk(NamedTuple):
    """The copies of a message of one class, each after the one it is made of."""

    domain: int
    source: int  # the group
    to: tuple[int, ...]  # groups
    ordering_node: int
    level: int  # how far the ordering node is from the top: lower ones have greater levels
    holds: bool  # the sender's filter holds what could overtake it
    sheltered: bool  # messages of this class and of others do not keep each other's order: priorities
    copies: tuple[Copy, ...]
    ends: tuple[tuple[int, int], ...]  # destination and the copy that it delivers
    own: int  # the last copy in the sender's group, which tells the sender that its message was ordered

    @property
    def is_intra(self) -> bool:
        return self.to == (self.source,)


class WalkNetwork(NamedTuple):
    """All that the calculus and the executor need to know of a composition."""

    names: tuple[str, ...]  # of nodes
    routers: tuple[str, ...]
    keeps: tuple[Keeps, ...]  # by node
    lossy: tuple[bool, ...]  # by node: bare datagrams
    sizes: tuple[int, ...]  # processes by node; 0: an IGP
    prompt: tuple[bool, ...]  # by node: a member has its own messages at once
    walks: tuple[Walk, ...]
    is_tree: bool  # of each domain, and of all of them together


def network_of(composition: Composition, domains: tuple[OrderingDomain, ...], scope: DomainScope) -> WalkNetwork:
    """The walks of all classes of some domains that are in the scope."""
    shapes = [Shape(composition, domain) for domain in domains]
    walks = [walk for at, shape in enumerate(shapes) for walk in walks_of(shape, at, scope)]
    edges = {(router, node): None for shape in shapes for router, joined in shape.joins.items() for node in joined}
    routers = {router for router, _ in edges}
    nodes = {node for _, node in edges}
    together = len(edges) == len(routers) + len(nodes) - 1
    return WalkNetwork(
        tuple(node.name for node in composition.nodes),
        tuple(router.name for router in composition.routers),
        tuple(KEEPS[node.semantics] for node in composition.nodes),
        tuple(isinstance(node, Igp) and node.kind == "datagrams" for node in composition.nodes),
        tuple([len(group.members) for group in composition.groups] + [0] * len(composition.igps)),
        tuple(not KEEPS[node.semantics].total and not is_safe(composition, node.name) for node in composition.nodes),
        tuple(dict.fromkeys(walks)),
        all(shape.is_tree for shape in shapes) and (together or len(shapes) == 1),
    )


def is_safe(composition: Composition, node: str) -> bool:
    """Whether a node hands up only what cannot be lost: one of its routers has replicas."""
    return any(router.replicas > 1 for router in composition.routers_of(node))


def walks_of(shape: Shape, domain_number: int, scope: DomainScope) -> list[Walk]:
    """One walk per class of a domain."""
    domain = shape.domain
    number = {node.name: at for at, node in enumerate(shape.composition.nodes)}
    if domain.flows:
        classes = [(number[flow.source], tuple(sorted(number[to] for to in flow.to))) for flow in domain.flows]
    else:
        open_groups = [group for group in shape.groups if shape.composition.groups[group].open]
        classes = []
        for source in shape.groups:
            reach = sorted({*open_groups, source})
            sets = [(one,) for one in reach if one != source] + list(combinations(reach, 2))
            classes += [(source, to) for to in sets]
    if scope == "all":
        classes += [(number[name], (number[name],)) for name in domain.intra_groups]
    return [walk_of(shape, domain_number, source, to) for source, to in dict.fromkeys(classes)]


def ordering_node(shape: Shape, source: int, to: tuple[int, ...]) -> int:
    forwarding = shape.domain.forwarding
    if forwarding == "plain" or to == (source,):
        return source
    if forwarding == "total":
        return shape.root
    if forwarding == "hierarchical":
        return shape.ancestor(to) if len(to) > 1 else shape.parent[to[0]]
    return shape.ancestor((*to, source))


def walk_of(shape: Shape, domain_number: int, source: int, to: tuple[int, ...]) -> Walk:
    """Lay the ways to all destinations over each other, as far as they go together."""
    top = ordering_node(shape, source, to)
    tunnel = shape.way(source, top)
    copies = [Copy(source, -1, SENDER, False)]
    known: dict[tuple[RouteStep, ...], int] = {(): 0}
    holds = shape.domain.forwarding == "shadow-and-hold"
    ends = []
    own = 0
    for group in (*to, *((source,) if holds and source not in to else ())):
        way = tunnel + shape.way(top, group)
        for length in range(1, len(way) + 1):
            if way[:length] not in known:
                known[way[:length]] = len(copies)
                copies.append(Copy(way[length - 1].node, known[way[: length - 1]], way[length - 1].router, False))
        last = known[way]
        if group in to:
            copies[last] = copies[last]._replace(for_application=True)
            ends.append((group, last))
        if group == source:
            own = last
    level = shape.depth.get(top, 0)
    sheltered = shape.domain.prioritised
    return Walk(domain_number, source, to, top, level, holds, sheltered, tuple(copies), tuple(ends), own)
