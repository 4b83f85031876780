"""The format of a datagram: its sender, with life and run, and the messages in it. Version 4.

    head      magic (2)  version (1)  kind (1)  site (4)  life (8)  token (8)     big-endian
    kind 0    messages, each with: length (2)  group (2)  view (4), then the message as the stack's codec has it
    kind 1    a Hello, kind 2 a Refusal: hello.py
    kinds 3, 4 and 5 are sealed, with a head of their own: live/seal/wire.py

The life is the wall-clock time in ns at which the sender's process began. The token names the run: it is the same at
all sites that mean the same groups. A datagram of another run, program or version is *foreign*; one of this run that
cannot be parsed is *garbled*. Both are dropped as a whole: all messages of a datagram are taken, or none.

Magic and version stand where version 1 had them, so that a peer of any version can be named.

Bounds: messages share a datagram up to `datagram_bytes`, which the path takes in one piece; a larger message travels
alone, up to `DATAGRAM_MAX`; a message larger still is a local error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from isthmus.core.errors import InputError, LocalError, RemoteError
from isthmus.core.message import MESSAGE_HEAD_BYTES, PACKET_HEAD_BYTES, SiteId

MAGIC = b"iS"
VERSION = 4
HEAD = struct.Struct("!2sBBIQQ")
MESSAGE_HEAD = struct.Struct("!HHI")
MESSAGES, HELLO, REFUSAL = 0, 1, 2  # kinds
SEALED, GREET, ANSWER = 3, 4, 5
DATAGRAM_MAX = 60_000
LOOPBACK_DATAGRAM_BYTES = DATAGRAM_MAX
PATH_DATAGRAM_BYTES = 1400  # passes an Ethernet, and most tunnels, in one piece
DATAGRAM_LEAST = 576  # that every path takes
MESSAGE_MAX = DATAGRAM_MAX - PACKET_HEAD_BYTES - MESSAGE_HEAD_BYTES
PAYLOAD_MAX = 56_000  # of the application, so that with all that protocols add a message fits a datagram
FRAME_BYTES_MAX = 32_000  # two frames share the largest datagram
FRAME_SLACK_BYTES = 40  # what a frame has besides its bodies

assert HEAD.size == PACKET_HEAD_BYTES and MESSAGE_HEAD.size == MESSAGE_HEAD_BYTES


class Foreign(RemoteError):
    """A datagram that is not of this program."""


class OtherVersion(RemoteError):
    """A datagram of this program in another version of the wire format."""

    def __init__(self, version: int) -> None:
        super().__init__(f"a datagram of version {version}")
        self.version = version


class Head(NamedTuple):
    """The fields of the head of a datagram."""

    kind: int
    site: SiteId
    life: int
    token: int


def head(site: SiteId, life: int, token: int, kind: int = MESSAGES) -> bytes:
    """The head of every datagram of one life of a site."""
    return HEAD.pack(MAGIC, VERSION, kind, site, life, token)


def read_head(datagram: bytes) -> Head:
    """The head of a datagram of this program and version."""
    if len(datagram) < 3 or datagram[:2] != MAGIC:
        raise Foreign(f"a datagram of {len(datagram)} bytes of another program")
    if datagram[2] != VERSION:
        raise OtherVersion(datagram[2])
    if len(datagram) < PACKET_HEAD_BYTES:
        raise Foreign(f"a datagram of {len(datagram)} bytes")
    _, _, kind, site, life, token = HEAD.unpack_from(datagram)
    return Head(kind, SiteId(site), life, token)


def frame_bytes_for(datagram_bytes: int) -> int:
    """How large a frame should be at most, so that it fits a datagram together with all heads."""
    return min(FRAME_BYTES_MAX, datagram_bytes - PACKET_HEAD_BYTES - MESSAGE_HEAD_BYTES - FRAME_SLACK_BYTES)


def check_size(packet: bytes) -> None:
    if len(packet) > MESSAGE_MAX:
        raise LocalError(f"a message of {len(packet)} bytes does not fit a datagram; at most {MESSAGE_MAX} do")


def entry(group: int, view_id: int, packet: bytes) -> bytes:
    """An encoded message with its head."""
    return MESSAGE_HEAD.pack(len(packet), group, view_id) + packet


def join(beginning: bytes, entries: Iterable[bytes], datagram_bytes: int) -> Iterator[bytes]:
    """Datagrams that carry the entries in order, as few as fit."""
    parts, size = [beginning], len(beginning)
    for one in entries:
        if len(parts) > 1 and size + len(one) > datagram_bytes:
            yield b"".join(parts)
            parts, size = [beginning], len(beginning)
        parts.append(one)
        size += len(one)
    if len(parts) > 1:
        yield b"".join(parts)


def split(datagram: bytes, place: int = PACKET_HEAD_BYTES) -> list[tuple[int, int, bytes]]:
    """The messages of a datagram from a place on, by default after its head: group, view, encoded message."""
    found, end = [], len(datagram)
    while place < end:
        if place + MESSAGE_HEAD_BYTES > end:
            raise RemoteError("a datagram that ends within the head of a message")
        length, group, view_id = MESSAGE_HEAD.unpack_from(datagram, place)
        place += MESSAGE_HEAD_BYTES
        if place + length > end:
            raise RemoteError("a datagram that ends within a message")
        found.append((group, view_id, datagram[place : place + length]))
        place += length
    if not found:
        raise RemoteError("a datagram without a message")
    return found


def datagram_limit(given: int | None, on_loopback: bool) -> int:
    """The size of datagrams: as given, or what the path takes in one piece."""
    if given is None:
        return LOOPBACK_DATAGRAM_BYTES if on_loopback else PATH_DATAGRAM_BYTES
    if not DATAGRAM_LEAST <= given <= DATAGRAM_MAX:
        raise InputError("datagram_bytes", "", repr(given), f"a whole number from {DATAGRAM_LEAST} to {DATAGRAM_MAX}")
    return given
