"""Overlays: neighbours by a rule that every site applies to the same membership (docs/design/flooding.md).

*hypercube*, for any n: ids that differ in one bit are neighbours. With k = ceil(log2 n) bits a missing id x is
impersonated by x - H, H = 2^(k-1), which always exists. Vertex connectivity is at least floor(log2 n), the degree at
most 2 floor(log2 n), the diameter at most k. Baselines: *incomplete*, the cube without impersonation; *clique*; *ring*;
*random*, a connected random regular graph of the degree of the cube, drawn from a seed.

Invariants: links are symmetric; no id is its own neighbour; neighbours are in ascending order; the same arguments give
the same overlay in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from random import Random
from typing import Literal

import msgspec

from isthmus.core.errors import LocalError
from isthmus.core.message import SiteId, Targets
from isthmus.core.validation import BadValue

Adjacency = tuple[tuple[int, ...], ...]  # the neighbours of each id, ascending
Kind = Literal["hypercube", "incomplete", "clique", "ring", "random"]
DRAWS_MAX = 1000  # of a random graph, until one is simple and connected


class Overlay(msgspec.Struct, frozen=True):
    """An overlay: a rule and its parameters."""

    kind: Kind = "hypercube"
    degree: int | None = None  # of a random graph; None: that of the cube, ceil(log2 n)
    seed: int = 0  # of a random graph
    order: tuple[SiteId, ...] = ()  # sites in the order of their ids (overlay_ids.py); () for ascending numbers

    def __post_init__(self) -> None:
        if self.degree is not None and self.kind != "random":
            raise BadValue("degree", repr(self.degree), f"nothing: the degree of a {self.kind} follows from n")
        if self.degree is not None and self.degree < 2:
            raise BadValue("degree", repr(self.degree), "at least 2, otherwise the overlay falls apart")

    def adjacency(self, count: int) -> Adjacency:
        if self.kind == "random":
            return random_regular(count, self.degree, self.seed)
        return RULES[self.kind](count)

    def ids(self, members: Targets) -> Targets:
        """The members by their ids: in the given order, those not named in it last."""
        if not self.order:
            return tuple(sorted(members))
        place = {site: number for number, site in enumerate(self.order)}
        return tuple(sorted(members, key=lambda site: (place.get(site, len(place)), site)))


@lru_cache(maxsize=64)
def neighbours_in(overlay: Overlay, members: Targets) -> Mapping[SiteId, Targets]:
    """The neighbours of every member of a view; one table for all sites of this process in the same view."""
    ids = overlay.ids(members)
    near = overlay.adjacency(len(ids))
    return {site: tuple(ids[other] for other in near[number]) for number, site in enumerate(ids)}


def dimension(count: int) -> int:
    """Bits that ids below `count` need: ceil(log2 count)."""
    return max(0, count - 1).bit_length()


def hypercube_neighbours(number: int, count: int) -> tuple[int, ...]:
    """The neighbours of one id in the hypercube of any size, without building it."""
    if not 0 <= number < count:
        raise LocalError(f"id {number} is not below {count}")
    bits = dimension(count)
    half = 1 << bits >> 1
    found = []
    for bit in range(bits):
        other = number ^ 1 << bit
        other = other if other < count else other - half
        if other != number:
            found.append(other)
    if number < half and number + half >= count:  # it impersonates a missing id, too
        found += [other for bit in range(bits - 1) if (other := (number + half) ^ 1 << bit) < count]
    return tuple(sorted(set(found)))


@lru_cache(maxsize=64)
def hypercube(count: int) -> Adjacency:
    return tuple(hypercube_neighbours(number, count) for number in range(count))


@lru_cache(maxsize=64)
def incomplete_cube(count: int) -> Adjacency:
    """The cube with the missing ids left out."""
    bits = range(dimension(count))
    return tuple(tuple(sorted(j for b in bits if (j := i ^ 1 << b) < count)) for i in range(count))


@lru_cache(maxsize=8)
def clique(count: int) -> Adjacency:
    return tuple((*range(number), *range(number + 1, count)) for number in range(count))


@lru_cache(maxsize=64)
def ring(count: int) -> Adjacency:
    return tuple(tuple(sorted({(number - 1) % count, (number + 1) % count} - {number})) for number in range(count))


@lru_cache(maxsize=64)
def random_regular(count: int, degree: int | None = None, seed: int = 0) -> Adjacency:
    """A connected random graph in which all ids have the same degree; a clique if there are too few ids for it.

    An odd degree is impossible for an odd number of ids; it is then raised by one.
    """
    degree = dimension(count) if degree is None else degree
    degree += degree * count % 2
    if degree >= count - 1:
        return clique(count)
    if degree < 2:
        return ring(count)
    source = Random(f"{seed}/overlay/{count}/{degree}")
    for _ in range(DRAWS_MAX):
        drawn = pairing(count, degree, source)
        if drawn is not None and reaches_all(drawn):
            return drawn
    raise BadValue("degree", repr(degree), f"one for which a random graph of {count} ids is found in {DRAWS_MAX} draws")


def pairing(count: int, degree: int, source: Random) -> Adjacency | None:
    """Join loose ends at random, and retry those that cannot be joined; None if some are left."""
    near: list[set[int]] = [set() for _ in range(count)]
    ends = [number for number in range(count) for _ in range(degree)]
    while ends:
        source.shuffle(ends)
        left = []
        for a, b in zip(ends[::2], ends[1::2], strict=True):
            if a == b or b in near[a]:
                left += [a, b]
            else:
                near[a].add(b)
                near[b].add(a)
        if len(left) == len(ends) and not any(
            a != b and b not in near[a] for place, a in enumerate(left) for b in left[place + 1 :]
        ):
            return None
        ends = left
    return tuple(tuple(sorted(others)) for others in near)


def reaches_all(near: Adjacency) -> bool:
    """Whether every id can be reached from id 0."""
    seen, frontier = {0}, [0]
    while frontier:
        for other in near[frontier.pop()]:
            if other not in seen:
                seen.add(other)
                frontier.append(other)
    return len(seen) == len(near)


RULES: dict[str, Callable[[int], Adjacency]] = {
    "hypercube": hypercube,
    "incomplete": incomplete_cube,
    "clique": clique,
    "ring": ring,
}
