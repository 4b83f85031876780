"""`isthmus report`: one HTML page of finished studies, and their figures as files."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from isthmus.cli.options import HELP, PATH, output_option
from isthmus.core.errors import InputError

DEFAULT = Path("out/studies")
HEAD_BYTES = 400  # of a page: enough to recognise a report


@click.command(context_settings=HELP)
@click.argument("folders", nargs=-1, type=PATH, metavar="[DIR]...")
@output_option("Output file. [report.html in the first DIR]")
@click.option("--open", "show", is_flag=True, help="Open the page in a browser.")
def command(folders: tuple[Path, ...], output: Path | None, show: bool) -> None:
    """Create one HTML page from finished studies.

    DIR is a folder of studies as written by `isthmus study run`, or a single study; the default is out/studies. The
    page needs no other file and no network. Its figures are also written as figures/*.svg and figures/*.png beside it.
    An existing report is overwritten; the same studies give the same bytes.

    \b
    Examples:
      isthmus report --open
      isthmus report out/studies/token-site -o token-site.html
    """
    from isthmus.report.figures import render  # here, so that --help does not wait for matplotlib
    from isthmus.report.page import page, sections
    from isthmus.report.results import find_studies

    chosen = list(folders) or [DEFAULT]
    studies = find_studies(chosen)
    path = output or chosen[0] / "report.html"
    refuse_other(path)
    parts = sections(studies)
    write_bytes(path, page(parts).encode())
    drawn = [drawn for part in parts for drawn in part.drawn]
    for one in drawn:
        for kind in ("svg", "png"):
            write_bytes(path.parent / "figures" / f"{one.name}.{kind}", render(one.figure, kind))
    message = f"wrote {path}: {len(studies)} {'study' if len(studies) == 1 else 'studies'}"
    if drawn:
        message += f", {len(drawn)} {'figure' if len(drawn) == 1 else 'figures'}, also in {path.parent / 'figures'}"
    click.echo(message)
    if show and not webbrowser.open(path.resolve().as_uri()):
        click.echo("isthmus: found no browser to open the report", err=True)


def refuse_other(path: Path) -> None:
    """Overwrite a report, but no other file."""
    from isthmus.report.page import MARK

    if path.is_dir():
        raise InputError("-o", str(path), "a folder", "the name of a file, such as report.html")
    if path.exists():
        with path.open("rb") as file:
            if MARK.encode() not in file.read(HEAD_BYTES):
                raise InputError("-o", str(path), "a file that is not a report", "a new file, or an earlier report")


def write_bytes(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise InputError("-o", str(path), error.strerror or "an error", "a file that can be written") from None
