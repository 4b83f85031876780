"""Causal zones in the picture of a network.

A dashed ring around a disc is the zone of that LAN. The squares on it are the gateways that separate it; lines between
squares are the links over which they relay. A square without a line is a twin that stands by. A dashed frame is a
region, and the filled squares at its border are its separator.
"""

from __future__ import annotations

from math import atan2, cos, pi, sin

from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyBboxPatch

from isthmus.core.message import SiteId
from isthmus.report.layout import Points
from isthmus.topology.model import Topology
from isthmus.topology.separators import LanGraph, check_zones, sites_of

REACH = 1.75  # of a zone's ring, in radii of a disc
ZONE, GATEWAY, BORDER, PAPER = "#5b6573", "#b4560e", "#7d2a8c", "#ffffff"
MARK = 52  # points squared, of a gateway at the largest radius
LARGEST = 0.055


def draw_zones(axes: Axes, topology: Topology, points: Points, radius: float) -> None:
    """Draw the zones, separators and gateway links of a topology over its discs."""
    graph, separators = check_zones(topology)
    places = {site: place for number in range(len(points)) for site, place in around(graph, points, number, radius)}
    for a, b in sorted({(min(pair), max(pair)) for pair in graph.joints.values()}):
        (x1, y1), (x2, y2) = places[a], places[b]
        axes.plot([x1, x2], [y1, y2], color=GATEWAY, linewidth=1.8, zorder=2)
    border: set[SiteId] = set()
    for zone in separators.zones:
        if zone.level == "region":
            border.update(sites_of(zone.separator))
            frame(
                axes, [points[graph.lan_of[site]] for site in sites_of(zone.inside | zone.separator)], radius, zone.name
            )
    for x, y in points:
        ring = Circle(
            (x, y), REACH * radius, fill=False, edgecolor=ZONE, linestyle=(0, (4, 3)), linewidth=1.1, zorder=3
        )
        axes.add_patch(ring)
    size = MARK * radius / LARGEST
    for site, (x, y) in places.items():
        fill = BORDER if site in border else GATEWAY
        axes.scatter([x], [y], s=size, marker="s", color=fill, edgecolors=PAPER, linewidths=0.8, zorder=5)


def around(graph: LanGraph, points: Points, number: int, radius: float) -> list[tuple[SiteId, tuple[float, float]]]:
    """The gateways of a LAN on its ring, each towards what it is linked to; one without a link opposite the others."""
    x, y = float(points[number][0]), float(points[number][1])
    found: list[tuple[SiteId, tuple[float, float]]] = []
    used: list[float] = []
    for gateway in graph.gateways[number]:
        ends = [
            points[there] for (here, there), (a, _) in sorted(graph.joints.items()) if (here, a) == (number, gateway)
        ]
        if ends:
            angle = atan2(sum(float(end[1]) - y for end in ends), sum(float(end[0]) - x for end in ends))
        else:
            angle = (used[-1] if used else 0.0) + pi
        while any(abs(angle - other) < 0.3 for other in used):
            angle += 0.4
        used.append(angle)
        found.append((gateway, (x + REACH * radius * cos(angle), y + REACH * radius * sin(angle))))
    return found


def frame(axes: Axes, inside: list[tuple[float, float]], radius: float, name: str) -> None:
    """A dashed frame around the LANs of a region, with its name."""
    margin = 2.6 * radius
    left, right = min(x for x, _ in inside) - margin, max(x for x, _ in inside) + margin
    low, high = min(y for _, y in inside) - margin, max(y for _, y in inside) + margin
    box = FancyBboxPatch(
        (left, low),
        right - left,
        high - low,
        boxstyle=f"round,pad=0,rounding_size={radius}",
        fill=False,
        edgecolor=BORDER,
        linestyle=(0, (6, 4)),
        linewidth=1.2,
        zorder=2,
        clip_on=False,
    )
    axes.add_patch(box)
    axes.text(left + radius / 2, high - radius / 2, name, size=9.5, color=BORDER, ha="left", va="top", zorder=6)
