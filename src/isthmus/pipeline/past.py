"""The causal past of every delivery, in one pass over a run: what q should have delivered before.

The idea. Number the deliveries of each life q from 1. Behind every event and every message stands a vector with an
entry a life: the greatest number that q gave to any message in the past which is addressed to q. A message takes the
vector of its sender when it is submitted; a delivery takes the maximum of its process's and the message's. When q
delivers m as its number r, an entry for q in m's vector of r or more is a message that should have come before. A
message that q owes and never delivers is entered as if it came last of all that it should have preceded.

    code      number << 20 for a delivery; a message that is never delivered adds an index, so that it can be named

The rows of a run come in the order of time as far as each process's own order allows. Clocks of processes may differ: a
process whose next row is the delivery of a message not yet submitted waits, and its rows with it, until it is.

Invariants: a run is one pass, in one task; runs are independent. Memory holds the vectors of the lives and of messages
on their way, and the rows that wait. A process that would wait for ever (its message was submitted in its own future)
goes on at the end without that message's past.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isthmus.core.layer import Kind

CODE_BITS = 20
SUBMIT = int(Kind.SUBMIT)
COLUMNS = ("run", "group", "slot", "slots", "kind", "sender", "number", "local", "code", "sent", "to", "codes")
RESULT = "run bigint, group int, slot int, local bigint, sender int, number bigint, code bigint, count bigint"
Vector = NDArray[np.int64]
Event = tuple[int, int, int, int, int, int, bool, Any, Any]


class Past:
    """One group of one run under way."""

    __slots__ = ("count", "first", "flying", "lives", "waiting", "wanted")

    def __init__(self, slots: int) -> None:
        self.lives = np.zeros((slots, slots), dtype=np.int64)  # a row a life: its vector
        self.flying: dict[tuple[int, int], list[Any]] = {}  # message: vector at submit, with itself, deliveries to come
        self.waiting: dict[int, deque[Event]] = {}  # slot to its rows from the one that cannot be taken yet
        self.wanted: dict[tuple[int, int], list[int]] = {}  # message to the slots that wait for it
        self.count = 0
        self.first: tuple[int, int, int, int, int] | None = None  # slot, local, sender, number, code

    def take(self, event: Event) -> None:
        """Take the next row of a process, or put it behind those that wait."""
        queue = self.waiting.get(event[0])
        if queue is None:
            self.go(event[0], deque([event]))
        else:
            queue.append(event)

    def go(self, slot: int, queue: deque[Event]) -> None:
        """Take rows of a process as far as possible, and then those of whoever waited for them."""
        ready = [(slot, queue)]
        while ready:
            slot, queue = ready.pop()
            while queue:
                freed = self.step(queue[0])
                if freed is None:
                    self.waiting[slot] = queue
                    break
                queue.popleft()
                ready += [(other, self.waiting.pop(other)) for other in freed]

    def step(self, event: Event) -> list[int] | None:
        """Take a row and say who waited for it; none if it cannot be taken yet."""
        slot, kind, sender, number, local, code, sent, to, codes = event
        message = (sender, number)
        if kind == SUBMIT:
            before = self.lives[slot].copy()
            np.maximum.at(self.lives[slot], to, codes)
            deliveries = int(np.count_nonzero(codes & ((1 << CODE_BITS) - 1) == 0))
            if deliveries:
                self.flying[message] = [before, self.lives[slot].copy(), deliveries]
            return self.wanted.pop(message, [])
        if not sent:
            return []
        flight = self.flying.get(message)
        if flight is None:
            self.wanted.setdefault(message, []).append(slot)
            return None
        due = int(flight[0][slot])
        if due >= code:
            self.count += 1
            if self.first is None:
                self.first = (slot, local, sender, number, due)
        np.maximum(self.lives[slot], flight[1], out=self.lives[slot])
        flight[2] -= 1
        if flight[2] == 0:
            del self.flying[message]
        return []

    def finish(self) -> None:
        """Let those who would wait for ever go on, without the past of what they wait for."""
        while self.waiting:
            slot = min(self.waiting)
            queue = self.waiting.pop(slot)
            _, _, sender, number, *_ = queue.popleft()
            self.wanted[sender, number].remove(slot)
            self.go(slot, queue)


def walk(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows in the order of run, group and time to one row for each group that breaks causal order."""
    past = Past(0)
    place: tuple[int, int] | None = None
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in COLUMNS[:-2]]
        to, codes = (flat(batch.column(name)) for name in COLUMNS[-2:])
        for index, (run, group, slot, slots, kind, sender, number, local, code, sent) in enumerate(
            zip(*columns, strict=True)
        ):
            if (run, group) != place:
                yield from told(place, past)
                place, past = (run, group), Past(slots)
            past.take((slot, kind, sender, number, local, code, sent, to(index), codes(index)))
    yield from told(place, past)


def flat(column: pa.ListArray) -> Any:
    """The lists of a column as slices of one array."""
    offsets = column.offsets.to_numpy()
    values = column.values.to_numpy(zero_copy_only=False).astype(np.int64)
    return lambda index: values[offsets[index] : offsets[index + 1]]


def told(place: tuple[int, int] | None, past: Past) -> Iterator[pa.RecordBatch]:
    past.finish()
    if place is None or past.first is None:
        return
    row = (*place, *past.first, past.count)
    types = (pa.int64(), pa.int32(), pa.int32(), pa.int64(), pa.int32(), pa.int64(), pa.int64(), pa.int64())
    names = ["run", "group", "slot", "local", "sender", "number", "code", "count"]
    yield pa.RecordBatch.from_arrays([pa.array([v], t) for v, t in zip(row, types, strict=True)], names=names)
