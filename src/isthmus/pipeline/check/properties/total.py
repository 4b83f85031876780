"""Total order: the union of all delivery orders has no cycle.

In orderly groups the position (tables.py) is a certificate. For others cycles.py finds by relaxation a number for each
message that never falls along any process's deliveries, and decides messages of equal number by Kahn's algorithm.
`total` passes over what a life that ended delivered in its last view, in a domain over such lives; `uniform-total` does
not.

Evidence as the oracle counts it: deliveries that follow another, both shared by two lives; none unless two lives share
two messages. That is certain where there are more pairs of deliverers of one message than pairs of lives; elsewhere the
pairs are few enough to count.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.check.cycles import cycles
from isthmus.pipeline.check.findings import evidence
from isthmus.pipeline.check.incarnations import processes
from isthmus.pipeline.check.tables import Tables
from isthmus.pipeline.engine.formats import GROUP, MESSAGE


def total(tables: Tables) -> DataFrame:
    """Findings in what lives answer for."""
    return judged(tables, "total", "counted_", F.col("counted"))


def uniform_total(tables: Tables) -> DataFrame:
    """Findings in everything that any life delivered."""
    return judged(tables, "uniform-total", "", F.lit(True))


def judged(tables: Tables, name: str, variant: str, counted: Column) -> DataFrame:
    seen = evidence(comparable(tables, variant), name, "count")
    if not tables.alarms["disorderly"]:
        return seen
    rows = tables.unordered.where(counted).select(*MESSAGE, "process", "life", "local", "time_ns")
    return seen.unionByName(cycles(tables, rows, name))


def comparable(tables: Tables, variant: str) -> DataFrame:
    """The evidence of each group in which two lives share two messages: run, group, count."""
    unsure = F.col(f"{variant}unsure")
    sure = tables.groups.where(~unsure & (F.col(f"{variant}pairs") > 0))
    if tables.alarms[f"{variant}unsure"]:
        twice = sharing_twice(tables, tables.groups.where(unsure).select(*GROUP), f"{variant}bits", f"{variant}lives")
        sure = sure.unionByName(tables.groups.join(twice, list(GROUP), "left_semi"))
    return sure.select(*GROUP, (F.col(f"{variant}shared") - F.col(f"{variant}sharing")).alias("count"))


def sharing_twice(tables: Tables, chosen: DataFrame, bits: str, lives: str) -> DataFrame:
    """Those of a few groups, with few pairs of deliverers, in which some pair shares two messages."""
    shared = tables.messages.where(F.col(lives) > 1).join(chosen, list(GROUP), "left_semi").select(*MESSAGE)
    few = tables.holders.join(shared, list(MESSAGE), "left_semi")
    each = few.select(*MESSAGE, "life", F.explode(processes(F.col(bits), F.col("word"))).alias("process"))
    one = each.select(*MESSAGE, F.struct("process", "life").alias("one"))
    other = each.select(*MESSAGE, F.struct("process", "life").alias("other"))
    both = one.join(other, list(MESSAGE)).where(F.col("one") < F.col("other"))
    return both.groupBy(*GROUP, "one", "other").count().where("count > 1").select(*GROUP).distinct()
