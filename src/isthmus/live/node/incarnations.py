"""The lives of a site whose groups agree on views: its incarnations, the small file, and the first view.

Problem: a site may crash and come back, be left out and go on, or start alone; and it must never be mistaken for an
earlier life. Idea: a *life* is one `LiveSite` with its ports and stacks, under an incarnation of its own. A site that
the others went on without ends its life and begins the next in the same process, over the same socket, just as after a
crash. The next life reads what it must know from a small file per group, if a folder is given.

The first view: a site founds a group where an operator says so, or, if it is the first of the configured sites, once
*all* others ask to join, since then no site can be in a view. Where some are missing, no site can know which views
those are in, and an operator must decide.

Invariants: an incarnation is one more than the highest that the site remembers or was told of; where it knows none, it
is the seconds of the calendar. A site without a file whose clock was set back, or that is started twice within a
second, is told by the others which life they know, and begins another one above it. With a file the calendar does not
matter; the file names an incarnation before anything is sent under it. A record is on the disk before `save` returns; a
file of another site, group or version is refused, not overwritten.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from isthmus.core.errors import InputError
from isthmus.core.layer import View
from isthmus.protocols.membership.agreement import Agreement
from isthmus.protocols.membership.home import Record
from isthmus.protocols.membership.sanity import COUNT_MAX

FILE_VERSION = 1
EPOCH_S = 1_735_689_600  # 2025: a first incarnation is the seconds since then
CALENDAR_MAX_S = 1 << 30  # in 2059; a clock that says later is wrong


class Saved(msgspec.Struct, frozen=True, array_like=True):
    """The small file."""

    version: int
    site: str
    group: str
    incarnation: int  # the last one of this site
    record: Record | None


class FileStore:
    """The small file of one site in one group."""

    def __init__(self, folder: Path, site: str, group: str) -> None:
        self.path = folder / f"{site}{'-' if group else ''}{group}.view"
        self.site, self.group = site, group
        self.incarnation = 0
        self.record: Record | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if self.path.exists():
                self.read()
        except OSError as error:
            raise self.unusable(error) from None

    def unusable(self, error: OSError) -> InputError:
        return InputError(str(self.path), "", f"what cannot be used ({error.strerror})", "a file of ours")

    def read(self) -> None:
        try:
            saved = msgspec.msgpack.decode(self.path.read_bytes(), type=Saved)
        except msgspec.DecodeError as error:
            raise InputError(str(self.path), "", f"a file that does not decode ({error})", "one of ours") from None
        if saved.version != FILE_VERSION:
            raise InputError(str(self.path), "version", str(saved.version), f"version {FILE_VERSION}")
        if (saved.site, saved.group) != (self.site, self.group):
            found = f"the file of site {saved.site} in group {saved.group!r}"
            raise InputError(str(self.path), "", found, f"that of {self.site} in {self.group!r}")
        self.incarnation, self.record = saved.incarnation, saved.record

    def load(self) -> Record | None:
        return self.record

    def begin(self, incarnation: int) -> None:
        """Write down that a life begins: no later one has its incarnation."""
        self.incarnation = incarnation
        try:
            self.save(self.record)
        except OSError as error:
            raise self.unusable(error) from None

    def save(self, record: Record | None) -> None:
        self.record = record
        fresh = self.path.with_name(f".{self.path.name}")
        with fresh.open("wb") as file:
            saved = Saved(FILE_VERSION, self.site, self.group, self.incarnation, record)
            file.write(msgspec.msgpack.encode(saved))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def next_incarnation(known: int, now_s: float | None = None) -> int:
    """The incarnation after the highest that is known; without any, 0, by the calendar."""
    return known + 1 if known else calendar_s(now_s)


def calendar_s(now_s: float | None = None) -> int:
    """Seconds since the epoch of incarnations; at least 1, however wrong the clock is, and within 31 bits."""
    return min(max(1, int(time.time() if now_s is None else now_s) - EPOCH_S), CALENDAR_MAX_S)


def first_view(agreement: Agreement, commanded: bool) -> View | None:
    """The view with which this site founds a group, alone; None where it is not to. The others are then admitted."""
    home, host = agreement.home, agreement.host
    if agreement.is_seated() or not home.weights.get(host.site, 1):
        return None
    voters = [site for site in home.contacts if home.weights.get(site, 1)]
    asking = {joiner.life[0] for joiner in agreement.requests.joiners(host.now_ns)}
    everybody = asking.issuperset(site for site in home.contacts if site != host.site)
    if not commanded and not (voters[0] == host.site and everybody):
        return None
    weight = home.weights.get(host.site, 1)
    number = 1
    if commanded:  # above all views that there may have been
        number = min(max(host.incarnation, calendar_s()), COUNT_MAX)
    return View(number, (host.site,), (host.incarnation,), (weight,), ((host.site, host.incarnation),))
