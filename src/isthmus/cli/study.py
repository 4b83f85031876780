"""`isthmus study`: repeat the measurements of the papers: list, run and show studies, replay one run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from isthmus.cli.console import COLORS, new_table, print_whole, wide_console
from isthmus.cli.options import HELP, PATH, json_option, output_option, print_json
from isthmus.core.errors import InputError
from isthmus.studies.catalogue import STUDIES
from isthmus.studies.model import SCALES, Scale, find_study
from isthmus.studies.results import About, ClaimResult, VerdictRow

if TYPE_CHECKING:
    from isthmus.studies.run import StudyResult

OUT = Path("out/studies")
CLAIM_COLORS = {  # a paper's claim that does not hold is a finding, not a defect
    "confirmed": "blue",
    "not confirmed": "magenta",
    "kept": "green",
    "broken": "red",
    "passed": "green",
    "failed": "red",
    "unknown": "yellow",
}
FAILED_MAX = 5  # failed runs printed; all are counted
LOCAL_SHUFFLE = {"spark.sql.shuffle.partitions": "16"}  # on one machine, 200 partitions are mostly overhead

SCALE_HELP = "quick: a few minutes for all; full: every cell and seed."
scale_option = click.option("--scale", type=click.Choice(SCALES), default="quick", show_default=True, help=SCALE_HELP)
seeds_option = click.option("--seeds", type=click.IntRange(min=1), help="Number of seeds. [that of the study]")


class StudyGroup(click.Group):
    """The commands below, and `causal`, which loads the simulator, on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), "causal"]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name == "causal":
            from isthmus.cli.study_causal import causal_command

            return causal_command
        return super().get_command(ctx, name)


@click.group(cls=StudyGroup, context_settings=HELP)
def command() -> None:
    """Run studies: grids of simulated runs on Spark, checked, measured and compared with the papers' claims.

    \b
    Examples:
      isthmus study list
      isthmus study run token-site
      isthmus study show
      isthmus study replay token-site --run 3
      isthmus study causal --lans 12 --hosts 16
    """


@command.command("list")
@json_option
def list_studies(as_json: bool) -> None:
    """List the studies with their questions and sizes.

    \b
    Examples:
      isthmus study list
      isthmus study list --json
    """
    if as_json:
        names = ("name", "title", "question", "paper", "source", "seeds", "runs", "properties")
        print_json([{name: getattr(study, name) for name in names} for study in STUDIES.values()])
        return
    counts = [f"runs, {scale}" for scale in SCALES]
    table = new_table("study", "question", "source", *counts, right=counts)
    for study in STUDIES.values():
        runs = [f"{study.runs[scale]:,}" for scale in SCALES]
        table.add_row(study.name, escape(study.question), escape(study.source), *runs)
    print_whole(wide_console(), table)


@command.command("run")
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Run every study.")
@scale_option
@seeds_option
@output_option("Output folder.", OUT)
@click.option("--master", help="Spark master. [local[*]]")
@click.option("--remote", help="Spark Connect server, sc://host:port, with the same file system.")
@click.option("--check/--no-check", default=True, help="Check the properties that the stacks promise (on by default).")
@json_option
def run_command(
    names: tuple[str, ...],
    everything: bool,
    scale: Scale,
    seeds: int | None,
    output: Path,
    master: str | None,
    remote: str | None,
    check: bool,
    as_json: bool,
) -> None:
    """Run studies in one Spark session: small ones together, large ones one after the other.

    Writes trace, runs, tables, verdicts, claims and figures to OUTPUT/NAME, and replaces earlier results of that study.

    Exit code 0: all checks are valid. 1: a property was violated, or a run failed. 3: a check or a claim is unknown. A
    claim that does not hold is a result, not an error, and does not change the exit code.

    \b
    Examples:
      isthmus study run token-site
      isthmus study run --all --scale full --master spark://host:7077 -o /shared/studies
    """
    if everything == bool(names):
        raise InputError("study run", "", "names and --all" if names else "nothing", "either names of studies or --all")
    chosen = list(STUDIES.values()) if everything else [find_study(STUDIES, name) for name in dict.fromkeys(names)]
    console = wide_console(quiet=as_json)
    from isthmus.judge.verdict import worst_code
    from isthmus.pipeline.engine.session import spark_session
    from isthmus.pipeline.engine.spark_errors import one_sentence
    from isthmus.studies.run import batch_studies, run_studies
    from isthmus.studies.verdicts import check_sweeps

    results: list[StudyResult] = []
    local = not remote and (master or "local").startswith("local")
    with one_sentence("study run"), ExitStack() as stack:
        with console.status("starting Spark"):
            settings = LOCAL_SHUFFLE if local else None
            spark = stack.enter_context(spark_session(master, remote, settings=settings, small=scale == "quick"))
        for studies in batch_studies(chosen, scale, seeds):
            label = studies[0].name if len(studies) == 1 else f"{len(studies)} studies"
            with bar(console, label) as (progress, on_step):
                how = check_sweeps if check else None
                done = run_studies(
                    spark, studies, scale, output, seeds=seeds, progress=progress, on_step=on_step, check=how
                )
                with closing(done):
                    for result in done:
                        print_study(console, result.about, result.claims, result.verdicts)
                        print_failures(console, result)
                        results.append(result)
            console.print(f"{label}: done in {result.about.took_s:.1f} s.", highlight=False)
    if as_json:
        print_json([document(result.about, result.claims, result.verdicts) for result in results])
    sys.exit(worst_code(result.exit_code() for result in results))


def print_study(console: Console, about: About, claims: list[ClaimResult], verdicts: list[VerdictRow]) -> None:
    print_claims(console, f"{about.title} ({about.scale}, {about.runs:,} runs)", claims)
    print_checks(console, verdicts)


def document(about: About, claims: list[ClaimResult], verdicts: list[VerdictRow]) -> dict[str, object]:
    return {"about": about, "claims": claims, "verdicts": verdicts}


def print_failures(console: Console, result: StudyResult) -> None:
    for spec, outcome in result.failed[:FAILED_MAX]:
        console.print(f"[red]run {spec.run} failed[/]: {escape(outcome.error)}", soft_wrap=True)
        console.print(f"  replay it with: {spec.replay}", soft_wrap=True)
    if len(result.failed) > FAILED_MAX:
        console.print(f"{len(result.failed):,} runs failed; runs.parquet lists all of them.")
    console.print(f"{result.folder}: done.", soft_wrap=True, highlight=False)


@contextmanager
def bar(console: Console, name: str) -> Iterator[tuple[Callable[[int | None, int], None], Callable[[str], None]]]:
    """Runs done out of all runs, then the current step; a spinner where Spark does not report progress."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as shown:
        task = shown.add_task(escape(name), total=None)

        def progress(done: int | None, asked: int) -> None:
            shown.update(task, total=None if done is None else asked, completed=done or 0)

        def on_step(step: str) -> None:
            shown.update(task, description=f"{escape(name)}: {step}")

        yield progress, on_step


@command.command("show")
@click.argument("folder", type=PATH, default=OUT)
@json_option
def show_studies(folder: Path, as_json: bool) -> None:
    """Print the claims and verdicts of finished studies. Does not start Spark.

    \b
    Examples:
      isthmus study show
      isthmus study show out/studies/token-site
    """
    from isthmus.report.results import find_studies

    console = wide_console()
    studies = find_studies([folder])
    if as_json:
        print_json([document(study.about, study.claims, study.verdicts()) for study in studies])
        return
    for study in studies:
        about = study.about
        print_study(console, about, study.claims, study.verdicts())
        if about.failed_runs:
            console.print(f"[red]{about.failed_runs:,} runs failed[/]; runs.parquet has their errors.")
        console.print(f"Run it again with: {about.command}", soft_wrap=True, highlight=False)


@command.command("replay")
@click.argument("name")
@click.option("--run", "number", type=click.IntRange(min=0), required=True, help="Number of the run in the grid.")
@scale_option
@seeds_option
@output_option("Folder for the trace. [the trace is not kept]")
@json_option
def replay_run(name: str, number: int, scale: Scale, seeds: int | None, output: Path | None, as_json: bool) -> None:
    """Repeat one run of a study in this process, and check it.

    \b
    Examples:
      isthmus study replay token-site --run 3
      isthmus study replay token-site --run 41 --scale full -o out/run-41
    """
    from isthmus.cli.run import run_scenario, show

    study = find_study(STUDIES, name)
    spec = study.spec(number, scale, seeds)
    console = wide_console(quiet=as_json)
    parameters = ", ".join(f"{key} {value}" for key, value in spec.parameters.items())
    console.print(f"{name}, run {number}: {parameters}", soft_wrap=True, highlight=False)
    show(console, run_scenario(spec.scenario, output, True, console, replay=spec.replay), as_json, number)


def print_claims(console: Console, title: str, claims: list[ClaimResult]) -> None:
    from isthmus.report.text import OUTCOMES

    numbers = ("expected", "measured", "tolerance")
    table = new_table("claim", *numbers, "verdict", "detail", title=escape(title), right=numbers)
    for claim in claims:
        outcome = OUTCOMES.get((claim.kind, claim.verdict), "unknown")
        table.add_row(
            escape(claim.statement),
            figure(claim.expected, claim.unit),
            figure(claim.measured, claim.unit),
            str(claim.tolerance),
            f"[{CLAIM_COLORS[outcome]}]{outcome}[/]",
            escape(claim.detail or ""),
        )
    print_whole(console, table)


def figure(value: object, unit: str | None) -> str:
    if value is None:
        return "-"
    text = f"{value:.4g}" if isinstance(value, int | float) else str(value)
    return f"{text} {unit}" if unit else text


def print_checks(console: Console, rows: list[VerdictRow]) -> None:
    numbers = ("runs", "evidence", "violations")
    table = new_table("check", "verdict", *numbers, "witness", "replay", right=numbers)
    for row in rows:
        counts = [f"{number:,}" for number in (row.runs, row.evidence, row.violations)]
        verdict = f"[{COLORS[row.status]}]{row.status}[/]"
        table.add_row(row.property, verdict, *counts, escape(row.witness or ""), escape(row.replay or ""))
    print_whole(console, table)
