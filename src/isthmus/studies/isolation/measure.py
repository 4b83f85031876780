"""The tables of the study `isolation`, measured on Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.measure.seeds import over_seeds
from isthmus.studies.isolation.setup import SITES
from isthmus.studies.tickets.labels import PERIODIC, POISSON
from isthmus.studies.tickets.measure import latency_summary, message_latencies, multicast_cost


def tables(trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """Latency, undelivered messages and cost, by protocol, source and delay; one table per figure."""
    by = ["protocol", "source", "delay_ms"]
    found = latency_summary(message_latencies(trace, runs)).join(multicast_cost(runs, SITES), "run")
    every = found.join(runs.select("run", "rare", *by), "run").localCheckpoint()
    each = every.where(~F.col("rare"))
    beyond = {"over_delay": F.col("latency_ms") / F.col("delay_ms"), "wait_ms": F.col("latency_ms") - F.col("delay_ms")}
    columns = ("latency_ms", *beyond, "counted", "undelivered_messages", "multicasts_per_message")
    names = [*columns, "control_bytes_per_message"]
    latest = F.max("latency_max_ms").alias("latency_max_ms")
    latency = over_seeds(each.withColumns(beyond), by, names).join(each.groupBy(*by).agg(latest), by)
    latency = latency.orderBy(*by).localCheckpoint()
    return {
        "latency": latency,
        "rare": every.where("rare").groupBy(*by).agg(latest).orderBy(*by),
        "periodic": latency.where(F.col("source") == PERIODIC),
        "poisson": latency.where(F.col("source") == POISSON),
    }
