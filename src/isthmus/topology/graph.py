"""Graphs of clusters: connected parts, and the routes of least delay.

Of several equally fast routes (Dijkstra) one is taken: in the graph of the links that lie on some fastest route, bit
for bit, a breadth-first search, neighbours in ascending order, reaches every cluster by the fewest links, and among
those by the lowest cluster numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from math import inf

DelayGraph = list[list[tuple[int, float]]]  # by cluster: its neighbours in ascending order, with the delay to each
NO_CLUSTER = -1


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


def delay_graph(count: int, delays: Mapping[tuple[int, int], float]) -> DelayGraph:
    graph: DelayGraph = [[] for _ in range(count)]
    for (near, far), delay in sorted(delays.items()):
        graph[near].append((far, delay))
    return graph


def least_delay_tree(graph: DelayGraph, start: int) -> list[int]:
    """The cluster before each one on its route from `start`; NO_CLUSTER at `start` and where there is none."""
    least = [inf] * len(graph)
    least[start] = 0.0
    heap = [(0.0, start)]
    while heap:
        delay, near = heappop(heap)
        if delay > least[near]:
            continue
        for far, more in graph[near]:
            if delay + more < least[far]:
                least[far] = delay + more
                heappush(heap, (least[far], far))
    before = [NO_CLUSTER] * len(graph)
    reached = [start]
    for near in reached:  # grows while it is walked
        for far, more in graph[near]:
            if before[far] == NO_CLUSTER and far != start and least[near] + more == least[far]:
                before[far] = near
                reached.append(far)
    return before
