"""Uniform agreement: what any life delivered in a view, also one that crashed, all who go on from that view have too.

As agreement.py, but those who go on from a view are one class, and what counts is what anybody delivered in the view.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.check.incarnations import bit, processes, word
from isthmus.pipeline.check.properties.agreement import classes, disagreements, owing, seen_in, union
from isthmus.pipeline.check.tables import Tables
from isthmus.pipeline.engine.formats import GROUP, MESSAGE

NAME = "uniform-agreement"
CLASS = ("run", "group", "view")


def uniform_agreement(tables: Tables) -> DataFrame:
    each = tables.small(classes(tables).where(tables.asks(NAME)))
    sizes = tables.small(
        each.groupBy(*CLASS).agg(F.count("*").alias("size"), F.array_sort(F.collect_set("process")).alias("members"))
    )
    masks = each.groupBy(*CLASS, "life", word().alias("word")).agg(F.bit_or(bit()).alias("mask"))
    compared = counted(tables, tables.small(masks)).join(sizes, list(CLASS)).withColumn("lacks", lacks())
    views = compared.groupBy(*CLASS, "size").agg(
        F.sum("total").alias("total"), F.sum("have").alias("have"), F.max("lacks").alias("lacks")
    )
    told = (F.col("size") > 1) | (F.col("total") > F.col("have"))
    sums = tables.keep(
        views.groupBy(*GROUP).agg(
            F.sum(F.when(told, F.col("total")).otherwise(0)).alias("count"), F.max("lacks").alias("lacks")
        )
    )
    seen = seen_in(tables, sums, NAME)
    if sums.where(F.col("lacks")).isEmpty():
        return seen
    lacking = tables.keep(compared.where(F.col("lacks")).withColumn("owing", owing()))
    return seen.unionByName(named(tables, lacking, each))


def counted(tables: Tables, masks: DataFrame) -> DataFrame:
    """Messages and views: how many delivered it there, how many of the class, and of those that it is addressed to."""
    met = tables.marks.where(F.col("n") > 0).join(masks, [*CLASS, "life", "word"], "left")
    have = F.col("bits").bitwiseAND(F.coalesce("mask", F.lit(0).cast("long")))
    return met.groupBy(*MESSAGE, "view", "sent", "destinations", "from_ns").agg(
        F.sum(F.bit_count("bits").cast("long")).alias("total"),
        F.sum(F.bit_count(have).cast("long")).alias("have"),
        F.sum(F.bit_count(have.bitwiseAND(F.col("to"))).cast("long")).alias("addressed"),
    )


def lacks() -> Column:
    """Whether a message, which somebody delivered, is addressed to more of the class than have it."""
    owed = F.when(F.col("destinations").isNull(), F.col("size")).otherwise(F.size(owing()))
    return F.col("sent") & (F.col("addressed") < owed)


def named(tables: Tables, lacking: DataFrame, each: DataFrame) -> DataFrame:
    """Which process has a message and which lacks it, for the few messages where one does."""
    some = lacking.select(*MESSAGE, "view", "addressed", "owing", "members", "from_ns")
    has = processes(F.col("bits"), F.col("word"))
    onward = each.groupBy(*CLASS, "process").agg(F.max("onward").alias("onward"))
    found = (
        some.join(tables.marks.select(*MESSAGE, "view", "bits", "word"), [*MESSAGE, "view"])
        .groupBy(*MESSAGE, "view", "addressed", "owing", "members", "from_ns")
        .agg(union(has).alias("having"))
        .withColumn("inside", F.array_intersect("members", "having"))
        .withColumn("one", F.when(F.size("inside") > 0, F.col("inside")[0]).otherwise(F.col("having")[0]))
        .withColumn("process", F.array_except("owing", "having")[0])
        .join(onward, [*CLASS, "process"])
    )
    return disagreements(tables, found, some, NAME, "unshared")
