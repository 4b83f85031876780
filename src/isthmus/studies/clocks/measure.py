"""The tables of the study `clocks`, measured on Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

WORST = ("precision_us", "accuracy_us", "world_us", "error_us")
BOUNDS = ("bound_precision_us", "bound_accuracy_us")
SHOWN = {"precision": "precision_us", "accuracy": "accuracy_us"}
SHOWN |= {f"bound of {name}": f"bound_{column}" for name, column in SHOWN.items()}


def tables(_trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """The worst over seeds of each part of the grid; misses and backward steps of all runs."""
    worst = [F.max(f"clock_{name}").alias(name) for name in WORST] + [F.max(name).alias(name) for name in BOUNDS]

    def part(name: str, *by: str) -> DataFrame:
        return runs.where(F.col("part") == name).groupBy(*by).agg(*worst).orderBy(*by)

    drift = part("drift", "drift_ppm", "tightness_us", "period_s")
    period = F.concat(F.col("period_s").cast("int").cast("string"), F.lit(" s"))
    counts = {"clock_misses": "misses", "clock_backwards": "backwards", "clock_readings": "readings"}
    return {
        "drift": drift,
        "drift_sweep": drift.where(F.col("tightness_us") == 10.0).withColumn("period", period),
        "tightness": with_bounds(part("tightness", "tightness_us"), "tightness_us"),
        "access": part("access", "access_ms"),
        "lans": part("lans", "lans"),
        "lans_shown": with_bounds(part("lans", "lans"), "lans"),
        "ways": part("ways", "way"),
        "references": part("references", "way"),
        "hold_over": part("hold-over", "holdover_s"),
        "promises": runs.groupBy("part").agg(*(F.sum(name).alias(short) for name, short in counts.items())),
    }


def with_bounds(rows: DataFrame, x: str) -> DataFrame:
    """Measured and bounded precision and accuracy, one row each."""
    pairs = [F.struct(F.lit(name).alias("what"), F.col(column).alias("us")) for name, column in SHOWN.items()]
    return rows.select(x, F.explode(F.array(*pairs)).alias("pair")).select(x, "pair.what", "pair.us").orderBy("what", x)
