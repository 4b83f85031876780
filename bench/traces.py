"""A large trace for benchmarks of checks: one run of 100 processes, made with numpy and not simulated.

Messages are submitted in blocks, as many by each process, and delivered once the block is out; delays differ from
process to process. In total order all deliver a block of 10,000 in one order. In causal order every process delivers
a block of 1,000 in an order of its own, which keeps that of each sender: the messages of different senders in a block
are concurrent, and all of a block follow all of the one before. Every message goes to all, or to a random share of the
processes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isthmus.core.layer import Kind
from isthmus.trace.arrow import SCHEMA

PROCESSES = 100
STEP_NS = 50_000  # between two messages
BLOCK = 10_000  # messages that are submitted together; a row group
CAUSAL_BLOCK = 1_000
PAUSE_NS = 100_000_000  # no delay is longer


def write(path: Path, deliveries: int, share: float = 1.0, causal: bool = False) -> None:
    """A trace of about so many deliveries; a share of the processes gets each message."""
    size = CAUSAL_BLOCK if causal else BLOCK
    messages = round(deliveries / PROCESSES / share / PROCESSES) * PROCESSES
    random = np.random.default_rng(1)
    delay = random.integers(1_000_000, PAUSE_NS, PROCESSES)
    done = np.zeros(PROCESSES, dtype=np.int64)  # rows so far, by process
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        writer.write_table(installed(delay))
        done += 1
        held: list[pa.Table] = []
        for first in range(0, messages, size):
            numbers = np.arange(first, min(first + size, messages))
            begin_ns = first // size * (size * STEP_NS + 2 * PAUSE_NS)
            held.append(block(numbers, begin_ns, delay, done, random, share, causal))
            if numbers[-1] + 1 == messages or (first + size) % BLOCK == 0:
                writer.write_table(pa.concat_tables(held).combine_chunks())
                held.clear()


def installed(delay: np.ndarray) -> pa.Table:
    everyone = np.arange(PROCESSES)
    zero = np.zeros(PROCESSES, dtype=np.int64)
    members = pa.array([everyone.tolist()] * PROCESSES, pa.list_(pa.int32()))
    return table(everyone, zero, delay, zero + int(Kind.VIEW), zero - 1, zero - 1, members, zero, zero + 1)


def block(
    messages: np.ndarray,
    begin_ns: int,
    delay: np.ndarray,
    done: np.ndarray,
    random: np.random.Generator,
    share: float,
    causal: bool,
) -> pa.Table:
    """The deliveries of some messages, and the submits that fall among them; `done` is brought forward."""
    takes = random.random((len(messages), PROCESSES)) < share if share < 1 else None
    if takes is not None:
        takes[~takes.any(axis=1), 0] = True  # no addressees would be all
    index, process = np.divmod(np.arange(len(messages) * PROCESSES), PROCESSES)
    turn = index  # when each is delivered, in steps
    if causal:
        turns = random.random((len(messages) // PROCESSES, PROCESSES, PROCESSES)) * len(messages)
        turn = np.sort(turns, axis=0).ravel()  # by message of a sender, sender, process
    if takes is not None:
        kept = takes[index, process]
        index, process, turn = index[kept], process[kept], turn[kept]
    message = messages[index]
    sender, number = message % PROCESSES, message // PROCESSES + 1
    # In local order the submits of a block stand before its deliveries.
    own = messages % PROCESSES
    order = np.argsort(own, kind="stable")
    sent_local = np.empty(len(messages), dtype=np.int64)
    starts = np.searchsorted(own[order], np.arange(PROCESSES))
    sent_local[order] = np.arange(len(messages)) - starts[own[order]] + done[own[order]]
    done += np.bincount(own, minlength=PROCESSES)
    order = np.lexsort((turn, process))
    local = np.empty(len(process), dtype=np.int64)
    starts = np.searchsorted(process[order], np.arange(PROCESSES))
    local[order] = np.arange(len(process)) - starts[process[order]] + done[process[order]]
    done += np.bincount(process, minlength=PROCESSES)
    sent_ns = begin_ns + delay[own] + np.arange(len(messages))
    taken_ns = begin_ns + PAUSE_NS + (turn * STEP_NS).astype(np.int64) + delay[process]
    to = None
    if takes is not None:
        offsets = np.concatenate([[0], np.cumsum(takes.sum(axis=1)), np.full(len(process), takes.sum())])
        to = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(np.nonzero(takes)[1], pa.int32()))
    both = len(messages) + len(process)
    return table(
        np.concatenate([own, process]),
        np.concatenate([sent_local, local]),
        np.concatenate([sent_ns, taken_ns]),
        np.concatenate([np.full(len(messages), int(Kind.SUBMIT)), np.full(len(process), int(Kind.DELIVER))]),
        np.concatenate([own, sender]),
        np.concatenate([messages // PROCESSES + 1, number]),
        to,
        np.full(both, 100),
        np.zeros(both, dtype=np.int64),
    )


def table(
    process: np.ndarray,
    local: np.ndarray,
    time_ns: np.ndarray,
    kind: np.ndarray,
    sender: np.ndarray,
    number: np.ndarray,
    to: pa.Array | None,
    payload: np.ndarray,
    value: np.ndarray,
) -> pa.Table:
    zero = np.zeros(len(process), dtype=np.int64)
    destinations = pa.nulls(len(process), pa.list_(pa.int32())) if to is None else to
    message = [np.minimum(sender, 0), sender, number]  # of group 0, or none
    place = [zero, process, local, time_ns, kind]
    columns = [*place, *message, zero, zero + 1, destinations, payload, zero, value, zero]
    return pa.table(
        [
            column
            if isinstance(column, pa.Array)
            else pa.array(column.astype(field.type.to_pandas_dtype()), field.type)
            for column, field in zip(columns, SCHEMA, strict=True)
        ],
        schema=SCHEMA,
    )
