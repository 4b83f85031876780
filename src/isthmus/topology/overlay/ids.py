"""Assignment of ids by topology, so that neighbours in the overlay are near in the network.

The total length of the links is made small by exchanges of two sites' ids, the best one for each id in turn, as long as
one shortens the total. They start once from the order given, so that it can only become better, and once from halves:
the ids below 2^(k-1) and those above differ in one bit only, so each half should be a region, and so on within.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from isthmus.core.message import SiteId
from isthmus.topology.model import Topology
from isthmus.topology.overlay.links import Adjacency, dimension

PASSES_MAX = 50  # over all ids; a handful is usual


def near_ids(lengths: np.ndarray, near: Adjacency) -> tuple[int, ...]:
    """The row of the matrix for each id, so that the links of the overlay are short.

    `lengths` has the distance of each pair of places, in any unit; both directions count.
    """
    distance = np.asarray(lengths, dtype=np.float64)
    distance = distance + distance.T
    places = list(range(len(near)))
    found = [exchanged(distance, near, start) for start in (places, halves(distance, places))]
    return min(found, key=lambda order: total_length(distance, near, order))


def topology_ids(topology: Topology, sites: Sequence[SiteId], near: Adjacency) -> tuple[SiteId, ...]:
    """The sites in the order of their ids, by the mean delays between them."""
    lengths = np.array([[topology.mean_ms(a, b) for b in sites] for a in sites])
    return tuple(sites[place] for place in near_ids(lengths, near))


def total_length(lengths: np.ndarray, near: Adjacency, order: Sequence[int]) -> float:
    """The length of all links in both directions, with ids given in an order."""
    return float(sum(lengths[order[a], order[b]] for a, others in enumerate(near) for b in others))


def halves(distance: np.ndarray, places: list[int]) -> list[int]:
    """Places in an order in which each half of the ids is a region: near one of two poles rather than the other."""
    if len(places) <= 2:
        return places
    cut = 1 << dimension(len(places)) >> 1
    pole = places[int(np.argmax(distance[places[0], places]))]
    far = places[int(np.argmax(distance[pole, places]))]
    ranked = sorted(places, key=lambda place: (distance[place, pole] - distance[place, far], place))
    return halves(distance, sorted(ranked[:cut])) + halves(distance, sorted(ranked[cut:]))


def exchanged(distance: np.ndarray, near: Adjacency, start: list[int]) -> tuple[int, ...]:
    """An order in which no exchange of two ids makes the links shorter.

    cost[i, s] is the length of the links of id i if it stood for place s and all others stayed.
    """
    order = np.array(start)
    links = [np.array(others, dtype=np.int64) for others in near]
    cost: Any = np.stack([distance[order[others]].sum(axis=0) for others in links])
    everyone = np.arange(len(order))
    for _ in range(PASSES_MAX):
        moved = False
        for here in range(len(order)):
            own = cost[everyone, order]
            gain = own[here] + own - cost[here, order] - cost[everyone, order[here]]
            gain[links[here]] -= 2 * distance[order[here], order[links[here]]]  # their common link stays as it is
            gain[here] = 0.0
            there = int(np.argmax(gain))
            if gain[there] <= 1e-9 * own[here]:
                continue
            change = distance[order[there]] - distance[order[here]]
            cost[links[here]] += change
            cost[links[there]] -= change
            order[here], order[there] = order[there], order[here]
            moved = True
        if not moved:
            break
    return tuple(order.tolist())
