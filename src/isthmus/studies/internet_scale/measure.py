"""The tables of the study `internet-scale`, measured on Spark."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.measure.seeds import over_seeds
from isthmus.studies.internet_scale.claims import DATA_BYTES
from isthmus.studies.overlay.measure import with_violations
from isthmus.studies.overlay.setup import NUMBER_BYTES

COLUMNS = ("delay_mean_ms", "delay_max_ms", "sends_each", "hops_each", "bytes_each", "load_max")


def tables(_trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """Figures per delivery, means over topologies; undelivered messages and violations."""
    runs = with_violations(runs)
    deliveries = F.col("submitted") * (F.col("nodes") - 1)
    each = (
        runs.withColumn("sends_each", F.col("sends") / deliveries)
        .withColumn("hops_each", F.col("hops") / deliveries)
        .withColumn("bytes_each", F.col("arc_bytes") / deliveries)
    )
    growth = over_seeds(each, ["nodes"], COLUMNS)
    vector_bytes = F.lit(32.0) + NUMBER_BYTES * F.col("nodes") + DATA_BYTES
    lost = runs.groupBy("nodes").agg(F.sum("undelivered").alias("undelivered"), F.sum("violations").alias("violations"))
    return {
        "growth": growth.withColumn("vector_bytes_each", vector_bytes).withColumn("protocol", F.lit("flooding")),
        "bytes": by_protocol(growth, vector_bytes),
        "promises": lost.orderBy("nodes"),
    }


def by_protocol(growth: DataFrame, vector_bytes: Column) -> DataFrame:
    """Bytes per delivery: measured of flooding; of vector its counters, data and one header."""
    flooding = growth.select("nodes", F.lit("flooding").alias("protocol"), F.col("bytes_each").alias("bytes"))
    vector = growth.select("nodes", F.lit("vector, at least").alias("protocol"), vector_bytes.alias("bytes"))
    return flooding.unionByName(vector).orderBy("protocol", "nodes")
