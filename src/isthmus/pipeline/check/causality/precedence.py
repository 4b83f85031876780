"""Deliveries that precede their submit, in runs of any size: judge/causality/precedence.py over rows as they come.

Groups without a certificate take one pass in the order of time, in one task: a process whose next delivery is of a
message that has not been submitted yet waits, and its rows with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.check.causality.past import table
from isthmus.pipeline.check.incarnations import is_home, is_kind
from isthmus.pipeline.check.tables import Tables
from isthmus.pipeline.engine.formats import EVENT, GROUP, MESSAGE, ddl

Key = tuple[int, int, int]
Step = tuple[bool, Key, int]  # whether it is a submit, the message, the local number
COLUMNS = ("run", "group", "process", "local", "origin", "sender", "number", "submit", "known")
RESULT = {name: EVENT.get(name, "bigint") for name in COLUMNS[:7]}


def impossible(tables: Tables, chosen: DataFrame) -> DataFrame:
    """The deliveries of some groups that no order of events has room for: run, group, process, local, message."""
    own = is_kind(Kind.SUBMIT) & is_home()
    first = tables.submits.where("home").select(*MESSAGE, F.col("from_local"), F.lit(True).alias("known"))
    rows = tables.trace.where(is_kind(Kind.DELIVER) | own).join(chosen, list(GROUP), "left_semi")
    rows = rows.select(*MESSAGE, "process", "local", "time_ns", own.alias("submit"))
    rows = rows.join(first, list(MESSAGE), "left").where(~F.col("submit") | (F.col("local") == F.col("from_local")))
    onward = F.max("time_ns").over(Window.partitionBy(*GROUP, "process").orderBy("local"))
    ordered = (
        rows.withColumn("known", F.coalesce("known", F.lit(False)))
        .withColumn("at", onward)
        .repartition(*GROUP)
        .sortWithinPartitions(*GROUP, "at", "process", "local")
    )
    return ordered.select(*COLUMNS).mapInArrow(walk, ddl(RESULT))


class Order:
    """One group under way."""

    __slots__ = ("found", "known", "waiting", "wanted")

    def __init__(self) -> None:
        self.known: set[Key] = set()  # submitted so far
        self.waiting: dict[int, deque[Step]] = {}  # process to its rows from the one that waits
        self.wanted: dict[Key, list[int]] = {}  # message to the processes that wait for it
        self.found: list[tuple[int, int, Key]] = []  # process, local, message

    def take(self, process: int, step: Step) -> None:
        """Take the next row of a process, or put it behind those that wait."""
        queue = self.waiting.get(process)
        if queue is not None:
            queue.append(step)
        else:
            self.go(process, deque([step]))

    def go(self, process: int, queue: deque[Step]) -> None:
        """Take rows of a process as far as possible, and then those of the processes that waited for them."""
        ready = [(process, queue)]
        while ready:
            process, queue = ready.pop()
            while queue:
                submit, message, _ = queue[0]
                if submit:
                    self.known.add(message)
                    ready += [(other, self.waiting.pop(other)) for other in self.wanted.pop(message, ())]
                elif message not in self.known:
                    self.wanted.setdefault(message, []).append(process)
                    self.waiting[process] = queue
                    break
                queue.popleft()

    def finish(self) -> None:
        """Let those that would wait for ever go on, the lowest first."""
        while self.waiting:
            process = min(self.waiting)
            queue = self.waiting.pop(process)
            _, message, local = queue.popleft()
            self.wanted[message].remove(process)
            self.found.append((process, local, message))
            self.go(process, queue)


def walk(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows in the order of run, group and time to the deliveries that precede their submit."""
    order = Order()
    place: tuple[int, int] | None = None
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in COLUMNS]
        for run, group, process, local, origin, sender, number, submit, known in zip(*columns, strict=True):
            if (run, group) != place:
                yield from told(place, order)
                place, order = (run, group), Order()
            if submit or known:
                order.take(process, (submit, (origin, sender, number), local))
    yield from told(place, order)


def told(place: tuple[int, int] | None, order: Order) -> Iterator[pa.RecordBatch]:
    order.finish()
    if place is not None and order.found:
        yield table([(*place, process, local, *message) for process, local, message in order.found], RESULT)
