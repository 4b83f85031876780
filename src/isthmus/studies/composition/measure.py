"""The tables of the study `composition`, measured on Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.core.units import NS_PER_MS
from isthmus.pipeline.measure.basics import NS_PER_S, of_kind
from isthmus.pipeline.measure.seeds import over_seeds

BY = ("part", "series", "groups", "members", "batch", "inter", "variant")


def tables(trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """Latency to the last delivery in any group, of all messages and of those between groups; throughput; the rest."""
    known = runs.select("run", "seed", "rounds", "warm_up", *BY, "undelivered", "dropped", "refused", "rejected")
    identity = ["run", "origin", "sender", "number"]
    sent = trace.where(of_kind(Kind.SUBMIT)).select(*identity, F.col("time_ns").alias("at_ns"), "destinations")
    last = trace.where(of_kind(Kind.DELIVER)).groupBy(*identity).agg(F.max("time_ns").alias("last_ns"))
    counted = F.col("number") > F.col("warm_up") * F.col("batch")
    messages = (
        sent.join(last, identity)
        .join(F.broadcast(known.select("run", "rounds", "warm_up", "batch")), "run")
        .where(counted)
        .withColumn("latency_ms", (F.col("last_ns") - F.col("at_ns")) / NS_PER_MS)
        .withColumn("crosses", F.col("destinations").isNotNull())
    )
    by_run = messages.groupBy("run").agg(
        F.count("*").alias("messages"),
        F.mean("latency_ms").alias("latency_ms"),
        F.max("latency_ms").alias("latency_max_ms"),
        F.mean(F.when(~F.col("crosses"), F.col("latency_ms"))).alias("inside_ms"),
        F.mean(F.when(F.col("crosses"), F.col("latency_ms"))).alias("between_ms"),
    )
    spans = messages.groupBy("run", "origin", "sender").agg(
        F.min("at_ns").alias("first_ns"),
        F.max("at_ns").alias("final_ns"),
        F.first("batch").alias("batch"),
        (F.first("rounds") - F.first("warm_up") - 1).alias("intervals"),
    )
    per_s = F.col("intervals") * F.col("batch") * NS_PER_S / F.nullif(F.col("final_ns") - F.col("first_ns"), F.lit(0))
    rates = spans.where(F.col("intervals") > 0).groupBy("run").agg(F.sum(per_s).alias("messages_per_s"))
    whole = known.join(by_run, "run").join(rates, "run", "left")
    columns = ["latency_ms", "latency_max_ms", "inside_ms", "between_ms", "messages_per_s"]
    figures = over_seeds(whole, BY, columns).cache()
    left = known.groupBy("part").agg(
        F.count("*").alias("runs"),
        *(F.sum(name).alias(name) for name in ("undelivered", "dropped", "refused", "rejected")),
    )

    def part(name: str, *order: str) -> DataFrame:
        return figures.where(F.col("part") == name).orderBy(*order)

    size = part("size", "series", "members")
    return {
        "figures": figures,
        "batch_10": size.where(F.col("batch") == 10),
        "batch_30": size.where(F.col("batch") == 30),
        "between_10": size.where((F.col("batch") == 10) & F.col("between_ms").isNotNull()),
        "throughput": part("throughput", "series", "batch"),
        "besides": figures.where(F.col("part").isin("packing", "priorities", "lan", "wan")).orderBy("part", "series"),
        "stacks": part("stacks", "variant", "members", "groups"),
        "left": left.orderBy("part"),
    }
