"""`isthmus check`: judge a trace of any size and origin on Spark, say what was found, draw the witnesses.

One session, one pass for what the trace has, then the checks; only sums and one witness per property come back to this
process, so that ten thousand runs print the same table as one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import click
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.storagelevel import StorageLevel
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from isthmus.cli.console import wide_console
from isthmus.cli.trace import COLORS, domain_option
from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.pipeline.failures import one_sentence
from isthmus.pipeline.formats import IDENTITY
from isthmus.pipeline.ingest import FORMS, files_of, form_of, read_trace
from isthmus.pipeline.session import spark_session
from isthmus.pipeline.shiviz import hosts, patterns_of
from isthmus.pipeline.verdicts import PROPERTIES, check
from isthmus.report.witness import Event, draw_witness, save_witness
from isthmus.trace.domain import parse_domains
from isthmus.trace.schema import NONE

NEEDS = {  # the kinds without which a property has no evidence; all others need deliveries
    "validity": (Kind.SUBMIT,),
    "final": (Kind.TENTATIVE,),
    "views": (Kind.VIEW,),
    "primary": (Kind.VIEW,),
    "clock-precision": (Kind.CLOCK,),
    "clock-accuracy": (Kind.CLOCK,),
}
IMPLIED = {"fifo-total": "fifo and total say it"}
SHUFFLE_BYTES = 32 << 20  # of input for one partition of a shuffle
NS_PER_MS = 1_000_000


class Summary(NamedTuple):
    """The verdicts of one property over all runs, groups and domains."""

    name: str
    counts: dict[str, int]  # by status
    evidence_count: int
    violation_count: int
    witness: Row | None  # of the first run that has one: run, group, domain, sentence, events
    reason: str  # why one is unknown

    @property
    def status(self) -> str:
        return next((status for status in ("violated", "unknown", "valid") if self.counts[status]), "unknown")


@click.command()
@click.argument("path")
@click.option(
    "--property", "properties", type=click.Choice(PROPERTIES), multiple=True, help="Only this one; repeatable."
)
@click.option("--format", "form", type=click.Choice(("auto", *FORMS)), default="auto", show_default=True)
@click.option("--pattern", "patterns", multiple=True, help="For ShiViz: KIND=REGEX with the groups sender, number, to.")
@click.option("--clock-precision", "precision_ms", type=click.FloatRange(min=0), help="Bound between two clocks, ms.")
@click.option("--clock-accuracy", "accuracy_ms", type=click.FloatRange(min=0), help="Bound to the true time, ms.")
@domain_option
@click.option("--master", help="A Spark master, such as spark://host:7077. [local[*]]")
@click.option("--remote", help="A Spark Connect server, such as sc://host:15002.")
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("out/check"), show_default=True)
@click.option("--png", is_flag=True, help="Draw the witnesses as PNG, too.")
def command(
    path: str, properties: tuple[str, ...], form: str, patterns: tuple[str, ...], precision_ms: float | None,
    accuracy_ms: float | None, domains: tuple[str, ...], master: str | None, remote: str | None, out: Path, png: bool,
) -> None:  # fmt: skip
    """Judge a trace on Spark: Parquet, CSV, JSON lines or a ShiViz log, of any system and any size.

    docs/TRACE.md defines the columns, the properties and the words of a ShiViz log. Without --property all are judged
    for which the trace can have evidence. Each group is judged by itself; --domain names groups that are judged end to
    end, too. Witnesses of violations are drawn into the folder OUT.

    Exit code 0: all valid; 1: a violation; 2: bad input; 3: no violation, but a property with no evidence.

    \b
    Examples:
      isthmus check out/trace
      isthmus check events.csv --property total --property fifo
      isthmus check out/trace --domain campus=0,1,2:inter --property total
      isthmus check run.log --pattern 'deliver=got (?P<sender>\\w+)#(?P<number>\\d+)'
      isthmus check out/trace --master spark://cluster:7077 -o out/verdicts
    """
    bounds_ms = {"clock-precision": precision_ms, "clock-accuracy": accuracy_ms}
    bounds = {name: int(bound * NS_PER_MS) for name, bound in bounds_ms.items() if bound is not None}
    words, joined = patterns_of(patterns), parse_domains(domains)
    if "://" not in path:
        form = form_of(Path(path), files_of(Path(path)), form)
    settings = {"spark.sql.shuffle.partitions": str(shuffle_partitions(path))}
    status = Console(stderr=True).status("starting Spark")
    with one_sentence(path), status, spark_session(master, remote, settings=settings) as spark:
        status.update("reading the trace")
        trace = read_trace(spark, path, form, words)
        if form != "parquet":
            trace = trace.persist(StorageLevel.MEMORY_AND_DISK)
        kinds = {row.kind: row["count"] for row in trace.groupBy("kind").count().collect()}
        asked, left_out = choose(properties, kinds, bounds)
        rows = sum(kinds.values())
        status.update(f"judging {rows:,} rows: {', '.join(asked)}")
        verdicts = check(trace, asked, bounds, joined)
        summaries = summarize(verdicts, asked)
        names = {}
        if form == "shiviz":
            files = files_of(Path(path)) if "://" not in path else [Path(path)]
            names = {row.process: row.host for row in hosts(spark, files, words).collect()}
        status.update("drawing witnesses")
        drawn = draw(spark, trace, summaries, names, out, png)
    print_summary(summaries, rows, left_out, names, drawn)
    found = {summary.status for summary in summaries}
    sys.exit(1 if "violated" in found else 3 if "unknown" in found else 0)


def shuffle_partitions(path: str) -> int:
    """As many as the size of the input asks for; a small trace should not pay for 200."""
    if "://" in path:
        return 200
    size = sum(file.stat().st_size for file in files_of(Path(path)))
    return max(4, min(2000, size // SHUFFLE_BYTES))


def choose(
    properties: Sequence[str], kinds: dict[int, int], bounds: dict[str, int]
) -> tuple[list[str], dict[str, str]]:
    """The properties to judge, and why the others are not."""
    if properties:
        return list(dict.fromkeys(properties)), {}
    left_out: dict[str, str] = {}
    for name in PROPERTIES:
        lacking = [kind.name for kind in NEEDS.get(name, (Kind.DELIVER,)) if not kinds.get(int(kind))]
        if lacking:
            left_out[name] = f"no {lacking[0]} row"
        elif name.startswith("clock-") and name not in bounds:
            left_out[name] = f"no --{name}"
        elif name in IMPLIED:
            left_out[name] = IMPLIED[name]
    asked = [name for name in PROPERTIES if name not in left_out]
    return asked or ["integrity"], left_out


def summarize(verdicts: DataFrame, asked: Sequence[str]) -> list[Summary]:
    """Sums over runs, groups and domains, and the first witness by run, one row per property."""
    statuses = [F.count_if(F.col("status") == status).alias(status) for status in COLORS]
    place = F.struct("run", "domain", "group")
    told = F.struct("run", "group", "domain", "witness", "witness_events")
    violated, unknown = F.col("status") == "violated", F.col("status") == "unknown"
    found = verdicts.groupBy("property").agg(
        *statuses,
        F.sum("evidence_count").alias("evidence"),
        F.sum("violation_count").alias("violations"),
        F.min_by(told, F.when(violated, place)).alias("told"),
        F.min(F.when(unknown, F.col("witness"))).alias("reason"),
    )
    rows = {row.property: row for row in found.collect()}
    nothing = dict.fromkeys(COLORS, 0)
    return [
        Summary(name, {status: row[status] for status in COLORS}, row.evidence, row.violations,
                row.told if row["violated"] else None, row.reason or "")
        if (row := rows.get(name)) else Summary(name, nothing | {"unknown": 1}, 0, 0, None, "the trace has no rows")
        for name in asked
    ]  # fmt: skip


def draw(
    spark: SparkSession, trace: DataFrame, summaries: list[Summary], names: dict[int, str], out: Path, png: bool
) -> list[Path]:
    """A picture for each witness; the submits of its messages are looked up, so that arrows have a beginning."""
    told = [(summary, summary.witness) for summary in summaries if summary.witness is not None]
    told = [(summary, witness) for summary, witness in told if witness.witness_events]
    wanted = {(witness.run, *message_of(event)) for _, witness in told for event in witness.witness_events}
    keys = sorted(key for key in wanted if key[1] != NONE)
    submits: list[Row] = []
    if keys:
        sought = spark.createDataFrame(keys, "run bigint, origin int, sender int, number bigint")
        home = (F.col("process") == F.col("sender")) & (F.col("origin") == F.col("group"))
        rows = trace.where((F.col("kind") == int(Kind.SUBMIT)) & home)
        submits = rows.join(F.broadcast(sought), list(IDENTITY), "left_semi").collect()
    drawn: list[Path] = []
    try:
        for summary, witness in told:
            sent = {message_of(event) for event in witness.witness_events}
            events = [event_of(event, True) for event in witness.witness_events]
            events += [event_of(row, False) for row in submits if row.run == witness.run and message_of(row) in sent]
            title = f"{summary.name} is violated in run {witness.run}{place_of(witness)}"
            figure = draw_witness(title, witness.witness, events, names)
            out.mkdir(parents=True, exist_ok=True)
            group = place_of(witness).replace(", ", "-").replace(" ", "-")
            for suffix in (".svg", ".png") if png else (".svg",):
                drawn.append(out / f"{summary.name}-run-{witness.run}{group}{suffix}")
                save_witness(figure, drawn[-1])
    except OSError as error:
        raise InputError(str(out), "", error.strerror or str(error), "a folder that can be written") from error
    return drawn


def message_of(row: Row) -> tuple[int, int, int]:
    return row.origin, row.sender, row.number


def place_of(witness: Row) -> str:
    """Where a witness was found, for people; nothing where there is one group."""
    return f", domain {witness.domain}" if witness.domain else f", group {witness.group}" if witness.group > 0 else ""


def event_of(row: Row, named: bool) -> Event:
    message = message_of(row) if row.sender != NONE else None
    return Event(row.process, row.local, row.time_ns, row.kind, message, row.group, row.view, named=named)


def print_summary(
    summaries: list[Summary], rows: int, left_out: dict[str, str], names: dict[int, str], drawn: list[Path]
) -> None:
    """The table, then what the user should know besides."""
    many = any(sum(summary.counts.values()) > 1 for summary in summaries)
    table = Table()
    heads = ["property", *(COLORS if many else ["verdict"]), "evidence", "violations", "first witness"]
    for head in heads:
        table.add_column(head, justify="left" if head in ("property", "verdict", "first witness") else "right")
    shown: Callable[[str, str], str] = lambda status, text: f"[{COLORS[status]}]{text}[/]"  # noqa: E731
    for summary in summaries:
        witness = summary.witness.witness if summary.witness is not None else summary.reason
        if many and summary.witness is not None:
            witness = f"run {summary.witness.run}{place_of(summary.witness)}: {witness}"
        counts = [shown(status, f"{count:,}") if count else "0" for status, count in summary.counts.items()]
        verdict = counts if many else [shown(summary.status, summary.status)]
        table.add_row(summary.name, *verdict, f"{summary.evidence_count:,}", f"{summary.violation_count:,}",
                      escape(witness))  # fmt: skip
    console = wide_console()
    console.print(table)
    console.print(f"{rows:,} rows judged.", highlight=False)
    if names:
        told = ", ".join(f"{process} is {name}" for process, name in sorted(names.items())[:30])
        console.print(escape(f"Processes: {told}."), highlight=False, soft_wrap=True)
    if left_out:
        reasons = "; ".join(f"{name} ({reason})" for name, reason in left_out.items())
        console.print(f"Not judged: {reasons}.", highlight=False, soft_wrap=True)
    for path in drawn:
        console.print(f"Witness: {escape(str(path))}", highlight=False, soft_wrap=True)
