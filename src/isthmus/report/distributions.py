"""Latencies of several stacks as a picture: one row per stack, from the quickest messages to the slowest.

Means mislead where a few messages wait for a retransmission: a row shows where messages are. The bar spans the middle
half, the line 1 to 99 % of all, the marker is the median and the bare tick the mean; hollow, above, the same of
tentative deliveries. The slowest of all are written at the end of the row. The same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from isthmus.comparing.figures import Spread, StackFigures
from isthmus.report.figures import INK, PAPER, RULE, SOFT, STYLE, render, styled
from isthmus.report.looks import PLACES, look_at

ROW_HIGH, WIDE = 0.62, 9.0  # inches
FAR = 8.0  # times the largest median: beyond, a line is cut and its end written


def draw_spreads(rows: Sequence[StackFigures], title: str) -> Figure:
    """The picture of a comparison: latency of a message by stack, and tentative latency where there is any."""
    shown = [row for row in rows if row.message_spread.count]
    with styled():
        figure = Figure(figsize=(WIDE, 1.35 + ROW_HIGH * max(1, len(shown))), facecolor=PAPER)
        axes = figure.add_axes((0.2, 0.62 / figure.get_figheight(), 0.76, 1 - 1.27 / figure.get_figheight()))
        axes.set_facecolor(PAPER)
        far = FAR * max([row.message_spread.percentiles["p50"] for row in shown], default=1.0)
        right = min(far, max([row.message_spread.percentiles["p99"] for row in shown], default=1.0)) * 1.12
        for place, row in enumerate(shown):
            color, marker = look_at(PLACES.get(row.stack, len(PLACES) + place))
            draw_row(axes, place, row.message_spread, color, marker, right)
            if row.tentative_spread is not None:
                draw_row(axes, place - 0.28, row.tentative_spread, color, marker, right, tentative=True)
        axes.set_ylim(len(shown) - 0.5, -0.55)
        axes.set_xlim(0, right)
        axes.set_yticks(range(len(shown)), [row.stack for row in shown], color=INK)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(SOFT)
        axes.grid(axis="x", color=RULE, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(colors=SOFT, labelcolor=INK, length=3)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("latency of a message, from its submit to its last delivery (ms)", color=INK, labelpad=6)
        told = "marker: median; bar: middle half; line: 1 to 99 %; tick: mean"
        if any(row.tentative_spread for row in shown):
            told += "; hollow: each tentative delivery"
        high = figure.get_figheight()
        figure.text(0.02, 1 - 0.27 / high, title, size=STYLE["font.size"] + 2, weight="bold", color=INK)
        figure.text(0.02, 1 - 0.5 / high, told, size=STYLE["font.size"] - 1.5, color=SOFT)
    return figure


def draw_row(
    axes: Axes, at: float, spread: Spread, color: str, marker: str, right: float, tentative: bool = False
) -> None:
    share = spread.percentiles
    axes.plot([share["p1"], min(share["p99"], right)], [at, at], color=color, linewidth=1.2, solid_capstyle="butt")
    wide = 4.0 if tentative else 9.0
    axes.plot([share["p25"], share["p75"]], [at, at], color=color, linewidth=wide, alpha=0.4, solid_capstyle="butt")
    face = PAPER if tentative else color
    axes.plot(share["p50"], at, marker=marker, color=color, markerfacecolor=face, markersize=6.5, markeredgecolor=color)
    if not tentative:
        axes.plot([spread.mean, spread.mean], [at - 0.17, at + 0.17], color=INK, linewidth=1.2)


def save_spreads(rows: Sequence[StackFigures], title: str, folder: Path) -> list[Path]:
    """Write the picture as compare.svg and compare.png."""
    figure = draw_spreads(rows, title)
    paths = [folder / f"compare.{kind}" for kind in ("svg", "png")]
    for path in paths:
        path.write_bytes(render(figure, path.suffix[1:]))
    return paths
