"""Views, as judge/properties/views.py defines them: VIEW rows are few, so that windows over them say it all."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.check.findings import evidence, key, life, violations
from isthmus.pipeline.check.incarnations import is_kind, suspicions, with_lives
from isthmus.pipeline.check.tables import ABOUT, Tables
from isthmus.pipeline.engine.formats import GROUP, PLACE

AFTER_ALL = 1 << 62  # as a rank: behind every time
PRESENT = (*ABOUT, Kind.SEND, Kind.RECEIVE, Kind.SUSPECT, Kind.TRUST, Kind.RECORD)  # they show that a process is there


def views(tables: Tables) -> DataFrame:
    if not tables.has_views:
        return evidence(tables.seen, "views", 0)
    rows = with_lives(tables.told.where(is_kind(Kind.VIEW)), tables.lives).select(
        *PLACE, "local", "time_ns", F.col("value").alias("view"), "destinations"
    )
    life_order = Window.partitionBy(*PLACE).orderBy("local")
    again = F.coalesce(F.lag("view").over(life_order) == F.col("view"), F.lit(False))
    rows = rows.withColumn("again", again)
    order = Window.partitionBy(*GROUP, "process").orderBy("local")
    # As the oracle reads them: the lowest process that installed a view tells its members.
    same = Window.partitionBy(*GROUP, "view").orderBy("process", "local")
    told = (
        rows.withColumn("before", F.lag("view").over(order))
        .withColumn("teller", F.first("process").over(same))
        .withColumn("told", F.first("destinations").over(same))
    )
    compared = (F.col("before").isNotNull() & ~F.col("again")) | (F.col("teller") != F.col("process"))
    count = evidence(told.groupBy(*GROUP).agg(F.count_if(compared).alias("count")), "views", "count")
    backward = violations(
        told.where((F.col("view") <= F.col("before")) & ~F.col("again")),
        "views",
        "view-back",
        "time_ns",
        [
            key(Kind.VIEW, "process", "installed before", None, value="before"),
            key(Kind.VIEW, "process", "installed after", None, local="local"),
        ],
        lives=[life(incarnation=0)],
        numbers=["view", "before"],
    )
    differ = violations(
        told.where(F.col("destinations") != F.col("told")),
        "views",
        "view-differs",
        "time_ns",
        [
            key(Kind.VIEW, "teller", "installed", None, value="view"),
            key(Kind.VIEW, "process", "installed otherwise", None, local="local"),
        ],
        lives=[life(incarnation=0), life("teller", 0)],
        numbers=["view"],
        members=["destinations", "told"],
    )
    strange = violations(
        told.where(~F.array_contains("destinations", F.col("process")) & ~F.col("again")),
        "views",
        "view-stranger",
        "time_ns",
        [key(Kind.VIEW, "process", "installed", None, local="local")],
        lives=[life()],
        numbers=["view"],
        members=["destinations"],
    )
    return reduce(DataFrame.unionByName, [count, backward, differ, strange, absent(tables, told)])


def absent(tables: Tables, told: DataFrame) -> DataFrame:
    """Processes that never installed a view that lists them, nor a later one, though nothing excuses them."""
    first = told.groupBy(*GROUP, "view").agg(F.min(F.struct("process", "local", "told")).alias("by"))
    listed = first.select(*GROUP, "view", "by", F.explode("by.told").alias("process"))
    wanted = listed.groupBy(*GROUP, "process").agg(F.max(F.struct("view", "by")).alias("last"))
    reached = told.groupBy(*GROUP, "process").agg(F.max("view").alias("reached"))
    short = wanted.join(reached, [*GROUP, "process"], "left").where(
        F.coalesce("reached", F.col("last.view") - 1) < F.col("last.view")
    )
    short = short.join(tables.lives.select("run", "process"), ["run", "process"], "left_anti")
    short = short.join(tables.cut, "run", "left_anti").withColumn("members", F.col("last.by.told"))
    doubts = suspicions(tables.told, tables.lives)
    either = doubts.select("run", F.col("other").alias("process"), F.col("member").alias("peer")).unionByName(
        doubts.select("run", F.col("member").alias("process"), F.col("other").alias("peer"))
    )
    peers = either.groupBy("run", "process").agg(F.collect_set("peer").alias("peers"))
    short = short.join(peers, ["run", "process"], "left").where(
        F.coalesce(F.size(F.array_intersect("members", "peers")), F.lit(0)) <= 0
    )
    present = tables.trace.where(is_kind(*PRESENT)).select("run", "process").distinct()
    found = tables.keep(short).join(present, ["run", "process"], "left_semi")
    return violations(
        found,
        "views",
        "view-missing",
        F.lit(AFTER_ALL) + F.col("process"),
        [key(Kind.VIEW, "last.by.process", "installed", None, local="last.by.local")],
        lives=[life(incarnation=0), life("last.by.process", 0)],
        numbers=["last.view"],
    )
