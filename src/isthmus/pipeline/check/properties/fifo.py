"""Fifo: messages of one sender are delivered in ascending number, with none left out that is owed.

In an orderly group positions that ascend with a sender's numbers prove fifo for all processes at once. Other groups are
sorted by process, sender and local number, and the running maximum of the numbers finds each message that comes too
late. Each life that lacks a message (missing_deliveries.py) is asked how far it got in the same stay of that sender.
judge/properties/fifo.py says what is owed.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.check.findings import evidence, key, life, message, violations
from isthmus.pipeline.check.incarnations import NEVER, bit, is_own, word
from isthmus.pipeline.check.missing_deliveries import missing, stays
from isthmus.pipeline.check.tables import Tables
from isthmus.pipeline.engine.formats import GROUP

NAME = "fifo"
STREAM = ("run", "group", "sender", "from_life", "from_stay")


def fifo(tables: Tables) -> DataFrame:
    found = [evidence(tables.groups, NAME, F.col("held") - F.col("streams"))]
    if tables.alarms["incomplete"]:
        found.append(passed_over(tables))
    if tables.alarms["descending"]:  # positions that do not ascend with a sender's numbers
        chosen = tables.small(tables.groups.where(F.col("descending")).select(*GROUP))
        found.append(late(tables.firsts(chosen)))
    if tables.alarms["disorderly"]:
        found.append(late(tables.unordered))
    return reduce(DataFrame.unionByName, found)


def late(firsts: DataFrame) -> DataFrame:
    order = Window.partitionBy("run", "group", "process", "life", "origin", "sender").orderBy("local")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    found = firsts.withColumn("highest", F.max("number").over(before)).where(F.col("number") < F.col("highest"))
    keys = [
        key(Kind.DELIVER, "process", "delivered first", ("origin", "sender", "highest")),
        key(Kind.DELIVER, "process", "delivered late", local="local"),
    ]
    messages = [message(), message(number="highest")]
    return violations(found, NAME, "late", "time_ns", keys, lives=[life()], messages=messages)


def passed_over(tables: Tables) -> DataFrame:
    lacking = missing(tables).select(
        *STREAM, "origin", "number", "process", "life", F.col("index").alias("place"), "from_view", "from_ns"
    )
    pairs = lacking.select(*STREAM, "process", "life").distinct().withColumn("word", word())
    reached = (
        tables.marks.where((F.col("n") > 0) & is_own())
        .join(pairs, [*STREAM, "life", "word"])
        .where(F.col("bits").bitwiseAND(bit()) != 0)
        .select(*STREAM, "process", "life", "view", "index", "number")
    )
    reached = (
        stays(tables, reached)
        .where(F.col("first") < NEVER)
        .groupBy(*STREAM, "process", "life", "first", "until")
        .agg(F.max(F.struct("index", F.col("number").alias("later"))).alias("reached"))
    )
    passed = (
        lacking.join(reached, [*STREAM, "process", "life"])
        .where(F.col("from_view").between(F.col("first"), F.col("until")) & (F.col("place") < F.col("reached.index")))
        .groupBy("run", "group", "origin", "sender", "number", "process", "life", "from_ns")
        .agg(F.min("reached.later").alias("later"))
    )
    later = ("origin", "sender", "later")
    keys = [
        key(Kind.SUBMIT, "sender", "submitted, never delivered"),
        key(Kind.SUBMIT, "sender", "submitted later", later),
        key(Kind.DELIVER, "process", "delivered", later),
    ]
    messages = [message(number="later"), message()]
    return violations(passed, NAME, "gap", "from_ns", keys, lives=[life()], messages=messages)
