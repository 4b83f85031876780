"""`isthmus sim`: run a scenario in virtual time, write its trace, print its figures and verdicts."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from isthmus.cli.console import wide_console
from isthmus.cli.options import HELP, force_option, json_option, seed_option
from isthmus.cli.run import load_run, output_folder, run_scenario, show
from isthmus.core.errors import InputError


@click.command(context_settings=HELP)
@click.argument("scenario", type=click.Path(path_type=Path), metavar="SCENARIO.toml")
@click.option("--stack", metavar="NAME|FILE", help="Stack, instead of the scenario's: a name, or a file of a plan.")
@seed_option
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for the trace. [out/NAME-STACK-SEED]")
@force_option
@json_option
@click.option("--check/--no-check", default=True, help="Judge the order that the stack promises (on by default).")
def command(
    scenario: Path, stack: str | None, seed: int | None, output: Path | None, force: bool, as_json: bool, check: bool
) -> None:
    """Run a scenario in the simulator.

    Prints deliveries, latencies, undelivered messages and costs; writes the trace; then judges what the stack promises,
    to participants too, and for a composition what its domains want, end to end. The same scenario and seed give the
    same trace, byte for byte.

    Exit code 0: all valid; 1: a violation or an error, with the command that replays it; 3: a property is unknown.

    \b
    Examples:
      isthmus init demo
      isthmus sim demo/scenario.toml
      isthmus sim demo/scenario.toml --stack optimistic --seed 7 -o out/seven
      isthmus trace show out/seven --process 2 --kind deliver
    """
    console = wide_console(quiet=as_json)
    loaded = load_run(scenario, seed, stack)
    folder = output or output_folder(loaded)
    check_below(folder)
    words = ["isthmus", "sim", str(scenario), *(["--stack", stack] if stack else []), "--seed", str(loaded.seed)]
    replay = shlex.join([*words, "-o", str(folder), "--force"])
    traced = loaded.trace != "none"
    result = run_scenario(loaded, folder if traced else None, force, console, check=check and traced, replay=replay)
    if check and not traced:
        console.print("Not checked: there is no trace.")
    show(console, result, as_json)


def check_below(folder: Path) -> None:
    """Refuse a folder whose subfolders hold traces: what is read of it would be theirs, too."""
    other = next((path for path in folder.glob("*/**/*.parquet") if path.is_file()), None)
    if other is not None:
        raise InputError(str(folder), "", f"a trace in a subfolder ({other})", "a folder of its own")
