"""Cycles in the union of sequences, found by relaxation: windows and equi-joins, and small sets at the end.

Each message has a number c, at first its place by the time of its earliest delivery. In one round each process takes
the running maximum of c along its deliveries, and each message the maximum over its deliverers. When a round changes
nothing, c never falls along any process, so that a cycle lies among messages of equal c that follow one another at some
process; Kahn's algorithm decides each such set by itself.

Invariants: only messages that two lives delivered are looked at. Sequences are per life, by local order. Time is a
hint: wrong times cost rounds and larger sets, never a wrong verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.judge.history import GroupHistory, Life
from isthmus.judge.properties.finding import Finding
from isthmus.judge.properties.total import merge
from isthmus.pipeline.check.findings import finding_row
from isthmus.pipeline.check.tables import Tables
from isthmus.pipeline.engine.formats import FINDING, MESSAGE, PLACE, ddl


def cycles(tables: Tables, rows: DataFrame, name: str) -> DataFrame:
    """Violations of total order in sequences: rows of a message, process, life, local, time_ns."""
    shared = rows.groupBy(*MESSAGE).agg(
        F.count("*").alias("deliverers"), F.min("time_ns").alias("at"), F.min("local").alias("early")
    )
    shared = shared.where(F.col("deliverers") > 1)
    hint = Window.partitionBy("run", "group").orderBy("at", "early", "origin", "sender", "number")
    numbers = tables.keep(shared.withColumn("c", F.row_number().over(hint).cast("long")).select(*MESSAGE, "c"))
    steps = tables.keep(rows.join(numbers.select(*MESSAGE), list(MESSAGE)))
    settled = relaxed(steps, numbers)
    order = Window.partitionBy(*PLACE).orderBy("local")
    placed = tables.keep(steps.join(settled, list(MESSAGE)).withColumn("tied", F.lag("c").over(order) == F.col("c")))
    ties = placed.where(F.col("tied")).select("run", "group", "c").distinct()
    left = placed.join(ties, ["run", "group", "c"], "left_semi").drop("tied")

    def decide(parts: tuple[int, ...], frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(kahn(int(parts[0]), int(parts[1]), name, frame), columns=list(FINDING))

    return left.groupBy("run", "group", "c").applyInPandas(decide, ddl(FINDING))


def relaxed(steps: DataFrame, numbers: DataFrame) -> DataFrame:
    """Numbers that never fall along a sequence: the least such above the given ones."""
    order = Window.partitionBy(*PLACE).orderBy("local")
    while True:
        raised = (
            steps.join(numbers, list(MESSAGE))
            .withColumn("high", F.max("c").over(order))
            .groupBy(*MESSAGE)
            .agg(F.max("high").alias("c"), F.min("c").alias("was"))
            .localCheckpoint(eager=True)
        )
        numbers = raised.select(*MESSAGE, "c")
        done = raised.where(F.col("c") > F.col("was")).isEmpty()
        if done:
            return numbers


def kahn(run: int, number: int, name: str, frame: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    """The findings of one set of messages."""
    group = GroupHistory(number)
    orders: list[tuple[Life, list[int]]] = []
    for (process, incarnation), steps in frame.sort_values("local").groupby(["process", "life"], sort=True):
        keys = zip(steps["origin"], steps["sender"], steps["number"], strict=True)
        order = [group.message((int(origin), int(sender), int(count))) for origin, sender, count in keys]
        orders.append((Life(group, int(process), int(incarnation), []), order))
    finding = Finding("")
    merge(group, orders, Counter(message for _, order in orders for message in order), finding)
    if finding.witness is not None:
        rank, count = int(frame["time_ns"].min()), finding.violation_count
        yield finding_row(run, number, name, violation_count=count, rank=rank, witness=finding.witness)
