"""Where to draw the clusters of a network, and where to put their labels: plain arithmetic without randomness.

By coordinates where all clusters have them, otherwise by classical multidimensional scaling of their delays; where all
WAN links are alike, on a circle, with the hub of a star in the middle. Clusters that would overlap are pushed apart.
"""

from __future__ import annotations

from math import cos, inf, pi, radians, sin

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from isthmus.topology.model import Topology

Points = NDArray[np.float64]
Segments = NDArray[np.float64]  # one row per line: x and y of both ends
Box = tuple[float, float, float, float]  # left, bottom, right, top

ROUNDS = 200  # of pushing apart
LINE_WIDTH = 0.01  # cost of a label across a line, as if the line were that wide
FAR_COST = 0.05  # cost of the distance between label and disc
OUTSIDE_COST = 1.0
SHRINK = 0.65  # of a picture with nodes, whose LANs are wider than their discs
ALIKE = 1.02  # delays within this factor of each other count as equal


def place(topology: Topology) -> Points:
    """A point for each cluster, inside a box of 1.6 by 0.94 or smaller around the origin.

    A node is where its LAN is.
    """
    lans = [number for number, cluster in enumerate(topology.clusters) if cluster.node_of is None]
    if len(lans) < len(topology.clusters):
        found = SHRINK * place(without_nodes(topology, lans))
        homes = [
            number if cluster.node_of is None else cluster.node_of for number, cluster in enumerate(topology.clusters)
        ]
        return np.array([found[lans.index(home)] for home in homes])
    if all(cluster.latitude is not None for cluster in topology.clusters):
        points = by_coordinates(topology)
    else:
        means = [mean for link in topology.links for mean in (link.forward.delay.mean_ms, link.back.delay.mean_ms)]
        alike = not means or max(means) <= ALIKE * min(means)
        points = on_circle(topology) if alike or len(topology.clusters) < 3 else by_delay(topology)
    return fit(apart(fit(points)))


def without_nodes(topology: Topology, lans: list[int]) -> Topology:
    links = [
        msgspec.structs.replace(link, a=lans.index(link.a), b=lans.index(link.b))
        for link in topology.links
        if link.a in lans and link.b in lans
    ]
    clusters = tuple(topology.clusters[number] for number in lans)
    return Topology(topology.name, topology.sites, clusters, tuple(links))


def by_coordinates(topology: Topology) -> Points:
    """An equirectangular map, true to scale at its middle latitude."""
    places = [(cluster.longitude or 0.0, cluster.latitude or 0.0) for cluster in topology.clusters]
    middle = (min(p[1] for p in places) + max(p[1] for p in places)) / 2
    return np.array([(longitude * cos(radians(middle)), latitude) for longitude, latitude in places])


def on_circle(topology: Topology) -> Points:
    """Evenly round a circle from the top, clockwise; the hub of a star in its middle."""
    count = len(topology.clusters)
    degree = [0] * count
    for link in topology.links:
        degree[link.a] += 1
        degree[link.b] += 1
    hubs = [number for number in range(count) if count > 3 and degree[number] == count - 1]
    rim = [number for number in range(count) if hubs != [number]]
    points = np.zeros((count, 2))
    for step, number in enumerate(rim):
        turn = 2 * pi * step / len(rim) + (pi / len(rim) if len(rim) % 2 == 0 else 0.0)
        points[number] = (sin(turn), cos(turn))
    return points


def by_delay(topology: Topology) -> Points:
    """Classical multidimensional scaling of the mean delays, both directions taken together."""
    count = len(topology.clusters)
    table = np.array([[topology.cluster_mean_ms(a, b) for b in range(count)] for a in range(count)])
    table = (table + table.T) / 2
    centre = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-centre @ table**2 @ centre / 2)
    points: Points = vectors[:, [-1, -2]] * np.sqrt(np.maximum(values[[-1, -2]], 0))
    for axis in range(2):  # an eigenvector's sign is arbitrary: fix it by its largest entry
        if points[np.argmax(np.abs(points[:, axis])), axis] < 0:
            points[:, axis] *= -1
    return points


def fit(points: Points) -> Points:
    """Centred, and scaled alike in both directions into 1.6 by 0.94."""
    low, high = points.min(axis=0), points.max(axis=0)
    span = high - low
    scale = min(1.6 / span[0] if span[0] > 0 else inf, 0.94 / span[1] if span[1] > 0 else inf)
    fitted: Points = (points - (low + high) / 2) * (scale if scale < inf else 1.0)
    return fitted


def apart(points: Points) -> Points:
    """Push points apart until no two are nearer than discs with labels need."""
    count = len(points)
    least = min(0.2, 0.55 / max(count, 1) ** 0.5)
    points = points.copy()
    for _ in range(ROUNDS):
        near = sorted(cKDTree(points).query_pairs(least * 0.999))
        for a, b in near:
            gap = points[b] - points[a]
            distance = float(np.hypot(*gap))
            turn = 2.4 * (a + b)  # any direction serves two points in one place, but always the same
            step = gap / distance if distance > 1e-9 else np.array((cos(turn), sin(turn)))
            points[a] -= step * max(0.0, least - distance) / 2
            points[b] += step * max(0.0, least - distance) / 2
        if not near:
            break
    return points


def overlap(one: Box, other: Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return width * height if width > 0 and height > 0 else 0.0


def inside(box: Box, lines: Segments) -> float:
    """The length of lines, given by their ends, that runs inside a box."""
    if not len(lines):
        return 0.0
    starts, steps = lines[:, :2], lines[:, 2:] - lines[:, :2]
    low, high = np.array(box[:2]), np.array(box[2:])
    flat = np.abs(steps) < 1e-12
    safe = np.where(flat, 1.0, steps)
    one, other = (low - starts) / safe, (high - starts) / safe
    misses = flat & ((starts < low) | (starts > high))
    enter = np.where(flat, np.where(misses, inf, -inf), np.minimum(one, other)).max(axis=1)
    leave = np.where(flat, np.where(misses, -inf, inf), np.maximum(one, other)).min(axis=1)
    shares = np.maximum(0.0, np.minimum(leave, 1.0) - np.maximum(enter, 0.0))
    return float((shares * np.hypot(steps[:, 0], steps[:, 1])).sum())


def best_box(
    centre: tuple[float, float], size: tuple[float, float], radius: float, taken: list[Box], lines: Segments
) -> Box:
    """The place for a label beside a disc with the least overlap; below is preferred, then above, then the sides."""
    (x, y), (width, height) = centre, size
    best, least = (x, y, x, y), inf
    for reach in (radius, 1.35 * radius):
        side, slope = reach + width / 2, 0.75 * reach
        for dx, dy in (
            (0.0, -reach - height / 2), (0.0, reach + height / 2), (side, 0.0), (-side, 0.0),
            (slope + width / 2, -slope - height / 2), (-slope - width / 2, -slope - height / 2),
            (slope + width / 2, slope + height / 2), (-slope - width / 2, slope + height / 2),
        ):  # fmt: skip
            box = (x + dx - width / 2, y + dy - height / 2, x + dx + width / 2, y + dy + height / 2)
            cost = sum(overlap(box, other) for other in taken)
            cost += LINE_WIDTH * inside(box, lines) + (reach - radius) * FAR_COST
            if max(abs(box[0]), abs(box[2])) > 0.98:
                cost += OUTSIDE_COST
            if cost < least:
                best, least = box, cost
    return best
