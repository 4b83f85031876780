"""The terminal as all commands see it: wide enough when it is no terminal, and calm when nobody reads any more."""

from __future__ import annotations

import os
import sys

from rich.console import Console

PIPE_WIDTH = 200  # columns where there is no terminal, so that no cell is cut


class Terminal(Console):
    """A console that goes on quietly when its reader has left, as `| head` does: the exit code is the command's own."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        silence()


def wide_console() -> Console:
    """The terminal; into a pipe or a file, lines wide enough that no cell is cut."""
    console = Terminal()
    return console if console.is_terminal else Terminal(width=PIPE_WIDTH)


def silence() -> None:
    """Send what is still to be printed nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
