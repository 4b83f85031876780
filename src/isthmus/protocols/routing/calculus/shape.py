"""The part of a composition that a domain uses: its nodes, its routers, whether they form a tree, and the ways in it.

Nodes and routers are the two sides of a graph in which a router is joined to the nodes that it is a member of. A domain
uses its groups and the IGPs on a way between them; what leads nowhere is cut off. Where that graph is a tree there is
one way between two nodes, and a root gives every other node a parent: the node before it on the way from the root.
Where it is not, a way is a static route of the composition, or the one with the fewest routers, the first ones listed.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from isthmus.core.validation import BadValue
from isthmus.protocols.routing.calculus.model import Composition, Forwarding, OrderingDomain

LEAVES: tuple[Forwarding, ...] = ("hierarchical", "shadow-and-hold")  # groups must be leaves of the tree


class RouteStep(NamedTuple):
    """One step of a way: through a router into the next node."""

    router: int
    node: int


class Shape:
    """The graph of one domain; nodes and routers are numbers, as they stand in the composition."""

    __slots__ = ("composition", "depth", "domain", "groups", "is_tree", "joins", "members", "parent", "root", "routes")

    def __init__(self, composition: Composition, domain: OrderingDomain) -> None:
        self.composition = composition
        self.domain = domain
        names = {node.name: at for at, node in enumerate(composition.nodes)}
        self.groups = tuple(names[name] for name in domain.groups)
        igps = domain.igps or tuple(igp.name for igp in composition.igps)
        self.joins, self.members = cut_off(composition, names, self.groups, [names[name] for name in igps])
        edges = sum(map(len, self.joins.values()))
        self.is_tree = edges == len(self.joins) + len(self.members) - 1 and self.reached(self.groups[0]) == len(
            self.members
        )
        self.routes = {
            (names[route.source], names[route.to]): self.fixed(at, names)
            for at, route in enumerate(composition.routes)
            if route.source in domain.groups and route.to in domain.groups
        }
        self.root = self.choose_root(names) if self.is_tree else -1
        self.parent: dict[int, int] = {}
        self.depth: dict[int, int] = {}
        if self.root >= 0:
            for node in self.members:
                way = self.way(self.root, node)
                self.depth[node] = len(way)
                self.parent[node] = way[-2].node if len(way) > 1 else self.root
        self.check()

    def reached(self, start: int) -> int:
        """How many nodes can be reached from one."""
        return len(self.search(start))

    def search(self, start: int) -> dict[int, tuple[int, int]]:
        """Each node that can be reached, with the node and the router before it on a shortest way."""
        before: dict[int, tuple[int, int]] = {start: (-1, -1)}
        waiting = deque([start])
        while waiting:
            node = waiting.popleft()
            for router in self.members[node]:
                for other in self.joins[router]:
                    if other not in before:
                        before[other] = (node, router)
                        waiting.append(other)
        return before

    def way(self, start: int, end: int) -> tuple[RouteStep, ...]:
        """The way between two nodes, without the first node."""
        if (start, end) not in self.routes:
            before = self.search(start)
            steps: list[RouteStep] = []
            here = end
            while here != start:
                node, router = before[here]
                steps.append(RouteStep(router, here))
                here = node
            self.routes[start, end] = tuple(reversed(steps))
        return self.routes[start, end]

    def fixed(self, at: int, names: dict[str, int]) -> tuple[RouteStep, ...]:
        """A static route as steps: the node between two routers is one that both join."""
        route = self.composition.routes[at]
        numbers = {router.name: number for number, router in enumerate(self.composition.routers)}
        steps: list[RouteStep] = []
        here = names[route.source]
        for place, name in enumerate(route.via):
            router = numbers[name]
            last = place == len(route.via) - 1
            onward = [names[route.to]] if last else list(self.joins.get(numbers[route.via[place + 1]], ()))
            common = [node for node in self.joins.get(router, ()) if node in onward and node != here]
            if here not in self.joins.get(router, ()) or not common:
                raise BadValue(
                    f"routes[{at}].via[{place}]", repr(name), "routers that lead from the one group to the other"
                )
            here = common[0]
            steps.append(RouteStep(router, here))
        if here != names[route.to]:
            raise BadValue(
                f"routes[{at}].via", repr(list(route.via)), "routers that lead from the one group to the other"
            )
        return tuple(steps)

    def choose_root(self, names: dict[str, int]) -> int:
        """The root that is given, or the IGP from which the farthest node is nearest; -1 where there is no IGP."""
        if self.domain.root and names[self.domain.root] in self.members:
            return names[self.domain.root]
        igps = [node for node in self.members if node >= len(self.composition.groups)]
        if not igps:
            return -1
        return min(igps, key=lambda igp: (max(len(self.way(igp, node)) for node in self.members), igp))

    def ancestor(self, nodes: tuple[int, ...]) -> int:
        """The lowest node that lies on the way from the root to each of some nodes."""
        common = nodes[0]
        for other in nodes[1:]:
            one = common
            while one != other:
                if self.depth[one] >= self.depth[other]:
                    one = self.parent[one]
                else:
                    other = self.parent[other]
            common = one
        return common

    def check(self) -> None:
        """Refuse a domain whose groups are not joined, and what its forwarding cannot work on."""
        domain, names = self.domain, [node.name for node in self.composition.nodes]
        key = f"domains[{self.composition.domains.index(domain)}]"
        found = self.search(self.groups[0])
        for group in self.groups[1:]:
            if group not in found:
                reason = f"{names[group]!r}, which no routers join to {names[self.groups[0]]!r}"
                raise BadValue(f"{key}.groups", reason, "groups that are joined, through IGPs or with each other")
        if domain.root and self.is_tree and self.root >= 0 and names[self.root] != domain.root:
            raise BadValue(f"{key}.root", repr(domain.root), "an IGP on a way between its groups")
        if domain.forwarding == "plain":
            return
        if not self.is_tree:
            raise BadValue(
                f"{key}.forwarding", f"{domain.forwarding!r} on a cycle of groups and IGPs", "a tree, or plain"
            )
        if self.root < 0:
            raise BadValue(f"{key}.forwarding", f"{domain.forwarding!r} without an IGP", "an IGP to order in, or plain")
        for group in self.groups if domain.forwarding in LEAVES else ():
            if len(self.members[group]) > 1:
                found_text = f"{names[group]!r} with {len(self.members[group])} routers under {domain.forwarding!r}"
                raise BadValue(f"{key}.groups", found_text, "groups at the leaves of the tree, with one router each")


def cut_off(
    composition: Composition, names: dict[str, int], groups: tuple[int, ...], igps: list[int]
) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
    """The routers with the nodes that they join, and the nodes with their routers, without what leads nowhere."""
    nodes = dict.fromkeys([*groups, *igps])
    joins = {
        at: [names[name] for name in router.joins if names[name] in nodes]
        for at, router in enumerate(composition.routers)
    }
    while True:
        members = {node: [at for at, joined in joins.items() if node in joined] for node in nodes}
        idle = [at for at, joined in joins.items() if len(joined) < 2]
        ends = [node for node in nodes if node not in groups and len(members[node]) < 2]
        if not idle and not ends:
            break
        for at in idle:
            del joins[at]
        for node in ends:
            del nodes[node]
        joins = {at: [node for node in joined if node in nodes] for at, joined in joins.items()}
    return (
        {at: tuple(joined) for at, joined in joins.items()},
        {node: tuple(routers) for node, routers in members.items()},
    )
