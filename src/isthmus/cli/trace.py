"""`isthmus trace`: look into a trace; `show` reads no further than it prints. `isthmus check` judges one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table

from isthmus.cli.console import wide_console
from isthmus.core.layer import ClockState, Kind
from isthmus.judge.oracle import Verdict
from isthmus.judge.witness import name_in
from isthmus.trace.reader import read_meta, read_rows
from isthmus.trace.schema import (
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
COLORS = {"valid": "green", "violated": "red", "unknown": "yellow"}
COLUMNS = (
    *("run", "process", "local", "time ms", "kind", "message"),
    *("group", "view", "destinations", "payload", "control", "value", "gauge"),
)
VERDICT_LINES = 60  # longer tables leave out what is valid, then what is too much

trace_path = click.argument("path", type=click.Path(path_type=Path))


@click.group()
def command() -> None:
    """Look into a trace: a folder of Parquet segments, or one such file.

    \b
    Examples:
      isthmus trace show out/trace --process 2 --kind deliver
    """


@command.command()
@trace_path
@click.option("--run", type=int, help="Only this run.")
@click.option("--process", type=int, multiple=True, help="Only this process; may be repeated.")
@click.option("--kind", type=click.Choice(list(KINDS)), multiple=True, help="Only this kind; may be repeated.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Rows to print.")
def show(path: Path, run: int | None, process: tuple[int, ...], kind: tuple[str, ...], limit: int) -> None:
    """Print rows as a table, in the order written.

    \b
    Examples:
      isthmus trace show out/trace
      isthmus trace show out/trace --process 2 --kind view --kind deliver --limit 200
    """
    kinds = {int(KINDS[name]) for name in kind}
    rows = islice(chosen(read_rows(path), run, process, kinds), limit + 1)
    table = Table(title=escape(", ".join(f"{key} {value}" for key, value in read_meta(path).items())) or None)
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in ("kind", "message", "destinations", "gauge") else "right")
    count = 0
    for count, row in enumerate(rows, start=1):
        if count <= limit:
            table.add_row(*cells(row))
    console = wide_console()
    console.print(table)
    if count > limit:
        console.print(f"The first {limit} rows; --limit shows more.")
    elif count == 0:
        console.print("No such rows.")


def chosen(rows: Iterable[Row], run: int | None, processes: tuple[int, ...], kinds: set[int]) -> Iterator[Row]:
    """The rows that were asked for; an empty choice is all."""
    for row in rows:
        if (
            (run is None or row[RUN] == run)
            and (not processes or row[PROCESS] in processes)
            and (not kinds or row[KIND] in kinds)
        ):
            yield row


def cells(row: Row) -> list[str]:
    """One row for people."""
    kind = row[KIND]
    named = Kind(kind).name.lower() if kind in KINDS.values() else str(kind)
    message = name_in(row[GROUP], row[ORIGIN:GROUP]) if row[SENDER] != NONE else ""
    destinations = row[DESTINATIONS]
    to = ("all" if message else "") if destinations is None else " ".join(map(str, destinations))
    place = [*map(str, (row[RUN], row[PROCESS], row[LOCAL])), f"{row[TIME_NS] / 1e6:.3f}"]
    numbers = map(str, (row[PAYLOAD], row[CONTROL], row[VALUE]))
    words = STATES if row[KIND] == Kind.CLOCK else GAUGES if row[KIND] == Kind.GAUGE else {}
    gauge = words.get(row[GAUGE], str(row[GAUGE])) if row[GAUGE] else ""
    return [*place, named, message, str(row[GROUP]), str(row[VIEW]), to, *numbers, gauge]


def print_verdicts(verdicts: list[tuple[int, Verdict]], run_count: int, names: Mapping[int, str] | None = None) -> None:
    """The verdicts as a table, and their sum as a line; a long table keeps to what is not valid."""
    shown = verdicts
    if len(shown) > VERDICT_LINES:
        shown = [(run, verdict) for run, verdict in verdicts if verdict.status != "valid"]
        shown.sort(key=lambda item: item[1].status != "violated")
    table = Table()
    for name in ("run", "group", "property", "verdict", "evidence", "violations", "witness"):
        table.add_column(name, justify="right" if name in ("run", "group", "evidence", "violations") else "left")
    for run, verdict in shown[:VERDICT_LINES]:
        table.add_row(
            "" if run == NONE else str(run),
            escape(verdict.domain or (names or {}).get(verdict.group, str(verdict.group))),
            verdict.property,
            f"[{COLORS[verdict.status]}]{verdict.status}[/]",
            str(verdict.evidence_count),
            str(verdict.violation_count),
            escape(verdict.witness),
        )
    console = wide_console()
    if shown:
        console.print(table)
    counts = {status: sum(verdict.status == status for _, verdict in verdicts) for status in COLORS}
    told = ", ".join(f"{count} {status}" for status, count in counts.items())
    console.print(f"{run_count} run{'s' if run_count != 1 else ''}: {told}.", soft_wrap=True)
