"""`isthmus check`: judge a trace of any size and origin; write verdicts and pictures of witnesses.

Two engines give the same verdicts: this process, for what fits it, and Spark, for what does not or where it is asked
for. Whatever Spark needs is imported only then: a small trace is judged in the time that it takes to read it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from isthmus.cli.console import COLORS, wide_console
from isthmus.cli.options import format_options
from isthmus.core.errors import InputError
from isthmus.core.units import NS_PER_MS
from isthmus.judge.oracle import PROPERTIES
from isthmus.judge.proof import FILE, check_free, document, replaced, write
from isthmus.judge.runs import Judged, Summary, Told, judge
from isthmus.judge.verdict import exit_code
from isthmus.judge.witness import sentence
from isthmus.trace.domain import parse_domains
from isthmus.trace.inputs.rows import RowPlace, TraceInput
from isthmus.trace.inputs.shiviz import patterns_of

LOCAL_ROWS_MAX = 2_000_000  # rows that the in-process engine takes by itself: about a gigabyte of memory
NAMES_SHOWN = 30

domain_option = click.option(
    "--domain", "domains", multiple=True, metavar="NAME=0,1[:inter|all]",
    help="Also judge these groups end to end; repeatable. inter: only messages that pass between them.",
)  # fmt: skip


@click.command()
@click.argument("path")
@click.option(
    "--property", "properties", type=click.Choice(PROPERTIES), multiple=True, help="Only this one; repeatable."
)
@click.option(
    "--engine",
    type=click.Choice(("auto", "local", "spark")),
    default="auto",
    show_default=True,
    help=f"local: in this process; spark: on Spark. auto: local up to {LOCAL_ROWS_MAX:,} rows.",
)
@format_options
@click.option(
    "--clock-precision",
    "precision_ms",
    type=click.FloatRange(min=0),
    help="Bound between two clocks, ms.",
)
@click.option("--clock-accuracy", "accuracy_ms", type=click.FloatRange(min=0), help="Bound to the true time, ms.")
@domain_option
@click.option("--partial", is_flag=True, help="The trace is cut short: conclude nothing from missing rows.")
@click.option("--master", help="A Spark master, such as spark://host:7077; implies --engine spark. [local[*]]")
@click.option("--remote", help="A Spark Connect server, such as sc://host:15002; implies --engine spark.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("out/check"),
    show_default=True,
    help="Folder for verdicts.json and the pictures; that of an earlier check is replaced.",
)
@click.option("--png", is_flag=True, help="Draw the witnesses as PNG, too.")
@click.option("--json", "as_json", is_flag=True, help="Print verdicts.json instead of the table.")
def command(
    path: str, properties: tuple[str, ...], engine: str, form: str, patterns: tuple[str, ...],
    precision_ms: float | None, accuracy_ms: float | None, domains: tuple[str, ...], partial: bool, master: str | None,
    remote: str | None, output: Path, png: bool, as_json: bool,
) -> None:  # fmt: skip
    """Judge a trace: Parquet, CSV, JSON lines or a ShiViz log, of any system and any size.

    docs/TRACE.md defines the columns, the properties and the words of a ShiViz log. Without --property all are judged
    for which the trace can have evidence. Each group is judged by itself; --domain names groups that are judged end to
    end, too. Where it is not given and the trace of a composition tells its ordering domains, orders are judged of
    these alone. The output folder gets verdicts.json and a picture of the first witness of each violated property.

    Exit code 0: all valid; 1: a violation; 2: bad input; 3: no violation, but a property with no evidence.

    \b
    Examples:
      isthmus check out/trace
      isthmus check events.csv --property total --property fifo
      isthmus check out/trace --domain campus=0,1,2:inter --property total
      isthmus check run.log --pattern 'deliver=got (?P<sender>\\w+)#(?P<number>\\d+)'
      isthmus check out/trace --engine spark --master spark://cluster:7077 -o out/verdicts
    """
    bounds_ms = {"clock-precision": precision_ms, "clock-accuracy": accuracy_ms}
    bounds = {name: int(bound * NS_PER_MS) for name, bound in bounds_ms.items() if bound is not None}
    words, joined = patterns_of(patterns), parse_domains(domains)
    check_free(output)
    source = TraceInput(Path(path), form, words) if "://" not in path else None
    composed = not joined and source is not None and bool(source.domains())
    if composed and source is not None:
        joined = source.domains()
    chosen, why = choose_engine(engine, source, master, remote)
    with Console(stderr=True).status("reading the trace"):
        if chosen == "local":
            assert source is not None
            judged = judge(source.rows(), properties, bounds, joined, partial, source.promised(), composed)
        else:
            from isthmus.pipeline.check.check import judge_on_spark

            judged = judge_on_spark(
                source or path, form, words, properties, bounds, joined, partial, composed, master=master, remote=remote
            )
    about = told_about(source, path, form)
    names = source.names() if source is not None else {}
    places = source.places(wanted(judged)) if source is not None else {}
    with replaced(output) as folder:
        pictures: Mapping[str, list[str]] = {}
        if any(summary.told is not None for summary in judged.summaries):
            from isthmus.report.pictures.witnesses import draw_all

            pictures = draw_all(folder, judged.summaries, names, places, png)
        notes = source.notes() if source is not None else []
        proof = document(
            judged, engine=chosen, source=about, names=names, places=places, domains=joined, bounds=bounds,
            partial=partial, notes=notes, pictures=pictures,
        )  # fmt: skip
        write(folder, proof)
    if as_json:
        click.echo(json.dumps(proof, indent=2, ensure_ascii=False))
    else:
        print_judged(judged, names, [*notes, why], [output / name for own in pictures.values() for name in own])
        wide_console().print(f"The verdicts are in {escape(str(output / FILE))}.", highlight=False, soft_wrap=True)
    sys.exit(exit_code(summary.status for summary in judged.summaries))


def choose_engine(asked: str, source: TraceInput | None, master: str | None, remote: str | None) -> tuple[str, str]:
    """The engine, and a sentence that says why."""
    afar = source is None or master is not None or remote is not None
    if asked == "local" and afar:
        found = "--engine local" if source is not None else "a path that only Spark can see"
        raise InputError("--engine", "local", found, "no --master, --remote or remote path with it")
    if asked != "auto" or afar or source is None:
        return ("spark" if afar else asked), ""
    size = source.size()
    if size <= LOCAL_ROWS_MAX:
        return "local", f"Judged in this process (up to {LOCAL_ROWS_MAX:,} rows; --engine spark overrules)"
    return "spark", f"Judged on Spark (over {LOCAL_ROWS_MAX:,} rows; --engine local overrules)"


def told_about(source: TraceInput | None, path: str, form: str) -> dict[str, Any]:
    """What the proof says of the input."""
    if source is None:
        return {"path": path, "format": form, "files": None, "sha256": None}
    return {"path": path, "format": source.form, "files": len(source.files), "sha256": source.digest()}


def wanted(judged: Judged) -> set[RowPlace]:
    """The rows of all witnesses."""
    told = [summary.told for summary in judged.summaries if summary.told is not None]
    return {(one.run, event.process, event.local) for one in told for event in one.events if event.local is not None}


def print_judged(judged: Judged, names: Mapping[int, str], notes: list[str], drawn: list[Path]) -> None:
    """The table, then what the user should know besides."""
    many = any(sum(summary.counts.values()) > 1 for summary in judged.summaries)
    table = Table()
    heads = ["property", *(COLORS if many else ["verdict"]), "evidence", "violations", "first witness"]
    for head in heads:
        table.add_column(head, justify="left" if head in ("property", "verdict", "first witness") else "right")
    for summary in judged.summaries:
        counts = [f"[{COLORS[status]}]{count:,}[/]" if count else "0" for status, count in summary.counts.items()]
        verdict = counts if many else [f"[{COLORS[summary.status]}]{summary.status}[/]"]
        numbers = (f"{summary.evidence_count:,}", f"{summary.violation_count:,}")
        table.add_row(summary.name, *verdict, *numbers, escape(witness_text(summary, names, many)))
    console = wide_console()
    console.print(table)
    console.print(f"{judged.row_count:,} row{'s' if judged.row_count != 1 else ''} judged.", highlight=False)
    if names:
        told = ", ".join(f"{process} is {name}" for process, name in sorted(names.items())[:NAMES_SHOWN])
        console.print(escape(f"Processes: {told}."), highlight=False, soft_wrap=True)
    if judged.left_out:
        reasons = "; ".join(f"{name} ({reason})" for name, reason in judged.left_out.items())
        console.print(escape(f"Not judged: {reasons}."), highlight=False, soft_wrap=True)
    for note in filter(None, notes):
        console.print(escape(f"{note}."), highlight=False, soft_wrap=True)
    for path in drawn:
        console.print(f"Witness: {escape(str(path))}", highlight=False, soft_wrap=True)


def witness_text(summary: Summary, names: Mapping[int, str], many: bool) -> str:
    """The first witness, with its place where there are several; or why something is unknown."""
    told = summary.told
    if told is None:
        return summary.reason
    text = sentence(told.witness, told.group, names)
    return f"run {told.run}{place_of(told)}: {text}" if many else text


def place_of(told: Told) -> str:
    return f", domain {told.domain}" if told.domain else f", group {told.group}" if told.group > 0 else ""
