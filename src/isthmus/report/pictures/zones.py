"""Causal zones in the picture of a network.

A dashed ring around a disc is the zone of that LAN, the squares on it its gateways, lines between squares the links
over which they relay. Small discs inside the ring are nodes. A purple dashed line goes round a region, and the purple
squares are its separator.
"""

from __future__ import annotations

from math import atan2, cos, pi, sin

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Polygon

from isthmus.core.message import SiteId
from isthmus.report.pictures.layout import Points
from isthmus.topology.gateways.separators import LanGraph, check_zones, sites_of
from isthmus.topology.model import Topology

REACH = 1.75  # of a zone's ring, in radii of a disc
ORBIT, NODE = 2.2, 0.5  # how far the nodes of a LAN are from its centre, and how large, in radii
NODES_APART = 0.9  # in radians, of one gateway
AROUND = ORBIT + REACH * NODE + 0.5  # of the ring of a LAN with nodes
ZONE, GATEWAY, BORDER, PAPER = "#5b6573", "#b4560e", "#7d2a8c", "#ffffff"
MARK = 52  # points squared, of a gateway at the largest radius
LARGEST = 0.055
INWARD = 0.86  # how far places move towards the middle, so that rings and labels have room at the edges


def ring_reaches(topology: Topology) -> list[float]:
    """The radius of the ring of each zone, in radii of a disc."""
    around = [cluster.node_of for cluster in topology.clusters]
    return [
        REACH * NODE if cluster.node_of is not None else AROUND if number in around else REACH
        for number, cluster in enumerate(topology.clusters)
    ]


def around_lans(points: Points, topology: Topology, radius: float) -> Points:
    """The same places, with the nodes of each LAN beside the gateway that they are linked to."""
    if all(cluster.node_of is None for cluster in topology.clusters):
        return points
    placed = points.copy()
    graph, _ = check_zones(topology)
    for lan in range(len(topology.clusters)):
        angles = dict(angles_of(graph, points, lan))
        for gateway in graph.gateways[lan]:
            nodes = [node for node in graph.lans.nodes(lan) if graph.joints[lan, node][0] == gateway]
            for order, node in enumerate(nodes):
                angle = angles[gateway] + NODES_APART * (order - (len(nodes) - 1) / 2)
                placed[node] = points[lan] + ORBIT * radius * np.array((cos(angle), sin(angle)))
    return placed


def draw_zones(axes: Axes, topology: Topology, points: Points, radius: float) -> None:
    """Draw the zones, separators and gateway links of a topology over its discs."""
    graph, separators = check_zones(topology)
    reaches = ring_reaches(topology)
    places = {
        site: place
        for number, reach in enumerate(reaches)
        for site, place in around(graph, points, number, reach * radius)
    }
    for a, b in sorted({(min(pair), max(pair)) for pair in graph.joints.values()}):
        (x1, y1), (x2, y2) = places[a], places[b]
        axes.plot([x1, x2], [y1, y2], color=GATEWAY, linewidth=1.8, zorder=2)
    border: set[SiteId] = set()
    for zone in separators.zones:
        if zone.level == "region":
            border.update(sites_of(zone.separator))
            lans = {graph.lan_of[site]: None for site in sites_of(zone.inside | zone.separator)}
            frame(axes, [(*points[lan], reaches[lan]) for lan in lans], radius, zone.name)
    for (x, y), reach in zip(points, reaches, strict=True):
        ring = Circle(
            (x, y), reach * radius, fill=False, edgecolor=ZONE, linestyle=(0, (4, 3)), linewidth=1.1, zorder=3
        )
        axes.add_patch(ring)
    size = MARK * radius / LARGEST
    for site, (x, y) in places.items():
        fill = BORDER if site in border else GATEWAY
        part = NODE if graph.lans.is_node(graph.lan_of[site]) else 1.0
        axes.scatter([x], [y], s=part * size, marker="s", color=fill, edgecolors=PAPER, linewidths=0.8, zorder=5)


def legend_zones(figure: Figure, topology: Topology) -> None:
    """What rings, squares and lines mean."""
    square = {"marker": "s", "linestyle": "none", "markeredgecolor": PAPER, "markersize": 8}
    handles = [
        Line2D([], [], color=ZONE, linestyle=(0, (4, 3)), linewidth=1.1, label="causal zone"),
        Line2D([], [], markerfacecolor=GATEWAY, label="gateway, one of its separator", **square),  # type: ignore[arg-type]
        Line2D([], [], color=GATEWAY, linewidth=1.8, label="relays over this link"),
    ]
    if topology.regions:
        handles.append(Line2D([], [], color=BORDER, linestyle=(0, (6, 4)), linewidth=1.2, label="region"))
        handles.append(Line2D([], [], markerfacecolor=BORDER, label="one of its separator", **square))  # type: ignore[arg-type]
    figure.legend(
        handles=handles, loc="lower right", bbox_to_anchor=(0.985, 0.005), ncols=len(handles), fontsize=9, frameon=False
    )


def around(graph: LanGraph, points: Points, number: int, reach: float) -> list[tuple[SiteId, tuple[float, float]]]:
    """The gateways of a LAN on its ring."""
    x, y = float(points[number][0]), float(points[number][1])
    return [
        (gateway, (x + reach * cos(angle), y + reach * sin(angle)))
        for gateway, angle in angles_of(graph, points, number)
    ]


def angles_of(graph: LanGraph, points: Points, number: int) -> list[tuple[SiteId, float]]:
    """Where the gateways of a LAN are on its ring: towards what each is linked to, opposite where it is to nothing."""
    x, y = float(points[number][0]), float(points[number][1])
    found: list[tuple[SiteId, float]] = []
    nodes = graph.lans.nodes(number)
    for gateway in graph.gateways[number]:
        ends = [
            points[there]
            for (here, there), (a, _) in sorted(graph.joints.items())
            if (here, a) == (number, gateway) and there not in nodes
        ]
        used = [angle for _, angle in found]
        if graph.lans.is_node(number):
            angle = atan2(y - float(ends[0][1]), x - float(ends[0][0]))  # outward, to its gateway
        elif ends:
            angle = atan2(sum(float(end[1]) - y for end in ends), sum(float(end[0]) - x for end in ends))
        else:
            angle = (used[-1] if used else 0.0) + pi
        while any(abs(angle - other) < 0.3 for other in used):
            angle += 0.4
        found.append((gateway, angle))
    return found


def frame(axes: Axes, inside: list[tuple[float, float, float]], radius: float, name: str) -> None:
    """A dashed line around the LANs of a region, given by places and the reach of their rings, with its name."""
    edge = []
    for x, y, reach in inside:
        far = (reach + 0.85) * radius
        edge += [(x + far * cos(step * pi / 24), y + far * sin(step * pi / 24)) for step in range(48)]
    corners = hull(edge)
    axes.add_patch(
        Polygon(corners, fill=False, edgecolor=BORDER, linestyle=(0, (6, 4)), linewidth=1.2, zorder=2, clip_on=False)
    )
    x, y = max(corners, key=lambda corner: corner[1])
    axes.text(x, y + radius / 4, name, size=9.5, color=BORDER, ha="center", va="bottom", zorder=6)


def hull(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners of the smallest convex polygon around some points, counterclockwise."""
    found: list[tuple[float, float]] = []
    for ordered in (sorted(points), sorted(points, reverse=True)):
        side: list[tuple[float, float]] = []
        for point in ordered:
            while len(side) > 1 and not turns_left(side[-2], side[-1], point):
                side.pop()
            side.append(point)
        found += side[:-1]
    return found


def turns_left(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) > (b[1] - a[1]) * (c[0] - a[0])
