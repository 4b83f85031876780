"""Small numbers for messages, given at first sight: a hash table of arrays, filled by a compiled loop.

Open addressing over the numbers given so far: a dict of tuples would take seconds and gigabytes for millions of events.
The table is at most half full. What number a message gets depends on the order of the rows alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isthmus.judge.causality.compiled import compiled

COMPILED_ROWS = 5_000  # fewer are looked up faster than a compiler starts
ROOM = 1 << 10  # of the table at first; a power of two
FREE = -1  # in the table: nobody's
Longs = NDArray[np.int64]


def number_each(table: Any, authors: Any, numbers: Any, given: int, by: Any, of: Any, out: Any) -> int:
    """Look up each message, or give it the next number; return how many numbers are given by now."""
    mask = len(table) - 1
    for at in range(len(by)):
        author, number = by[at], of[at]
        spot = (author * 40503 + number + (number >> 32) * 2654435761) & mask
        while True:
            found = table[spot]
            if found == FREE:
                found = given
                table[spot] = found
                authors[found] = author
                numbers[found] = number
                given += 1
                break
            if authors[found] == author and numbers[found] == number:
                break
            spot = (spot + 1) & mask
        out[at] = found
    return given


class MessageIds:
    """The numbers of the messages of one group; an author is an origin and a sender in one integer."""

    __slots__ = ("authors", "count", "fast", "numbers", "table")

    def __init__(self) -> None:
        self.count = 0
        self.fast = False  # whether there was enough to look up for a compiler
        self.table = np.full(ROOM, FREE, np.int32)
        self.authors, self.numbers = np.zeros(ROOM // 2, np.int64), np.zeros(ROOM // 2, np.int64)

    def of(self, authors: Longs, numbers: Longs) -> NDArray[np.int32]:
        if 2 * (self.count + len(authors)) > len(self.table):
            self.grow(self.count + len(authors))
        return self.look_up(authors, numbers)

    def look_up(self, authors: Longs, numbers: Longs) -> NDArray[np.int32]:
        out = np.empty(len(authors), np.int32)
        self.fast = self.fast or len(authors) >= COMPILED_ROWS
        if self.fast:
            known = self.table, self.authors, self.numbers, self.count
            self.count = compiled(number_each)(*known, authors, numbers, out)
        else:
            known = self.table, self.authors, self.numbers, self.count
            self.count = number_each(*known, authors.tolist(), numbers.tolist(), out)
        return out

    def grow(self, wanted: int) -> None:
        """Make room for so many, with some to spare, and enter the known ones again; their numbers stay."""
        authors, numbers = self.authors[: self.count], self.numbers[: self.count]
        room = 1 << int(4 * wanted - 1).bit_length()
        self.table = np.full(room, FREE, np.int32)
        self.authors, self.numbers = np.zeros(room // 2, np.int64), np.zeros(room // 2, np.int64)
        self.count = 0
        self.look_up(authors, numbers)
