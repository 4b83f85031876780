"""Options that mean the same in every command, so that they are written the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from isthmus.trace.inputs.files import FORMS

Command = TypeVar("Command", bound=Callable[..., Any])
HELP = {"help_option_names": ["-h", "--help"]}
PATH = click.Path(path_type=Path)

seed_option = click.option("--seed", type=int, help="Seed, instead of the scenario's.")
force_option = click.option("--force", is_flag=True, help="Replace files of an earlier run.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, and nothing else.")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print errors only.")


def output_option(text: str, default: Path | None = None) -> Callable[[Command], Command]:
    return click.option("-o", "--output", type=PATH, default=default, show_default=default is not None, help=text)


def format_options(command: Command) -> Command:
    """The options that say what form the files of a trace have."""
    pattern = click.option(
        "--pattern", "patterns", multiple=True, help="For ShiViz: KIND=REGEX with the groups sender, number, to."
    )
    forms = click.Choice(("auto", *FORMS))
    text = "Form of the files, where their names do not say it."
    form = click.option("--format", "form", type=forms, default="auto", show_default=True, help=text)
    return form(pattern(command))


def print_json(value: object) -> None:
    """Print a result as JSON; infinities and NaN are null."""
    click.echo(msgspec.json.format(msgspec.json.encode(value, enc_hook=str)).decode())
