"""Total order, decided: is every message ordered once, and does every later node keep that order?

The problem: two receivers disagree if two messages pass a place in opposite directions, or a node that both pass orders
them for nobody. The idea: of each class, take the smallest tree that spans its destinations, and orient its edges (a
node and a router in it) as the message floods. Total order is guaranteed if

- no edge is oriented both ways: what is delivered on the near side first would be last on the far side;
- a node with more than one injector is total: the processes of a group are several;
- a node that is fed over an oriented edge is FIFO: the stream was ordered before, and is delivered so elsewhere;
- a node with a single injector and no ordered stream is FIFO or total: its receivers must agree, in whatever order.

Only messages that can be compared count. Receivers compare two messages that both deliver, or others that form a cycle
with them: a, b at one, b, c at the next, c, a at the third. So classes and receivers are taken as a graph, and the rule
is applied in each of its two-connected parts by itself, where any two classes lie on a common cycle; and at a node, to
the classes that lie on a cycle through different ways out of it, since what leaves by one router leaves in one order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from isthmus.protocols.routing.calculus.walks import SENDER, WalkNetwork

ROUTER, PROCESS = 0, 1  # as a way out of a node
TWIN = 2  # two messages of one class; two processes of one group: enough for any cycle


class Conflict(NamedTuple):
    """Why receivers may disagree: at which node, and by which classes."""

    kind: Literal["both ways", "injectors", "ordered before", "single", "priorities"]
    node: int
    walks: tuple[int, ...]


class Feed(NamedTuple):
    """How a class enters a node of its span."""

    walk: int
    injector: tuple[int, int]  # the router, or SENDER with the group
    is_ordered: bool
    ports: tuple[tuple[int, int], ...]  # the ways on which receivers of it lie: a router, or a process here


def disagreement(network: WalkNetwork) -> Conflict | None:
    """The first way in which two receivers can disagree."""
    sides = Sides(network)
    for part in comparable_parts(network):
        found = conflict_in(network, sides, part)
        if found is not None:
            return found
    return None


def conflict_in(network: WalkNetwork, sides: Sides, part: dict[int, tuple[int, ...]]) -> Conflict | None:
    """Apply the rule to some classes, each with the destinations that count."""
    ways: dict[tuple[int, int], dict[int, bool]] = {}  # node and router to classes, each into the node or out of it
    feeds: dict[int, list[Feed]] = {}
    for number, groups in part.items():
        for node, edges, feed in span(network, number, groups):
            feeds.setdefault(node, []).append(feed)
            for edge, inward in edges:
                ways.setdefault(edge, {})[number] = inward
    for edge, directions in ways.items():
        if len(set(directions.values())) > 1:
            opposed = opposed_over(sides, part, edge, directions)
            if opposed:
                return Conflict("both ways", edge[0], opposed)
    for node, entering in feeds.items():
        for comparable in compared_at(sides, part, node, entering):
            found = conflict_at(network, node, comparable)
            if found is not None:
                return found
    return None


def opposed_over(
    sides: Sides, part: dict[int, tuple[int, ...]], edge: tuple[int, int], directions: dict[int, bool]
) -> tuple[int, ...]:
    """Two classes that pass an edge in opposite directions and can be compared on both sides of it; or nothing.

    A cycle of comparisons passes from side to side by classes that cross. A class that crosses joins a part of one side
    to a part of the other, and those of a cycle lie in one two-connected part of the graph that these make.
    """
    far = sides.beyond(*edge)
    here = connected_by(part, lambda group: group not in far)
    there = connected_by(part, lambda group: group in far)
    crossing = [number for number in directions if number in here and number in there]
    vertices: dict[tuple[int, int], int] = {}
    edges = []
    for number in crossing:
        one = vertices.setdefault((0, here[number]), len(vertices))
        edges.append((one, vertices.setdefault((1, there[number]), len(vertices))))
    for block in two_connected(len(vertices), edges):
        found = {directions[crossing[at]]: crossing[at] for at in reversed(block)}
        if len(found) > 1:
            return tuple(sorted(found.values()))
    return ()


def connected_by(part: dict[int, tuple[int, ...]], counts: Callable[[int], bool]) -> dict[int, int]:
    """Classes that some receivers connect, directly or through others: class to the name of its part."""
    parts: dict[int, int] = {}
    receivers: dict[int, list[int]] = {}  # group to classes
    for number, groups in part.items():
        for group in groups:
            if counts(group):
                receivers.setdefault(group, []).append(number)
    for numbers in receivers.values():
        known = dict.fromkeys(parts[number] for number in numbers if number in parts)
        name = min([*known, numbers[0]])
        parts.update({number: name for number, other in parts.items() if other in known})
        parts.update(dict.fromkeys(numbers, name))
    return parts


class Sides:
    """Which nodes lie beyond a router, as a node sees it."""

    __slots__ = ("_found", "_joined")

    def __init__(self, network: WalkNetwork) -> None:
        self._joined: dict[int, dict[int, None]] = {}  # router to nodes
        for walk in network.walks:
            for copy in walk.copies:
                if copy.router != SENDER:
                    nodes = (copy.node, walk.copies[copy.before].node)
                    self._joined.setdefault(copy.router, {}).update(dict.fromkeys(nodes))
        self._found: dict[tuple[int, int], frozenset[int]] = {}

    def beyond(self, node: int, router: int) -> frozenset[int]:
        """The nodes that can be reached from a node by one of its routers only."""
        if (node, router) not in self._found:
            found = {node: None}
            waiting = [other for other in self._joined[router] if other != node]
            found.update(dict.fromkeys(waiting))
            for here in waiting:
                for nodes in self._joined.values():
                    if here in nodes:
                        new = [other for other in nodes if other not in found]
                        found.update(dict.fromkeys(new))
                        waiting += new
            self._found[node, router] = frozenset(found) - {node}
        return self._found[node, router]


def conflict_at(network: WalkNetwork, node: int, entering: list[Feed]) -> Conflict | None:
    """What a node owes to classes that are compared beyond it."""
    keeps = network.keeps[node]
    injectors: dict[tuple[int, int], int] = {}
    for feed in entering:
        injectors.setdefault(feed.injector, feed.walk)
    several = len(injectors) > 1 or any(router == SENDER and network.sizes[group] > 1 for router, group in injectors)
    ordered = next((feed.walk for feed in entering if feed.is_ordered), None)
    sheltered = {
        network.walks[feed.walk].is_intra: feed.walk for feed in entering if network.walks[feed.walk].sheltered
    }
    if len(sheltered) > 1:
        return Conflict("priorities", node, tuple(sheltered.values()))
    if several and not keeps.total:
        return Conflict("injectors", node, tuple(dict.fromkeys(injectors.values()))[:2])
    if ordered is not None and not keeps.fifo:
        return Conflict("ordered before", node, (ordered,))
    if not keeps.fifo and not keeps.total:
        return Conflict("single", node, (entering[0].walk,))
    return None


def compared_at(sides: Sides, part: dict[int, tuple[int, ...]], node: int, entering: list[Feed]) -> list[list[Feed]]:
    """The classes that enter a node, in parts: those of one part lie on a cycle through different ways out of it."""
    names: dict[tuple[int, ...], int] = {}
    edges = []
    behind: dict[tuple[int, int], dict[int, int]] = {}  # a way out to the parts that receivers there connect
    for at, feed in enumerate(entering):
        for port in feed.ports:
            if port[0] == ROUTER and port not in behind:
                beyond = sides.beyond(node, port[1])
                behind[port] = connected_by(part, beyond.__contains__)
            place = (1, *port, behind[port].get(feed.walk, -1) if port[0] == ROUTER else 0)
            for twin in range(TWIN):
                one = names.setdefault((0, at, twin), len(names))
                edges.append((one, names.setdefault(place, len(names))))
    vertices = list(names)
    return [
        [entering[at] for at in dict.fromkeys(vertices[edges[edge][0]][1] for edge in block)]
        for block in two_connected(len(names), edges)
    ]


def span(
    network: WalkNetwork, number: int, groups: tuple[int, ...]
) -> list[tuple[int, list[tuple[tuple[int, int], bool]], Feed]]:
    """The copies of a class inside the span of some destinations: node, oriented edges, how it is fed."""
    walk = network.walks[number]
    ends = {copy for group, copy in walk.ends if group in groups}
    below = [0] * len(walk.copies)  # destinations that a copy and those made of it lead to
    for last in sorted(ends):
        at = last
        while at >= 0:
            below[at] += 1
            at = walk.copies[at].before
    whole = len(ends)
    taken: dict[tuple[int, int], int] = {}  # copy and router: destinations that the router leads to from there
    for at, copy in enumerate(walk.copies):
        if copy.before >= 0:
            key = (copy.before, copy.router)
            taken[key] = taken.get(key, 0) + below[at]
    found = []
    for at, copy in enumerate(walk.copies):
        onward = {router: count for (before, router), count in taken.items() if before == at and count}
        if not below[at] or whole in onward.values():
            continue  # all go on through one router: the node lies outside the span
        edges = [((copy.node, router), False) for router in onward]
        ports = [(ROUTER, router) for router in onward]
        if below[at] < whole:
            edges.append(((copy.node, copy.router), True))
            ports.append((ROUTER, copy.router))
        if at in ends:
            ports += [(PROCESS, process) for process in range(min(TWIN, network.sizes[copy.node]))]
        injector = (copy.router, copy.node if copy.router == SENDER else -1)
        found.append((copy.node, edges, Feed(number, injector, below[at] < whole, tuple(ports))))
    return found


def comparable_parts(network: WalkNetwork) -> list[dict[int, tuple[int, ...]]]:
    """The two-connected parts of the graph of classes and receivers: classes, each with its destinations there."""
    names: dict[tuple[int, int, int], int] = {}  # (0, class, twin) and (1, group, process) to a vertex
    edges: list[tuple[int, int]] = []
    for number, walk in enumerate(network.walks):
        for group in walk.to:
            for process in range(min(TWIN, network.sizes[group])):
                for twin in range(TWIN):
                    one = names.setdefault((0, number, twin), len(names))
                    edges.append((one, names.setdefault((1, group, process), len(names))))
    vertices = list(names)
    parts = []
    for block in two_connected(len(names), edges):
        part: dict[int, tuple[int, ...]] = {}
        for edge in block:
            (_, number, _), (_, group, _) = (vertices[at] for at in edges[edge])
            if group not in part.setdefault(number, ()):
                part[number] = (*part[number], group)
        parts.append(part)
    return parts


def two_connected(count: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The edges of an undirected graph by two-connected parts of more than one edge (Hopcroft and Tarjan)."""
    around: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for number, (one, other) in enumerate(edges):
        around[one].append((other, number))
        around[other].append((one, number))
    seen = [0] * count  # the order in which vertices are found, from 1
    low = [0] * count
    found: list[list[int]] = []
    clock = 0
    for start in range(count):
        if seen[start]:
            continue
        clock += 1
        seen[start] = low[start] = clock
        path = [(start, -1, iter(around[start]))]
        pile: list[int] = []
        while path:
            here, came, rest = path[-1]
            step = next(rest, None)
            if step is None:
                path.pop()
                if path:
                    above = path[-1][0]
                    low[above] = min(low[above], low[here])
                    if low[here] >= seen[above]:
                        at = pile.index(came)
                        block, pile = pile[at:], pile[:at]
                        if len(block) > 1:
                            found.append(block)
                continue
            other, edge = step
            if edge == came:
                continue
            if not seen[other]:
                clock += 1
                seen[other] = low[other] = clock
                pile.append(edge)
                path.append((other, edge, iter(around[other])))
            elif seen[other] < seen[here]:
                pile.append(edge)
                low[here] = min(low[here], seen[other])
    return found
