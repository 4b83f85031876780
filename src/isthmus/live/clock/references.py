"""References of live sites: where true time comes from, at the instant a datagram was received.

    system         the system clock, which NTP or a GPS receiver keeps right; the site is told how right
    file:PATH      the same plus an offset that a file says: for tests, and for receivers that write theirs to one
    socket:PATH    the same by datagrams to a Unix socket that the site binds

Each gives one line: the offset from the system clock in ms, and perhaps the error bound in microseconds, as in
"1.5 20". An empty line, a missing file and anything that is not one or two numbers mean that the reference is dead,
which never stops a site.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import NamedTuple, Protocol

from isthmus.core.errors import InputError
from isthmus.core.layer import Reading
from isthmus.core.units import NS_PER_MS

NS_PER_US = 1_000
LINE_BYTES = 256
OFFSET_MS_MAX = 1e9
ERROR_US_MAX = 1e9
KINDS = "system, file:PATH or socket:PATH"


class ReferenceOffset(NamedTuple):
    """How far a reference is from the system clock, and how far off it may be itself."""

    offset_ns: int
    error_ns: int


class ReferenceSource(Protocol):
    """A source of true time."""

    def read(self, system_ns: int) -> Reading | None: ...  # at a time of the system clock; None: it is dead
    def close(self) -> None: ...


class SystemClock:
    """The system clock itself."""

    def __init__(self, error_ns: int) -> None:
        self.error_ns = error_ns

    def read(self, system_ns: int) -> Reading | None:
        return Reading(system_ns, self.error_ns)

    def close(self) -> None:
        pass


class OffsetClock:
    """The system clock plus an offset that a file or socket gives."""

    def __init__(self, latest: Callable[[], str], error_ns: int, close: Callable[[], None] = lambda: None) -> None:
        self.latest = latest
        self.error_ns = error_ns
        self.close = close

    def read(self, system_ns: int) -> Reading | None:
        found = parse(self.latest(), self.error_ns)
        return None if found is None else Reading(system_ns + found.offset_ns, found.error_ns)


def parse(line: str, error_ns: int) -> ReferenceOffset | None:
    """The offset in a line; None: the reference is dead."""
    words = line.split()
    if not 1 <= len(words) <= 2:
        return None
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        return None
    offset_ms, error_us = numbers[0], numbers[1] if len(numbers) > 1 else error_ns / NS_PER_US
    if not all(map(isfinite, numbers)) or abs(offset_ms) > OFFSET_MS_MAX or not 0 <= error_us <= ERROR_US_MAX:
        return None
    return ReferenceOffset(round(offset_ms * NS_PER_MS), round(error_us * NS_PER_US))


def file_source(path: Path, error_ns: int) -> OffsetClock:
    """A reference by a file, which is read at every use: rounds are seconds apart."""

    def latest() -> str:
        try:
            with path.open("rb") as file:
                return file.readline(LINE_BYTES).decode(errors="replace")
        except OSError:
            return ""

    return OffsetClock(latest, error_ns)


def socket_source(path: Path, error_ns: int) -> OffsetClock:
    """A reference by datagrams to a Unix socket, of which the last one counts."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    bound.setblocking(False)
    try:
        bound.bind(str(path))
    except OSError as error:
        bound.close()
        found = f"{str(path)!r}, which cannot be bound ({error.strerror or error})"
        raise InputError("reference", "", found, "a path that is free, for a socket") from None
    latest_line = ""

    def latest() -> str:
        nonlocal latest_line
        with suppress(OSError):
            while True:
                latest_line = bound.recv(LINE_BYTES).decode(errors="replace")
        return latest_line

    def close() -> None:
        bound.close()
        path.unlink(missing_ok=True)

    return OffsetClock(latest, error_ns, close)


def reference_source(given: str, error_ns: int) -> ReferenceSource:
    """The reference that a text names."""
    kind, _, path = given.partition(":")
    if given == "system":
        return SystemClock(error_ns)
    if kind == "file" and path:
        return file_source(Path(path), error_ns)
    if kind == "socket" and path:
        return socket_source(Path(path), error_ns)
    raise InputError("reference", "", repr(given), KINDS)
