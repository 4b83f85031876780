"""The causal past on Spark: rows of a group, in the order of time, through the one pass of trace/past.py.

The rows of a run come in the order of time as far as each process's own order allows. Clocks of processes may differ: a
process whose next row is the delivery of a message not yet submitted waits, and its rows with it, until it is.

A group in which messages answer one another in a circle takes several passes (trace.past.closed), over rows that are
held in memory: the first pass only says that there is a circle, by a row of no slot.

Invariants: a group of a run is one pass, in one task; groups are independent.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from isthmus.trace.past import NOWHERE, Past, PastEvent, closed
from isthmus.trace.schema import NONE

COLUMNS = (
    *("run", "group", "slot", "slots", "submit", "origin", "sender", "number", "local", "code", "known", "to"),
    "codes",
)
RESULT = {
    "run": "bigint",
    "group": "int",
    "slot": "int",
    "local": "bigint",
    "origin": "int",
    "sender": "int",
    "number": "bigint",
    "code": "bigint",
    "count": "bigint",
}
Place = tuple[int, int]  # run and group
ARROW = {"bigint": pa.int64(), "int": pa.int32()}


def walk(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows in the order of run, group and time to one row for each group that breaks causal order, or has a circle."""
    past = Past(0)
    place: Place | None = None
    for here, slots, event in events(batches):
        if here != place:
            yield from finished(place, past)
            place, past = here, Past(slots)
        past.take(event)
    yield from finished(place, past)


def walk_closed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same for groups with circles: rows in the order of run, group, slot and local number."""
    for place, group in groupby(events(batches), itemgetter(0)):
        held = list(group)
        yield from told(place, closed(held[0][1], lambda: [event for _, _, event in held]))  # noqa: B023  called here


def events(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Place, int, PastEvent]]:
    """Rows as events, each with its run and group, and how many slots that has."""
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in COLUMNS[:-2]]
        to, codes = (flat(batch.column(name)) for name in COLUMNS[-2:])
        for index, (run, group, slot, slots, submit, origin, sender, number, local, code, known) in enumerate(
            zip(*columns, strict=True)
        ):
            key = (origin, sender, number)
            yield (run, group), slots, PastEvent(slot, submit, key, local, code, known, to(index), codes(index))


def finished(place: Place | None, past: Past) -> Iterator[pa.RecordBatch]:
    past.finish()
    if place is not None and past.learnt:
        yield result((*place, NOWHERE, 0, NONE, NONE, NONE, 0, 0))
    elif place is not None:
        yield from told(place, past)


def flat(column: pa.ListArray) -> Any:
    """The lists of a column as slices of one array."""
    offsets = column.offsets.to_numpy()
    values = column.values.to_numpy(zero_copy_only=False).astype(np.int64)
    return lambda index: values[offsets[index] : offsets[index + 1]]


def told(place: Place, past: Past) -> Iterator[pa.RecordBatch]:
    if past.first is not None:
        event, due = past.first
        yield result((*place, event.slot, event.local, *event.message, due, past.count))


def result(row: tuple[int, ...]) -> pa.RecordBatch:
    arrays = [pa.array([value], ARROW[kind]) for value, kind in zip(row, RESULT.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(RESULT))
