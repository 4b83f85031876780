"""Measures that the studies of ticket protocols share."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.units import NS_PER_MS
from isthmus.pipeline.measure.latency import message_table
from isthmus.studies.results import SHARES


def message_latencies(trace: DataFrame, runs: DataFrame) -> DataFrame:
    """Each message with its latency in ms, null outside the span of its run, and whether it is undelivered.

    The span is `from_ms` and `until_ms` of `runs`.
    """
    span = F.broadcast(runs.select("run", "from_ms", "until_ms"))
    at = F.col("submitted_ns") / NS_PER_MS
    counts = (at >= F.col("from_ms")) & (at < F.col("until_ms"))
    return (
        message_table(trace)
        .join(span, "run")
        .select(
            "run",
            "sender",
            at.alias("submitted_ms"),
            F.when(counts, F.col("latency_ns") / NS_PER_MS).alias("latency_ms"),
            (F.col("missing") > 0).cast("int").alias("undelivered"),
        )
    )


def latency_summary(latencies: DataFrame, by: Sequence[str] = ()) -> DataFrame:
    """Mean and largest latency, the number of messages counted, and the number undelivered, per run."""
    return latencies.groupBy("run", *by).agg(
        F.mean("latency_ms").alias("latency_ms"),
        F.max("latency_ms").alias("latency_max_ms"),
        F.count("latency_ms").alias("counted"),
        F.sum("undelivered").alias("undelivered_messages"),
    )


def latency_spread(latencies: DataFrame, by: str) -> DataFrame:
    """The distribution of message latencies: mean and percentiles, one row per value of `by`."""
    shares = [F.percentile_approx("latency_ms", share / 100, 10_000).alias(f"latency_ms_p{share}") for share in SHARES]
    return latencies.groupBy(by).agg(F.mean("latency_ms").alias("latency_ms_mean"), *shares).orderBy(by)


def multicast_cost(runs: DataFrame, sites: int | None = None) -> DataFrame:
    """Multicasts and control bytes per message of the application.

    A multicast is a packet to all sites; a probe, to one site or to all others, counts as its share of one.
    """
    count = F.lit(float(sites)) if sites else F.col("sites").cast("double")
    messages = F.nullif("submitted", F.lit(0))
    return runs.select(
        "run",
        (F.col("packets") / count).alias("multicasts"),
        (F.col("packets") / count / messages).alias("multicasts_per_message"),
        (F.col("control_bytes") / messages).alias("control_bytes_per_message"),
    )
