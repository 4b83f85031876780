"""All checks together, beside the time Spark takes to read and sort the same trace once: `make bench-spark`.

The trace is one run of 100 processes in total order, every message to all, made with numpy and not simulated: messages
are submitted in blocks of 10,000, a hundred by each process, and delivered everywhere in one order once the block is
out; delays differ from process to process. The yardstick is a shuffle by process and a sort
by (process, local) of all columns, written nowhere. Ratios are what counts: both times are taken in one session, one
after the other, on two cores and 4 GiB; the first small run warms the machine up and is not shown.

    python -m bench.spark_checks [DELIVERIES ...] [--subsets]

`--subsets` sends every message to a random tenth instead, so that no position is common and the dearer ways are taken.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from isthmus.core.layer import Kind
from isthmus.pipeline.session import spark_session
from isthmus.pipeline.verdicts import PROPERTIES, check
from isthmus.trace.schema import SCHEMA

PROCESSES = 100
STEP_NS = 50_000  # between two messages
SIZES = (5_000_000, 20_000_000)
WARM = 200_000  # deliveries of a first run that is not shown
RATIO_MAX = 5.0
GROWTH_MAX = 4.4  # from 5 to 20 million
BLOCK = 10_000  # messages that are submitted together; a row group
PAUSE_NS = 100_000_000  # no delay is longer
SETTINGS = {"spark.sql.shuffle.partitions": "32"}


def write(path: Path, deliveries: int, share: float = 1.0) -> None:
    """A trace of about so many deliveries; a share of the processes gets each message."""
    messages = round(deliveries / PROCESSES / share)
    random = np.random.default_rng(1)
    delay = random.integers(1_000_000, PAUSE_NS, PROCESSES)
    done = np.zeros(PROCESSES, dtype=np.int64)  # rows so far, by process
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        writer.write_table(installed(delay))
        done += 1
        for first in range(0, messages, BLOCK):
            writer.write_table(block(np.arange(first, min(first + BLOCK, messages)), delay, done, random, share))


def installed(delay: np.ndarray) -> pa.Table:
    everyone = np.arange(PROCESSES)
    zero = np.zeros(PROCESSES, dtype=np.int64)
    members = pa.array([everyone.tolist()] * PROCESSES, pa.list_(pa.int32()))
    return table(everyone, zero, delay, zero + int(Kind.VIEW), zero - 1, zero - 1, members, zero, zero + 1)


def block(
    messages: np.ndarray, delay: np.ndarray, done: np.ndarray, random: np.random.Generator, share: float
) -> pa.Table:
    """The deliveries of some messages, and the submits that fall among them; `done` is brought forward."""
    takes = random.random((len(messages), PROCESSES)) < share if share < 1 else None
    index, process = np.divmod(np.arange(len(messages) * PROCESSES), PROCESSES)
    if takes is not None:
        kept = takes[index, process]
        index, process = index[kept], process[kept]
    message = messages[index]
    sender, number = message % PROCESSES, message // PROCESSES + 1
    # In local order the submits of a block stand before its deliveries.
    own = messages % PROCESSES
    order = np.argsort(own, kind="stable")
    sent_local = np.empty(len(messages), dtype=np.int64)
    starts = np.searchsorted(own[order], np.arange(PROCESSES))
    sent_local[order] = np.arange(len(messages)) - starts[own[order]] + done[own[order]]
    done += np.bincount(own, minlength=PROCESSES)
    order = np.argsort(process, kind="stable")
    local = np.empty(len(process), dtype=np.int64)
    starts = np.searchsorted(process[order], np.arange(PROCESSES))
    local[order] = np.arange(len(process)) - starts[process[order]] + done[process[order]]
    done += np.bincount(process, minlength=PROCESSES)
    begin_ns = messages[0] // BLOCK * (BLOCK * STEP_NS + 2 * PAUSE_NS)
    sent_ns = begin_ns + delay[own] + np.arange(len(messages))
    taken_ns = begin_ns + PAUSE_NS + index * STEP_NS + delay[process]
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


def seconds(spark: SparkSession, action: Callable[[], object]) -> tuple[float, float]:
    """The time an action takes by the wall clock, and how much of the processors its Java used."""
    start, used = time.perf_counter(), java_seconds(spark)
    action()
    return time.perf_counter() - start, java_seconds(spark) - used


def java_seconds(spark: SparkSession) -> float:
    """Processor time of Spark's Java so far: what a machine shared with others does not distort."""
    java = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    ticks = Path(f"/proc/{java}/stat").read_text().rpartition(")")[2].split()
    return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")


def sort_once(spark: SparkSession, path: Path) -> None:
    rows = spark.read.parquet(str(path)).repartition("run", "process").sortWithinPartitions("run", "process", "local")
    rows.write.format("noop").mode("overwrite").save()


def check_all(spark: SparkSession, path: Path) -> None:
    verdicts = check(spark.read.parquet(str(path)), PROPERTIES).collect()
    wrong = [(row["property"], row["witness"]) for row in verdicts if row["status"] == "violated"]
    assert not wrong, wrong


Times = tuple[float, float]


def measured(sizes: list[int], share: float) -> Iterator[tuple[int, Times, Times]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        spark_session(master="local[2]", memory="4g", settings=SETTINGS) as spark,
    ):
        for size in (WARM, *sizes):
            path = Path(folder) / f"{size}.parquet"
            write(path, size, share)
            sort = seconds(spark, lambda path=path: sort_once(spark, path))
            checks = seconds(spark, lambda path=path: check_all(spark, path))
            if size != WARM:
                yield size, sort, checks


def main(arguments: list[str] | None = None) -> bool:
    """Print a row a size; false where a figure falls short."""
    words = arguments or []
    share = 0.1 if "--subsets" in words else 1.0
    sizes = [int(word) for word in words if not word.startswith("--")] or list(SIZES)
    print("deliveries    sort, s   checks, s   ratio   of processor time")
    found = []
    for size, sort, checks in measured(sizes, share):
        ratios = [one / other for one, other in zip(checks, sort, strict=True)]
        found.append((size, checks[0], ratios[0]))
        print(f"{size:10,} {sort[0]:10.1f} {checks[0]:11.1f} {ratios[0]:7.2f} {ratios[1]:19.2f}", flush=True)
    good = found[-1][2] <= RATIO_MAX
    print(f"ratio at most {RATIO_MAX:g}: {'yes' if good else 'NO'}")
    if len(found) > 1:
        growth, allowed = found[-1][1] / found[0][1], GROWTH_MAX / 4 * found[-1][0] / found[0][0]
        print(f"growth of the checks {growth:.2f} times, at most {allowed:.2f}: {'yes' if growth <= allowed else 'NO'}")
        good = good and growth <= allowed
    return good


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
