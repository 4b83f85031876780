"""Clocks: how far readings are from one another and from the true time.

The idea: a CLOCK row has the reference time as `time_ns` and the site's reading as `value`. Accuracy bounds how far a
reading is from the reference time; precision bounds how far readings of one time are from one another, and so needs
sites that are read at the same times, which a simulator does and a live observer can.

Invariants: bounds are parameters of the check, in ns; without them nothing is judged.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.findings import evidence, key, life, violations
from isthmus.pipeline.formats import GROUP
from isthmus.pipeline.lives import is_kind
from isthmus.pipeline.tables import Tables


def readings(tables: Tables) -> DataFrame:
    return tables.trace.where(is_kind(Kind.CLOCK)).select(*GROUP, "process", "local", "time_ns", "value")


def accuracy(tables: Tables, bound_ns: int) -> DataFrame:
    """Findings: readings further than the bound from the reference time."""
    rows = readings(tables)
    count = evidence(rows.groupBy(*GROUP).agg(F.count("*").alias("count")), "clock-accuracy", "count")
    off = F.col("value") - F.col("time_ns")
    keys = [key(Kind.CLOCK, "process", "read", None, local="local")]
    numbers = [off, F.col("time_ns"), F.lit(bound_ns)]
    far = rows.where(F.abs(off) > bound_ns)
    bad = violations(far, "clock-accuracy", "clock-off", "time_ns", keys, lives=[life(incarnation=0)], numbers=numbers)
    return count.unionByName(bad)


def precision(tables: Tables, bound_ns: int) -> DataFrame:
    """Findings: times at which two clocks are further apart than the bound."""
    place = F.struct("value", "process", "local")
    each = (
        readings(tables)
        .groupBy(*GROUP, "time_ns")
        .agg(F.count("*").alias("clocks"), F.min(place).alias("low"), F.max(place).alias("high"))
    )
    several = each.where(F.col("clocks") > 1)
    count = evidence(several.groupBy(*GROUP).agg(F.sum("clocks").alias("count")), "clock-precision", "count")
    apart = F.col("high.value") - F.col("low.value")
    keys = [
        key(Kind.CLOCK, "low.process", "lowest", None, local="low.local"),
        key(Kind.CLOCK, "high.process", "highest", None, local="high.local"),
    ]
    lives, numbers = [life("low.process", 0), life("high.process", 0)], [apart, F.col("time_ns"), F.lit(bound_ns)]
    wide = several.where(apart > bound_ns)
    bad = violations(wide, "clock-precision", "clocks-apart", "time_ns", keys, lives=lives, numbers=numbers)
    return count.unionByName(bad)
