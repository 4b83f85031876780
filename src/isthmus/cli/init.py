"""`isthmus init`: a folder to start from."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from isthmus.cli.options import HELP
from isthmus.core.errors import InputError

STARTER = ("network.toml", "scenario.toml", "group.py")
ENDINGS = (".py", ".toml")  # of examples


@click.command(context_settings=HELP)
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER", default=Path())
@click.option("--examples", is_flag=True, help="Copy the larger examples as well, to FOLDER/examples.")
@click.option("--force", is_flag=True, help="Replace files of the same names.")
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
    try:
        for path, content in copies.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except OSError as error:
        raise InputError("init", str(folder), error.strerror or "an error", "a folder for new files") from None
    for path in copies:
        click.echo(f"wrote {path}")
    click.echo(f"next: isthmus compare {folder / 'scenario.toml'} --all")


def example_files() -> list[Path]:
    """The examples: in an installed package inside it, in a clone at the top."""
    package = Path(str(files("isthmus")))
    folder = next(path for path in (package / "examples", package.parent.parent / "examples") if path.is_dir())
    return sorted(path for path in folder.iterdir() if path.suffix in ENDINGS)
