"""The causal past on Spark: the events of a group, packed once, go to a task for each block of receivers.

A group cannot be cut by process or by time without loss, but it can be cut by receiver (judge/causality/past.py). Rows
are sorted by life once, by Spark, and packed into *segments*, binaries of some thousand events; each block takes all of
them, numbers the messages (message_ids.py) and makes one compiled pass with a vector over its own receivers. A slot is
the number of a life in its group; NOWHERE has the messages that were carried in.

Invariants: blocks and groups are independent tasks, and what they find does not depend on how many there are. A task
holds the steps of one group (four bytes an event), its messages, and vectors as judge/causality/past.py says.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from isthmus.judge.causality.past import (
    ABSENT,
    CARRIED,
    CODE_BITS,
    CODE_INDEX,
    UNKNOWN,
    EarlyDelivery,
    Owed,
    Steps,
    chain,
    judge,
)
from isthmus.pipeline.check.causality.message_ids import Longs, MessageIds
from isthmus.trace.schema import NONE

NOWHERE = -1  # as a slot: that of no life
DELIVERED, SUBMITTED, BROUGHT, OWED = 0, 1, 2, 3  # what an event is; BROUGHT: carried into the group
EVENT = ("run", "group", "slot", "origin", "sender", "number", "what", "code")
SEGMENT = {
    "run": "bigint",
    "group": "int",
    "slot": "int",
    "part": "int",  # ascending for each slot
    "whats": "binary",  # a byte an event
    "authors": "binary",  # eight, as the others: the origin above, the sender below
    "numbers": "binary",
    "codes": "binary",  # of what is owed; of others, nothing
}
BLOCK = ("first", "until", "slots")  # slots of a block, from and to, and of its group
RESULT = {
    "run": "bigint",
    "group": "int",
    "slot": "int",
    "place": "bigint",  # the number of the delivery at the life
    "origin": "int",
    "sender": "int",
    "number": "bigint",
    "due_origin": "int",
    "due_sender": "int",
    "due_number": "bigint",
    "never": "boolean",  # the one that is due is never delivered
    "between": "array<struct<origin:int,sender:int,number:bigint>>",  # messages on the way from that to this
    "count": "bigint",
    "open": "boolean",  # not judged: too many circles
}
ARROW = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    RESULT["between"]: pa.list_(pa.struct({"origin": pa.int32(), "sender": pa.int32(), "number": pa.int64()})),
}


def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Events in the order of run, group, slot and local number to segments."""
    part = 0
    for batch in batches:
        place = [batch.column(name).to_numpy() for name in EVENT[:3]]
        origin, sender, number, what, code = (batch.column(name).to_numpy(zero_copy_only=False) for name in EVENT[3:])
        authors = (origin.astype(np.int64) << 32) + sender
        changes = np.zeros(max(0, len(number) - 1), np.bool_)
        for column in place:
            changes |= column[1:] != column[:-1]
        bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(number)]
        rows: list[tuple[object, ...]] = []
        for start, end in pairwise(bounds):
            if start == end:
                continue
            owed = code[start:end].tobytes() if what[start] == OWED else b""
            binaries = (what[start:end].astype(np.int8).tobytes(), authors[start:end].tobytes())
            rows.append((*(int(column[start]) for column in place), part, *binaries, number[start:end].tobytes(), owed))
            part += 1
        if rows:
            yield table(rows, SEGMENT)


def table(rows: list[tuple[object, ...]], shape: dict[str, str]) -> pa.RecordBatch:
    """Rows as a batch of columns of Spark types."""
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, ARROW[kind]) for column, kind in zip(columns, shape.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(shape))


class BlockKey(NamedTuple):
    """A block of a group of a run."""

    run: int
    group: int
    first: int
    until: int
    slots: int


def walk(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Segments in the order of run, group, block, slot and part to one row for each block that breaks causal order."""
    block: Block | None = None
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in (*EVENT[:2], *BLOCK, "slot")]
        binaries = [batch.column(name) for name in ("whats", "authors", "numbers", "codes")]
        for at, (*place, slot) in enumerate(zip(*columns, strict=True)):
            here = BlockKey(*place)
            if block is None or block.place != here:
                yield from finished(block)
                block = Block(here)
            whats, *longs = (column[at].as_buffer() for column in binaries)
            block.take(slot, np.frombuffer(whats, np.int8), *(np.frombuffer(one, np.int64) for one in longs))
    yield from finished(block)


def finished(block: Block | None) -> Iterator[pa.RecordBatch]:
    rows = block.judged() if block is not None else []
    if rows:
        yield table(rows, RESULT)


class Block:
    """Some receivers of a group, with the sequences of all its lives."""

    __slots__ = ("carried", "ids", "owed", "place", "sequences")

    def __init__(self, place: BlockKey) -> None:
        self.place = place
        self.ids = MessageIds()
        self.sequences: list[list[Steps]] = [[] for _ in range(place.slots)]
        self.carried: list[Steps] = []
        self.owed: list[tuple[int, Steps, Longs]] = []  # column, messages, codes

    def take(self, slot: int, whats: np.ndarray, authors: Longs, numbers: Longs, codes: Longs) -> None:
        ids = self.ids.of(authors, numbers)
        if slot == NOWHERE:
            self.carried.append(ids)
        elif len(codes):
            self.owed.append((slot - self.place.first, ids, codes.copy()))
        else:
            self.sequences[slot].append(np.where(whats == SUBMITTED, ~ids, ids))

    def judged(self) -> list[tuple[object, ...]]:
        """The first violation and how many there are, or a row that says that circles leave it open."""
        steps = [np.concatenate([np.zeros(0, np.int32), *parts]) for parts in self.sequences]
        self.sequences = []
        sources = np.full(self.ids.count, UNKNOWN, np.int8)
        for ids in self.carried:
            sources[ids] = CARRIED
        for one in steps:
            sources[~one[one < 0]] = ABSENT
        nothing = np.zeros(0, np.int64)
        owed = Owed(
            np.concatenate([nothing, *(np.full(len(ids), column) for column, ids, _ in self.owed)]),
            np.concatenate([nothing, *(ids for _, ids, _ in self.owed)]),
            np.concatenate([nothing, *(codes for _, _, codes in self.owed)]),
        )
        found = judge(steps, sources, range(self.place.first, self.place.until), owed)
        if found.open:
            return [(*self.place[:2], NOWHERE, 0, *(NONE,) * 6, False, [], 0, True)]
        if not found.early:
            return []
        first = min(found.early, key=lambda early: (early.number, early.slot))
        return [self.row(first, steps, owed, sum(early.times for early in found.early))]

    def row(self, early: EarlyDelivery, steps: list[Steps], owed: Owed, count: int) -> tuple[object, ...]:
        never = early.due & CODE_INDEX != 0
        if never:
            same = (owed.columns == early.slot - self.place.first) & (owed.codes == early.due)
            due = int(owed.messages[np.flatnonzero(same)[0]])
        else:
            own = steps[early.slot]
            due = int(own[own >= 0][(early.due >> CODE_BITS) - 1])
        names = self.name(early.message) + self.name(due)
        between = [dict(zip(EVENT[3:6], self.name(one), strict=True)) for one in chain(steps, due, early.message)[1:-1]]
        return (*self.place[:2], early.slot, early.number, *names, never, between, count, False)

    def name(self, message: int) -> tuple[int, int, int]:
        author = int(self.ids.authors[message])
        sender = ((author & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
        return (author - sender) >> 32, sender, int(self.ids.numbers[message])
