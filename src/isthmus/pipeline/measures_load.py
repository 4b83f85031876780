"""What a trace says about cost: control bytes, load of links, views, roles. Pure functions of DataFrames.

As in measures.py: a row a run, or one for each part that is named in the result; to be joined with the table of runs.
Bytes on the wire are in the trace only where a scenario asks for wire rows; the table of runs has the sums always.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.measures import NS_PER_S, ms, of_kind


def control_bytes(runs: DataFrame) -> DataFrame:
    """The protocol's bytes over all copies, and a message's and a delivery's share of them; from the table of runs."""
    return runs.select(
        "run",
        "control_bytes",
        (F.col("control_bytes") / F.nullif("submitted", F.lit(0))).alias("control_bytes_per_message"),
        (F.col("control_bytes") / F.nullif("delivered", F.lit(0))).alias("control_bytes_per_delivery"),
        (F.col("packets") / F.nullif("submitted", F.lit(0))).alias("packets_per_message"),
    )


def sent_bytes(trace: DataFrame) -> DataFrame:
    """What each process put on the wire, over all copies; where wire rows exist."""
    copies = F.col("value")
    return (
        trace.where(of_kind(Kind.SEND))
        .groupBy("run", "process")
        .agg(
            F.count("*").alias("multicasts"),
            F.sum(copies).alias("copies"),
            F.sum(copies * F.col("payload_bytes")).alias("payload_bytes"),
            F.sum(copies * F.col("control_bytes")).alias("control_bytes"),
        )
    )


def link_load(trace: DataFrame) -> DataFrame:
    """Packets and bytes that arrived, for each ordered pair of processes; where wire rows exist.

    Rates are over the whole run's time, so that links of one run compare. Control bytes are 0 in a simulation that does
    not look at sizes (`wire = "reference"`).
    """
    spans = trace.groupBy("run").agg((F.max("time_ns") - F.min("time_ns")).alias("span_ns"))
    seconds = F.nullif(F.first("span_ns") / F.lit(NS_PER_S), F.lit(0.0))
    size = F.col("payload_bytes") + F.col("control_bytes")
    return (
        trace.where(of_kind(Kind.RECEIVE))
        .join(F.broadcast(spans), "run")
        .groupBy("run", F.col("value").alias("source"), F.col("process").alias("target"))
        .agg(
            F.count("*").alias("packets"),
            F.sum("payload_bytes").alias("payload_bytes"),
            F.sum("control_bytes").alias("control_bytes"),
            (F.count("*") / seconds).alias("packets_per_s"),
            (F.sum(size) / seconds).alias("bytes_per_s"),
        )
    )


def view_installs(trace: DataFrame) -> DataFrame:
    """For each crash and recovery, the time to the view that reflects it: at the first who installed it, at the last.

    That view is the lowest-numbered one installed from then on which leaves a crashed process out, or has one that came
    back. Null where there is none: it came back before anyone noticed, or the run ended.
    """
    changes = trace.where(of_kind(Kind.CRASH, Kind.RECOVER)).select(
        "run",
        F.col("process").alias("who"),
        F.col("local").alias("change"),
        F.col("time_ns").alias("changed_ns"),
        (F.col("kind") == int(Kind.RECOVER)).alias("recovered"),
    )
    views = trace.where(of_kind(Kind.VIEW)).select(
        "run", "group", F.col("value").alias("number"), "time_ns", F.col("destinations").alias("members")
    )
    views = views.groupBy("run", "group", "number").agg(
        F.min("time_ns").alias("first_ns"), F.max("time_ns").alias("last_ns"), F.first("members").alias("members")
    )
    fits = F.array_contains("members", F.col("who")) == F.col("recovered")
    found = (
        changes.join(views, "run")
        .where(fits & (F.col("first_ns") >= F.col("changed_ns")))
        .groupBy("run", "who", "change")
        .agg(F.min(F.struct("number", "first_ns", "last_ns")).alias("view"))
    )
    return changes.join(found, ["run", "who", "change"], "left").select(
        "run",
        F.col("who").alias("process"),
        F.when(F.col("recovered"), "recover").otherwise("crash").alias("change"),
        ms("changed_ns").alias("changed_ms"),
        F.col("view.number").alias("view"),
        ms(F.col("view.first_ns") - F.col("changed_ns")).alias("first_ms"),
        ms(F.col("view.last_ns") - F.col("changed_ns")).alias("last_ms"),
    )


def role_changes(trace: DataFrame) -> DataFrame:
    """How often processes changed their roles: rows whose role is not that of the process's row before.

    A role told again in a new view is no change, and neither is the first one. `role_changes_max` is of one process.
    """
    own = Window.partitionBy("run", "group", "process").orderBy("local")
    changed = F.coalesce(F.lag("value").over(own) != F.col("value"), F.lit(False))
    rows = trace.where(of_kind(Kind.ROLE)).withColumn("changed", changed.cast("int"))
    each = rows.groupBy("run", "process").agg(F.sum("changed").alias("changes"))
    return each.groupBy("run").agg(F.sum("changes").alias("role_changes"), F.max("changes").alias("role_changes_max"))
