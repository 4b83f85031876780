"""The tables of the study `regret`, measured on Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.studies.regret.claims import FIXED
from isthmus.studies.tickets.labels import DYNAMIC, DYNAMIC_ALONE, PLANNED, RULE, RULE_NO_NULLS
from isthmus.studies.tickets.measure import latency_summary, message_latencies

CHOICES = (PLANNED, RULE, RULE_NO_NULLS, DYNAMIC, DYNAMIC_ALONE)


def tables(trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """Every run compared with the best fixed one of its instance; the regret of each choice and its distribution."""
    names = ["instance", "family", "kind", "choice", "roles"]
    each = latency_summary(message_latencies(trace, runs)).join(runs.select("run", "seed", "packets", *names), "run")
    same = Window.partitionBy("instance", "seed")
    fixed = F.col("choice").isin(FIXED, PLANNED, RULE)
    best = F.min(F.when(fixed, F.col("latency_ms"))).over(same)
    regret = 100 * (F.col("latency_ms") / best - 1)
    every = each.withColumn("regret_percent", regret).orderBy("run").localCheckpoint()
    of_choice = every.where(F.col("choice").isin(*CHOICES))
    ranked = Window.partitionBy("choice").orderBy("regret_percent", "instance", "seed")
    share = 100 * F.percent_rank().over(ranked)
    return {
        "runs": every,
        "regret": of_choice.select(
            "instance", "family", "kind", "choice", "seed", "latency_ms", "packets", "regret_percent"
        ),
        "nine": of_choice.where("family = 'nine'")
        .groupBy("instance", "choice")
        .agg(F.mean("regret_percent").alias("regret_percent"))
        .orderBy("instance", "choice"),
        "ranked": of_choice.select("choice", "regret_percent", share.alias("share")).orderBy("choice", "share"),
    }
