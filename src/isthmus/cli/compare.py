"""`isthmus compare`: one scenario over several stacks, as a table, a picture, verdicts and a choice."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from isthmus.advise.compare.figures import Mean, StackFigures
from isthmus.advise.compare.run import Comparison, compare
from isthmus.cli.console import print_whole, wide_console
from isthmus.cli.options import HELP, force_option, json_option, seed_option
from isthmus.core.errors import InputError
from isthmus.scenario.load import load_scenario
from isthmus.scenario.model import Scenario
from isthmus.scenario.variants import with_stack
from isthmus.stacks.registry import STACKS

FILES = ("compare.json", "compare.svg", "compare.png")
CAPTION = (
    "message: from submit to last delivery; each: to each delivery; guess: to each tentative delivery, hits: those in "
    "their final place; packets and control bytes per message; causal order: entries and bytes of a timestamp, entries "
    "of a site's history; CPU of the simulator per delivery; delivered: latencies are of these; undelivered: owed at "
    "the end, and owed to sites that crashed or were left out"
)
COLORS = {"kept": "green", "broken": "red", "unknown": "yellow"}


@click.command(context_settings=HELP)
@click.argument("scenario", type=click.Path(path_type=Path), metavar="SCENARIO.toml")
@click.option(
    "--stack", "stacks", multiple=True, metavar="NAME|FILE", help="A stack to compare, or a file; repeatable."
)
@click.option("--all", "everything", is_flag=True, help="Compare every stack that the scenario runs on.")
@seed_option
@click.option(
    "--seeds", type=click.IntRange(1, 10_000), default=5, show_default=True, help="Number of seeds, one after another."
)
@click.option("--jobs", type=click.IntRange(min=1), help="Processes to use. [one per processor]")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Output folder. [out/NAME-compare-SEED]")
@force_option
@json_option
def command(
    scenario: Path,
    stacks: tuple[str, ...],
    everything: bool,
    seed: int | None,
    seeds: int,
    jobs: int | None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Compare stacks: the same network, traffic, faults and seeds over each.

    Prints one table (latency of a message and of a delivery, tentative latency and hit ratio where there are any,
    packets, control bytes, CPU; in causal order, entries and bytes of a timestamp and entries of a site's history), the
    verdicts on what each stack promises, and one sentence on what to choose. Writes compare.json and the distributions
    as compare.svg and compare.png. A stack is a name or a file that `isthmus plan` wrote; a named one takes over those
    of the scenario's options that it knows. The choice is among the stacks that promise what the scenario's own stack
    promises. Where the scenario has a composition, the stack is that of all its groups of processes, and those with
    which its domains would get less than they want are left out.

    Exit code 0: all promises were kept; 1: one was broken, or a run failed; 3: something could not be judged.

    \b
    Examples:
      isthmus init demo
      isthmus compare demo/scenario.toml --all
      isthmus compare demo/scenario.toml --stack token-site --stack symmetric --seeds 10
    """
    loaded = load_scenario(scenario, seed)
    if everything == bool(stacks):
        raise InputError("compare", "", "names and --all" if stacks else "no stack", "either --stack NAME or --all")
    for stack in stacks:
        with_stack(loaded, stack)  # refuses a name or a file that is none, before anything else
    folder = output or Path("out") / f"{loaded.name}-compare-{loaded.seed}"
    claim(folder, force)
    result = execute(loaded, stacks or tuple(STACKS), seeds, jobs or os.cpu_count() or 1, not everything, as_json)
    write(result, folder)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(result)).decode())
    else:
        show(wide_console(), result, scenario, folder)
    sys.exit(result.exit_code())


def claim(folder: Path, force: bool) -> None:
    """Refuse a folder that cannot take a comparison before hours are spent on one; an earlier one stays until then."""
    old = [name for name in FILES if (folder / name).exists()]
    if old and not force:
        raise InputError(str(folder), "", f"a comparison already ({old[0]})", "another folder, or --force")
    if any(path.exists() and not path.is_dir() for path in (folder, *folder.parents)):
        raise InputError("-o", str(folder), "a file there", "a folder for new files")


def execute(
    scenario: Scenario, stacks: tuple[str, ...], seeds: int, jobs: int, strict: bool, quiet: bool
) -> Comparison:
    """Compare, with a bar that counts runs."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True, quiet=quiet)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(escape(scenario.name), total=None)
        return compare(
            scenario,
            stacks,
            range(scenario.seed, scenario.seed + seeds),
            jobs=jobs,
            strict=strict,
            progress=lambda done, asked: bar.update(task, completed=done, total=asked),
        )


def write(result: Comparison, folder: Path) -> None:
    from isthmus.report.pictures.distributions import save_spreads

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:  # of an earlier comparison, all at once: its pictures must not stand beside new figures
            (folder / name).unlink(missing_ok=True)
        (folder / FILES[0]).write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")
        seeds = f"{len(result.seeds)} seed{'s' if len(result.seeds) > 1 else ''}"
        save_spreads(result.stacks, f"{result.scenario}, {result.sites} sites, {seeds}", folder)
    except OSError as error:
        raise InputError("-o", str(folder), error.strerror or "an error", "a folder for new files") from None


def show(console: Console, result: Comparison, scenario: Path, folder: Path) -> None:
    """Print the table, the verdicts, what was left out, and the choice."""
    first, last = result.seeds[0], result.seeds[-1]
    seeds = f"seeds {first} to {last}" if last > first else f"seed {first}"
    console.print(
        f"[bold]{escape(result.scenario)}[/]: {result.sites} sites, {seeds}; means over seeds", highlight=False
    )
    print_whole(console, figures_table(result.stacks))
    for row in result.stacks:
        console.print(verdict_line(row, scenario), soft_wrap=True, highlight=False)
    for stack, why in result.left_out.items():
        console.print(f"{stack}: left out, as the scenario does not run on it: {escape(why)}", soft_wrap=True)
    console.print(f"[bold]{escape(result.choice.sentence)}[/]", soft_wrap=True, highlight=False)
    console.print(
        f"wrote {escape(str(folder))}/{{compare.json,compare.svg,compare.png}}", soft_wrap=True, highlight=False
    )


def figures_table(rows: tuple[StackFigures, ...]) -> Table:
    """One row per stack; columns that no stack has a figure for are left out."""
    columns: dict[str, list[str]] = {
        "message ms": [text(row.message_ms, 1, True) for row in rows],
        "p99": [f"{row.message_spread.percentiles['p99']:,.0f}" for row in rows],
        "each ms": [text(row.delivery_ms, 1) for row in rows],
        "guess ms": [text(row.tentative_ms, 1) for row in rows],
        "hits %": [text(row.hit_percent, 0) for row in rows],
        "packets": [text(row.packets_per_message, 1) for row in rows],
        "control B": [text(row.control_bytes_per_message, 0) for row in rows],
        "entries": [text(row.timestamp_entries, 1) for row in rows],
        "stamp B": [text(row.timestamp_bytes, 0) for row in rows],
        "history": [text(row.history_entries, 1) for row in rows],
        "CPU us": [text(row.cpu_us_per_delivery, 0) for row in rows],
        **delivery_columns(rows),
    }
    table = Table(
        box=SIMPLE_HEAD,
        padding=0,
        show_edge=False,
        caption=CAPTION,
        caption_justify="left",
    )
    table.add_column("stack", no_wrap=True)
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    for name in shown:
        table.add_column(name, justify="right")
    table.add_column("promise", no_wrap=True)
    for place, row in enumerate(rows):
        kept = f"[{COLORS[row.promises]}]{row.promises}[/]"
        table.add_row(escape(row.stack), *(cells[place] for cells in shown.values()), kept)
    return table


def delivery_columns(rows: tuple[StackFigures, ...]) -> dict[str, list[str]]:
    """How much the latencies speak of, where stacks differ in that or something was not delivered."""
    missed = [row.undelivered + row.forgiven for row in rows]
    if not any(missed) and len({row.delivery_spread.count for row in rows}) == 1:
        return {}
    counts = [f"{row.delivery_spread.count:,}" for row in rows]
    return {"delivered": counts, "undelivered": [f"{count:,}" if count else "" for count in missed]}


def text(mean: Mean | None, digits: int, interval: bool = False) -> str:
    if mean is None:
        return ""
    told = f"{mean.mean:,.{digits}f}"
    return f"{told}\N{PLUS-MINUS SIGN}{mean.half:.{digits}f}" if interval and mean.half is not None else told


def verdict_line(row: StackFigures, scenario: Path) -> str:
    """What a stack promises, and whether it was kept; for what was not, the witness and the command that shows it."""
    bad = [one for one in row.verdicts if one.violated or one.unknown]
    if row.errors:
        return f"[red]{row.stack}: {len(row.errors)} of {len(row.seeds)} runs failed[/]: {escape(row.errors[0])}"
    if not bad:
        names = ", ".join(one.property for one in row.verdicts)
        return f"{row.stack}: {names}: [green]valid[/] in {len(row.seeds)} run{'s' if len(row.seeds) > 1 else ''}"
    lines = []
    for one in bad:
        status = "violated" if one.violated else "unknown"
        again = f"isthmus sim {scenario} --stack {row.stack} --seed {one.seed}"
        color = "red" if one.violated else "yellow"
        lines.append(f"{row.stack}: {one.property} [{color}]{status}[/] in {one.violated or one.unknown} of ")
        lines[-1] += f"{len(row.seeds)} runs: {escape(one.witness)}; see: {escape(again)}"
    return "\n".join(lines)
