"""Cycles in the union of sequences, found by relaxation: windows and equi-joins, and small sets at the end.

The idea. Give each message a number c, at first its place by the time of its earliest delivery. In one round each
process takes the running maximum of c along its deliveries, and each message the maximum over its deliverers. When a
round changes nothing, c never falls along any process, so that a cycle lies among messages of equal c. If time was
right about the order everywhere, the first round changes nothing. Otherwise a message that came late at one process
lifts those after it to its own number, and they form a set with it: no cycle yet, but one that must be looked at.

    rounds     a number travels the whole of a process in one round, so that rounds are counted in changes of process
    sets       messages of equal c that follow one another at some process; Kahn's algorithm decides each by itself

Invariants: a message that one life alone delivered cannot be on a cycle that does not close without it, so that only
shared ones are looked at. Sequences are per life, by local order. Time is a hint: wrong times cost rounds and larger
sets, never a wrong verdict.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.findings import COLUMNS, FINDING
from isthmus.pipeline.tables import Tables
from isthmus.trace.history import Group, Life
from isthmus.trace.order import merge
from isthmus.trace.properties import Finding
from isthmus.trace.schema import NONE, message_name

SUBJECT = ("run", "of", "group", "sender", "number")  # a message of what is judged: `of` is a group, or -1 for all
SEQUENCE = ("run", "of", "process", "life")
STEP = re.compile(r"process (\d+)(?: \(incarnation (\d+)\))? delivered (\S+) before (\S+?)(?:,|$)")


def cycles(tables: Tables, rows: DataFrame, name: str) -> DataFrame:
    """Violations of total order in sequences: rows of a message, process, life, local, time_ns, and what is judged."""
    shared = rows.groupBy(*SUBJECT).agg(
        F.count("*").alias("deliverers"), F.min("time_ns").alias("at"), F.min("local").alias("early")
    )
    shared = shared.where(F.col("deliverers") > 1)
    hint = Window.partitionBy("run", "of").orderBy("at", "early", "group", "sender", "number")
    numbers = tables.keep(shared.withColumn("c", F.row_number().over(hint).cast("long")).select(*SUBJECT, "c"))
    steps = tables.keep(rows.join(numbers.select(*SUBJECT), list(SUBJECT)))
    settled = relaxed(steps, numbers)
    order = Window.partitionBy(*SEQUENCE).orderBy("local")
    placed = tables.keep(steps.join(settled, list(SUBJECT)).withColumn("tied", F.lag("c").over(order) == F.col("c")))
    ties = placed.where(F.col("tied")).select("run", "of", "c").distinct()
    left = placed.join(ties, ["run", "of", "c"], "left_semi").drop("tied")

    def decide(parts: tuple[int, ...], frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(kahn(int(parts[0]), int(parts[1]), name, frame), columns=list(COLUMNS))

    return left.groupBy("run", "of", "c").applyInPandas(decide, FINDING)


def relaxed(steps: DataFrame, numbers: DataFrame) -> DataFrame:
    """Numbers that never fall along a sequence: the least such above the given ones."""
    order = Window.partitionBy(*SEQUENCE).orderBy("local")
    while True:
        raised = (
            steps.join(numbers, list(SUBJECT))
            .withColumn("high", F.max("c").over(order))
            .groupBy(*SUBJECT)
            .agg(F.max("high").alias("c"), F.min("c").alias("was"))
            .localCheckpoint(eager=True)
        )
        numbers = raised.select(*SUBJECT, "c")
        done = raised.where(F.col("c") > F.col("was")).isEmpty()
        if done:
            return numbers


def kahn(run: int, of: int, name: str, frame: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    """The findings of one set of messages."""
    group = Named()
    orders: list[tuple[Life, list[int]]] = []
    for (process, incarnation), steps in frame.sort_values("local").groupby(["process", "life"], sort=True):
        order = [
            group.take(int(of_group), int(sender), int(number), of < 0)
            for of_group, sender, number in zip(steps["group"], steps["sender"], steps["number"], strict=True)
        ]
        orders.append((Life(group, int(process), int(incarnation), NONE), order))
    finding = Finding("")
    merge(group, orders, Counter(message for _, order in orders for message in order), finding)
    if finding.violation_count:
        rank = int(frame["time_ns"].min())
        keys = list(group.events(finding.witness))
        yield run, of, name, 0, finding.violation_count, rank, finding.witness, keys, None


class Named(Group):
    """A group that knows which of several groups a message is from."""

    __slots__ = ("origin", "said")

    def __init__(self) -> None:
        super().__init__()
        self.origin: dict[tuple[int, int, int], int] = {}  # (group, sender, number) to the message's integer
        self.said: list[tuple[str, tuple[int, int, int]]] = []

    def take(self, group: int, sender: int, number: int, prefixed: bool) -> int:
        whole = (group, sender, number)
        found = self.origin.get(whole)
        if found is None:
            found = self.origin[whole] = len(self.said)
            plain = message_name(sender, number)
            self.said.append((f"{group}/{plain}" if prefixed else plain, whole))
        return found

    def name(self, message: int) -> str:
        return self.said[message][0]

    def events(self, sentence: str) -> Iterator[tuple[object, ...]]:
        """The deliveries that a sentence speaks of, as keys."""
        known = dict(self.said)
        for process, _, first, second in STEP.findall(sentence):
            for said, role in ((first, "delivered first"), (second, "delivered second")):
                group, sender, number = known[said]
                yield (group, int(process), None, int(Kind.DELIVER), sender, number, None, role)
