"""The causal past on Spark: rows of a group, in the order of time, through the one pass of trace/past.py.

The rows of a run come in the order of time as far as each process's own order allows. Clocks of processes may differ: a
process whose next row is the delivery of a message not yet submitted waits, and its rows with it, until it is.

Invariants: a group of a run is one pass, in one task; groups are independent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from isthmus.trace.past import Past, PastEvent

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
ARROW = {"bigint": pa.int64(), "int": pa.int32()}


def walk(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows in the order of run, group and time to one row for each group that breaks causal order."""
    past = Past(0)
    place: tuple[int, int] | None = None
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in COLUMNS[:-2]]
        to, codes = (flat(batch.column(name)) for name in COLUMNS[-2:])
        for index, (run, group, slot, slots, submit, *message, local, code, known) in enumerate(
            zip(*columns, strict=True)
        ):
            if (run, group) != place:
                yield from told(place, past)
                place, past = (run, group), Past(slots)
            origin, sender, number = message
            key = (origin, sender, number)
            past.take(PastEvent(slot, submit, key, local, code, known, to(index), codes(index)))
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
    event, due = past.first
    row = (*place, event.slot, event.local, *event.message, due, past.count)
    arrays = [pa.array([value], ARROW[kind]) for value, kind in zip(row, RESULT.values(), strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, names=list(RESULT))
