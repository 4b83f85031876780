"""Segments and blocks without Spark: what tasks pack and walk is what the pass over the whole group finds."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.judge.test_past import Wild, expected, wild

from isthmus.judge.causality.past import CARRIED, CODE_BITS
from isthmus.pipeline.check.causality import message_ids
from isthmus.pipeline.check.causality.message_ids import MessageIds
from isthmus.pipeline.check.causality.past import BROUGHT, DELIVERED, EVENT, NOWHERE, OWED, SUBMITTED, pack, walk

TYPES = (pa.int64(), pa.int32(), pa.int32(), pa.int32(), pa.int32(), pa.int64(), pa.int8(), pa.int64())


def name(message: int) -> tuple[int, int, int]:
    """Origin, sender and number of a message; incarnations have numbers of their own."""
    return message % 2, message % 3, (message // 6) + (message % 2 << 32)


def events(run: int, history: Wild) -> list[tuple[int, ...]]:
    steps, sources, _ = history
    brought = [message for message, source in enumerate(sources) if source == CARRIED]
    rows = [(run, 0, NOWHERE, *name(message), BROUGHT, 0) for message in brought]
    for slot, own in enumerate(steps):
        rows += [
            (run, 0, slot, *name(~step if step < 0 else step), SUBMITTED if step < 0 else DELIVERED, 0) for step in own
        ]
    return rows


def batches(rows: list[tuple[int, ...]], size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), size):
        columns = zip(*rows[start : start + size], strict=True)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, TYPES, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=list(EVENT))


def walked(histories: list[Wild], width: int, size: int) -> list[dict[str, object]]:
    """All runs through pack and walk, as Spark hands the rows on."""
    plain = [row for run, history in enumerate(histories) for row in events(run, history)]
    debts = [
        (run, 0, slot, *name(message), OWED, code)
        for run, (_, _, owed) in enumerate(histories)
        for slot, message, code in sorted(owed)
    ]
    segments = [row for rows in (plain, debts) for batch in pack(batches(rows, size)) for row in batch.to_pylist()]
    dealt = []
    for segment in segments:
        slots = len(histories[segment["run"]][0])
        for first in range(0, slots, width):
            until = min(first + width, slots)
            if not segment["codes"] or first <= segment["slot"] < until:
                dealt.append(segment | {"first": first, "until": until, "slots": slots})
    dealt.sort(key=lambda row: (row["run"], row["first"], row["slot"], row["part"]))
    return [row for batch in walk(iter([pa.RecordBatch.from_pylist(dealt)])) for row in batch.to_pylist()]


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 5), st.integers(1, 40))
def test_blocks_of_segments_find_what_the_whole_shows(seed, width, size):
    histories = [history for part in range(5) if any((history := wild(seed + part))[0])]
    found = walked(histories, width, size) if histories else []
    for run, history in enumerate(histories):
        wanted = expected(history)
        rows = [row for row in found if row["run"] == run]
        assert sum(row["count"] for row in rows) == sum(late.times for late in wanted)
        if wanted:
            first = min(wanted, key=lambda late: (late.number, late.slot))
            row = min(rows, key=lambda row: (row["place"], row["slot"]))
            assert (row["slot"], row["place"]) == (first.slot, first.number)
            assert (row["origin"], row["sender"], row["number"]) == name(first.message)
            steps, _, owed = history
            deliveries = [step for step in steps[first.slot] if step >= 0]
            codes = {number << CODE_BITS: message for number, message in enumerate(deliveries, start=1)}
            codes |= {code: message for slot, message, code in owed if slot == first.slot}
            assert (row["due_origin"], row["due_sender"], row["due_number"]) == name(codes[first.due])


def test_numbers_of_messages_stay_while_the_table_grows(monkeypatch):
    random = Random(1)
    authors, lives = range(-5, 5), (0, 1, 1 << 32)
    keys = [(random.choice(authors) << 32, random.choice(lives) + random.randrange(3000)) for _ in range(20000)]
    for limit in (1, 1 << 60):  # compiled, and as it is
        monkeypatch.setattr(message_ids, "COMPILED_ROWS", limit)
        ids, known = MessageIds(), {}
        for start in range(0, len(keys), 700):
            part = np.array(keys[start : start + 700], np.int64)
            given_ids = ids.of(part[:, 0].copy(), part[:, 1].copy()).tolist()
            assert given_ids == [known.setdefault(key, len(known)) for key in keys[start : start + 700]]
        assert ids.count == len(known)
        assert list(zip(ids.authors[: ids.count].tolist(), ids.numbers[: ids.count].tolist(), strict=True)) == list(
            known
        )
