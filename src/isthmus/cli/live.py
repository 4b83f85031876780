"""`isthmus live`: run a scenario for real, one process per site on the loopback, and judge what happened."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from isthmus.cli.chaos import run_chaos
from isthmus.cli.console import new_table, print_whole, wide_console
from isthmus.cli.interrupts import gentle_interrupt
from isthmus.cli.options import HELP, force_option, json_option, seed_option
from isthmus.cli.run import classes_table, load_run, make_folder, output_folder, print_judgement, stack_names
from isthmus.core.errors import InputError
from isthmus.core.message import Targets
from isthmus.core.units import NS_PER_MS
from isthmus.judge.judgement import judge
from isthmus.judge.result import RunResult
from isthmus.live.chaos.plan import CHAOS_STACKS, ChaosOptions
from isthmus.live.run.child import SiteChild, SiteSummary
from isthmus.live.run.harness import measure, run_live
from isthmus.live.run.scenario import live_scenario
from isthmus.live.seal.key_file import write_run_key
from isthmus.measure.summary import RunSummary
from isthmus.scenario.model import Scenario
from isthmus.trace.reader import read_rows

TROUBLE = ("refused", "lost", "rejected", "foreign")


@click.command(context_settings=HELP)
@click.argument("scenario", type=click.Path(path_type=Path), metavar="[SCENARIO.toml]", required=False)
@seed_option
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the trace. [out/NAME-STACK-SEED-live]",
)
@force_option
@json_option
@click.option("--no-emulate", is_flag=True, help="The bare loopback, without the topology's delays and losses.")
@click.option("--sealed", is_flag=True, help="Seal all datagrams, by a key for this run alone.")
@click.option("--chaos", type=int, metavar="SEED", help="No scenario: a group of five under random faults.")
@click.option("--rounds", type=click.IntRange(min=1), default=1, help="With --chaos: as many, with seeds from SEED on.")
@click.option("--stack", type=click.Choice(CHAOS_STACKS), help="With --chaos, as what follows: this one. [drawn]")
@click.option("--safe/--no-safe", default=None, help="Whether delivery is safe. [drawn]")
@click.option("--files/--no-files", default=None, help="Whether views are kept in files over a crash. [drawn]")
@click.option("--overload/--no-overload", default=None, help="Whether busy processes take all CPUs. [drawn]")
def command(
    scenario: Path | None,
    seed: int | None,
    output: Path | None,
    force: bool,
    as_json: bool,
    no_emulate: bool,
    sealed: bool,
    chaos: int | None,
    rounds: int,
    **drawn: Any,
) -> None:
    """Run a scenario in real time: one process per site, over UDP on 127.0.0.1.

    Delays, loss and bandwidth are those of the scenario's topology, emulated at the sender. Every site writes its part
    of the trace; then the order that the stack promises is judged. The sites agree on views, which are told as they
    come, with suspicion; they may crash, recover, leave, stand still and be cut off, and links may lose and delay.
    Where the scenario says membership = "ideal", all sites are in view 1, for good, and only links may fail. Where the
    scenario has a composition, each process and each router of it is a site; a router may be killed and started again,
    and its replicas take over.

    With --chaos there is no scenario: in each round five processes are killed, stopped, cut off from each other (also
    in one direction, or from some only), blocked, slow, and started again, over links that lose and delay. All faults
    end with the round, and the group must come to rest. Each round is judged by its trace and by what the processes
    noted themselves of what they sent, delivered, and were told to be safe. A round is a function of its seed.

    Exit code 0: all valid; 1: a violation, or a round that failed; 3: no violation, but a property with no evidence.

    \b
    Examples:
      isthmus init demo
      isthmus live demo/scenario.toml
      isthmus live demo/scenario.toml -o out/three --no-emulate
      isthmus live demo/scenario.toml --sealed
      isthmus live --chaos 1 --rounds 20
      isthmus live --chaos 7 --stack ring --safe --no-files --overload
    """
    if chaos is not None:
        if scenario is not None or seed is not None or no_emulate:
            raise click.UsageError("--chaos takes neither a scenario nor --seed nor --no-emulate: it draws its own.")
        options = ChaosOptions(chaos, **drawn, sealed=sealed)
        sys.exit(run_chaos(options, rounds, output, force, as_json, wide_console()))
    if scenario is None:
        raise click.UsageError("Give a scenario, or --chaos SEED.")
    if rounds > 1 or any(value is not None for value in drawn.values()):
        raise click.UsageError("--rounds, --stack, --safe, --files and --overload go with --chaos.")
    console = wide_console(quiet=as_json)
    loaded = live_scenario(load_run(scenario, seed), str(scenario))
    folder = output or output_folder(loaded, "-live")
    claim(folder, force)
    with TemporaryDirectory() as own:
        keys = write_run_key(Path(own, "run.key")) if sealed else None
        summaries = asyncio.run(execute(loaded, scenario, folder, not no_emulate, console, keys))
    result = result_of(loaded, folder, summaries)
    if as_json:
        click.echo(result.as_json())
        sys.exit(result.exit_code())
    print_whole(console, sites_table(loaded, summaries))
    console.print(figures_line(result.summary, summaries))
    if result.class_spreads():
        print_whole(console, classes_table(result))
    print_judgement(console, result)
    if loaded.participants:
        print_participants(console, result)
    console.print(f"The trace is in {escape(str(folder))}.", soft_wrap=True)
    sys.exit(result.exit_code())


def result_of(scenario: Scenario, folder: Path, summaries: list[SiteSummary]) -> RunResult:
    """The result of a run from the traces of its sites, which are read once."""
    rows = list(read_rows(folder))
    members: dict[int, Targets] = {group.id: group.processes for group in scenario.groups_of_run()}
    also = ("primary",) if scenario.membership.kind == "agreed" else ()
    judgement = judge(scenario, rows, also)
    # a group whose view never changed has no two views to compare, which is as good as it gets
    verdicts = tuple([one for one in judgement.verdicts if one.property != "primary" or one.status != "unknown"])
    return RunResult(
        scenario=scenario,
        summary=measure(rows, RunSummary(members, scenario.composition is not None)),
        judgement=msgspec.structs.replace(judgement, verdicts=verdicts),
        packets=sum(one.datagrams for one in summaries),
        packets_lost=sum(one.lost + one.overflow for one in summaries),
        control_bytes=sum(one.control_bytes for one in summaries),
        trace=str(folder),
    )


def print_participants(console: Console, result: RunResult) -> None:
    """Print the verdicts on each participant group; only violations count, as a group may be too quiet to judge."""
    groups = () if result.judgement is None else result.judgement.participants
    properties = list(dict.fromkeys(verdict.property for group in groups for verdict in group.verdicts))
    table = new_table("group", "since site view", *properties, title="participant groups")
    for group in groups:
        statuses = {verdict.property: verdict.status for verdict in group.verdicts}
        table.add_row(escape(group.group), str(group.era), *(statuses.get(name, "") for name in properties))
    print_whole(console, table)


def claim(folder: Path, force: bool) -> None:
    """Make room for a trace; all of an old one goes, or none."""
    old = sorted(folder.glob("*.parquet")) if folder.is_dir() else []
    if old and not force:
        raise InputError(str(folder), "", f"a trace already ({old[0].name})", "an empty folder, or --force")
    for path in old:
        path.unlink()
    make_folder(folder)


async def execute(
    scenario: Scenario, path: Path, folder: Path, emulate: bool, console: Console, keys: Path | None
) -> list[SiteSummary]:
    """Run it, with a bar that fills over the scenario's duration."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(escape(scenario.name), total=scenario.duration_ms / 1e3, note="starting")

        def progress(seconds: float, delivered: int, owed: int) -> None:
            bar.update(task, completed=seconds, note=f"{delivered} of {owed} delivered")

        def news(seconds: float, text: str) -> None:
            console.print(f"{seconds:8.3f} s  {escape(text)}", highlight=False, soft_wrap=True)

        children: list[SiteChild] = []
        with gentle_interrupt(children):
            return await run_live(scenario, path, folder, emulate, progress, news, children, keys=keys)


def sites_table(scenario: Scenario, summaries: list[SiteSummary]) -> Table:
    """What each site did; what went wrong has a column only where it did."""
    columns = {
        "submitted": [one.submitted for one in summaries],
        "refused": [one.refused for one in summaries],
        "delivered": [one.delivered for one in summaries],
        "messages": [one.messages for one in summaries],
        "datagrams": [one.datagrams for one in summaries],
        "lost": [one.lost + one.overflow for one in summaries],
        "control B": [one.control_bytes for one in summaries],
        "rejected": [one.rejected for one in summaries],
        "foreign": [one.foreign for one in summaries],
    }
    shown = {name: values for name, values in columns.items() if name not in TROUBLE or any(values)}
    title = escape(f"{scenario.name}: {stack_names(scenario)}, seed {scenario.seed}, live")
    table = new_table("site", *shown, title=title, right=shown)
    for place, site in enumerate(scenario.topology.sites):
        table.add_row(escape(site.name), *(f"{values[place]:,}" for values in shown.values()))
    return table


def figures_line(figures: RunSummary, summaries: list[SiteSummary]) -> str:
    """Latencies, and what was not delivered."""
    delivered = sum(summary.delivered for summary in summaries)
    control = sum(summary.control_bytes for summary in summaries)
    text = f"{delivered} deliveries, {figures.undelivered_count()} owed; "
    text += f"{control / delivered:.0f} control bytes a delivery" if delivered else "nothing delivered"
    if figures.delivered.count:
        shown = [f"p{share} {figures.delivered.percentile(share) / NS_PER_MS:.1f}" for share in (50, 90, 99)]
        text += f"\nlatency of a delivery in ms: {', '.join(shown)}, max {figures.delivered.maximum / NS_PER_MS:.1f}"
    return text
