"""The roles of sites in a picture of their network: which sites issue tickets, and for which others.

A ring of dots round the disc of a cluster shows its sites, filled where active; a cluster of one has its disc coloured
instead, and a large one has numbers only. A dashed arrow leads from a cluster to another one whose site is a sequencer
for some of its passive sites; a sequencer in the same cluster needs none.
"""

from __future__ import annotations

from math import cos, hypot, pi, sin

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch

from isthmus.report.pictures.layout import Points
from isthmus.stacks.roles.prediction import RoleAssignment
from isthmus.topology.model import Topology

ACTIVE, PASSIVE, EDGE = "#d9730d", "#ffffff", "#5b6573"
RING, DOT = 1.45, 0.24  # radius of the ring of dots, and of a dot, in radii of a disc
DOTS_MAX = 18  # sites that fit on the ring of a cluster
NAMED_MAX = 3  # active sites of a cluster that its label names


def draw_roles(axes: Axes, topology: Topology, roles: RoleAssignment, points: Points, radius: float) -> None:
    """Dots round the discs, and arrows to sequencers elsewhere."""
    for cluster, (x, y) in zip(topology.clusters, points, strict=True):
        count = len(cluster.sites)
        if count == 1 and roles.sequencer[cluster.sites[0]] == cluster.sites[0]:
            axes.add_patch(Circle((x, y), radius, facecolor=ACTIVE, edgecolor=PASSIVE, linewidth=1.6, zorder=3.5))
        for step, site in enumerate(cluster.sites if 1 < count <= DOTS_MAX else ()):
            turn = pi / 2 - 2 * pi * step / count
            centre = (x + RING * radius * cos(turn), y + RING * radius * sin(turn))
            face = ACTIVE if roles.sequencer[site] == site else PASSIVE
            axes.add_patch(Circle(centre, DOT * radius, facecolor=face, edgecolor=EDGE, linewidth=0.9, zorder=5))
    for here, there in sorted(elsewhere(topology, roles)):
        (x1, y1), (x2, y2) = points[here], points[there]
        length = hypot(x2 - x1, y2 - y1)
        gap = min(0.3, 1.2 * ring_reach(topology) * radius / length)  # keeps the arrow outside the rings
        ends = [(x1 + share * (x2 - x1), y1 + share * (y2 - y1)) for share in (gap, 1 - gap)]
        arrow = FancyArrowPatch(
            *ends, connectionstyle="arc3,rad=0.18", arrowstyle="-|>", mutation_scale=13, linestyle=(0, (4, 3)),
            color=ACTIVE, linewidth=1.5, zorder=2,
        )  # fmt: skip
        axes.add_patch(arrow)


def ring_reach(topology: Topology) -> float:
    """How far dots reach, in radii of a disc."""
    return RING + DOT if any(1 < len(cluster.sites) <= DOTS_MAX for cluster in topology.clusters) else 1.0


def elsewhere(topology: Topology, roles: RoleAssignment) -> set[tuple[int, int]]:
    """The pairs of clusters of a passive site and of its sequencer."""
    places = [site.cluster for site in topology.sites]
    pairs = {(places[p], places[a]) for p, a in enumerate(roles.sequencer)}
    return {(here, there) for here, there in pairs if here != there}


def role_text(topology: Topology, roles: RoleAssignment, number: int) -> str:
    """The active sites of a cluster as text; empty where a colour shows them, or none is active."""
    cluster = topology.clusters[number]
    names = [topology.sites[site].name for site in cluster.sites if roles.sequencer[site] == site]
    if len(names) == len(cluster.sites):
        return "all active" if len(names) > 1 else ""
    if len(names) > NAMED_MAX:
        return f"{len(names)} of {len(cluster.sites)} active"
    return f"active: {', '.join(names)}" if names else ""


def legend(figure: Figure, roles: RoleAssignment) -> None:
    dot = {"marker": "o", "linestyle": "none", "markeredgecolor": EDGE, "markersize": 8}
    handles = [
        Line2D([], [], markerfacecolor=ACTIVE, label=f"active: issues tickets ({len(roles.active)})", **dot),  # type: ignore[arg-type]
        Line2D([], [], markerfacecolor=PASSIVE, label=f"passive ({len(roles.sequencer) - len(roles.active)})", **dot),  # type: ignore[arg-type]
        Line2D([], [], color=ACTIVE, linestyle=(0, (4, 3)), linewidth=1.5, label="gets its tickets from there"),
    ]
    figure.legend(handles=handles, loc="lower right", bbox_to_anchor=(0.985, 0.005), ncols=3, fontsize=9, frameon=False)
