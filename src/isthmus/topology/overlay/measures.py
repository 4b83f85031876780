"""Figures of an overlay: links, degrees, diameter, and the crashes that it survives.

The vertex connectivity, one more than the crashes survived, is found by maximum flows between pairs of ids, each id
split in two: from an id of least degree to all that are not its neighbours, and between those of its neighbours that
are not each other's (S. Even).
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import msgspec
import numpy as np

from isthmus.topology.overlay.links import Adjacency


class OverlayMeasures(msgspec.Struct, frozen=True):
    """The figures of one overlay."""

    count: int
    links: int
    degree_min: int
    degree_max: int
    diameter: int | None  # None: it is not connected
    mean_hops: float | None  # between two different ids
    connectivity: int

    @property
    def sends(self) -> int:
        """The transmissions of one broadcast by constrained flooding: 2E - (n - 1)."""
        return flooding_sends(self.count, self.links)


def flooding_sends(count: int, links: int) -> int:
    """The transmissions if every member sends to all neighbours, all but the author to one fewer."""
    return 2 * links - (count - 1)


def link_count(near: Adjacency) -> int:
    return sum(map(len, near)) // 2


def measure(near: Adjacency) -> OverlayMeasures:
    degrees = [len(others) for others in near]
    hops = hop_counts(near)
    whole = bool(np.isfinite(hops).all())
    pairs = len(near) * (len(near) - 1)
    return OverlayMeasures(
        count=len(near),
        links=link_count(near),
        degree_min=min(degrees),
        degree_max=max(degrees),
        diameter=int(hops.max()) if whole else None,
        mean_hops=float(hops.sum() / max(1, pairs)) if whole else None,
        connectivity=connectivity(near),
    )


def hop_counts(near: Adjacency) -> np.ndarray:
    """Hops between all pairs of ids; infinity where there is no way."""
    from scipy.sparse.csgraph import shortest_path

    found: np.ndarray = shortest_path(matrix(near), method="D", unweighted=True)
    return found


def matrix(near: Adjacency) -> Any:
    from scipy.sparse import csr_array

    starts = np.cumsum([0, *map(len, near)])
    ends = np.array([other for others in near for other in others], dtype=np.int32)
    return csr_array((np.ones(len(ends), dtype=np.int32), ends, starts), shape=(len(near), len(near)))


def connectivity(near: Adjacency) -> int:
    from scipy.sparse.csgraph import maximum_flow

    least = min(range(len(near)), key=lambda number: len(near[number]))
    around = set(near[least])
    pairs = [(least, other) for other in range(len(near)) if other != least and other not in around]
    pairs += [(a, b) for a, b in combinations(near[least], 2) if b not in near[a]]
    if not pairs:
        return len(near) - 1
    network = split(near)
    return min(int(maximum_flow(network, 2 * a + 1, 2 * b).flow_value) for a, b in pairs)


def split(near: Adjacency) -> Any:
    """Every id as a way from 2i to 2i + 1 that one unit may take, and every link as two between different ids."""
    from scipy.sparse import csr_array

    links = [(2 * a + 1, 2 * b) for a, others in enumerate(near) for b in others]
    rows, columns = np.array([(2 * a, 2 * a + 1) for a in range(len(near))] + links, dtype=np.int32).T
    size = 2 * len(near)
    return csr_array((np.ones(len(rows), dtype=np.int32), (rows, columns)), shape=(size, size), dtype=np.int32)
