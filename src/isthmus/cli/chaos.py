"""`isthmus live --chaos`: rounds of random faults against live groups, told as they go, and judged."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape

from isthmus import __version__
from isthmus.cli.interrupts import gentle_interrupt
from isthmus.cli.options import print_json
from isthmus.cli.run import make_folder
from isthmus.core.errors import InputError
from isthmus.judge.verdict import Verdict, combined, exit_code
from isthmus.live.chaos.driver import ChaosResult, run_round
from isthmus.live.chaos.plan import ChaosOptions, plan_of
from isthmus.live.run.child import SiteChild


def run_chaos(
    first: ChaosOptions, rounds: int, output: Path | None, force: bool, as_json: bool, console: Console
) -> int:
    """Run rounds with the seeds from the first on; the exit code. What is good is kept only where a folder is given."""
    results: list[ChaosResult] = []
    base = output or Path("out") / f"chaos-{first.seed}"
    console.quiet = as_json
    for number in range(rounds):
        options = msgspec.structs.replace(first, seed=first.seed + number)
        folder = base / str(options.seed)
        words = plan_of(options).words()
        make_room(folder, force)
        console.print(f"round {number + 1} of {rounds}, seed {options.seed}: {words}", soft_wrap=True)
        result = asyncio.run(execute(options, folder, console))
        if result.is_good() and output is None:
            shutil.rmtree(folder)
            result = msgspec.structs.replace(result, folder="")
        results.append(result)
        print_round(console, result)
    found = [*by_property(results), *("violated" for result in results if result.findings)]
    if output is None and base.is_dir() and not any(base.iterdir()):
        base.rmdir()
    if as_json:
        print_json(document(first, rounds, results))
    else:
        print_total(console, first, rounds, results)
    return exit_code(found)


async def execute(options: ChaosOptions, folder: Path, console: Console) -> ChaosResult:
    children: list[SiteChild] = []

    def news(seconds: float, text: str) -> None:
        console.print(f"{seconds:8.3f} s  {escape(text)}", highlight=False, soft_wrap=True)

    with gentle_interrupt(children):
        return await run_round(options, folder, news, children)


def make_room(folder: Path, force: bool) -> None:
    if folder.is_dir() and any(folder.iterdir()):
        if not force:
            raise InputError(str(folder), "", "a round already", "an empty folder, or --force")
        shutil.rmtree(folder)
    make_folder(folder)


def print_round(console: Console, result: ChaosResult) -> None:
    """Print what came of a round."""
    told = f"{result.message_count:,} messages, {result.delivery_count:,} deliveries, {result.took_s:.1f} s"
    valid = sum(verdict.status == "valid" for verdict in result.verdicts)
    told += f"; trace: {valid} of {len(result.verdicts)} properties valid"
    console.print(f"{'[green]good[/]' if result.is_good() else '[red]failed[/]'}: {told}", soft_wrap=True)
    for line in complaints(result):
        console.print(escape(f"  {line}"), highlight=False, soft_wrap=True)
    if not result.is_good():
        console.print(f"  repeat it with: {result.replay()}", highlight=False, soft_wrap=True)
        console.print(f"  trace, records and logs: {escape(result.folder)}", highlight=False, soft_wrap=True)


def complaints(result: ChaosResult) -> list[str]:
    """What the records show, and what the trace violates."""
    found = [f"{finding.kind}: {finding.text}" for finding in result.findings]
    violated = [verdict for verdict in result.verdicts if verdict.status == "violated"]
    return found + [f"trace, {verdict.property}: {verdict.witness}" for verdict in violated]


def print_total(console: Console, first: ChaosOptions, rounds: int, results: list[ChaosResult]) -> None:
    failed = [result for result in results if not result.is_good()]
    console.print(f"{len(results)} round{'s' if len(results) > 1 else ''}: {len(failed)} failed.")
    console.print(f"Repeat with: {replay(first, rounds)}", highlight=False, soft_wrap=True)


def replay(first: ChaosOptions, rounds: int) -> str:
    return first.command() + (f" --rounds {rounds}" if rounds > 1 else "")


def by_property(results: list[ChaosResult]) -> list[str]:
    """The status of each property over all rounds: unknown only where no round had evidence."""
    found: dict[str, list[Verdict]] = {}
    for result in results:
        for verdict in result.verdicts:
            found.setdefault(verdict.property, []).append(verdict)
    return [combined(verdicts).status for verdicts in found.values()]


def document(first: ChaosOptions, rounds: int, results: list[ChaosResult]) -> dict[str, Any]:
    """All rounds as JSON takes them."""
    told = [
        {
            "seed": result.options.seed,
            "round": result.words,
            "good": result.is_good(),
            "findings": result.findings,
            "verdicts": result.verdicts,
            "rest_s": result.rest_s,
            "took_s": result.took_s,
            "messages": result.message_count,
            "deliveries": result.delivery_count,
            "folder": result.folder or None,
            "replay": result.replay(),
        }
        for result in results
    ]
    return {"isthmus": __version__, "seed": first.seed, "rounds": told, "replay": replay(first, rounds)}
