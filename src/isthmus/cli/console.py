"""The terminal of all commands: wide where output is not a terminal, silent once the reader has closed the pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

WIDEST = 100_000
COLORS = {"valid": "green", "violated": "red", "unknown": "yellow"}  # of verdicts
PIPE_WIDTH = 200  # columns where there is no terminal, so that no cell is cut


class Terminal(Console):
    """A console that survives a closed pipe (`| head`), so that the exit code is the command's own."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        silence()


def wide_console(quiet: bool = False) -> Console:
    """Return the terminal; for a pipe or a file, one wide enough that no cell is cut."""
    console = Terminal(quiet=quiet)
    return console if console.is_terminal else Terminal(width=PIPE_WIDTH, quiet=quiet)


def print_whole(console: Console, table: Table) -> None:
    """Print a table without cutting a word or number: names that differ in their endings must stay distinct.

    Cells break between words only. A table wider than the terminal loses its frame first; then each column gets the
    width of its longest word and a share of the rest. If that is still too wide, the terminal wraps the lines.
    """
    texts = [[Text.from_markup(str(cell)).plain for cell in (column.header, *column.cells)] for column in table.columns]
    whole = [max(map(cell_len, cells), default=0) for cells in texts]
    least = [max((cell_len(word) for text in cells for word in text.split(" ")), default=0) for cells in texts]
    if natural_width(console, table) > console.width:
        table.box, table.show_edge, table.padding = SIMPLE_HEAD, False, 0
    frame = natural_width(console, table) - sum(whole)
    if natural_width(console, table) > console.width:
        spare = max(0, console.width - frame - sum(least))
        wanted = [most - few for most, few in zip(whole, least, strict=True)]
        for column, few, more in zip(table.columns, least, wanted, strict=True):
            column.width = few + spare * more // max(1, sum(wanted))
    needed = natural_width(console, table)
    (console if needed <= console.width else Terminal(width=needed, quiet=console.quiet)).print(table)


def natural_width(console: Console, table: Table) -> int:
    return Measurement.get(console, console.options.update(width=WIDEST), table).maximum


def new_table(*headers: str, title: str | None = None, right: Collection[str] = (), **looks: Any) -> Table:
    """Return a table with its columns; the headers in `right` are those of numbers."""
    columns = [Column(header, justify="right" if header in right else "left") for header in headers]
    return Table(*columns, title=title, title_justify="left", **looks)


def silence() -> None:
    """Discard all further output."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
