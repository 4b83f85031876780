"""The tables of the study `overlay`, from the figures of each run (sim/packets/figures.py); no run has rows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.measure.seeds import over_seeds
from isthmus.studies.overlay.claims import DATA

QUEUES = ("delay_mean_ms", "delay_max_ms", "queue_mean", "queue_max", "load_mean", "load_max")
FIGURE_COLUMNS = (*QUEUES, "sends", "fragments", "arc_bytes", "hops")


def with_violations(runs: DataFrame) -> DataFrame:
    """Runs with a column of violations; null where layers leave them to the checks."""
    return runs if "violations" in runs.columns else runs.withColumn("violations", F.lit(None).cast("double"))


def tables(_trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """The figures of all runs, means over topologies; sends, undelivered messages and violations."""
    runs = with_violations(runs)
    by = ["part", "protocol", "nodes", "data", "crashed"]
    figures = over_seeds(runs, by, FIGURE_COLUMNS)
    promises = runs.groupBy(*by).agg(
        F.count("*").alias("runs"),
        F.sum("undelivered").alias("undelivered"),
        F.sum("violations").alias("violations"),
        F.min(F.col("sends") / F.col("submitted")).alias("sends_min"),
        F.max(F.col("sends") / F.col("submitted")).alias("sends_max"),
    )
    main = figures.where(F.col("part") == "main")
    megabytes = main.withColumn("megabytes", F.col("arc_bytes") / 1e6).withColumn("hops_million", F.col("hops") / 1e6)
    of_data = {f"data_{data}": megabytes.where(F.col("data") == data).orderBy("protocol", "nodes") for data in DATA}
    return {"figures": figures, "promises": promises.orderBy(*by), **of_data}
