"""`isthmus trace`: show the rows of a trace, without reading further than is printed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table

from isthmus.cli.console import wide_console
from isthmus.cli.options import format_options
from isthmus.core.layer import ClockState, Kind
from isthmus.judge.witness import name_in
from isthmus.trace.inputs.rows import TraceInput
from isthmus.trace.inputs.shiviz import patterns_of
from isthmus.trace.schema import (
    COLUMN_NAMES,
    CONTROL,
    DESTINATIONS,
    GAUGE,
    GROUP,
    KIND,
    LOCAL,
    NONE,
    ORIGIN,
    PAYLOAD,
    PROCESS,
    RUN,
    SENDER,
    TIME_NS,
    VALUE,
    VIEW,
    Gauge,
    Row,
)

GAUGES = {int(gauge): gauge.name.lower() for gauge in Gauge}
STATES = {int(state): state.name.lower() for state in ClockState}  # the gauge of a CLOCK row
KINDS = {kind.name.lower(): kind for kind in Kind}
COLUMNS = (
    "run",
    "process",
    "local",
    "time ms",
    "kind",
    "message",
    "group",
    "view",
    "destinations",
    "payload",
    "control",
    "value",
    "gauge",
)


@click.group()
def command() -> None:
    """Look into a trace, of any format that `isthmus check` reads.

    \b
    Examples:
      isthmus trace show out/trace --process 2 --kind deliver
    """


@command.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--run", type=int, help="Only this run.")
@click.option("--process", type=int, multiple=True, help="Only this process; repeatable.")
@click.option("--kind", type=click.Choice(list(KINDS)), multiple=True, help="Only this kind; repeatable.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Maximum rows to print.")
@format_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines, which `isthmus check` reads.")
def show(
    path: Path, run: int | None, process: tuple[int, ...], kind: tuple[str, ...], limit: int, form: str,
    patterns: tuple[str, ...], as_json: bool,
) -> None:  # fmt: skip
    """Print rows as a table, in the order written.

    PATH is a file, or a folder of files of one format: Parquet, CSV, JSON lines or ShiViz logs.

    \b
    Examples:
      isthmus trace show out/trace
      isthmus trace show out/trace --process 2 --kind view --kind deliver --limit 200
      isthmus trace show events.csv --kind submit --json
    """
    source = TraceInput(path, form, patterns_of(patterns))
    kinds = {int(KINDS[name]) for name in kind}
    rows = islice(chosen(source.rows(), run, process, kinds), limit + 1)
    shown = list(islice(rows, limit))
    more = f"The first {limit} rows; --limit shows more."
    if as_json:
        for row in shown:
            click.echo(json.dumps(dict(zip(COLUMN_NAMES, row, strict=True)) | {"kind": kind_name(row[KIND])}))
        if next(rows, None):
            click.echo(more, err=True)
        return
    table = Table(title=escape(", ".join(f"{key} {value}" for key, value in source.meta().items())) or None)
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in ("kind", "message", "destinations", "gauge") else "right")
    for row in shown:
        table.add_row(*cells(row))
    console = wide_console()
    console.print(table)
    if next(rows, None):
        console.print(more)
    elif not shown:
        console.print("No such rows.")


def chosen(rows: Iterable[Row], run: int | None, processes: tuple[int, ...], kinds: set[int]) -> Iterator[Row]:
    """Yield the rows chosen; an empty choice is all."""
    for row in rows:
        if (
            (run is None or row[RUN] == run)
            and (not processes or row[PROCESS] in processes)
            and (not kinds or row[KIND] in kinds)
        ):
            yield row


def kind_name(kind: int) -> str:
    return Kind(kind).name.lower() if kind in KINDS.values() else str(kind)


def cells(row: Row) -> list[str]:
    """Return one row as the cells of the table."""
    message = name_in(row[GROUP], row[ORIGIN:GROUP]) if row[SENDER] != NONE else ""
    destinations = row[DESTINATIONS]
    to = ("all" if message else "") if destinations is None else " ".join(map(str, destinations))
    place = [*map(str, (row[RUN], row[PROCESS], row[LOCAL])), f"{row[TIME_NS] / 1e6:.3f}"]
    numbers = map(str, (row[PAYLOAD], row[CONTROL], row[VALUE]))
    words = STATES if row[KIND] == Kind.CLOCK else GAUGES if row[KIND] == Kind.GAUGE else {}
    gauge = words.get(row[GAUGE], str(row[GAUGE])) if row[GAUGE] else ""
    return [*place, kind_name(row[KIND]), message, str(row[GROUP]), str(row[VIEW]), to, *numbers, gauge]
