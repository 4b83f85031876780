"""`isthmus init`: a folder with a first network, scenario and program."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from isthmus.cli.files import writing
from isthmus.cli.options import HELP, PATH, force_option
from isthmus.core.errors import InputError

STARTER = ("network.toml", "scenario.toml", "group.py")
ENDINGS = (".py", ".toml")  # of examples


@click.command(context_settings=HELP)
@click.argument("folder", type=PATH, metavar="FOLDER", default=Path())
@click.option("--examples", is_flag=True, help="Copy the larger examples as well, to FOLDER/examples.")
@force_option
def command(folder: Path, examples: bool, force: bool) -> None:
    """Create a network, a scenario on it, and a Python program that joins a group there.

    \b
    Examples:
      isthmus init demo
      isthmus sim demo/scenario.toml
      isthmus compare demo/scenario.toml --all
      python demo/group.py
    """
    starter = files("isthmus.starter")
    copies = {folder / name: starter.joinpath(name).read_bytes() for name in STARTER}
    if examples:
        copies |= {folder / "examples" / path.name: path.read_bytes() for path in example_files()}
    taken = [path for path in copies if path.exists()]
    if taken and not force:
        raise InputError("init", str(taken[0]), "an existing file", "another folder, or --force to replace it")
    for path, content in copies.items():
        with writing(path):
            path.write_bytes(content)
    for path in copies:
        click.echo(f"wrote {path}")
    click.echo(f"next: isthmus compare {folder / 'scenario.toml'} --all")


def example_files() -> list[Path]:
    """The examples: inside an installed package, at the top of a clone."""
    package = Path(str(files("isthmus")))
    folder = next(path for path in (package / "examples", package.parent.parent / "examples") if path.is_dir())
    return sorted(path for path in folder.iterdir() if path.suffix in ENDINGS)
