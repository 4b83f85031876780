"""Timestamps as bytes: entries of (sender, counter, address, told, injected), all numbers as varints.

A set of sites is a mask: how many bytes, which byte is the first, the bytes. That is one of two codings, of which a
group uses one: *masks*. In the other, *groups*, up to three ids of known sets come before the mask (everyone, the
sites, hosts and gateways of each LAN, the zones); these are laid over each other by symmetric difference, and the mask
says in which sites the result still differs. Known sets follow from the view, so that no site has to send them. How
many ids there are is in the two low bits of the mask's length, so that groups are never longer than masks below 256
sites: most sets are whole zones and a few exceptions.

Bytes that do not decode, or that name sites outside the view, raise RemoteError.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

from isthmus.core.errors import RemoteError
from isthmus.protocols.causal.histories.history import SENDER, SENDER_BITS, Entry, Timestamp

Coding = Literal["groups", "masks"]
REMEMBERED_MAX = 8192  # sets and timestamps whose coding is remembered
NUMBER_MAX = 1 << 63
IDS_MAX = 3  # known sets that make up one set: as many as two bits can count


def put_varint(number: int, into: bytearray) -> None:
    while number > 127:
        into.append(number & 127 | 128)
        number >>= 7
    into.append(number)


def long_varint(data: bytes, place: int) -> tuple[int, int]:
    """A number of more than one byte, and where the next one starts."""
    number = shift = 0
    while (byte := data[place]) > 127:
        number |= (byte & 127) << shift
        shift += 7
        place += 1
    number |= byte << shift
    if number > NUMBER_MAX:
        raise RemoteError(f"a number of {number.bit_length()} bits in a timestamp")
    return number, place + 1


def put_varints(numbers: Iterable[int]) -> bytes:
    into = bytearray()
    for number in numbers:
        put_varint(number, into)
    return bytes(into)


def read_varints(data: bytes, count: int) -> list[int]:
    """Decode exactly `count` numbers."""
    if len(data) == count and data.isascii():
        return list(data)
    numbers, place = [], 0
    try:
        for _ in range(count):
            number, place = long_varint(data, place)
            numbers.append(number)
    except IndexError:
        raise RemoteError(f"{len(data)} bytes for the {count} numbers of a timestamp") from None
    if place != len(data):
        raise RemoteError(f"{len(data) - place} bytes behind the {count} numbers of a timestamp")
    return numbers


def mask_bytes(mask: int, ids: Sequence[int] | None = None) -> bytes:
    """A mask as length, first byte and bytes; its length is 0 where nothing is in it. Ids come behind the length."""
    first = max(0, (mask & -mask).bit_length() - 1) // 8
    bits = mask >> 8 * first
    size = (bits.bit_length() + 7) // 8
    head = (size,) if ids is None else (size << 2 | len(ids), *ids)
    return put_varints((*head, first) if size else head) + bits.to_bytes(size, "little")


class Coder:
    """Encodes and decodes the timestamps of one view."""

    __slots__ = ("coding", "entries_max", "everyone", "known", "read", "set_bytes")

    def __init__(self, everyone: int, known: Sequence[int], coding: Coding, entries_max: int) -> None:
        self.everyone = everyone
        self.coding = coding
        self.known = tuple(dict.fromkeys(mask for mask in known if mask.bit_count() > 1))
        self.entries_max = entries_max  # that a peer may send
        self.set_bytes: dict[int, bytes] = {}
        self.read: dict[bytes, Timestamp] = {}  # shared: all recipients in a process decode the same timestamp

    def encode(self, timestamp: Timestamp) -> bytes:
        into = bytearray()
        for key, address, told, injected in timestamp:
            put_varint((key & SENDER) << 1 | bool(injected), into)
            put_varint(key >> SENDER_BITS, into)
            for mask in (address, told, injected) if injected else (address, told):
                into += self.set_bytes.get(mask) or self.encode_set(mask)
        return bytes(into)

    def encode_set(self, mask: int) -> bytes:
        made = mask_bytes(mask) if self.coding == "masks" else self.in_groups(mask)
        if len(self.set_bytes) >= REMEMBERED_MAX:
            self.set_bytes.clear()
        self.set_bytes[mask] = made
        return made

    def in_groups(self, mask: int) -> bytes:
        """Known sets that approximate a set, as long as that saves bytes, and the remaining mask."""
        ids: list[int] = []
        made = mask_bytes(mask, ids)
        while self.known and mask and len(ids) < IDS_MAX:
            _, best = min([((mask ^ known).bit_count(), number) for number, known in enumerate(self.known)])
            mask ^= self.known[best]
            ids.append(best)
            shorter = mask_bytes(mask, ids)
            if len(shorter) >= len(made):
                break
            made = shorter
        return made

    def decode(self, data: bytes) -> Timestamp:
        found = self.read.get(data)
        if found is None:
            if len(self.read) >= REMEMBERED_MAX:
                self.read.clear()
            found = self.read[data] = self.decoded(data)
        return found

    def decoded(self, data: bytes) -> Timestamp:
        entries: list[Entry] = []
        place, end = 0, len(data)
        try:
            while place < end:
                if len(entries) >= self.entries_max:
                    raise RemoteError(f"a timestamp of more than {self.entries_max} entries")
                head, place = long_varint(data, place)
                count, place = long_varint(data, place)
                address, place = self.decode_set(data, place)
                told, place = self.decode_set(data, place)
                injected, place = self.decode_set(data, place) if head & 1 else (0, place)
                site = head >> 1
                if site >= self.everyone.bit_length() or not self.everyone >> site & 1 or not count or not address:
                    raise RemoteError(f"an entry of site {site} with counter {count}, which is not in the view")
                entries.append(Entry(count << SENDER_BITS | site, address, told, injected))
        except IndexError:
            raise RemoteError(f"a timestamp of {end} bytes ends in the middle of an entry") from None
        return tuple(entries)

    def decode_set(self, data: bytes, place: int) -> tuple[int, int]:
        """A set, and where the next one starts."""
        mask = 0
        size, place = long_varint(data, place)
        if self.coding == "groups":
            for _ in range(size & IDS_MAX):
                number, place = long_varint(data, place)
                mask ^= self.known[number]
            size >>= 2
        if size:
            first, place = long_varint(data, place)
            if place + size > len(data) or first > self.everyone.bit_length():
                raise RemoteError(f"a set of {size} bytes from byte {first} on in a timestamp of {len(data)}")
            mask ^= int.from_bytes(data[place : place + size], "little") << 8 * first
            place += size
        if mask & ~self.everyone:
            raise RemoteError("a set with sites that are not in the view")
        return mask, place


@lru_cache(maxsize=64)
def coder_of(everyone: int, known: tuple[int, ...], coding: Coding, entries_max: int) -> Coder:
    """The coder of a view; all sites of a process share it, and so decode each timestamp once."""
    return Coder(everyone, known, coding, entries_max)
