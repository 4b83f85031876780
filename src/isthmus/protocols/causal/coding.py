"""Timestamps as bytes: entries of (sender, counter, address, told, injected), all numbers as varints.

Sets of sites have two codings, of which a group uses one. *Masks*: one bit per site. *Groups*: the ids of known sets
(everyone, the sites, hosts and gateways of each LAN, the zones), which are laid over each other by symmetric
difference, and then the single sites in which the result still differs. Known sets follow from the view, so that no
site has to tell them. A mask is best for a few sites, groups for many LANs: most sets are whole zones and a few
exceptions.

What does not decode, or names strangers, raises RemoteError.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from isthmus.core.errors import RemoteError
from isthmus.core.message import SiteId
from isthmus.protocols.causal.history import REPORTS, SENDER_BITS, Entry, Timestamp
from isthmus.topology.separators import sites_of

Coding = Literal["groups", "masks"]
REMEMBERED_MAX = 8192  # sets and timestamps whose coding is remembered
NUMBER_MAX = 1 << 63


def put_varint(number: int, into: bytearray) -> None:
    while number > 127:
        into.append(number & 127 | 128)
        number >>= 7
    into.append(number)


class Reader:
    """Varints out of bytes."""

    __slots__ = ("data", "place")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    def varint(self, most: int = NUMBER_MAX) -> int:
        number = shift = 0
        try:
            while (byte := self.data[self.place]) > 127:
                number |= (byte & 127) << shift
                shift += 7
                self.place += 1
        except IndexError:
            raise RemoteError(f"a timestamp of {len(self.data)} bytes ends in the middle of a number") from None
        self.place += 1
        number |= byte << shift
        if number > most:
            raise RemoteError(f"a number of {number.bit_length()} bits in a timestamp; at most {most.bit_length()}")
        return number


def put_varints(numbers: Iterable[int]) -> bytes:
    into = bytearray()
    for number in numbers:
        put_varint(number, into)
    return bytes(into)


def read_varints(data: bytes, count: int) -> list[int]:
    """Exactly so many numbers."""
    if len(data) == count and data.isascii():
        return list(data)
    reader = Reader(data)
    numbers = [reader.varint() for _ in range(count)]
    if reader.place != len(data):
        raise RemoteError(f"{len(data) - reader.place} bytes behind the {count} numbers of a timestamp")
    return numbers


class Coder:
    """Encodes and decodes the timestamps of one view."""

    __slots__ = ("coding", "entries_max", "everyone", "known", "read", "set_bytes")

    def __init__(self, everyone: int, known: Sequence[int], coding: Coding, entries_max: int) -> None:
        self.everyone = everyone
        self.coding = coding
        self.known = tuple(dict.fromkeys(mask for mask in known if mask.bit_count() > 1))
        self.entries_max = entries_max  # that a peer may send
        self.set_bytes: dict[int, bytes] = {}
        self.read: dict[bytes, Timestamp] = {}  # one timestamp is read by all recipients that a process has

    def encode(self, timestamp: Timestamp) -> bytes:
        into = bytearray()
        for key, address, told, injected in timestamp:
            sender = key & ((1 << SENDER_BITS) - 1)
            put_varint((sender & ~REPORTS) << 2 | bool(sender & REPORTS) << 1 | bool(injected), into)
            put_varint(key >> SENDER_BITS, into)
            for mask in (address, told, injected) if injected else (address, told):
                into += self.set_bytes.get(mask) or self.encode_set(mask)
        return bytes(into)

    def encode_set(self, mask: int) -> bytes:
        into = bytearray()
        if self.coding == "masks":
            put_varint(mask, into)
        else:
            ids, left = self.cover(mask)
            put_varint(len(ids), into)
            put_varint(left.bit_count(), into)
            for number in ids:
                put_varint(number, into)
            before = -1
            for site in sites_of(left):
                put_varint(site - before - 1, into)
                before = site
        if len(self.set_bytes) >= REMEMBERED_MAX:
            self.set_bytes.clear()
        made = self.set_bytes[mask] = bytes(into)
        return made

    def cover(self, mask: int) -> tuple[list[int], int]:
        """Known sets whose symmetric difference comes near a set, as long as each saves a byte; and what is left."""
        ids: list[int] = []
        size = mask.bit_count()
        while size > 1:
            nearest, best = min(
                (((mask ^ known).bit_count(), n) for n, known in enumerate(self.known)), default=(size, 0)
            )
            if nearest + 1 >= size:
                break
            ids.append(best)
            mask ^= self.known[best]
            size = nearest
        return ids, mask

    def decode(self, data: bytes) -> Timestamp:
        found = self.read.get(data)
        if found is None:
            if len(self.read) >= REMEMBERED_MAX:
                self.read.clear()
            found = self.read[data] = self.decoded(data)
        return found

    def decoded(self, data: bytes) -> Timestamp:
        reader = Reader(data)
        entries: list[Entry] = []
        while reader.place < len(data):
            if len(entries) >= self.entries_max:
                raise RemoteError(f"a timestamp of more than {self.entries_max} entries")
            head = reader.varint()
            site, count = SiteId(head >> 2), reader.varint()
            address, told = self.decode_set(reader), self.decode_set(reader)
            injected = self.decode_set(reader) if head & 1 else 0
            if not self.everyone >> site & 1 or not count or not address:
                raise RemoteError(f"an entry of site {site} with counter {count}, which is not in the view")
            sender = site | REPORTS if head & 2 else site
            entries.append(Entry(count << SENDER_BITS | sender, address, told, injected))
        return tuple(entries)

    def decode_set(self, reader: Reader) -> int:
        mask = 0
        if self.coding == "masks":
            mask = reader.varint(self.everyone)
        else:
            ids, singles = reader.varint(len(self.known)), reader.varint(self.everyone.bit_length())
            for _ in range(ids):
                number = reader.varint()
                if number >= len(self.known):
                    raise RemoteError(f"set {number}, of {len(self.known)} that are known")
                mask ^= self.known[number]
            before = -1
            for _ in range(singles):
                before += reader.varint(self.everyone.bit_length()) + 1
                if before >= self.everyone.bit_length():
                    raise RemoteError(f"site {before} in a set, which is not in the view")
                mask ^= 1 << before
        if mask & ~self.everyone:
            raise RemoteError("a set with sites that are not in the view")
        return mask
