"""Options that mean the same in every command, so that they are written the same."""

from __future__ import annotations

from pathlib import Path

import click

seed_option = click.option("--seed", type=int, help="Seed, instead of the scenario's.")
force_option = click.option("--force", is_flag=True, help="Replace what an earlier run left there.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, and nothing else.")
HELP = {"help_option_names": ["-h", "--help"]}


def output_folder(scenario: str, stack: str, seed: int, suffix: str = "") -> Path:
    """The default folder of a run: named by what tells it from other runs."""
    return Path("out") / f"{scenario}-{stack}-{seed}{suffix}"
