"""Clocks: how far readings are from one another and from the true time, as judge/properties/clocks.py defines it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.check.findings import evidence, key, life, violations
from isthmus.pipeline.check.incarnations import is_kind
from isthmus.pipeline.check.tables import Tables
from isthmus.pipeline.engine.formats import GROUP
from isthmus.trace.schema import Gauge


def readings(tables: Tables) -> DataFrame:
    """Each reading with the error that was published with it, the least of several; null: none was."""
    here = tables.trace.where(is_kind(Kind.CLOCK)).select(*GROUP, "process", "local", "time_ns", "value")
    told = tables.trace.where(is_kind(Kind.GAUGE) & (F.col("gauge") == int(Gauge.CLOCK_BOUND_NS)))
    at = [*GROUP, "process", "time_ns"]
    return here.join(told.groupBy(*at).agg(F.min("value").alias("error")), at, "left")


def accuracy(tables: Tables, bound_ns: int | None) -> DataFrame:
    """Findings: readings further from the reference time than they said, or than the bound."""
    limit = F.least(F.col("error"), F.lit(bound_ns).cast("long"))  # of those that there are
    rows = readings(tables).withColumn("limit", limit).where(F.col("limit").isNotNull())
    count = evidence(rows.groupBy(*GROUP).agg(F.count("*").alias("count")), "clock-accuracy", "count")
    off = F.col("value") - F.col("time_ns")
    keys = [key(Kind.CLOCK, "process", "read", None, local="local")]
    numbers = [off, F.col("time_ns"), F.col("limit")]
    far = rows.where(F.abs(off) > F.col("limit"))
    bad = violations(far, "clock-accuracy", "clock-off", "time_ns", keys, lives=[life(incarnation=0)], numbers=numbers)
    return count.unionByName(bad)


def precision(tables: Tables, bound_ns: int | None) -> DataFrame:
    """Findings: times at which two clocks are further apart than they said together, or than the bound."""
    rows = readings(tables)
    if bound_ns is None:
        rows = rows.where(F.col("error").isNotNull())
    place = ("process", "local", "value", "error")
    bounded = F.col("error").isNotNull()
    each = rows.groupBy(*GROUP, "time_ns").agg(
        F.count("*").alias("clocks"),
        F.min(F.struct("value", "process", "local")).alias("low"),
        F.max(F.struct("value", "process", "local")).alias("high"),
        F.min(F.when(bounded, F.struct((F.col("value") + F.col("error")).alias("end"), *place))).alias("first"),
        F.max(F.when(bounded, F.struct((F.col("value") - F.col("error")).alias("end"), *place))).alias("last"),
    )
    several = each.where(F.col("clocks") > 1)
    count = evidence(several.groupBy(*GROUP).agg(F.sum("clocks").alias("count")), "clock-precision", "count")
    wide = F.lit(False) if bound_ns is None else F.col("high.value") - F.col("low.value") > bound_ns
    low, high = (
        F.when(wide, F.struct(*(F.col(f"{given}.{name}") for name in place[:3]))).otherwise(
            F.struct(*(F.col(f"{told}.{name}") for name in place[:3]))
        )
        for given, told in (("low", "first"), ("high", "last"))
    )
    allowed = F.when(wide, F.lit(bound_ns).cast("long")).otherwise(F.col("first.error") + F.col("last.error"))
    bad = several.where(wide | (F.col("last.end") > F.col("first.end"))).select(
        *GROUP, "time_ns", low.alias("lowest"), high.alias("highest"), allowed.alias("allowed")
    )
    keys = [
        key(Kind.CLOCK, "lowest.process", "lowest", None, local="lowest.local"),
        key(Kind.CLOCK, "highest.process", "highest", None, local="highest.local"),
    ]
    lives = [life("lowest.process", 0), life("highest.process", 0)]
    numbers = [F.col("highest.value") - F.col("lowest.value"), F.col("time_ns"), F.col("allowed")]
    found = violations(bad, "clock-precision", "clocks-apart", "time_ns", keys, lives=lives, numbers=numbers)
    return count.unionByName(found)
