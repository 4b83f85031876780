"""Optimistic delivery: tentative latency, the window to the final one, and how often the guess was right.

measure/optimism.py defines the logs; a message that was never tentative has its place when it is final.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.engine.formats import measured
from isthmus.pipeline.measure.basics import spread_ms
from isthmus.pipeline.measure.latency import deliveries


def optimistic(trace: DataFrame, by: Sequence[str] = (), warm_up_ms: float = 0.0) -> DataFrame:
    """Tentative latency, the window between tentative and final, and the share of messages that came late for it."""
    found = (
        deliveries(trace, warm_up_ms)
        .groupBy("run", *by)
        .agg(
            F.count("*").alias("deliveries"),
            *spread_ms("latency_ns", "latency"),
            *spread_ms("tentative_ns", "tentative"),
            *spread_ms("window_ns", "window"),
            F.mean(F.col("late").cast("double")).alias("late_share"),
        )
    )
    return measured(found, "optimistic", by)


def hit_ratios(trace: DataFrame, by: Sequence[str] = ("process",), warm_up_ms: float = 0.0) -> DataFrame:
    """How often the tentative log agrees with the final one.

    `hit`: the same message in the same place. `hit_pair`: the same two messages in places 1 and 2, 3 and 4, and so on;
    `hit_either`: at least one of the two in common. A last place without a partner is in no pair. The late share
    stands beside them: where hardly anything is tentative, the logs agree by themselves.
    """
    return hits(deliveries(trace, warm_up_ms), by)


def hits(log: DataFrame, by: Sequence[str] = ("process",)) -> DataFrame:
    """The same of deliveries that are at hand."""
    own = Window.partitionBy("run", "group", "process")
    final = F.row_number().over(own.orderBy("final_local")) - 1
    tentative = F.row_number().over(own.orderBy("seen_local")) - 1
    placed = log.withColumn("final_place", final).withColumn("tentative_place", tentative)
    placed = placed.withColumn("hit", (F.col("final_place") == F.col("tentative_place")).cast("double"))
    placed = placed.withColumn("length", F.count("*").over(own))
    pair = F.floor(F.col("final_place") / 2)
    whole = pair < F.floor(F.col("length") / 2)
    common = (pair == F.floor(F.col("tentative_place") / 2)).cast("int")
    keys = [name for name in by if name not in ("run", "group", "process")]
    singles = placed.groupBy("run", *by).agg(
        F.count("*").alias("deliveries"),
        F.mean("hit").alias("hit"),
        F.mean(F.col("late").cast("double")).alias("late_share"),
    )
    if keys:  # a pair has no sender of its own
        return singles
    pairs = (
        placed.where(whole)
        .groupBy("run", "group", "process", pair.alias("pair"))
        .agg(F.sum(common).alias("common"))
        .groupBy("run", *by)
        .agg(
            F.count("*").alias("pairs"),
            F.mean((F.col("common") == 2).cast("double")).alias("hit_pair"),
            F.mean((F.col("common") >= 1).cast("double")).alias("hit_either"),
        )
    )
    return measured(singles.join(pairs, ["run", *by], "left"), "hit_ratios", by)
