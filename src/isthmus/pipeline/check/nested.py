"""Groups nested in others, on Spark: what a crashed process may have been alone with is not judged (judge/arrange.py).

The idea: between the last VIEW row of the outer group, or the last crash, and each crash of a process lies an interval
of local numbers; VIEW and DELIVER rows of nested groups in it are left out. Few rows tell of views and crashes, so the
intervals are a small table, and the rows meet it in one anti-join.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.check.incarnations import BEGIN, is_kind
from isthmus.trace.schema import NONE

WHERE = ("run", "group", "process")


def is_nested() -> Column:
    """Whether a VIEW row says that its group is nested in another one, its origin."""
    return is_kind(Kind.VIEW) & (F.col("origin") != NONE)


def without_unsure(rows: DataFrame) -> DataFrame:
    """The rows without what a crashed process may have been alone with, in nested groups."""
    nested = rows.where(is_nested()).select("run", "group", F.col("origin").alias("outer")).distinct()
    outer = nested.select("run", "outer").distinct()
    views = rows.where(is_kind(Kind.VIEW)).withColumn("outer", F.col("group")).join(outer, ["run", "outer"])
    crashes = rows.where(is_kind(Kind.CRASH)).join(outer, "run")
    marks = [each.select("run", "outer", "process", "local", "kind") for each in (views, crashes)]
    order = Window.partitionBy("run", "outer", "process").orderBy("local")
    unsure = (
        marks[0]
        .unionByName(marks[1])
        .withColumn("start", F.coalesce(F.lag("local").over(order), F.lit(BEGIN)))
        .where(is_kind(Kind.CRASH))
        .join(nested, ["run", "outer"])
        .select(*(F.col(name).alias(f"unsure_{name}") for name in (*WHERE, "start", "local")))
    )
    same = [F.col(name) == F.col(f"unsure_{name}") for name in WHERE]
    within = F.col("local").between(F.col("unsure_start"), F.col("unsure_local"))
    about = same[0] & same[1] & same[2] & within & is_kind(Kind.VIEW, Kind.DELIVER)
    return rows.join(F.broadcast(unsure), about, "left_anti")
