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
        if queue is not None:
            queue.append(event)
            return
        left = [event]
        while left:
            event = left.pop()
            for slot in self.step(event):
                left += self.resume(slot)

    def step(self, event: Event) -> list[int]:
        """Take a row; return who may go on because of it."""
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
            self.waiting[slot] = deque([event])
            self.wanted.setdefault(message, []).append(slot)
            return []
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

    def resume(self, slot: int) -> list[Event]:
        """Take the rows of a process that waited, up to the next that cannot be taken."""
        queue = self.waiting.pop(slot)
        while queue:
            event = queue.popleft()
            freed = self.step(event)
            if slot in self.waiting:
                self.waiting[slot].extend(queue)
                queue = deque()
            for other in freed:
                self.resume(other)
        return []

    def finish(self) -> None:
        """Let those who would wait for ever go on, without the past of what they wait for."""
        while self.waiting:
            slot = min(self.waiting)
            for slots in self.wanted.values():
                if slot in slots:
                    slots.remove(slot)
            queue = self.waiting.pop(slot)
            queue.popleft()
            self.waiting[slot] = queue
            self.resume(slot)


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
