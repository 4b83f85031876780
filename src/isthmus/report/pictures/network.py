"""A network as a picture, SVG and PNG; the same topology gives the same bytes.

Clusters are discs with their number of sites, WAN links lines: few have labels with their mean delays, many colours
with a colour bar. Roles (roles.py) and causal zones (zones.py) are drawn if requested.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import cm, colors
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.text import Text

from isthmus.report.pictures.canvas import INK, PAPER, SOFT, STYLE, counts_text, save_picture, shorten
from isthmus.report.pictures.layout import Box, Points, Segments, best_box, overlap, place
from isthmus.report.pictures.roles import draw_roles, legend, ring_reach, role_text
from isthmus.report.pictures.zones import INWARD, NODE, around_lans, draw_zones, legend_zones, ring_reaches
from isthmus.stacks.roles.prediction import RoleAssignment
from isthmus.topology.model import Topology, WanLink

WIDE, HIGH = 11.0, 7.5  # inches
FRAME = (0.02, 0.03, 0.96, 0.86)  # of the drawing inside the picture; its x runs from -1 to 1
LEGEND_HIGH = 0.4  # inches below, where roles or zones are drawn
HEIGHT = FRAME[3] * HIGH / (FRAME[2] * WIDE)
LABELLED_MAX = 24  # links; more labels would be unreadable
DISC, LINE = "#0b5d8a", "#8a94a3"


def draw_network(
    topology: Topology, roles: RoleAssignment | None = None, title: bool = True, zones: bool = False
) -> Figure:
    """The picture of a topology, with the roles of its sites if given, and its causal zones if requested."""
    with mpl.rc_context(STYLE):
        high = HIGH + LEGEND_HIGH if roles is not None or zones else HIGH
        figure = Figure(figsize=(WIDE, high), dpi=150, facecolor=PAPER)
        canvas = FigureCanvasAgg(figure)
        left, bottom, width, height = FRAME
        axes = figure.add_axes((left, (bottom * HIGH + high - HIGH) / high, width, height * HIGH / high))
        axes.set_axis_off()
        axes.set_xlim(-1.0, 1.0)
        axes.set_ylim(-HEIGHT, HEIGHT)
        if title:
            heading(figure, topology)
        count = len(topology.clusters)
        radius = 0.055 if count <= 8 else 0.042 if count <= 14 else 0.032 if count <= 25 else 0.022
        points = around_lans(place(topology) * (INWARD if zones else 1.0), topology, radius)
        few = len(topology.links) <= LABELLED_MAX
        draw_links(figure, axes, topology, points, few, faint=roles is not None or zones)
        draw_discs(axes, topology, points, radius)
        reaches = [radius if cluster.node_of is None else NODE * radius for cluster in topology.clusters]
        if zones:
            draw_zones(axes, topology, points, radius)
            legend_zones(figure, topology)
            reaches = [reach * radius for reach in ring_reaches(topology)]
        if roles is not None:
            draw_roles(axes, topology, roles, points, radius)
            legend(figure, roles)
            reaches = [ring_reach(topology) * radius] * count
        placed = zip(points, reaches, strict=True)
        taken: list[Box] = [(x - reach, y - reach, x + reach, y + reach) for (x, y), reach in placed]
        label_clusters(axes, canvas, topology, points, reaches, taken, roles)
        if few:
            label_links(axes, canvas, topology, points, taken)
    return figure


def heading(figure: Figure, topology: Topology) -> None:
    counts = [(len(topology.clusters), "cluster"), (len(topology.sites), "site"), (len(topology.links), "WAN link")]
    text = counts_text(counts)
    if topology.overrides:
        text += f", {len(topology.overrides)} pairs of sites with their own delays (not drawn)"
    figure.text(0.03, 0.945, topology.name, size=17, weight="bold", color=INK)
    figure.text(0.03, 0.912, f"{text}; one-way mean delays", size=10.5, color=SOFT)


def draw_links(figure: Figure, axes: Axes, topology: Topology, points: Points, few: bool, faint: bool) -> None:
    """Lines between the clusters: grey where labels show the delay, otherwise coloured, the slowest lowest.

    Many are drawn faintly if something else is drawn above them.
    """
    if few:
        for link in topology.links:
            (x1, y1), (x2, y2) = points[link.a], points[link.b]
            width = 0.8 if joins_node(topology, link) else 1.6
            axes.plot([x1, x2], [y1, y2], color=LINE, linewidth=width, zorder=1, solid_capstyle="round")
        return
    means = [mean_ms(link) for link in topology.links]
    low, high = min(means), max(means)
    wide = low > 0 and high > 20 * low
    ends = (low, high) if high > 1.001 * low else (low / 2, 1.5 * high or 1.0)  # a scale needs some length
    norm: colors.Normalize = colors.LogNorm(low, high) if wide else colors.Normalize(*ends)
    palette = mpl.colormaps["viridis_r"]
    crowd = len(means) / len(topology.clusters)
    for mean, link in sorted(zip(means, topology.links, strict=True), key=lambda item: -item[0]):
        (x1, y1), (x2, y2) = points[link.a], points[link.b]
        width, alpha = (0.8, 0.55) if crowd > 4 else (1.8, 0.95)
        alpha *= 0.4 if faint else 1.0
        axes.plot([x1, x2], [y1, y2], color=palette(norm(mean)), linewidth=width, alpha=alpha, zorder=1)
    bar = figure.colorbar(
        cm.ScalarMappable(norm, palette), cax=figure.add_axes((0.70, 0.935, 0.26, 0.016)), orientation="horizontal"
    )
    bar.set_label("mean delay of a link, one way (ms)", size=9, color=SOFT)
    bar.ax.tick_params(labelsize=8.5, colors=SOFT, length=2)
    if wide:
        ticks = [tick for power in (0.1, 1, 10, 100, 1000) for tick in (power, 2 * power, 5 * power)]
        shown = [tick for tick in ticks if low <= tick <= high]
        bar.set_ticks(shown, labels=[f"{tick:g}" for tick in shown])
        bar.ax.minorticks_off()
    bar.outline.set_visible(False)


def draw_discs(axes: Axes, topology: Topology, points: Points, radius: float) -> None:
    size = 240 * radius
    for cluster, (x, y) in zip(topology.clusters, points, strict=True):
        part = 1.0 if cluster.node_of is None else NODE
        axes.add_patch(Circle((x, y), part * radius, facecolor=DISC, edgecolor=PAPER, linewidth=1.6, zorder=3))
        number = str(len(cluster.sites))
        shrink = part * min(1.0, 2.6 / len(number))
        axes.text(
            x, y, number, size=size * shrink, color=PAPER, weight="bold", ha="center", va="center_baseline", zorder=4
        )


def label_clusters(
    axes: Axes, canvas: FigureCanvasAgg, topology: Topology, points: Points, reaches: list[float],
    taken: list[Box], roles: RoleAssignment | None,
) -> None:  # fmt: skip
    """Names, with roles or else with agents where there is room; each where it covers least."""
    count = len(topology.clusters)
    lines = np.array([(*points[link.a], *points[link.b]) for link in topology.links]).reshape(-1, 4)
    size = 11.5 if count <= 8 else 9.5 if count <= 25 else 8.0
    for number, (cluster, (x, y)) in enumerate(zip(topology.clusters, points, strict=True)):
        text = shorten(cluster.name, 24)
        if cluster.node_of is not None:
            low = float(y) - 1.3 * reaches[number]
            axes.text(x, low, text, size=0.65 * size, color=INK, ha="center", va="top", zorder=6)
            continue
        if roles is not None:
            text = f"{text}\n{shorten(role_text(topology, roles, number), 30)}".rstrip()
        elif count <= 9:
            text += f"\nagent {shorten(topology.sites[cluster.agent].name, 22)}"
        draw_label(axes, canvas, text, (float(x), float(y)), reaches[number] * 1.25, size, taken, lines)


def label_links(axes: Axes, canvas: FigureCanvasAgg, topology: Topology, points: Points, taken: list[Box]) -> None:
    """The mean delay in the middle of each link, or a little off where that is taken."""
    for link in topology.links:
        if joins_node(topology, link):
            continue
        best: tuple[float, Box] | None = None
        shown = axes.text(0, 0, link_label(link), size=9, color=INK, ha="center", va="center", zorder=2)
        shown.set_bbox({"boxstyle": "square,pad=0.25", "facecolor": PAPER, "edgecolor": "none"})
        width, height = extent(axes, canvas, shown)
        for share in (0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74):
            x, y = points[link.a] * (1 - share) + points[link.b] * share
            box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            cost = sum(overlap(box, other) for other in taken)
            if best is None or cost < best[0]:
                best = (cost, box)
        assert best is not None
        box = best[1]
        shown.set_position(((box[0] + box[2]) / 2, (box[1] + box[3]) / 2))
        taken.append(box)


def draw_label(
    axes: Axes, canvas: FigureCanvasAgg, text: str, centre: tuple[float, float], reach: float, size: float,
    taken: list[Box], lines: Segments,
) -> None:  # fmt: skip
    shown = axes.text(0, 0, text, size=size, color=INK, ha="center", va="center", linespacing=1.15, zorder=2.5)
    shown.set_bbox({"boxstyle": "square,pad=0.1", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.8})
    box = best_box(centre, extent(axes, canvas, shown), reach, taken, lines)
    shown.set_position(((box[0] + box[2]) / 2, (box[1] + box[3]) / 2))
    taken.append(box)


def extent(axes: Axes, canvas: FigureCanvasAgg, text: Text) -> tuple[float, float]:
    """A text's width and height in the units of the drawing."""
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    box = text.get_window_extent(renderer).transformed(axes.transData.inverted())
    return float(box.width), float(box.height)


def joins_node(topology: Topology, link: WanLink) -> bool:
    return any(topology.clusters[number].node_of is not None for number in (link.a, link.b))


def link_label(link: WanLink) -> str:
    forth, back = (short_ms(channel.delay.mean_ms) for channel in (link.forward, link.back))
    return f"{forth} ms" if forth == back else f"{forth} / {back} ms"


def short_ms(value: float) -> str:
    """A delay with three digits."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:.3g}"


def mean_ms(link: WanLink) -> float:
    return (link.forward.delay.mean_ms + link.back.delay.mean_ms) / 2


def save_network(
    topology: Topology, path: Path, kind: str = "", roles: RoleAssignment | None = None, zones: bool = False
) -> None:
    save_picture(draw_network(topology, roles, zones=zones), path, kind)
