"""Paths of packets: every route and every multicast tree, as steps that both engines walk alike.

A *step* is one link of one path. A packet at the end of that link is delivered to the end point there, if the step
delivers, and continues over the step's *branches*: the next link of a route, or all links of the tree at this node.
The branches of a step have consecutive numbers, so that two numbers identify them; the same holds for those that leave
the source. A route is a tree without forks, and unicast and multicast are not distinguished beyond this file.

Invariants: a step is never changed once made; branches are in ascending order of their links; a path is looked up by
its source and targets, so that a packet needs no more than the number of its step.

Bounds: TREES_MAX trees are kept; a multicast to yet another set of targets goes as one packet per target.
"""

from __future__ import annotations

from collections.abc import Sequence

from isthmus.topology.wiring import Wiring

NOBODY = -1  # as the node to deliver to: the packet only passes
TREES_MAX = 4096
Roots = tuple[int, int]  # the first step that leaves the source, and the number of such steps


class Ways:
    """The steps of all paths requested so far."""

    __slots__ = ("branch_count", "deliver_to", "first_branch", "link", "paths", "trees", "widest", "wiring")

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        self.link: list[int] = []  # of each step
        self.first_branch: list[int] = []
        self.branch_count: list[int] = []
        self.deliver_to: list[int] = []  # the node at the end, or NOBODY
        self.widest = 1  # maximum branches of one step
        self.paths: dict[tuple[int, int, bool], Roots] = {}
        self.trees: dict[tuple[int, tuple[int, ...]], Roots] = {}

    def add(self, link: int, deliver_to: int) -> int:
        self.link.append(link)
        self.first_branch.append(0)
        self.branch_count.append(0)
        self.deliver_to.append(deliver_to)
        return len(self.link) - 1

    def path(self, source: int, target: int, delivers: bool = True) -> Roots:
        """Return the route to a target; at its end the packet is delivered, or discarded."""
        key = (source, target, delivers)
        if key not in self.paths:
            links = self.wiring.path(source, target)
            first = len(self.link)
            for place, link in enumerate(links):
                last = place == len(links) - 1
                step = self.add(link, target if last and delivers else NOBODY)
                if not last:
                    self.first_branch[step], self.branch_count[step] = step + 1, 1
            self.paths[key] = (first, 1)
        return self.paths[key]

    def tree(self, source: int, targets: Sequence[int]) -> Roots | None:
        """Return the multicast tree to some targets: their routes to the source, reversed; None beyond the bound."""
        key = (source, tuple(targets))
        if key not in self.trees:
            if len(self.trees) >= TREES_MAX:
                return None
            self.trees[key] = self.grow(source, targets)
        return self.trees[key]

    def grow(self, source: int, targets: Sequence[int]) -> Roots:
        wiring, following = self.wiring, self.wiring.routes_to(source)
        below: list[list[int]] = [[] for _ in range(wiring.nodes)]  # by node: links to the nodes behind it
        placed = {source: True}
        for target in targets:
            node = target
            while node not in placed:
                placed[node] = True
                link = following[node]
                node = wiring.heads[link]
                below[node].append(link ^ 1)
        wanted = dict.fromkeys(targets)
        roots = self.fork(below[source], wanted)
        steps = list(range(roots[0], sum(roots)))
        for step in steps:  # grows during the loop
            branches = self.fork(below[wiring.heads[self.link[step]]], wanted)
            self.first_branch[step], self.branch_count[step] = branches
            steps.extend(range(branches[0], sum(branches)))
        return roots

    def ends_below(self, step: int) -> list[int]:
        """Return the nodes that a packet is delivered to from a step on."""
        found, steps = [], [step]
        for one in steps:  # grows during the loop
            if self.deliver_to[one] != NOBODY:
                found.append(self.deliver_to[one])
            steps.extend(range(self.first_branch[one], self.first_branch[one] + self.branch_count[one]))
        return found

    def fork(self, links: list[int], wanted: dict[int, None]) -> Roots:
        """Add steps over the links that leave one node of a tree."""
        first, heads = len(self.link), self.wiring.heads
        for link in sorted(links):
            self.add(link, heads[link] if heads[link] in wanted else NOBODY)
        self.widest = max(self.widest, len(links))
        return first, len(links)


def fragment_sizes(body_bytes: int, header_bytes: int, fragment_bytes: int) -> tuple[int, ...]:
    """Return the sizes of the packets of a message, each with its header; an empty message is one packet."""
    full, rest = divmod(body_bytes, fragment_bytes)
    bodies = [fragment_bytes] * full + ([rest] if rest or not full else [])
    return tuple(body + header_bytes for body in bodies)
