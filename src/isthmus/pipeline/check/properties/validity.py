"""Validity: what a life that is there at the end submitted is delivered by all addressees that stayed to the end.

The lives that are there at the end of a settled group owe every message of a sender's last stay that belongs to a view
from the first of their own last stay on. Only where the counts of owers and deliverers differ are processes named. An
unsettled group owes nothing, and its verdict is unknown with the reason.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.check.findings import evidence, key, life, message, violations
from isthmus.pipeline.check.incarnations import bit, is_own, processes, word
from isthmus.pipeline.check.properties.agreement import finalists
from isthmus.pipeline.check.tables import Tables
from isthmus.pipeline.engine.formats import GROUP, MESSAGE

NAME = "validity"


def validity(tables: Tables) -> DataFrame:
    there = finalists(tables).where(tables.asks(NAME))
    senders = there.select(
        *GROUP, F.col("process").alias("sender"), F.col("life").alias("from_life"), F.col("stay").alias("from_stay")
    )
    if tables.alarms["static"]:
        senders = senders.unionByName(recovered(tables)).distinct()
    firsts = there.groupBy(*GROUP).agg(
        F.count("*").alias("size"),
        F.max("first").alias("latest"),
        F.array_sort(F.collect_list(F.struct("process", "first"))).alias("stayed"),
    )
    masks = there.groupBy(*GROUP, "life", word().alias("word"), "first").agg(F.bit_or(bit()).alias("mask"))
    had = F.col("bits").bitwiseAND(F.col("mask")).bitwiseAND(F.col("to"))
    all_owe = F.col("destinations").isNull() & (F.col("latest") <= F.col("from_view"))
    compared = (
        tables.holders.where(F.col("sent") & is_own())
        .join(tables.small(senders), ["run", "group", "sender", "from_life", "from_stay"])
        .join(tables.small(masks), ["run", "group", "life", "word"], "left")
        .groupBy(*MESSAGE, "from_life", "from_view", "from_ns", "destinations")
        .agg(F.sum(F.when(F.col("first") <= F.col("from_view"), F.bit_count(had)).otherwise(0)).alias("had"))
        .join(tables.small(firsts), list(GROUP))
        .withColumn("owing", F.when(all_owe, F.col("size")).otherwise(F.size(owers())))
    )
    short = F.col("had") < F.col("owing")
    sums = tables.keep(compared.groupBy(*GROUP).agg(F.sum("owing").alias("count"), F.max(short).alias("short")))
    found = evidence(sums, NAME, "count").unionByName(evidence(tables.restless, NAME, 0, "reason"))
    if sums.where(F.col("short")).isEmpty():
        return found
    return found.unionByName(named(tables, tables.keep(compared.where(short).withColumn("owers", owers()["process"]))))


def recovered(tables: Tables) -> DataFrame:
    """The lives of static groups that came back and are up: they owe nothing, but what they submit is owed."""
    static = tables.seen.where(F.col("static") & tables.asks(NAME)).select(*GROUP)
    static = static.join(tables.restless, list(GROUP), "left_anti")
    back = tables.lives.where((F.col("life") > 0) & F.col("up"))
    return static.join(back, "run").select(
        *GROUP, F.col("process").alias("sender"), F.col("life").alias("from_life"), F.lit(0).alias("from_stay")
    )


def owers() -> Column:
    """Those that stayed, from no later than the message's view on, and that it is addressed to."""
    return F.filter(
        F.col("stayed"),
        lambda one: (
            (one["first"] <= F.col("from_view"))
            & (F.col("destinations").isNull() | F.array_contains("destinations", one["process"]))
        ),
    )


def named(tables: Tables, short: DataFrame) -> DataFrame:
    there = finalists(tables).select(*GROUP, "process", "life")
    some = tables.holders.join(short.select(*MESSAGE), list(MESSAGE), "left_semi")
    held = some.select(*MESSAGE, "life", F.explode(processes(F.col("bits"), F.col("word"))).alias("process"))
    each = short.select(*MESSAGE, "from_life", "from_ns", F.explode("owers").alias("process")).join(
        there, ["run", "group", "process"]
    )
    found = each.join(held, [*MESSAGE, "life", "process"], "left_anti")
    events = [key(Kind.SUBMIT, "sender", "submitted")]
    lives = [life(), life("sender", "from_life")]
    return violations(found, NAME, "undelivered", "from_ns", events, lives=lives, messages=[message()])
