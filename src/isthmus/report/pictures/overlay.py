"""An overlay as a picture: ids round a circle, links as chords.

In a cube, links are coloured by the bit in which their ends differ, long ones fainter, so that the dimensions show;
links of an id that substitutes a missing one are dashed. The same overlay gives the same bytes.
"""

from __future__ import annotations

from math import cos, pi, sin

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isthmus.report.pictures.canvas import INK, PAPER, SOFT, STYLE
from isthmus.report.pictures.network import DISC, LINE
from isthmus.report.style import SERIES
from isthmus.topology.overlay.links import Adjacency
from isthmus.topology.overlay.measures import OverlayMeasures

SIZE = 8.0  # inches
LABELLED_MAX = 64  # ids; more numbers would be unreadable
CUBES = ("hypercube", "incomplete")


def draw_overlay(title: str, kind: str, near: Adjacency, summary: str) -> Figure:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(SIZE, SIZE + 0.8), dpi=150, facecolor=PAPER)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.03, 0.02, 0.94, 0.86))
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.set_xlim(-1.12, 1.12)
        axes.set_ylim(-1.12, 1.12)
        figure.text(0.04, 0.955, title, size=17, weight="bold", color=INK)
        figure.text(0.04, 0.925, summary, size=10.5, color=SOFT)
        points = [place(number, len(near)) for number in range(len(near))]
        draw_links(axes, kind, near, points)
        draw_ids(axes, points)
        if kind in CUBES and len(near) > 1:
            legend(figure, near, kind)
    return figure


def place(number: int, count: int) -> tuple[float, float]:
    """From the top, clockwise."""
    turn = 2 * pi * number / count
    return sin(turn), cos(turn)


def bit_of(a: int, b: int) -> int | None:
    """The bit in which two ids differ; None if several: one of them substitutes a missing id."""
    differs = a ^ b
    return differs.bit_length() - 1 if differs & (differs - 1) == 0 else None


def draw_links(axes: Axes, kind: str, near: Adjacency, points: list[tuple[float, float]]) -> None:
    links = [(a, b) for a, others in enumerate(near) for b in others if a < b]
    crowd = max(0.12, min(0.9, 90 / max(1, len(links))))
    width = 1.8 if len(links) < 120 else 1.0 if len(links) < 600 else 0.5
    for a, b in links:
        bit = bit_of(a, b) if kind in CUBES else None
        colour = LINE if kind not in CUBES else INK if bit is None else SERIES[bit % len(SERIES)]
        style = (0, (4, 3)) if kind in CUBES and bit is None else "solid"
        (x1, y1), (x2, y2) = points[a], points[b]
        axes.plot([x1, x2], [y1, y2], color=colour, linewidth=width, linestyle=style, alpha=crowd, zorder=1)


def draw_ids(axes: Axes, points: list[tuple[float, float]]) -> None:
    labelled = len(points) <= LABELLED_MAX
    size = 320 if len(points) <= 24 else 150 if labelled else 14
    axes.scatter([x for x, _ in points], [y for _, y in points], s=size, color=DISC, zorder=2)
    if labelled:
        letters = 9 if len(points) <= 24 else 6.5
        for number, (x, y) in enumerate(points):
            axes.text(x, y, str(number), size=letters, color=PAPER, ha="center", va="center", zorder=3)


def legend(figure: Figure, near: Adjacency, kind: str) -> None:
    bits = (len(near) - 1).bit_length()
    keys = [Line2D([], [], color=SERIES[bit % len(SERIES)], linewidth=2, label=f"bit {bit}") for bit in range(bits)]
    if kind == "hypercube" and any(bit_of(a, b) is None for a, others in enumerate(near) for b in others):
        keys.append(Line2D([], [], color=INK, linewidth=2, linestyle=(0, (4, 3)), label="substitutes a missing id"))
    figure.legend(
        handles=keys, loc="upper left", bbox_to_anchor=(0.03, 0.915), ncols=len(keys), frameon=False, fontsize=9,
        handlelength=1.6, columnspacing=1.2,
    )  # fmt: skip


def summary_of(measures: OverlayMeasures) -> str:
    degrees = f"{measures.degree_min}"
    if measures.degree_max > measures.degree_min:
        degrees += f" to {measures.degree_max}"
    diameter = "not connected" if measures.diameter is None else f"diameter {measures.diameter}"
    return (
        f"{measures.links} links, degree {degrees}, {diameter}, connectivity {measures.connectivity}, "
        f"{measures.sends} sends per broadcast"
    )
