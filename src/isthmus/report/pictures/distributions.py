"""Latencies of several stacks as a picture: one row per stack, from the fastest messages to the slowest.

A mean misleads where a few messages wait for a retransmission; a row shows the distribution. The bar spans the middle
half, the line 1 to 99 % of all, the marker is the median and the plain tick the mean; hollow, above, the same of
tentative deliveries. The same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from isthmus.advise.compare.figures import StackFigures
from isthmus.measure.spread import LatencySpread
from isthmus.report.figures import INK, PAPER, SOFT, STYLE, WIDE, bare, one_line, render, styled
from isthmus.report.lines import Plot
from isthmus.report.style import PLACES, look_at

ROW_HIGH = 0.62  # inches
COMPARE_WIDE = 9.0
FAR = 8.0  # times the largest median: beyond, a line is cut
LABEL_WIDTH = 30  # characters
MEANING = "marker: median; bar: middle half; line: 1 to 99 %; tick: mean"


class Row(NamedTuple):
    """One row of the picture."""

    label: str
    percentiles: dict[int, float]  # 1, 25, 50, 75, 99
    mean: float
    color: str
    marker: str
    hollow: bool = False
    above: dict[int, float] | None = None  # of tentative deliveries


def draw_spreads(rows: Sequence[StackFigures], title: str) -> Figure:
    """The picture of a comparison: latency of a message by stack, and tentative latency where there is any."""
    shown = [row for row in rows if row.message_spread.count]
    made = [
        Row(
            row.stack,
            shares(row.message_spread),
            row.message_spread.mean,
            *look_at(PLACES.get(row.stack, len(PLACES) + place)),
            above=shares(row.tentative_spread) if row.tentative_spread else None,
        )
        for place, row in enumerate(shown)
    ]
    meaning = MEANING + ("; hollow: each tentative delivery" if any(row.above for row in made) else "")
    with styled():
        figure = draw_rows(made, "latency of a message, from its submit to its last delivery (ms)", COMPARE_WIDE, 0.65)
        high = figure.get_figheight()
        figure.text(0.02, 1 - 0.27 / high, title, size=STYLE["font.size"] + 2, weight="bold", color=INK)
        figure.text(0.02, 1 - 0.5 / high, meaning, size=STYLE["font.size"] - 1.5, color=SOFT)
    return figure


def shares(spread: LatencySpread) -> dict[int, float]:
    return {int(name[1:]): value for name, value in spread.percentiles.items()}


def draw_spread_plot(plot: Plot) -> Figure:
    stacks = plot.spec.stacks
    rows = []
    for place, one in enumerate(plot.spreads):
        stack = stacks.get(one.label, "")
        look = look_at(PLACES.get(stack, place))
        same = [name for name in stacks if stacks[name] == stack and name in {other.label for other in plot.spreads}]
        hollow = one.label in same[1:]
        rows.append(Row(one_line(one.label, LABEL_WIDTH), one.percentiles, one.mean, *look, hollow=hollow))
    with styled():
        return draw_rows(rows, plot.spec.ylabel, WIDE, 0.1)


def draw_rows(rows: Sequence[Row], xlabel: str, wide: float, head: float) -> Figure:
    """The rows on one axis; `head` is the room above, in inches."""
    high = head + 0.7 + ROW_HIGH * max(1, len(rows))
    figure = Figure(figsize=(wide, high), facecolor=PAPER)
    left = 0.05 + 0.085 * max([len(row.label) for row in rows], default=1) / wide
    axes = figure.add_axes((left, 0.62 / high, 0.97 - left, 1 - (head + 0.62) / high))
    axes.set_facecolor(PAPER)
    far = FAR * max([row.percentiles[50] for row in rows], default=1.0)
    right = min(far, max([row.percentiles[99] for row in rows], default=1.0)) * 1.12
    for place, row in enumerate(rows):
        draw_row(axes, place, row, right)
    axes.set_ylim(len(rows) - 0.5, -0.55)
    axes.set_xlim(0, right)
    axes.set_yticks(range(len(rows)), [row.label for row in rows], color=INK)
    axes.set_xlabel(xlabel, color=INK, labelpad=6)
    bare(axes, "x")
    return figure


def draw_row(axes: Axes, at: float, row: Row, right: float) -> None:
    draw_bar(axes, at, row.percentiles, row, right, 9.0, row.hollow)
    axes.plot([row.mean, row.mean], [at - 0.17, at + 0.17], color=INK, linewidth=1.2)
    if row.above is not None:
        draw_bar(axes, at - 0.28, row.above, row, right, 4.0, True)


def draw_bar(axes: Axes, at: float, share: dict[int, float], row: Row, right: float, wide: float, hollow: bool) -> None:
    color = row.color
    axes.plot([share[1], min(share[99], right)], [at, at], color=color, linewidth=1.2, solid_capstyle="butt")
    axes.plot([share[25], share[75]], [at, at], color=color, linewidth=wide, alpha=0.4, solid_capstyle="butt")
    face = PAPER if hollow else color
    axes.plot(
        share[50], at, marker=row.marker, color=color, markerfacecolor=face, markersize=6.5, markeredgecolor=color
    )


def save_spreads(rows: Sequence[StackFigures], title: str, folder: Path) -> list[Path]:
    figure = draw_spreads(rows, title)
    paths = [folder / f"compare.{kind}" for kind in ("svg", "png")]
    for path in paths:
        path.write_bytes(render(figure, path.suffix[1:]))
    return paths
