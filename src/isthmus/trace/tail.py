"""The rows of a trace that are in no complete segment yet, in a file that outlives its writer.

A row is handed to the system before its event has any effect, so that a supervisor that kills the process can complete
the trace. Nothing is synced to the disk: a crash of the machine loses rows. A partial row at the end is ignored.
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
FOLDER = "_tails"  # in the trace's folder; readers skip such names


def tail_path(folder: Path, prefix: str) -> Path:
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
    """Return the rows of a tail, in order; empty where there is no tail."""
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
