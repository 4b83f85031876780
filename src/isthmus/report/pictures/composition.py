"""A composition as a picture, SVG and PNG: groups, IGPs, routers, and the domains that use them.

Groups are boxes with their size and order, IGPs ellipses, routers small diamonds on the lines. The central IGP is at
the top, its subtrees below, in the direction in which messages flood. A line has the colour of each domain that
uses it, side by side; the key names the domains with their wanted orders. The same composition gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse, FancyBboxPatch

from isthmus.protocols.routing.calculus.model import Composition, Igp, ProcessGroup
from isthmus.protocols.routing.calculus.shape import Shape
from isthmus.report.pictures.canvas import INK, PAPER, SOFT, STYLE, counts_text, save_picture, shorten
from isthmus.report.pictures.witness import COLORS, RAIL

COLUMN, LEVEL = 1.75, 0.8  # inches per leaf, and per level of nodes or routers
SIDE, TOP, KEY = 0.35, 0.95, 0.32  # inches around the drawing, and per line of the key
BOX = (1.45, 0.62)  # inches
SHIFT = 3.2  # points between lines of two domains
LABEL = 0.1  # inches
FILL = {"none": "#f4f4f4", "fifo": "#eef4f9", "causal": "#e6f3ec", "total": "#fbeee0"}

Vertex = tuple[str, int]  # "node" or "router", and its number


def draw_composition(composition: Composition, gets: Mapping[str, str]) -> Figure:
    """The picture of a composition; `gets` has the guarantee of each domain."""
    around = neighbours(composition)
    points = placed(composition, around)
    wide = 2 * SIDE + COLUMN * (1 + max(x for x, _ in points.values()))
    wide = max(wide, 7.4)
    deep = max(y for _, y in points.values())
    high = TOP + LEVEL * (deep + 1) + KEY * len(composition.domains) + 0.25
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(wide, high), dpi=150, facecolor=PAPER)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, wide)
        axes.set_ylim(0, high)
        right = max(x for x, _ in points.values())
        start = (wide - COLUMN * right) / 2
        spots = {vertex: (start + COLUMN * x, high - TOP - LEVEL * y) for vertex, (x, y) in points.items()}
        heading(axes, composition, high)
        draw_lines(axes, composition, spots)
        draw_nodes(axes, composition, spots)
        draw_key(axes, composition, gets)
    return figure


def save_composition(composition: Composition, gets: Mapping[str, str], path: Path) -> None:
    save_picture(draw_composition(composition, gets), path)


def neighbours(composition: Composition) -> dict[Vertex, list[Vertex]]:
    numbers = {node.name: at for at, node in enumerate(composition.nodes)}
    around: dict[Vertex, list[Vertex]] = {("node", at): [] for at in range(len(composition.nodes))}
    for at, router in enumerate(composition.routers):
        around["router", at] = [("node", numbers[name]) for name in router.joins]
        for vertex in around["router", at]:
            around[vertex].append(("router", at))
    return around


def placed(composition: Composition, around: dict[Vertex, list[Vertex]]) -> dict[Vertex, tuple[float, float]]:
    """A column and a level for each: leaves side by side, their parents above the middle."""
    points: dict[Vertex, tuple[float, float]] = {}
    column = 0.0
    for _ in around:
        left = [vertex for vertex in around if vertex not in points]
        if not left:
            break
        roots = [vertex for vertex in left if is_igp(composition, vertex)] or left
        top = min(roots, key=lambda vertex: (eccentricity(around, vertex), vertex))
        column = hang(around, top, 0.0, column, points)
    return points


def hang(
    around: dict[Vertex, list[Vertex]],
    vertex: Vertex,
    level: float,
    column: float,
    points: dict[Vertex, tuple[float, float]],
) -> float:
    """Place a vertex and its subtree, starting at a column; returns the next free column."""
    points[vertex] = (column, level)
    below = []
    first = column
    for other in around[vertex]:
        if other not in points:
            column = hang(around, other, level + 1, column, points)
            below.append(other)
    if below:
        points[vertex] = ((points[below[0]][0] + points[below[-1]][0]) / 2, level)
        return column
    return first + 1


def eccentricity(around: dict[Vertex, list[Vertex]], start: Vertex) -> int:
    """The distance to the farthest vertex."""
    far = {start: 0}
    waiting = [start]
    for vertex in waiting:
        for other in around[vertex]:
            if other not in far:
                far[other] = far[vertex] + 1
                waiting.append(other)
    return max(far.values())


def is_igp(composition: Composition, vertex: Vertex) -> bool:
    return vertex[0] == "node" and vertex[1] >= len(composition.groups)


def heading(axes: Axes, composition: Composition, high: float) -> None:
    counts = [(len(composition.groups), "group"), (len(composition.igps), "IGP"), (len(composition.routers), "router")]
    axes.text(SIDE, high - 0.3, composition.name, size=15, weight="bold", color=INK, va="center")
    axes.text(SIDE, high - 0.53, counts_text(counts), size=9.5, color=SOFT, va="center")


def draw_lines(axes: Axes, composition: Composition, spots: dict[Vertex, tuple[float, float]]) -> None:
    """From routers to what they join, once per domain that uses the line."""
    users: dict[tuple[int, int], list[int]] = {}
    for number, domain in enumerate(composition.domains):
        for place, joined in Shape(composition, domain).joins.items():
            for node in joined:
                users.setdefault((place, node), []).append(number)
    numbers = {node.name: at for at, node in enumerate(composition.nodes)}
    for at, router in enumerate(composition.routers):
        for name in router.joins:
            node = numbers[name]
            (x1, y1), (x2, y2) = spots["router", at], spots["node", node]
            using = users.get((at, node), [])
            for place, domain_number in enumerate(using or [-1]):
                shift = SHIFT / 72 * (place - (len(using or [-1]) - 1) / 2)
                color = COLORS[domain_number % len(COLORS)] if using else RAIL
                axes.plot([x1 + shift, x2 + shift], [y1, y2], color=color, linewidth=2.0, zorder=1)
        x, y = spots["router", at]
        axes.plot([x], [y], marker="D", markersize=8, color=PAPER, markeredgecolor=INK, markeredgewidth=1.3, zorder=4)
        text = router.name if router.replicas == 1 else f"{router.name} (x{router.replicas})"
        beside = label_shift((x, y), [spots["node", numbers[name]] for name in router.joins])
        axes.text(x + 0.12, y + beside, text, size=8, color=SOFT, va="center", zorder=5)


def label_shift(router: tuple[float, float], joined: list[tuple[float, float]]) -> float:
    """How far the label right of a router moves up or down, out of the way of its lines to the right."""
    right = [y - router[1] for x, y in joined if x > router[0]]
    return LABEL * (any(y < 0 for y in right) - any(y > 0 for y in right))


def draw_nodes(axes: Axes, composition: Composition, spots: dict[Vertex, tuple[float, float]]) -> None:
    wide, high = BOX
    for at, node in enumerate(composition.nodes):
        x, y = spots["node", at]
        fill = FILL.get(node.semantics, FILL["total"])
        if isinstance(node, ProcessGroup):
            box = FancyBboxPatch(
                (x - wide / 2, y - high / 2), wide, high, boxstyle="round,pad=0,rounding_size=0.09", facecolor=fill,
                edgecolor=INK, linewidth=1.4, linestyle="solid" if node.open else (0, (4, 2)), zorder=3,
            )  # fmt: skip
            axes.add_patch(box)
        else:
            axes.add_patch(Ellipse((x, y), wide * 1.04, high, facecolor=fill, edgecolor=INK, linewidth=1.4, zorder=3))
        for offset, text, size, weight in ((0.1, node.name, 9.5, "bold"), (-0.12, below_name(node), 8, "normal")):
            axes.text(
                x,
                y + offset,
                shorten(text, 22),
                size=size,
                weight=weight,
                color=INK,
                ha="center",
                va="center",
                zorder=5,
            )


def below_name(node: ProcessGroup | Igp) -> str:
    """The text below the name of a node: its size and its order."""
    if isinstance(node, Igp):
        return node.kind if node.kind != "group" else node.stack or node.semantics
    return (
        f"{len(node.members)} \N{MULTIPLICATION SIGN} {node.stack or node.semantics}{'' if node.open else ', closed'}"
    )


def draw_key(axes: Axes, composition: Composition, gets: Mapping[str, str]) -> None:
    for number, domain in enumerate(composition.domains):
        y = 0.2 + KEY * (len(composition.domains) - 1 - number)
        color = COLORS[number % len(COLORS)]
        axes.add_line(Line2D([SIDE, SIDE + 0.35], [y, y], color=color, linewidth=3))
        text = f"{domain.name}: {domain.wants} over {domain.scope}, {domain.forwarding} forwarding"
        axes.text(SIDE + 0.45, y, f"{text}; gets {gets[domain.name]}", size=9, color=INK, va="center")
