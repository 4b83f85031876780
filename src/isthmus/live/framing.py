"""What a datagram looks like: who sent it, in which run, and the messages in it.

    magic (2)  version (1)  site (4)  incarnation (4)  token (8)     big-endian
    then for each message: length (2), the message as the stack's codec has it

The token names the run. A datagram of another run, of another program, or of a site that was started again before the
port was free is *foreign*; one of this run that does not come apart is *garbled*. Both are dropped as a whole, so that
either all messages of a datagram are taken or none.

Bounds: messages share a datagram up to `DATAGRAM_BYTES`, which passes an Ethernet in one piece; a larger message
travels alone, up to `DATAGRAM_MAX`; what is larger still is a mistake of ours.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from isthmus.core.errors import LocalError, RemoteError
from isthmus.core.message import SiteId

MAGIC = b"iS"
VERSION = 1
HEAD = struct.Struct("!2sBIIQ")
LENGTH = struct.Struct("!H")
DATAGRAM_BYTES = 1400
DATAGRAM_MAX = 60_000
MESSAGE_MAX = DATAGRAM_MAX - HEAD.size - LENGTH.size
PAYLOAD_MAX = 56_000  # of the application, so that with all that protocols add a message fits a datagram


class Foreign(RemoteError):
    """A datagram that is not of this run."""


class Frame(NamedTuple):
    """A datagram, taken apart."""

    source: SiteId
    incarnation: int
    packets: list[bytes]  # encoded messages


def head(site: SiteId, incarnation: int, token: int) -> bytes:
    """What every datagram of one incarnation of a site begins with."""
    return HEAD.pack(MAGIC, VERSION, site, incarnation, token)


def check_size(packet: bytes) -> None:
    if len(packet) > MESSAGE_MAX:
        raise LocalError(f"a message of {len(packet)} bytes does not fit a datagram; at most {MESSAGE_MAX} do")


def join(beginning: bytes, packets: Iterable[bytes]) -> Iterator[bytes]:
    """Datagrams that carry the packets in order, as few as fit."""
    parts, size = [beginning], len(beginning)
    for packet in packets:
        check_size(packet)
        if len(parts) > 1 and size + LENGTH.size + len(packet) > DATAGRAM_BYTES:
            yield b"".join(parts)
            parts, size = [beginning], len(beginning)
        parts += (LENGTH.pack(len(packet)), packet)
        size += LENGTH.size + len(packet)
    if len(parts) > 1:
        yield b"".join(parts)


def split(datagram: bytes, token: int) -> Frame:
    """Take a datagram of this run apart."""
    if len(datagram) < HEAD.size:
        raise Foreign(f"a datagram of {len(datagram)} bytes")
    magic, version, site, incarnation, run = HEAD.unpack_from(datagram)
    if magic != MAGIC or version != VERSION or run != token:
        raise Foreign("a datagram of another run or program")
    packets = []
    place, end = HEAD.size, len(datagram)
    while place < end:
        if place + LENGTH.size > end:
            raise RemoteError("a datagram that ends within a length")
        (length,) = LENGTH.unpack_from(datagram, place)
        place += LENGTH.size
        if place + length > end:
            raise RemoteError("a datagram that ends within a message")
        packets.append(datagram[place : place + length])
        place += length
    if not packets:
        raise RemoteError("a datagram without a message")
    return Frame(SiteId(site), incarnation, packets)
