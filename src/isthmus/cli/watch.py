"""`isthmus watch`: follow the segments that live sites write, store their rows, and print changed verdicts."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from pyspark.sql.streaming.query import StreamingQuery
from rich.markup import escape

from isthmus.cli.console import COLORS, wide_console
from isthmus.judge.oracle import PROPERTIES
from isthmus.judge.verdict import exit_code
from isthmus.pipeline.check.verdicts import check
from isthmus.pipeline.engine.session import spark_session
from isthmus.pipeline.engine.spark_errors import one_sentence
from isthmus.pipeline.ingest.streaming import AT_REST, Lake, VerdictChange, follow

POLL_S = 1
USUAL = tuple(name for name in PROPERTIES if not name.startswith("clock-") and name != "fifo-total")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The lake: rows, verdicts, checkpoint. [out/lake]"
)
@click.option("--once", is_flag=True, help="Judge the segments that exist now as a whole, then exit.")
@click.option(
    "--property", "properties", type=click.Choice(PROPERTIES), multiple=True, help="Only this one; repeatable."
)
@click.option(
    "--every", type=click.FloatRange(min=0.1), default=1.0, show_default=True, help="Seconds between batches."
)
@click.option("--segments", type=click.IntRange(min=1), help="Maximum segments per batch. [all there are]")
@click.option("--master", help="A Spark master that sees the same folders. [local[*]]")
@click.option("--json", "as_json", is_flag=True, help="Print each change, and the counts at the end, as a JSON line.")
def command(
    folder: Path, output: Path | None, once: bool, properties: tuple[str, ...], every: float, segments: int | None,
    master: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Follow a trace as it is written, and print verdicts as they change.

    Rows go to OUTPUT/rows, partitioned by run, each exactly once however often the watch is stopped, killed and
    started again; the latest verdicts are in OUTPUT/verdicts. A violation that rests on a segment not yet there is
    withdrawn when it arrives. Properties of the end of a run (agreement, validity) are judged with --once, or if
    named.

    Exit code with --once: 0 nothing is violated, 1 a violation, 3 nothing could be judged, or a property that was asked
    for by name has no evidence; 130 after Ctrl-C.

    \b
    Examples:
      isthmus watch out/live
      isthmus watch out/live -o out/lake --property total --property integrity
      isthmus watch out/live --once
    """
    chosen = properties or tuple(name for name in USUAL if once or name not in AT_REST)
    lake = Lake(output or Path("out/lake"))
    console = wide_console(quiet=as_json)
    status = console.status("starting Spark")
    settings = {"spark.sql.shuffle.partitions": "8"}
    interrupted = False
    with one_sentence(str(folder)), status, spark_session(master, settings=settings) as spark:
        status.update(f"following {escape(str(folder))}")

        def report(changes: list[VerdictChange]) -> None:
            for change in changes:
                console.print(line(change), highlight=False, soft_wrap=True)
                if as_json:
                    click.echo(json.dumps(change._asdict(), ensure_ascii=False))

        query = follow(
            spark, folder, lake, check, report, chosen, once=once, every_s=every, segments_max=segments or 0
        )  # fmt: skip
        try:
            wait(query)
        except KeyboardInterrupt:
            interrupted = True
            query.stop()
        verdicts = None if interrupted else lake.read_verdicts(spark)
        counts = {row.status: row["count"] for row in verdicts.groupBy("status").count().collect()} if verdicts else {}
    if interrupted:
        console.print(f"Stopped; the same command resumes from {escape(str(lake.root))}.", soft_wrap=True)
        sys.exit(130)
    told = ", ".join(f"{counts.get(status, 0)} {status}" for status in COLORS)
    if as_json:
        click.echo(json.dumps({status: counts.get(status, 0) for status in COLORS} | {"lake": str(lake.root)}))
    console.print(f"{told}; the lake is {escape(str(lake.root))}.", highlight=False, soft_wrap=True)
    sys.exit(code_of(list(counts), bool(properties)))


def wait(query: StreamingQuery) -> None:
    """Wait for the end of a query in short steps, so that Ctrl-C works."""
    while not query.awaitTermination(POLL_S):
        pass


def line(change: VerdictChange) -> str:
    """Return one change as a line."""
    where = f", domain {change.domain}" if change.domain else f", group {change.group}" if change.group > 0 else ""
    place = f"run {change.run}{where}"
    after = f"[{COLORS[change.after]}]{change.after}[/]"
    moved = f"{change.before} -> {after}" if change.before not in ("", change.after) else after
    count = f", {change.violation_count:,} violations" if change.violation_count > 1 else ""
    return f"{place}: {change.property} {moved}{count}" + (f": {escape(change.witness)}" if change.witness else "")


def code_of(statuses: Sequence[str], asked: bool) -> int:
    """The exit code; a property that was not asked for by name may lack evidence, as views do where none changed."""
    counted = statuses if asked or "valid" not in statuses else [one for one in statuses if one != "unknown"]
    return exit_code(counted)
