"""Figures of results: lines with error bars, and the paper's values beside ours.

Our lines are solid with filled markers, a paper's dashed with hollow ones, in the colour of the series that its label
names. A series that shows a stack has that stack's look in every figure (style.py); a second one of the same stack has
hollow markers, a third a dotted line. Each line is named at its right end. Axes start at zero unless values are below
it or the axis is logarithmic. Where no line has two points, values are drawn side by side. The same input gives the
same bytes; in a page text stays text, in the page's font and colours, which follow its dark mode.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import pairwise
from math import log10
from textwrap import wrap
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from isthmus.report.lines import Line, Plot
from isthmus.report.style import PLACES, SERIES, look_at
from isthmus.report.text import number

WIDE, HIGH, PNG_DPI = 5.7, 3.6, 220  # inches; small enough that text can be read on a phone
INK, SOFT, RULE, PAPER = "#1b2330", "#5b6573", "#dfe3e9", "#ffffff"
NAME_WIDTH, NAME_LINES = 19, 3  # of a line's name: characters, lines
NAME_HIGH = 0.165  # inches a line
LABEL_WIDTH = 34  # characters of a row's name
AXIS_WIDTH, TICK_WIDTH = 58, 20  # characters of the label of an axis, of a tick along the x axis
KEY = 0.045  # length of the piece of line before a name, in widths of the figure
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "svg.hashsalt": "isthmus",
    "path.simplify": False,
    "text.parse_math": False,  # a dollar sign in a label is literal
}
PAGE_COLORS = {INK: "--ink", SOFT: "--soft", RULE: "--rule", PAPER: "--paper"} | {
    color: f"--s{number}" for number, color in enumerate(SERIES)
}


class Look(NamedTuple):
    """The style of a line and of the key of its name."""

    color: str
    marker: str
    paper: bool
    wide: bool = False  # because another line covers it
    variant: int = 0  # of several series of one stack

    def options(self) -> dict[str, Any]:
        if self.paper:
            shape = {"linestyle": (0, (4, 2.5)), "linewidth": 1.3, "markersize": 7.5, "markerfacecolor": "none"}
        else:
            width, size = (4.2, 8.0) if self.wide else (1.8, 4.6)
            style: Any = ("-", "-", (0, (1, 1.6)))[min(self.variant, 2)]
            shape = {"linestyle": style, "linewidth": width, "markersize": size, "markeredgecolor": self.color}
            if self.variant:
                shape |= {"markerfacecolor": PAPER, "markersize": max(size, 5.5)}
        return {"color": self.color, "marker": self.marker, **shape}


def draw_plot(plot: Plot, others: Sequence[str] = ()) -> Figure:
    """The figure of a plot, without its title, which is part of the text around it.

    `others` are the series of the study that show no stack; their order gives each the same look in all figures.
    """
    with styled():
        return compose_dots(plot, others) if plot.dots else compose(plot, others)


@contextmanager
def styled(**more: str) -> Iterator[None]:
    """Use our style instead of the user's; a character that the font lacks is drawn as a box, without a warning."""
    with warnings.catch_warnings(), mpl.rc_context(STYLE | more):
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def compose_dots(plot: Plot, others: Sequence[str]) -> Figure:
    """One row per series with its value, and a paper's where there is one."""
    lines = list(zip((*plot.ours, *plot.paper), looks_of(plot, others), strict=True))
    lines = [(line, look) for line, look in lines if line.xs]
    figure = Figure(figsize=(WIDE, 0.9 + 0.34 * len(lines)), facecolor=PAPER)
    high = figure.get_figheight()
    axes = figure.add_axes((0.42, 0.55 / high, 0.55, 1 - 0.65 / high))
    axes.set_facecolor(PAPER)
    for row, (line, look) in enumerate(lines):
        bars: Any = {"ecolor": look.color, "capsize": 4}
        axes.errorbar(line.ys, [row], xerr=line.errors if any(line.errors) else None, **look.options(), **bars)
    axes.set_yticks(range(len(lines)), [one_line(line.label, LABEL_WIDTH) for line, _ in lines], color=INK)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    if all(y >= 0 for line, _ in lines for y in line.ys):
        axes.set_xlim(0, max(y + e for line, _ in lines for y, e in zip(line.ys, line.errors, strict=True)) * 1.08 or 1)
    axes.set_xlabel(one_line(plot.spec.ylabel, AXIS_WIDTH), color=INK, labelpad=6)
    bare(axes, "x")
    return figure


def bare(axes: Axes, grid: Literal["x", "y"]) -> None:
    """Style the axes of rows or columns: a grid across them, and only the spine with numbers."""
    kept = "bottom" if grid == "x" else "left"
    for side, spine in axes.spines.items():
        spine.set_visible(side == kept)
        spine.set_color(SOFT)
    axes.grid(axis=grid, color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=SOFT, labelcolor=INK, length=3)
    axes.tick_params(axis="y" if grid == "x" else "x", length=0)


def compose(plot: Plot, others: Sequence[str] = ()) -> Figure:
    names = [name_text(line.label) for line in (*plot.ours, *plot.paper)]
    room = sum(0.06 + NAME_HIGH * (name.count("\n") + 1) for name in names)
    slanted = crowded(plot.categories)
    figure = Figure(figsize=(WIDE, max(HIGH + 0.6 * slanted, room + 0.5)), facecolor=PAPER)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0.1, 0.14, 0.62, 0.76))
    axes.set_facecolor(PAPER)
    lines = list(zip((*plot.ours, *plot.paper), looks_of(plot, others), strict=True))
    for line, look in lines:
        mark_every = None if len(line.xs) <= (24 if look.paper else 48) else len(line.xs) // 12
        options = look.options() | {"markevery": mark_every, "zorder": 4 if look.paper else 3}
        if any(line.errors):
            bars: Any = {"yerr": line.errors, "ecolor": look.color, "elinewidth": 1.2, "capsize": 4, "capthick": 1.2}
            axes.errorbar(line.xs, line.ys, **options, **bars)
        else:
            axes.plot(line.xs, line.ys, **options)
    dress(axes, plot)
    arrange_names(figure, canvas, axes, [(line, look) for line, look in lines if line.xs])
    return figure


def looks_of(plot: Plot, others: Sequence[str] = ()) -> list[Look]:
    """A look for each of our lines, then for each of the paper's, derived from the series that it names."""
    ours = [own_look(plot, n, others) for n in range(len(plot.ours))]
    looks = list(ours)
    for line in plot.paper:
        named = [n for n, own in enumerate(plot.ours) if own.label.lower() in line.label.lower()]
        if named or (len(plot.ours) == 1 == len(plot.paper)):
            at = max(named, key=lambda n: len(plot.ours[n].label)) if named else 0
            looks.append(Look(ours[at].color, ours[at].marker, True))
        else:
            looks.append(Look(SOFT, "h", True))
    return looks


def own_look(plot: Plot, n: int, others: Sequence[str]) -> Look:
    """The look of the stack that a series shows; otherwise by its place among the others of the study."""
    label, stacks = plot.ours[n].label, plot.spec.stacks
    stack = stacks.get(label)
    if stack in PLACES:
        shown = [name for name in stacks if stacks[name] == stack and name in {line.label for line in plot.ours}]
        return Look(*look_at(PLACES[stack]), False, covered(plot, n), shown.index(label))
    place = others.index(label) if label in others else n
    return Look(*look_at(place), False, covered(plot, n))


def covered(plot: Plot, n: int) -> bool:
    """Whether a later line, drawn above, hides this one wherever both have points."""
    heights = [[log10(y) for y in line.ys] if "y" in plot.spec.log else line.ys for line in plot.ours]
    every = [y for ys in heights for y in ys]
    near = 0.02 * (max(every) - min(every) if "y" in plot.spec.log else max(map(abs, every)))
    own = dict(zip(plot.ours[n].xs, heights[n], strict=True))
    return any(
        all(abs(own[x] - y) <= near for x, y in zip(line.xs, ys, strict=True) if x in own)
        and not own.keys().isdisjoint(line.xs)
        for line, ys in list(zip(plot.ours, heights, strict=True))[n + 1 :]
    )


def dress(axes: Axes, plot: Plot) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(SOFT)
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=SOFT, labelcolor=INK, length=3)
    if "x" in plot.spec.log and not plot.categories:
        axes.set_xscale("log")
    if "y" in plot.spec.log:
        axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(lambda value, _: number(value))
    axes.set_xlabel(one_line(plot.spec.xlabel, AXIS_WIDTH), color=INK, labelpad=6)
    axes.set_title(one_line(plot.spec.ylabel, AXIS_WIDTH), loc="left", size=STYLE["font.size"], color=INK, pad=10)
    points = [(x, y, e) for line in (*plot.ours, *plot.paper) for x, y, e in zip(*line[1:], strict=True)]
    # Values that cannot be negative need no error bar below zero.
    if points and axes.get_yscale() == "linear" and min(y for _, y, _ in points) >= 0:
        axes.set_ylim(0, max(y + e for _, y, e in points) * 1.06 or 1.0)
    if plot.categories:
        axes.set_xticks(range(len(plot.categories)), [one_line(name, TICK_WIDTH, 8) for name in plot.categories])
        if crowded(plot.categories):
            for tick in axes.get_xticklabels():
                tick.set(rotation=35, ha="right", rotation_mode="anchor")
    elif points and axes.get_xscale() == "linear" and min(x for x, _, _ in points) >= 0:
        axes.set_xlim(0, max(x for x, _, _ in points) * 1.03 or 1.0)


def arrange_names(figure: Figure, canvas: FigureCanvasAgg, axes: Axes, lines: list[tuple[Line, Look]]) -> None:
    """Fit the axes between ticks and names, then put each name at the end of its line."""
    names = [figure.text(0, 0, name_text(line.label), size=9.8, color=INK, va="center", linespacing=1.1)
             for line, _ in lines]  # fmt: skip
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    wide, high = canvas.get_width_height()
    boxes = [name.get_window_extent(renderer) for name in names]
    right = 1 - max((box.width / wide + KEY + 0.035 for box in boxes), default=0.02)
    axes.set_position((0.1, 0.14, right - 0.1, 0.76))
    canvas.draw()  # type: ignore[no-untyped-call]
    tight = axes.get_tightbbox(renderer)
    assert tight is not None
    left, bottom = 0.1 - tight.x0 / wide + 0.012, 0.14 - tight.y0 / high + 0.016
    top = 0.9 - max(0.0, tight.y1 / high - 0.985)
    axes.set_position((left, bottom, right - left, top - bottom))
    ends = [axes.transData.transform((line.xs[-1], line.ys[-1]))[1] / high for line, _ in lines]
    ends = [end - 0.02 * look.paper for end, (_, look) in zip(ends, lines, strict=True)]  # ours above a paper's
    places = spread_names(ends, [box.height / high + 0.014 for box in boxes], 0.01, 0.99)
    for place, name, (_, look) in zip(places, names, lines, strict=True):
        start = right + 0.018
        name.set_position((start + KEY + 0.01, place))
        xs = [start, start + KEY / 2, start + KEY]
        key = Line2D(xs, [place] * 3, transform=figure.transFigure, markevery=[1], **look.options())
        figure.add_artist(key)


def crowded(categories: list[str]) -> bool:
    """Whether texts along the x axis would run into each other."""
    return sum(min(len(name), TICK_WIDTH) + 2 for name in categories) > 50


def spread_names(wanted: list[float], heights: list[float], low: float, high: float) -> list[float]:
    """Places near the wanted ones for boxes that must not overlap, between two bounds while there is room.

    Pushing only up and pushing only down both keep the boxes apart; so does the mean of the two, and it is fair.
    """
    order = sorted(range(len(wanted)), key=lambda n: (wanted[n], -n))
    gaps = [(heights[a] + heights[b]) / 2 for a, b in pairwise(order)]
    up = pushed([wanted[n] for n in order], gaps)
    down = [-place for place in reversed(pushed([-wanted[n] for n in reversed(order)], gaps[::-1]))]
    places = [(a + b) / 2 for a, b in zip(up, down, strict=True)]
    halves = [heights[n] / 2 for n in order]
    places = pushed([max(place, low + half) for place, half in zip(places, halves, strict=True)], gaps)
    lowered = [-min(place, high - half) for place, half in zip(places, halves, strict=True)]
    places = [-place for place in reversed(pushed(lowered[::-1], gaps[::-1]))]
    return [places[order.index(n)] for n in range(len(wanted))]


def pushed(places: list[float], gaps: list[float]) -> list[float]:
    result = places[:1]
    for place, gap in zip(places[1:], gaps, strict=True):
        result.append(max(place, result[-1] + gap))
    return result


def name_text(label: str) -> str:
    """A name on as few lines as possible, of about equal length."""
    label = one_line(label, NAME_WIDTH * NAME_LINES) or "(no name)"
    tries = [wrap(label, width, break_on_hyphens=False, break_long_words=False) for width in range(NAME_WIDTH, 5, -1)]
    fewest = len(tries[0])
    return "\n".join([lines for lines in tries if len(lines) == fewest][-1][:NAME_LINES])


def one_line(text: str, length: int, tail: int = 0) -> str:
    """Text without line breaks and unprintable characters; if too long, shortened before the last `tail` characters."""
    text = " ".join("".join(c for c in text if c.isprintable() or c.isspace()).split())
    if len(text) <= length:
        return text
    return text[: length - 1 - tail].rstrip() + "\N{HORIZONTAL ELLIPSIS}" + text[len(text) - tail :]


def render(figure: Figure, kind: str, text: str = "path", tight: bool = False) -> bytes:
    """A figure as bytes of `svg` or `png`; text as `path`, or as `none`, which leaves it text; `tight` cuts margins."""
    metadata = {"Date": None, "Creator": "Isthmus"} if kind == "svg" else {"Software": None}
    stream = BytesIO()
    with styled(**{"svg.fonttype": text}):
        more: Any = {"bbox_inches": "tight", "pad_inches": 0.15} if tight else {}
        figure.savefig(stream, format=kind, dpi=PNG_DPI if kind == "png" else 72, metadata=metadata, **more)
    return stream.getvalue()


def inline_svg(figure: Figure, prefix: str, label: str, outlines: bool = False) -> Markup:
    """A figure as an element of a page: ids made unique by a prefix, colours and fonts those of the page.

    `outlines` is for pictures whose labels must not grow with the reader's font; their margins are removed, too.
    """
    svg = render(figure, "svg", "path" if outlines else "none", tight=outlines).decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\s+xmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href=", "href=")
    used = set(re.findall(r'href="#([^"]+)"', svg)) | set(re.findall(r"url\(#([^)]+)\)", svg))
    svg = re.sub(r' id="([^"]+)"', lambda match: f' id="{prefix}-{match[1]}"' if match[1] in used else "", svg)
    svg = svg.replace('href="#', f'href="#{prefix}-').replace("url(#", f"url(#{prefix}-")
    for color, name in PAGE_COLORS.items():
        svg = re.sub(rf"(fill|stroke): {color}\b", rf"\1: var({name})", svg)
    svg = re.sub(r"(font: [^;\"]*?px) [^;\"]*", r"\1 var(--sans)", svg)
    size = re.search(r'viewBox="([^"]+)"', svg)
    assert size is not None
    opening = f'<svg viewBox="{size[1]}" role="img" aria-label="{escape(label)}">'
    return Markup(re.sub(r"<svg[^>]*>", lambda _: opening, svg, count=1))
