"""Graphs of clusters: connected parts, and the routes of least delay by scipy's sparse graphs.

Dijkstra's algorithm gives the least delay from one cluster to each; which of several equally fast routes it returns is
scipy's own affair. So that a tie has one answer, only the delays are taken from it. The links that lie on some fastest
route (delay to the near end + delay of the link = delay to the far end, bit for bit) form a graph in which a breadth-
first search, neighbours in ascending order, reaches every cluster by the fewest links, and among those by the lowest
cluster numbers: a level is visited in the order of its routes, and the first to reach a cluster is its predecessor.

numpy and scipy are imported where they are used: a live group of clusters that are all linked never asks for a route.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def components(count: int, pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The connected parts of an undirected graph, each in order, by their lowest members."""
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for a, b in pairs:
        neighbours[a].append(b)
        neighbours[b].append(a)
    parts: list[list[int]] = []
    seen: set[int] = set()
    for start in range(count):
        if start not in seen:
            seen.add(start)
            part = [start]
            for place in part:  # grows while it is walked
                fresh = [other for other in dict.fromkeys(neighbours[place]) if other not in seen]
                seen.update(fresh)
                part += fresh
            parts.append(sorted(part))
    return parts


def sparse(count: int, weights: Mapping[tuple[int, int], float]) -> Any:
    """A directed graph in scipy's row format, with neighbours in ascending order; a weight of 0 is a link, too."""
    import numpy as np
    from scipy.sparse import csr_array

    near, far = np.array(list(weights), dtype=np.int32).reshape(-1, 2).T
    graph = csr_array((np.array(list(weights.values())), (near, far)), shape=(count, count), dtype=np.float64)
    graph.sort_indices()
    return graph


def least_delay_tree(graph: Any, start: int) -> list[int]:
    """The cluster before each one on its route from `start`; below 0 at `start` itself."""
    import numpy as np
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, dijkstra

    delays = dijkstra(graph, indices=start)
    near, far = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr)), graph.indices
    fastest = delays[near] + graph.data == delays[far]
    routes = csr_array((np.ones(fastest.sum()), (near[fastest], far[fastest])), shape=graph.shape)
    routes.sort_indices()
    _, before = breadth_first_order(routes, start)
    found: list[int] = before.tolist()
    return found
