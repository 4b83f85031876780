"""`isthmus fuzz`: thousands of random scenarios against one stack, or one of them again."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import click
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from isthmus.advise.compare.processes import each
from isthmus.cli.console import wide_console
from isthmus.cli.options import HELP
from isthmus.cli.run import print_judgement, print_result
from isthmus.fuzz.agreed import agreed_scenario
from isthmus.fuzz.judge import judge, judge_run
from isthmus.fuzz.large import large_scenario
from isthmus.fuzz.scenarios import hard_scenario, random_scenario, replay_command
from isthmus.fuzz.watch import WatchedRun
from isthmus.judge.verdict import exit_code
from isthmus.scenario.model import Scenario
from isthmus.stacks.registry import STACKS
from isthmus.trace.schema import Row

Case = tuple[str, int, str]  # stack, seed, sort of scenario
SORTS: dict[str, Callable[[str, int], Scenario]] = {
    "plain": random_scenario,
    "hard": hard_scenario,
    "agreed": agreed_scenario,
    "large": large_scenario,
}
Outcome = tuple[int, list[str]]  # seed, failures
SHOWN_MAX = 10  # failures printed; all are counted


def parse_seeds(_context: click.Context, _option: click.Parameter, value: str | None) -> range | None:
    """The seeds from the first to the last, both included."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+)-(\d+)", value)
    if found is None or int(found[1]) > int(found[2]):
        raise click.BadParameter(f"found {value}; expected the first and the last seed, such as 500-999.")
    return range(int(found[1]), int(found[2]) + 1)


@click.command(context_settings=HELP)
@click.argument("stack", type=click.Choice(list(STACKS)))
@click.option("--seed", type=int, help="Run this one scenario, and show it.")
@click.option("--runs", type=click.IntRange(min=1), default=500, show_default=True, help="How many scenarios to try.")
@click.option("--first", type=int, default=0, show_default=True, help="The first seed.")
@click.option(
    "--seeds",
    metavar="A-B",
    callback=parse_seeds,
    help="The first and the last seed, in the place of --first and --runs.",
)
@click.option("--hard", is_flag=True, help="Tight windows, slow readers, crashes again and again, down to one site.")
@click.option("--agreed", is_flag=True, help="Members agree on views; crashes and cuts at every moment of a change.")
@click.option("--large", is_flag=True, help="Messages of all sizes, most of them cut into pieces; of all these sorts.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes to use.")
def command(
    stack: str,
    seed: int | None,
    runs: int,
    first: int,
    seeds: range | None,
    hard: bool,
    agreed: bool,
    large: bool,
    jobs: int,
) -> None:
    """Try a stack in random scenarios: loss, duplication, reordering, crashes, partitions, clock jumps, slow readers.

    Each scenario is a function of its seed. A run fails if it breaks what the stack promises, if it raises an error, if
    it does not come to rest, or if nothing could be judged; the command that replays it is printed.

    Exit code 0: all runs were good; 1: some failed.

    \b
    Examples:
      isthmus fuzz token-site --runs 2000 --jobs 2
      isthmus fuzz token-site --seed 137
      isthmus fuzz hybrid --agreed --seeds 500-999
    """
    if hard + agreed + large > 1:
        raise click.UsageError("--hard, --agreed and --large are sorts of scenarios: give one of them.")
    sort = "hard" if hard else "agreed" if agreed else "large" if large else "plain"
    if seed is not None:
        replay(stack, seed, sort)
        return
    console = wide_console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    failed = 0
    chosen = range(first, first + runs) if seeds is None else seeds
    cases = [(stack, number, sort) for number in chosen]
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(stack, total=len(cases))
        for _, (found, failures) in each(attempt, cases, jobs):
            bar.advance(task)
            if failures:
                failed += 1
                if failed <= SHOWN_MAX:
                    console.print(f"seed {found}: {escape(failures[0])}", soft_wrap=True)
                    console.print(f"  replay it with: {replay_command(stack, found, sort)}", soft_wrap=True)
    console.print(f"{len(cases):,} runs of {stack}: {failed:,} failed.")
    sys.exit(exit_code(["valid"], failed=failed > 0))


def attempt(case: Case) -> Outcome:
    stack, seed, sort = case
    judged = judge(SORTS[sort](stack, seed))
    return seed, judged.failures() if sort == "plain" else judged.violations()  # of others little may be left to judge


def replay(stack: str, seed: int, sort: str) -> None:
    """Run one scenario, show what it is made of, what happened and every verdict."""
    scenario = SORTS[sort](stack, seed)
    console = wide_console()
    console.print(f"sites {', '.join(site.name for site in scenario.topology.sites)}; {scenario.stack}", soft_wrap=True)
    console.print(f"{scenario.membership}, turns of {scenario.turn_ms:g} ms", soft_wrap=True)
    for group in scenario.groups:
        console.print(f"group {group}", soft_wrap=True)
    for workload in scenario.workloads:
        console.print(f"workload {workload}", soft_wrap=True)
    for fault in scenario.faults_of_run():
        console.print(f"fault {fault}", soft_wrap=True)
    rows: list[Row] = []
    run = WatchedRun(scenario, rows)
    judged = judge_run(run, rows)
    result = judged.result
    print_result(console, result)
    print_judgement(console, result, seed)
    for sentence in judged.found:
        console.print(escape(sentence), soft_wrap=True)
    sys.exit(exit_code(["valid"], failed=bool(judged.failures() if sort == "plain" else judged.violations())))
