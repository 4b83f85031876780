"""A witness as a small space-time diagram, SVG and PNG: the few events that show how an order was broken.

Processes are horizontal lines. Each event has a column of its own; columns follow the causal order: the local order at
each process, and a message's submit before its deliveries; clocks only break ties. A missing event is a cross at its
process, before the event that it should have preceded, or at the end of the line. Where a trace contradicts itself, the
local order is kept and the arrow leads back. The same events give the same bytes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from isthmus.core.layer import Kind
from isthmus.judge.witness import name_in
from isthmus.report.pictures.canvas import INK, PAPER, SOFT, STYLE, shorten
from isthmus.trace.schema import NONE, MessageKey

RAIL, FAULT = "#c3cad4", "#c0182b"
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
DASHES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)))
MARKS = {Kind.SUBMIT: "o", Kind.DELIVER: "s", Kind.TENTATIVE: "D", Kind.VIEW: "P", Kind.CRASH: "X", Kind.RECOVER: "^"}
OTHER = "v"
BENDS = (0.06, 0.16, 0.11, 0.21)  # so that arrows of two messages do not overlap
ARC = 0.7  # an arrow to the sender itself is an arc of the same height, however long
GIVEN = (Kind.DELIVER, Kind.TENTATIVE)
COLUMN, ROW = 1.15, 0.95  # inches
LEFT, RIGHT, TOP, BOTTOM = 1.15, 0.55, 1.25, 0.65  # inches around the columns and rows
EVENTS_MAX = 80  # more are cut


class Event(NamedTuple):
    """One row of a trace as a witness shows it, or one that is missing."""

    process: int
    local: int | None  # of a missing one, the row that it should precede; None: the end of its process
    time_ns: int | None
    kind: int
    message: MessageKey | None = None
    group: int = 0
    view: int = NONE
    missing: bool = False
    place: str = ""  # file and line of a text file

    @property
    def order(self) -> tuple[float, int]:
        if self.local is None:
            return float("inf"), 0
        return self.local, 0 if self.missing else 1


def draw_witness(
    title: str,
    sentence: str,
    events: Sequence[Event],
    names: Mapping[int, str] | None = None,
    processes: Sequence[int] = (),
) -> Figure:
    """The diagram of a verdict's events; `processes` have a line even without events, `names` their names, if any."""
    known = names or {}
    ordered = columns(list(dict.fromkeys(events))[:EVENTS_MAX])
    rows = {process: row for row, process in enumerate(sorted({*processes, *(event.process for event in ordered)}))}
    messages = list(dict.fromkeys(event.message for event in ordered if event.message is not None))
    wide = max(6.4, LEFT + RIGHT + COLUMN * max(1, len(ordered)))
    high = TOP + BOTTOM + ROW * max(1, len(rows))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(wide, high), dpi=150, facecolor=PAPER)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((LEFT / wide, BOTTOM / high, 1 - (LEFT + RIGHT) / wide, 1 - (TOP + BOTTOM) / high))
        axes.set_axis_off()
        axes.set_xlim(-0.5, max(1, len(ordered)) - 0.5)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        figure.text(0.18 / wide, 1 - 0.32 / high, title, size=12.5, weight="bold", color=INK, va="center")
        lines = textwrap.wrap(sentence, int(wide * 13.2))[:3]
        figure.text(0.18 / wide, 1 - 0.5 / high, "\n".join(lines), size=9.5, color=SOFT, va="top", linespacing=1.3)
        draw_rails(axes, rows, known)
        draw_arrows(axes, ordered, rows, messages)
        draw_events(axes, ordered, rows, messages, known)
        draw_legend(figure, ordered)
    return figure


def columns(events: Sequence[Event]) -> list[Event]:
    """The events from left to right, in causal order; clocks break ties."""
    latest = max((event.time_ns for event in events if event.time_ns is not None), default=0)
    left = sorted(
        events,
        key=lambda event: (
            event.local is None,  # the end of a process comes last
            latest if event.time_ns is None else event.time_ns,
            event.process,
            event.order,
        ),
    )
    done: list[Event] = []
    while left:
        first = [event for event in left if not any(stands_before(other, event) for other in left)]
        ready = [event for event in first if not any(causes(other, event) for other in left)]
        after = (ready or first)[0]  # none is ready if the trace contradicts itself
        left.remove(after)
        done.append(after)
    return done


def stands_before(one: Event, other: Event) -> bool:
    return one.process == other.process and one.order < other.order


def causes(one: Event, other: Event) -> bool:
    return one.kind == Kind.SUBMIT and other.kind in GIVEN and one.message == other.message and one is not other


def draw_rails(axes: Axes, rows: dict[int, int], names: Mapping[int, str]) -> None:
    right = axes.get_xlim()[1]
    for process, row in rows.items():
        axes.plot([-0.5, right], [row, row], color=RAIL, linewidth=1.4, zorder=1, solid_capstyle="butt", clip_on=False)
        axes.plot([right], [row], marker=">", color=RAIL, markersize=6, zorder=1, clip_on=False)
        shown = shorten(names.get(process, f"process {process}"), 13)
        axes.text(-0.58, row, shown, size=9.5, color=INK, ha="right", va="center", clip_on=False)


def draw_arrows(axes: Axes, events: list[Event], rows: dict[int, int], messages: Sequence[MessageKey | None]) -> None:
    """From each submit to the deliveries of its message."""
    submits = {
        event.message: column for column, event in reversed(list(enumerate(events))) if event.kind == Kind.SUBMIT
    }
    for column, event in enumerate(events):
        source = submits.get(event.message)
        if event.kind not in GIVEN or event.message is None or source is None or source == column:
            continue
        start, end = (source, rows[events[source].process]), (column, rows[event.process])
        bend = BENDS[messages.index(event.message) % len(BENDS)] * (-1 if end[1] > start[1] else 1)
        if start[1] == end[1]:
            bend = -min(0.35, ARC / max(1, column - source))
        arrow = FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=11, shrinkA=7, shrinkB=7.5, linewidth=1.5, zorder=2,
            color=FAULT if event.missing else color_of(event, messages), connectionstyle=f"arc3,rad={bend}",
            linestyle=DASHES[messages.index(event.message) % len(DASHES)],
        )  # fmt: skip
        axes.add_patch(arrow)


def draw_events(
    axes: Axes, events: list[Event], rows: dict[int, int], messages: Sequence[MessageKey | None],
    names: Mapping[int, str],
) -> None:  # fmt: skip
    for column, event in enumerate(events):
        row = rows[event.process]
        color = FAULT if event.missing else color_of(event, messages)
        if event.missing:
            axes.plot([column], [row], marker="x", markersize=13, color=FAULT, markeredgewidth=3.2, zorder=4,
                      clip_on=False)  # fmt: skip
        else:
            fill = PAPER if event.kind == Kind.TENTATIVE else color
            axes.plot([column], [row], marker=MARKS.get(Kind(event.kind), OTHER), markersize=9.5, color=fill, zorder=4,
                      markeredgecolor=color, markeredgewidth=1.6, clip_on=False)  # fmt: skip
        above = label_above(event, events, rows)
        axes.annotate(
            text_of(event, names), (column, row), xytext=(0, 11 if above else -11), textcoords="offset points",
            size=8.5, color=FAULT if event.missing else INK, weight="bold" if event.missing else "normal", ha="center",
            va="bottom" if above else "top", zorder=5, linespacing=1.15, annotation_clip=False,
            bbox={"boxstyle": "square,pad=0.12", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.85},
        )  # fmt: skip


def label_above(event: Event, events: list[Event], rows: dict[int, int]) -> bool:
    """Whether the label is above: away from the arrows of the message, which may lead to lines above."""
    ends = [
        rows[other.process] for other in events if other.message == event.message and other.process != event.process
    ]
    if event.kind in GIVEN:
        sources = [other for other in events if other.message == event.message and other.kind == Kind.SUBMIT]
        if any(other.process == event.process for other in sources):
            return False  # its arrow is an arc above the line
        ends = [rows[other.process] for other in sources]
    return not ends or sum(ends) / len(ends) >= rows[event.process]


def text_of(event: Event, names: Mapping[int, str]) -> str:
    """The label of an event: its kind and message, and its line in a text file."""
    kind = Kind(event.kind).name.lower()
    what = name_in(event.group, event.message, names) if event.message is not None else ""
    if event.kind == Kind.VIEW:
        what = str(event.view)
    if event.missing:
        kind = "no delivery" if event.kind == Kind.DELIVER else f"no {kind}"
    return "\n".join(part for part in (kind, what, event.place) if part)


def color_of(event: Event, messages: Sequence[MessageKey | None]) -> str:
    return COLORS[messages.index(event.message) % len(COLORS)] if event.message is not None else INK


def draw_legend(figure: Figure, events: list[Event]) -> None:
    kinds = sorted({event.kind for event in events if not event.missing})
    shown = [
        Line2D([], [], linestyle="none", marker=MARKS.get(Kind(kind), OTHER), markersize=7, markeredgecolor=SOFT,
               color=PAPER if kind == Kind.TENTATIVE else SOFT, label=Kind(kind).name.lower())
        for kind in kinds
    ]  # fmt: skip
    if any(event.missing for event in events):
        shown.append(Line2D([], [], linestyle="none", marker="x", markersize=8, color=FAULT, markeredgewidth=2.4,
                            label="should be here"))  # fmt: skip
    figure.legend(
        handles=shown, loc="lower center", ncols=max(1, len(shown)), frameon=False, fontsize=8.5, labelcolor=SOFT,
        handletextpad=0.3, columnspacing=1.4, borderaxespad=0.4,
    )  # fmt: skip
