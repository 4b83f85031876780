"""When a datagram arrived: by the kernel's stamp where it gives one, and how to compare that with a monotonic clock.

A process that is not scheduled reads a datagram milliseconds after it came. Linux stamps it when the network hands it
over (SO_TIMESTAMPNS), on the system clock. Where there are no such stamps, the time of reading has to do; the clock
service measures how much worse that is (protocols/clocks/tightness.py).
"""

from __future__ import annotations

import socket
import struct
import sys
import time

from isthmus.core.units import NS_PER_S

SO_TIMESTAMPNS = 35  # on the architectures that Linux is common on; the socket module has no name for it
TIMESPEC = struct.Struct("@ll")
ANCILLARY_BYTES = socket.CMSG_SPACE(TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0
CLOSE_NS = 2_000  # two readings of a clock that close: nothing came in between
TRIES = 5

Ancillary = list[tuple[int, int, bytes]]


def ask_for_stamps(given: socket.socket) -> bool:
    """Have the kernel stamp what a socket receives; whether it does."""
    if sys.platform != "linux" or not ANCILLARY_BYTES:
        return False
    try:
        given.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True


def stamp_of(ancillary: Ancillary) -> int | None:
    """The kernel's stamp among what came with a datagram, in ns of the system clock."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(data) >= TIMESPEC.size:
            seconds, ns = TIMESPEC.unpack_from(data)
            return int(seconds) * NS_PER_S + int(ns)
    return None


def ahead_ns() -> int:
    """By how much the system clock is ahead of the monotonic one, from readings that nothing came between."""
    best: tuple[int, int] | None = None
    for _ in range(TRIES):
        before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        found = (after - before, wall - (before + after) // 2)
        best = found if best is None else min(best, found)
        if best[0] <= CLOSE_NS:
            break
    assert best is not None
    return best[1]
