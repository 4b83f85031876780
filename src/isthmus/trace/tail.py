"""The rows that a trace has not put into a segment yet, kept where they outlive the process that wrote them.

Problem: a process that is killed takes along what it had in memory, and the checks then know nothing for sure of what
it submitted last. Idea: until they are in a complete segment, rows are in a file beside it, too. A row is handed to the
system before the event that it tells of has any effect, so that whoever killed the process finds all of them there and
completes the trace in its place.

What the *machine* loses is lost: nothing is synced to the disk. A row that was being written at the end is no row.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from isthmus.trace.schema import DESTINATIONS, Row

if TYPE_CHECKING:
    from isthmus.trace.writer import TraceWriter

LENGTH = struct.Struct("<I")
FOLDER = "_tails"  # within that of the trace; readers pass over such names


def tail_path(folder: Path, prefix: str) -> Path:
    """Where the tail of a writer is."""
    return folder / FOLDER / f"{prefix}.rows"


class TailedWriter:
    """A sink that writes rows into a trace, and into a tail until they are in a complete segment."""

    __slots__ = ("_encode", "_file", "_path", "writer")

    def __init__(self, writer: TraceWriter, path: Path) -> None:
        self.writer = writer
        self._path = path
        self._encode = msgspec.msgpack.Encoder().encode
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)

    def append(self, row: Row, /) -> None:
        packet = self._encode(row)
        os.write(self._file, LENGTH.pack(len(packet)) + packet)
        self.writer.append(row)

    def roll(self) -> None:
        """Complete the open segment; a row that is in both for a moment counts once."""
        self.writer.roll()
        os.ftruncate(self._file, 0)

    def close(self) -> None:
        """Remove the tail: what is left is in the writer, which completes its last segment."""
        os.close(self._file)
        self._path.unlink(missing_ok=True)


def read_tail(path: Path) -> list[Row]:
    """The rows of a tail, in order; none where there is no tail."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    rows: list[Row] = []
    place = 0
    while place + LENGTH.size <= len(data):
        (length,) = LENGTH.unpack_from(data, place)
        packet = data[place + LENGTH.size : place + LENGTH.size + length]
        if len(packet) < length:
            break
        values = msgspec.msgpack.decode(packet, type=list)
        if values[DESTINATIONS] is not None:
            values[DESTINATIONS] = tuple(values[DESTINATIONS])
        rows.append(tuple(values))
        place += LENGTH.size + length
    return rows
