r"""Logs for ShiViz as rows: two lines per event, the host with its clock, then what happened.

    alice {"alice":1}
    submit m=alice:1 to=bob,carol

Hosts become processes in the order of their first line; names that only senders or `to=` have come after them. The own
entry of the clock is the local order; other entries are ignored. A line `=== name ===` begins another run. One pattern
per kind finds what an event says; others are passed over, and those that begin almost like a word of ours are counted
as misspelt. A log in which no event matches is refused, because no verdict on it would mean anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.trace.inputs.columns import CLOSE
from isthmus.trace.inputs.files import opened, unreadable_text
from isthmus.trace.schema import NONE, Row

HOST_LINE = r"^(\S+)\s+(\{.*\})\s*$"
RUN_LINE = r"^===\s*(.*?)\s*===\s*$"
MESSAGE = r"m=(?P<sender>[^\s:]+):(?P<number>\d+)"
PATTERNS = {  # kind: regular expression with the groups sender, number and to, as far as the kind has them
    "submit": rf"^\s*submit {MESSAGE}(?:\s+to=(?P<to>\S+))?",
    "tentative": rf"^\s*tentative {MESSAGE}",
    "deliver": rf"^\s*deliver {MESSAGE}",
    "crash": r"^\s*crash\s*$",
}
GROUPS = ("sender", "number", "to")


class LogEvent(NamedTuple):
    """One event of a log that a pattern matches."""

    run: int
    host: str
    own: int  # the host's entry of its clock
    kind: int
    sender: str  # empty: no message
    number: int
    to: tuple[str, ...]
    file: Path
    line: int  # of the text


class ShivizLog:
    """The events of ShiViz logs, the process of each host, and events that look misspelt."""

    __slots__ = ("events", "hosts", "misspelt")

    def __init__(self, files: Sequence[Path], source: str, patterns: Mapping[str, str] = PATTERNS) -> None:
        self.events: list[LogEvent] = []
        self.hosts: dict[str, int] = {}
        self.misspelt: dict[str, tuple[int, str]] = {}  # the first words of such events: how often, and first where
        wanted = [(int(Kind[kind.upper()]), re.compile(pattern)) for kind, pattern in patterns.items()]
        words = list(patterns) if patterns is PATTERNS else []
        for file in files:
            for run, host, clock, text, line in host_lines(file):
                self.hosts.setdefault(host, len(self.hosts))
                self._take(wanted, words, run, host, clock, text, file, line)
        if not self.events:
            expected = " or ".join(repr(f"{kind} m=HOST:NUMBER") for kind in ("submit", "deliver"))
            shown = f"no event that a pattern matches ({', '.join(patterns)})"
            raise InputError(
                source, "", shown, f"events such as {expected}, or --pattern KIND=REGEX for this log's own words"
            )
        for said in self.events:
            for name in (*([said.sender] if said.sender else ()), *said.to):
                self.hosts.setdefault(name, len(self.hosts))

    def _take(
        self, wanted: list[tuple[int, re.Pattern[str]]], words: list[str], run: int, host: str, clock: str, text: str,
        file: Path, line: int,
    ) -> None:  # fmt: skip
        for kind, pattern in wanted:
            found = pattern.search(text)
            if found is None:
                continue
            given = {name: found[name] or "" for name in pattern.groupindex}
            to = tuple(given["to"].split(",")) if given.get("to") else ()
            number = int(given["number"]) if given.get("number") else NONE
            own = own_entry(host, clock, file, line - 1)
            self.events.append(LogEvent(run, host, own, kind, given.get("sender", ""), number, to, file, line))
            return
        first = text.split()[0] if text.split() else ""
        if words and first and get_close_matches(first.lower(), words, 1, CLOSE):
            count, where = self.misspelt.get(first, (0, f"{file.name}:{line}"))
            self.misspelt[first] = (count + 1, where)

    def rows(self) -> Iterator[tuple[Row, Path, int]]:
        for run, host, own, kind, sender, number, to, file, line in self.events:
            origin = 0 if sender else NONE
            message = (origin, self.hosts[sender] if sender else NONE, number)
            sites = tuple(self.hosts[name] for name in to) or None
            yield (run, self.hosts[host], own, 0, kind, *message, 0, NONE, sites, 0, 0, 0, 0), file, line


def host_lines(file: Path) -> Iterator[tuple[int, str, str, str, int]]:
    """Each host line with the text after it: run, host, clock, text, the text's line."""
    host_line, run_line = re.compile(HOST_LINE), re.compile(RUN_LINE)
    run, first = 0, True
    waiting: re.Match[str] | None = None
    try:
        with opened(file) as stream:
            for number, raw in enumerate(stream, start=1):
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                if not line.strip():
                    continue
                if waiting is not None:
                    yield run, waiting[1], waiting[2], line, number
                    waiting = None
                if run_line.match(line):
                    run += not first
                else:
                    waiting = host_line.match(line)
                first = False
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise unreadable_text(file, error) from error


def own_entry(host: str, clock: str, file: Path, line: int) -> int:
    try:
        own = json.loads(clock).get(host)
    except ValueError:
        own = None
    if not isinstance(own, int):
        raise InputError(f"{file}, line {line}", "clock", f"{host} {clock}", "an entry of the host itself")
    return own


def patterns_of(given: Sequence[str]) -> dict[str, str]:
    """The patterns after `--pattern KIND=REGEX`; the first that is given replaces all, so that none surprises."""
    chosen: dict[str, str] = {}
    for text in given:
        kind, equals, pattern = text.partition("=")
        if not equals or kind.strip().upper() not in Kind.__members__:
            raise InputError(
                "--pattern", "", repr(text), "KIND=REGEX, such as deliver=got (?P<sender>\\S+)/(?P<number>\\d+)"
            )
        try:
            groups = re.compile(pattern).groupindex
        except re.error as error:
            raise InputError("--pattern", kind, f"{pattern!r} ({error})", "a regular expression") from error
        unknown = [name for name in groups if name not in GROUPS]
        lacking = [name for name in GROUPS[:2] if name not in groups and kind.strip().lower() != "crash"]
        if unknown or lacking:
            found = ", ".join(groups) or "no named group"
            raise InputError("--pattern", kind, found, "the groups (?P<sender>) and (?P<number>), and perhaps (?P<to>)")
        chosen[kind.strip().lower()] = pattern
    return chosen or PATTERNS
