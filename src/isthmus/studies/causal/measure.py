"""The tables of the study `causal-separators`, measured on Spark.

Figures are of timestamps as first sent, to hosts of one LAN (where zones are nested: to participants of one node), and
of the history of one of them, after 40 % of the time of sending.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.measure.basics import of_kind
from isthmus.pipeline.measure.seeds import over_seeds
from isthmus.studies.causal.setup import LENGTH, LOCAL_RULES, RULES, SENDING_MS, WARM_UP
from isthmus.trace.schema import Gauge

BY = ["traffic", "lans", "hosts", "rules"]
KEPT_SMALL = ("symmetric, R9", "all")  # whose sizes are measured over LANs and hosts
PARTS = 12  # of the time of sending


def is_gauge(gauge: Gauge) -> Column:
    return of_kind(Kind.GAUGE) & (F.col("gauge") == int(gauge))


def tables(trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """Sizes of timestamps and of one site's history, their distributions, and how they change over a run."""
    parameters = runs.select("run", *BY, "first", "last", "seed")
    local = (
        trace.where(of_kind(Kind.SUBMIT))
        .join(parameters, "run")
        .where((F.array_min("destinations") >= F.col("first")) & (F.array_max("destinations") <= F.col("last")))
        .select("run", "sender", "number")
    )
    warm = trace.where(between(WARM_UP, 1.0))
    values: dict[str, DataFrame] = {
        "entries": warm.where(is_gauge(Gauge.TIMESTAMP_ENTRIES)).join(local, ["run", "sender", "number"]),
        "bytes": warm.where(is_gauge(Gauge.TIMESTAMP_BYTES)).join(local, ["run", "sender", "number"]),
        "history": warm.where(is_gauge(Gauge.HISTORY_ENTRIES))
        .join(parameters.select("run", "first"), "run")
        .where(F.col("process") == F.col("first")),
        "leaving": warm.where(is_gauge(Gauge.ZONE_ENTRIES)),
    }
    found = parameters
    for name, rows in values.items():
        sizes = rows.groupBy("run").agg(
            F.mean("value").alias(name),
            F.percentile_approx("value", 0.95, 10_000).alias(f"{name}_p95"),
            F.max("value").alias(f"{name}_max"),
        )
        found = found.join(sizes, "run", "left")  # vectors and matrices have no history and no relays
    sizes = over_seeds(found, BY, [f"{name}{part}" for name in values for part in ("", "_p95", "_max")])
    groups = sizes.where("traffic = 'groups'")
    return {
        "sizes": sizes,
        "growth": groups.where((F.col("hosts") == 8) & F.col("rules").isin(*KEPT_SMALL)),
        "hosts": groups.where((F.col("lans") == 3) & F.col("rules").isin(*KEPT_SMALL, "vector", "matrix")),
        "over_time": over_time(trace.join(parameters, "run")),
        "timestamps": distribution(values["entries"].join(parameters, "run"), "groups"),
        "histories": distribution(values["history"].drop("first").join(parameters, "run"), "groups"),
        "subsets": distribution(values["entries"].join(parameters, "run"), "subsets"),
        "subset_histories": distribution(values["history"].drop("first").join(parameters, "run"), "subsets"),
    }


def between(first: float, last: float) -> Column:
    """Whether a row is within a part of the time of sending."""
    return F.col("time_ns").between(round(first * SENDING_MS * 1e6), round(last * SENDING_MS * 1e6))


def over_time(rows: DataFrame) -> DataFrame:
    """Entries of all timestamps, by part of the time of sending."""
    part_ms = SENDING_MS / PARTS
    at_ms = (F.floor(F.col("time_ns") / (part_ms * 1e6)) + 0.5) * part_ms
    sent = rows.where(between(0, 1) & is_gauge(Gauge.TIMESTAMP_ENTRIES) & F.col("rules").isin(*LENGTH))
    return (
        sent.withColumn("at_ms", at_ms)
        .where(F.col("at_ms") < SENDING_MS)
        .groupBy("rules", "at_ms")
        .agg(F.mean("value").alias("entries"), F.count("*").alias("messages"))
        .orderBy("rules", "at_ms")
    )


def distribution(rows: DataFrame, traffic: str) -> DataFrame:
    """The share of values up to each one, at 3 LANs of 8 hosts."""
    rules = (*tuple(RULES)[:4], "all") if traffic == "groups" else LOCAL_RULES
    at_size = (F.col("lans") == 3) & (F.col("hosts") == 8) & (F.col("traffic") == traffic)
    counts = (
        rows.where(at_size & F.col("rules").isin(*rules)).groupBy("rules", "value").agg(F.count("*").alias("count"))
    )
    up_to = Window.partitionBy("rules").orderBy("value")
    total = Window.partitionBy("rules")
    share = F.sum("count").over(up_to) / F.sum("count").over(total)
    return counts.withColumn("share", share).select("rules", "value", "share").orderBy("rules", "value")
