"""How much gets through: messages and deliveries per second, and how many messages are under way."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.engine.formats import measured
from isthmus.pipeline.measure.basics import NS_PER_S
from isthmus.pipeline.measure.latency import message_table

SLICES = 1024  # of a run's time, each of which is computed by itself


def throughput(trace: DataFrame, warm_up_ms: float = 0.0) -> DataFrame:
    """Messages and deliveries per second, between the first submit and the last delivery."""
    table = message_table(trace, warm_up_ms)
    first, last = F.min("submitted_ns"), F.max("last_ns")
    seconds = F.nullif((last - first) / F.lit(NS_PER_S), F.lit(0.0))
    found = table.groupBy("run").agg(
        seconds.alias("span_s"),
        (F.count("*") / seconds).alias("messages_per_s"),
        (F.sum("delivered") / seconds).alias("deliveries_per_s"),
    )
    return measured(found, "throughput")


def queue(trace: DataFrame, warm_up_ms: float = 0.0) -> DataFrame:
    """Messages submitted and not yet delivered everywhere: the mean by time, and the maximum.

    The mean is the sum of all stays over the span of time. The maximum is a running sum; time is cut into slices, so
    that no task has more than one slice to sort. A message that is never delivered stays to the end.
    """
    table = message_table(trace, warm_up_ms)
    ends = table.groupBy("run").agg(
        F.min("submitted_ns").alias("start_ns"), F.greatest(F.max("last_ns"), F.max("submitted_ns")).alias("end_ns")
    )
    left = F.when(F.col("missing") == 0, F.greatest("last_ns", "submitted_ns")).otherwise(F.col("end_ns"))
    stays = table.join(F.broadcast(ends), "run").select("run", "start_ns", "end_ns", "submitted_ns", left.alias("left"))
    span = F.max("end_ns") - F.min("start_ns")
    mean = stays.groupBy("run").agg(
        (F.sum(F.col("left") - F.col("submitted_ns")) / F.nullif(span, F.lit(0))).alias("queue_mean")
    )
    share = (F.col("at_ns") - F.col("start_ns")) / F.greatest(F.lit(1), F.col("end_ns") - F.col("start_ns"))
    steps = stays.select(
        "run",
        "start_ns",
        "end_ns",
        F.inline(
            F.array(
                F.struct(F.col("submitted_ns").alias("at_ns"), F.lit(1).alias("step")),
                F.struct(F.col("left").alias("at_ns"), F.lit(-1).alias("step")),
            )
        ),
    ).withColumn("slice", F.floor(share * SLICES))
    slices = steps.groupBy("run", "slice").agg(F.sum("step").alias("net"))
    earlier = Window.partitionBy("run").orderBy("slice").rowsBetween(Window.unboundedPreceding, -1)
    before = slices.select("run", "slice", F.coalesce(F.sum("net").over(earlier), F.lit(0)).alias("before"))
    within = Window.partitionBy("run", "slice").orderBy("at_ns", "step").rowsBetween(Window.unboundedPreceding, 0)
    running = steps.select("run", "slice", F.sum("step").over(within).alias("so_far"))
    most = (
        running.join(F.broadcast(before), ["run", "slice"])
        .groupBy("run")
        .agg(F.max(F.col("so_far") + F.col("before")).alias("queue_max"))
    )
    return measured(mean.join(most, "run"), "queue")
