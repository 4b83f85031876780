"""The tables of the study `token-site`, measured on Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.measure.latency import message_latency
from isthmus.pipeline.measure.load import control_bytes
from isthmus.pipeline.measure.seeds import over_seeds

SEQUENCER = 0  # the oldest member


def tables(trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """Latency over the delay, for all senders and by role; undelivered messages and control bytes of each run."""
    parameters = runs.select("run", "source", "delay_ms", "seed")
    by = ["source", "delay_ms"]
    over_delay = F.col("latency_mean_ms") / F.col("delay_ms")
    latency = message_latency(trace).join(parameters, "run").withColumn("over_delay", over_delay)
    role = F.when(F.col("sender") == SEQUENCER, "sequencer").otherwise("others")
    senders = message_latency(trace, ["sender"]).join(parameters, "run").withColumn("over_delay", over_delay)
    each = (
        senders.withColumn("role", role)
        .groupBy("run", "role", "seed", *by)
        .agg(
            F.min("over_delay").alias("over_delay_min"),
            (F.sum(F.col("over_delay") * F.col("messages")) / F.sum("messages")).alias("over_delay"),
            F.max("over_delay").alias("over_delay_max"),
        )
    )
    cost = control_bytes(runs).join(
        runs.select("run", "source", "delay_ms", "submitted", "undelivered", "refused"), "run"
    )
    return {
        "latency": over_seeds(latency, by, ["latency_mean_ms", "latency_p99_ms", "over_delay"]),
        "senders": over_seeds(each, ["role", *by], ["over_delay_min", "over_delay", "over_delay_max"]),
        "runs": cost.orderBy("run"),
    }
