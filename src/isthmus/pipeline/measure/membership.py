"""How a group changed: the time to install views, and changes of roles."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.check.incarnations import with_weights
from isthmus.pipeline.engine.formats import measured
from isthmus.pipeline.measure.basics import ms, of_kind


def view_installs(trace: DataFrame) -> DataFrame:
    """For each crash and recovery, the time to the view that reflects it: to its first install and to its last.

    That view is the lowest-numbered one installed from then on which leaves a crashed process out, or has one that came
    back. Null where there is none: it came back before any process noticed, or the run ended.
    """
    changes = trace.where(of_kind(Kind.CRASH, Kind.RECOVER)).select(
        "run",
        F.col("process").alias("of"),
        F.col("local").alias("change"),
        F.col("time_ns").alias("changed_ns"),
        (F.col("kind") == int(Kind.RECOVER)).alias("recovered"),
    )
    views = with_weights(trace.where(of_kind(Kind.VIEW))).select(
        "run", "group", F.col("value").alias("number"), "time_ns", F.col("destinations").alias("members")
    )
    views = views.groupBy("run", "group", "number").agg(
        F.min("time_ns").alias("first_ns"), F.max("time_ns").alias("last_ns"), F.first("members").alias("members")
    )
    fits = F.array_contains("members", F.col("of")) == F.col("recovered")
    found = (
        changes.join(views, "run")
        .where(fits & (F.col("first_ns") >= F.col("changed_ns")))
        .groupBy("run", "of", "change")
        .agg(F.min(F.struct("number", "first_ns", "last_ns")).alias("view"))
    )
    told = changes.join(found, ["run", "of", "change"], "left").select(
        "run",
        F.col("of").alias("process"),
        F.when(F.col("recovered"), "recover").otherwise("crash").alias("change"),
        ms("changed_ns").alias("changed_ms"),
        F.col("view.number").alias("view"),
        ms(F.col("view.first_ns") - F.col("changed_ns")).alias("first_ms"),
        ms(F.col("view.last_ns") - F.col("changed_ns")).alias("last_ms"),
    )
    return measured(told, "view_installs")


def role_changes(trace: DataFrame) -> DataFrame:
    """How often processes changed their roles: rows whose role is not that of the process's row before.

    A role told again in a new view is no change, and neither is the first one. `role_changes_max` is of one process.
    """
    own = Window.partitionBy("run", "group", "process").orderBy("local")
    changed = F.coalesce(F.lag("value").over(own) != F.col("value"), F.lit(False))
    rows = trace.where(of_kind(Kind.ROLE)).withColumn("changed", changed.cast("int"))
    each = rows.groupBy("run", "process").agg(F.sum("changed").alias("changes"))
    found = each.groupBy("run").agg(F.sum("changes").alias("role_changes"), F.max("changes").alias("role_changes_max"))
    return measured(found, "role_changes")
