"""What one process of a round notes of its own, beside and without knowledge of the trace: a text file of lines.

    sent ID CRC ID...       before it sends; last the messages that it had delivered last, one of each source
    refused ID              `send` raised: nothing was sent
    taken ID                `send` returned
    settled ID              `settle` has said that the others have all up to this one of its own
    delivered ID CRC        the iteration gave it
    view NUMBER LIFE        the iteration gave the view, in which this site has that incarnation
    restored ID...          it took over a state, in which these were delivered

An ID is `site.start.number`: numbers count from 1 for each start of a process. A line is handed to the system before
the process goes on, so that what a killed process has noted is all that it did, but perhaps for the last step.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from isthmus.core.errors import LocalError

SUFFIX = ".record"


class Recorder:
    """The file of one process."""

    def __init__(self, folder: Path, site: int, start: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{site}-{start}{SUFFIX}"
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)

    def note(self, *words: object) -> None:
        os.write(self.file, (" ".join(map(str, words)) + "\n").encode())


class SentRecord(msgspec.Struct, frozen=True):
    """One message, as its sender noted it."""

    crc: str
    after: tuple[str, ...]  # what the sender had delivered last, of each source


class LifeRecord(msgspec.Struct):
    """What the application of one life of a site has in its state."""

    history: list[str]
    sealed: int = 0  # how many of these came before the last view that it was given
    incarnation: str = ""


class ProcessRecord(msgspec.Struct):
    """The file of one process, read."""

    site: int
    start: int
    sent: dict[str, SentRecord] = msgspec.field(default_factory=dict)
    refused: dict[str, None] = msgspec.field(default_factory=dict)
    settled: list[str] = msgspec.field(default_factory=list)
    delivered: list[tuple[str, str]] = msgspec.field(default_factory=list)
    lives: list[LifeRecord] = msgspec.field(default_factory=lambda: [LifeRecord([])])

    def read(self, text: str) -> None:
        """Take all complete lines of a file."""
        open_ids: list[str] = []  # taken in this life, not settled
        coming = ""  # the incarnation of a view that the next life was given before its state
        for line in text.split("\n")[:-1]:
            kind, *words = line.split(" ")
            life = self.lives[-1]
            if kind == "sent":
                self.sent[words[0]] = SentRecord(words[1], tuple(words[2:]))
            elif kind == "refused":
                self.refused[words[0]] = None
            elif kind == "taken":
                open_ids.append(words[0])
            elif kind == "settled":
                self.settled += open_ids
                open_ids = []
            elif kind == "delivered":
                if coming:  # a life that begins without a state goes on with that of the last one
                    self.lives.append(LifeRecord(list(life.history), 0, coming))
                    coming = ""
                self.delivered.append((words[0], words[1]))
                self.lives[-1].history.append(words[0])
            elif kind == "view" and life.incarnation in ("", words[1]):
                life.incarnation, life.sealed = words[1], len(life.history)
            elif kind == "view":
                coming = words[1]
            elif kind == "restored":
                self.lives.append(LifeRecord(words, len(words), coming))
                open_ids, coming = [], ""
            else:
                raise LocalError(f"a record of site {self.site} with the line {line!r}")


def read_records(folder: Path) -> dict[tuple[int, int], ProcessRecord]:
    """The records of a round, by site and start."""
    found: dict[tuple[int, int], ProcessRecord] = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        site, start = map(int, path.name.removesuffix(SUFFIX).split("-"))
        record = found[site, start] = ProcessRecord(site, start)
        record.read(path.read_text())
    return found
