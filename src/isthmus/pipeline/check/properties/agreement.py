"""Agreement, or view synchrony: lives that go together from a view to the next deliver the same in it.

The lives that went from v to w, or are in the last view when a settled group comes to rest, form a class. A message's
deliverers in v, cut with the class and the addressees, must be none or all of the class that it is addressed to; both
are counts. In a static group the class is all first lives that did anything there, or are named in destinations, and
are up. Messages that were never submitted are integrity's business.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.judge.witness import AT_END
from isthmus.pipeline.check.domains import is_domain
from isthmus.pipeline.check.findings import evidence, key, life, message, violations
from isthmus.pipeline.check.incarnations import bit, is_kind, processes, with_lives, word
from isthmus.pipeline.check.tables import Tables
from isthmus.pipeline.engine.formats import GROUP, MESSAGE
from isthmus.trace.schema import NONE

NAME = "agreement"
CLASS = ("run", "group", "view", "onward")


def finalists(tables: Tables) -> DataFrame:
    """Who is up and in the last view of a settled group: run, group, process, life, view, the stay's first view."""
    return tables.once("finalists", lambda: tables.small(staying(tables)))


def staying(tables: Tables) -> DataFrame:
    last = tables.epochs.groupBy(*GROUP).agg(F.max("view").alias("view"))
    there = (
        tables.epochs.where(F.col("last") & F.col("up"))
        .join(last, ["run", "group", "view"])
        .join(tables.restless, list(GROUP), "left_anti")
        .select(*GROUP, "process", "life", "view", "first", "stay")
    )
    if not tables.alarms["static"]:
        return there
    return there.unionByName(
        standing(tables).select(
            *GROUP,
            "process",
            F.lit(0).alias("life"),
            F.lit(NONE).alias("view"),
            F.lit(NONE).alias("first"),
            F.lit(0).alias("stay"),
        )
    )


def standing(tables: Tables) -> DataFrame:
    """The first lives of static groups that are up at the end."""
    held = tables.rosters.groupBy(*GROUP, "life", "word").agg(F.bit_or("roster").alias("bits"))
    delivered = held.select(*GROUP, "life", F.explode(processes(F.col("bits"), F.col("word"))).alias("process"))
    home = tables.submits.where("home")
    submitted = home.select(*GROUP, F.col("from_life").alias("life"), F.col("sender").alias("process"))
    static = tables.seen.where(F.col("static") & ~is_domain()).select(*GROUP)
    others = is_kind(Kind.TENTATIVE, Kind.REVOKE, Kind.SEND, Kind.RECEIVE)
    silent = with_lives(tables.trace.where(others).select(*GROUP, "process", "local"), tables.lives)
    named = home.where(F.col("destinations").isNotNull()).select(
        *GROUP, F.lit(0).alias("life"), F.explode("destinations").alias("process")
    )
    found = delivered.unionByName(submitted).unionByName(silent.select(*GROUP, "life", "process")).unionByName(named)
    present = found.where(F.col("life") == 0).distinct().join(static, list(GROUP), "left_semi")
    ended = tables.lives.where((F.col("life") == 0) & ~F.col("up")).select("run", "process")
    there = present.select(*GROUP, "process").join(ended, ["run", "process"], "left_anti")
    return there.join(tables.restless, list(GROUP), "left_anti")


def classes(tables: Tables) -> DataFrame:
    onward = tables.epochs.where(F.col("onward").isNotNull() & (F.col("view") != NONE))
    ends = finalists(tables).withColumn("onward", F.lit(AT_END))
    return onward.select(*CLASS, "process", "life").unionByName(ends.select(*CLASS, "process", "life"))


def agreement(tables: Tables) -> DataFrame:
    """Findings: lives of a class that lack what others of it delivered."""
    each = tables.small(classes(tables).where(tables.asks(NAME)))
    sizes = each.groupBy(*CLASS).agg(
        F.count("*").alias("size"), F.array_sort(F.collect_set("process")).alias("members")
    )
    sizes = tables.small(sizes.where(F.col("size") > 1))
    masks = each.groupBy(*CLASS, "life", word().alias("word")).agg(F.bit_or(bit()).alias("mask"))
    masks = tables.small(masks.join(sizes.select(*CLASS), list(CLASS), "left_semi"))
    compared = counted(tables, masks).join(sizes, list(CLASS)).withColumn("lacks", lacks())
    sums = compared.groupBy(*GROUP).agg(F.sum("have").alias("count"), F.max("lacks").alias("lacks"))
    sums = tables.keep(sums)
    seen = seen_in(tables, sums, NAME)
    if sums.where(F.col("lacks")).isEmpty():
        return seen
    lacking = tables.keep(compared.where(F.col("lacks")).withColumn("owing", owing()))
    return seen.unionByName(named(tables, lacking, masks))


def seen_in(tables: Tables, sums: DataFrame, name: str) -> DataFrame:
    """Return the evidence of groups, and why there is less of it in runs whose trace is incomplete."""
    cut = tables.seen.select(*GROUP).join(tables.cut, "run")
    return evidence(sums, name, "count").unionByName(evidence(cut, name, 0, "reason"))


def owing() -> Column:
    """Return the processes of a class that a message is addressed to."""
    to_all = F.col("destinations").isNull()
    return F.when(to_all, F.col("members")).otherwise(F.array_intersect("members", "destinations"))


def counted(tables: Tables, masks: DataFrame) -> DataFrame:
    """Messages and classes: how many of the class have it, and how many of these it is addressed to."""
    met = tables.marks.where(F.col("n") > 0).join(masks, ["run", "group", "view", "life", "word"])
    have = F.col("bits").bitwiseAND(F.col("mask"))
    return met.groupBy(*MESSAGE, "view", "onward", "sent", "destinations", "from_ns").agg(
        F.sum(F.bit_count(have).cast("long")).alias("have"),
        F.sum(F.bit_count(have.bitwiseAND(F.col("to"))).cast("long")).alias("addressed"),
    )


def lacks() -> Column:
    """Whether some of the class have a message that is addressed to more of it."""
    some = F.col("sent") & (F.col("addressed") > 0) & (F.col("addressed") < F.col("size"))
    owing = F.size(F.array_intersect("members", "destinations"))
    return some & (F.col("destinations").isNull() | (F.col("addressed") < owing))


def named(tables: Tables, lacking: DataFrame, masks: DataFrame) -> DataFrame:
    """Which processes have a message and which lack it, for the few messages where some do."""
    some = lacking.select(*MESSAGE, "view", "onward", "addressed", "owing", "from_ns")
    has = processes(F.col("bits").bitwiseAND(F.col("mask")), F.col("word"))
    holding = tables.marks.join(masks, ["run", "group", "view", "life", "word"])
    found = (
        some.join(holding.select(*MESSAGE, "view", "onward", "bits", "mask", "word"), [*MESSAGE, "view", "onward"])
        .groupBy(*MESSAGE, "view", "onward", "addressed", "owing", "from_ns")
        .agg(union(has).alias("having"))
        .withColumn("one", F.element_at(F.array_intersect("owing", "having"), 1))
        .withColumn("process", F.element_at(F.array_except("owing", "having"), 1))
    )
    return disagreements(tables, found, some, NAME, "disagreement")


def union(sets: Column) -> Column:
    """Return the union of arrays of processes, ascending, as an aggregate."""
    return F.array_sort(F.array_distinct(F.flatten(F.collect_list(sets))))


def disagreements(tables: Tables, found: DataFrame, some: DataFrame, name: str, form: str) -> DataFrame:
    """Return the violations of messages that `one` delivered in a view and `process` did not."""
    elsewhere = tables.holders.join(some.select(*MESSAGE).distinct(), list(MESSAGE), "left_semi").select(
        *MESSAGE, F.explode(processes(F.col("bits"), F.col("word"))).alias("process")
    )
    late = elsewhere.distinct().withColumn("late", F.lit(True))
    events = [
        key(Kind.SUBMIT, "sender", "submitted"),
        key(Kind.DELIVER, "one", "delivered"),
        key(Kind.DELIVER, "process", "delivered elsewhere"),
    ]
    return violations(
        found.join(late, [*MESSAGE, "process"], "left"), name, form, "from_ns", events,
        lives=[life("one", 0), life("process", 0)], messages=[message()],
        numbers=["view", "onward", F.coalesce("late", F.lit(False)).cast("int")],
        count=F.size("owing") - F.col("addressed"),
    )  # fmt: skip
