"""The lines of a figure, from its table: which points, in which order, under which names.

Points are sorted by x; where x is text, they are at 0, 1, 2 and so on, in the order of first occurrence. A value that
is missing, not finite, or not above zero on a logarithmic axis is omitted; two values at one x of one series are an
error.
"""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from isthmus.core.errors import InputError
from isthmus.report.results import FinishedStudy
from isthmus.studies.results import RUNS, SHARES, FigureSpec

LINES_MAX = 24


class Line(NamedTuple):
    """One line of a figure; `errors` are half-widths, 0 where there is none."""

    label: str
    xs: list[float]
    ys: list[float]
    errors: list[float]


class SpreadRow(NamedTuple):
    """A distribution: percentiles, and the mean beside them."""

    label: str
    percentiles: dict[int, float]
    mean: float


class Plot(NamedTuple):
    """The contents of one figure."""

    spec: FigureSpec
    ours: list[Line]
    paper: list[Line]
    categories: list[str]  # of x, where it is text
    spreads: tuple[SpreadRow, ...] = ()  # instead of lines
    runs: tuple[int, int] | None = None  # minimum and maximum number of runs per point; None: unknown

    @property
    def dots(self) -> bool:
        """Whether no line, ours or a paper's, has two points: then values are drawn side by side."""
        return bool(self.ours) and all(len(line.xs) < 2 for line in (*self.ours, *self.paper))


def plots_of(study: FinishedStudy) -> list[Plot]:
    return [make_plot(study.folder, number, spec, table) for number, (spec, table) in enumerate(study.figures)]


def make_plot(folder: Path, number: int, spec: FigureSpec, table: pa.Table) -> Plot:
    source = str(folder / "tables" / f"{spec.table.removesuffix('.parquet')}.parquet")
    texts = [cell for cell in table.column(spec.x).to_pylist() if isinstance(cell, str)]
    categories = list(dict.fromkeys(texts))
    runs = runs_of(table)
    if spec.kind == "spread":
        return Plot(spec, [], [], categories, spreads_of(spec, table, source), runs)
    places = {cell: float(place) for place, cell in enumerate(categories)}
    xs = [places[cell] for cell in texts] if texts else numbers(table, spec.x, source)
    if len(xs) != table.num_rows:
        raise InputError(source, spec.x, "text in some rows only", "text or a number in every row")
    ys = numbers(table, spec.y, source)
    errors = numbers(table, spec.error, source) if spec.error else [0.0] * len(ys)
    names = [name_of(spec.series, cell) for cell in table.column(spec.series).to_pylist()] if spec.series else []
    points: dict[str, dict[float, tuple[float, float]]] = {}
    for x, y, error, name in zip(xs, ys, errors, names or [spec.y.replace("_", " ")] * len(ys), strict=True):
        line = points.setdefault(name, {})
        if x in line:
            where = repr(categories[int(x)]) if categories else f"{x:g}"
            found = f"two rows of {name!r} at {spec.x} {where}"
            raise InputError(source, spec.y, found, "one row per point of the figure")
        if can_show(spec, x, y, categories):
            line[x] = (y, error if isfinite(error) else 0.0)
    if len(points) + len(spec.paper) > LINES_MAX:
        found = f"{len(points)} series and {len(spec.paper)} of a paper"
        raise InputError(source, spec.series or spec.y, found, f"at most {LINES_MAX} lines")
    lines = [line_of(name, found) for name, found in points.items() if found]
    where = f"{folder / 'figures.json'}: [{number}]"
    paper = [paper_line(where, at, spec, categories) for at in range(len(spec.paper))]
    return Plot(spec, lines, paper, categories, runs=runs)


def runs_of(table: pa.Table) -> tuple[int, int] | None:
    """The minimum and maximum number of runs that rows are means of, if the table has it."""
    counts = [count for count in table.column(RUNS).to_pylist() if count] if RUNS in table.column_names else []
    return (int(min(counts)), int(max(counts))) if counts else None


def spreads_of(spec: FigureSpec, table: pa.Table, source: str) -> tuple[SpreadRow, ...]:
    columns = {name: numbers(table, name, source) for name in spec.columns()[1:]}
    return tuple(
        SpreadRow(
            name_of(spec.x, cell),
            {share: columns[f"{spec.y}_p{share}"][row] for share in SHARES},
            columns[f"{spec.y}_mean"][row],
        )
        for row, cell in enumerate(table.column(spec.x).to_pylist())
    )


def line_of(name: str, points: dict[float, tuple[float, float]]) -> Line:
    xs = sorted(points)
    return Line(name, xs, [points[x][0] for x in xs], [points[x][1] for x in xs])


def paper_line(where: str, at: int, spec: FigureSpec, categories: list[str]) -> Line:
    """A paper's values, at their places on our axis."""
    given = spec.paper[at]
    xs: list[float] = []
    for x in given.x:
        if isinstance(x, str) != bool(categories) or (categories and x not in categories):
            expected = f"one of {', '.join(categories[:12])}" if categories else "a number"
            raise InputError(where, f"paper[{at}].x", repr(x), expected)
        xs.append(float(categories.index(x)) if isinstance(x, str) else x)
    points = {x: (y, 0.0) for x, y in zip(xs, given.y, strict=True) if can_show(spec, x, y, categories)}
    return line_of(given.label, points)


def can_show(spec: FigureSpec, x: float, y: float, categories: list[str]) -> bool:
    """Whether a point can be drawn: on a logarithmic axis only above zero."""
    log_x = "x" in spec.log and not categories
    return isfinite(x) and isfinite(y) and (not log_x or x > 0) and ("y" not in spec.log or y > 0)


def numbers(table: pa.Table, column: str, source: str) -> list[float]:
    """A column as floats, NaN for null."""
    kind = table.schema.field(column).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise InputError(source, column, f"a column of {kind}", "numbers")
    return [float("nan") if cell is None else float(cell) for cell in table.column(column).to_pylist()]


def name_of(column: str | None, cell: Any) -> str:
    """The name of a series; a number is prefixed with its column."""
    if isinstance(cell, str):
        return cell
    number = f"{cell:g}" if isinstance(cell, float) else str(cell)
    return f"{(column or '').replace('_', ' ')} {number}"
