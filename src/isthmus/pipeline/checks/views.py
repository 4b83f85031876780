"""Views: numbers ascend at each process, and a number means the same members everywhere.

The idea: VIEW rows are few, so that windows over them say it all.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.findings import evidence, key, life, violations
from isthmus.pipeline.formats import GROUP
from isthmus.pipeline.lives import is_kind
from isthmus.pipeline.tables import Tables


def views(tables: Tables) -> DataFrame:
    """Findings: a number that does not ascend, or that two processes understand differently."""
    if not tables.has_views:
        return evidence(tables.seen, "views", 0)
    rows = tables.told.where(is_kind(Kind.VIEW)).select(
        *GROUP, "process", "local", "time_ns", F.col("value").alias("view"), "destinations"
    )
    order = Window.partitionBy(*GROUP, "process").orderBy("local")
    # As the oracle reads them: the lowest process that installed a view tells its members.
    same = Window.partitionBy(*GROUP, "view").orderBy("process", "local")
    told = (
        rows.withColumn("before", F.lag("view").over(order))
        .withColumn("teller", F.first("process").over(same))
        .withColumn("told", F.first("destinations").over(same))
    )
    compared = F.col("before").isNotNull() | (F.col("teller") != F.col("process"))
    count = evidence(told.groupBy(*GROUP).agg(F.count_if(compared).alias("count")), "views", "count")
    backward = violations(
        told.where(F.col("view") <= F.col("before")),
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
    return count.unionByName(backward).unionByName(differ)
