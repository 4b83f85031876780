"""Inference of LANs from round-trip times alone.

Hosts are merged bottom up, nearest first, by complete linkage: a cut at a threshold gives groups of that diameter at
most. The cut goes through the middle of a gap in the heights of at least a factor of two around the zone from 5 to 10
ms; without one, groups of at most 10 ms are taken, or, where all hosts would be one, the widest gap decides.
"""

from __future__ import annotations

from itertools import pairwise
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

NEAR_MS = 5.0  # a gap between LAN and WAN ends above this ...
FAR_MS = 10.0  # ... and begins below this: the widest LAN, or metropolitan network, that is one cluster
GAP_FACTOR = 2.0
LEAST_MS = 0.01  # treated as no distance

Matrix = NDArray[np.float64]


def group_hosts(rtt_ms: Matrix, threshold_ms: float | None = None) -> tuple[list[list[int]], float]:
    """The groups of hosts, by their first host, and the threshold of the cut."""
    count = len(rtt_ms)
    if count == 1:
        return [[0]], threshold_ms or FAR_MS
    tree = linkage(squareform(rtt_ms, checks=False), method="complete")
    cut = find_threshold([float(height) for height in tree[:, 2]]) if threshold_ms is None else threshold_ms
    groups: dict[int, list[int]] = {}
    for host, label in enumerate(fcluster(tree, cut, criterion="distance")):
        groups.setdefault(int(label), []).append(host)
    return list(groups.values()), cut


def find_threshold(heights: list[float]) -> float:
    """The threshold of the cut, given the heights of all merges in ascending order."""
    gaps = [(high / max(low, LEAST_MS), low, high) for low, high in pairwise(heights)]
    wide = [gap for gap in gaps if gap[0] >= GAP_FACTOR]
    natural = [gap for gap in wide if gap[1] <= FAR_MS and gap[2] >= NEAR_MS]
    if natural:
        return middle(max(natural))
    if heights[-1] > FAR_MS:
        return FAR_MS
    return middle(max(wide)) if wide else FAR_MS


def middle(gap: tuple[float, float, float]) -> float:
    return sqrt(max(gap[1], LEAST_MS) * gap[2])
