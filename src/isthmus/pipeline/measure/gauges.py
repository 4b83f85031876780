"""Gauges: quantities that protocols measured themselves (trace.schema.Gauge), over a run."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.engine.formats import measured
from isthmus.pipeline.measure.basics import of_kind, spread
from isthmus.trace.schema import Gauge


def gauges(trace: DataFrame, *kinds: Gauge, by: Sequence[str] = ()) -> DataFrame:
    """Each gauge: how many readings, their mean, percentiles and maximum in its unit; all gauges by default."""
    rows = trace.where(of_kind(Kind.GAUGE))
    if kinds:
        rows = rows.where(F.col("gauge").isin([int(kind) for kind in kinds]))
    names = F.create_map(*(F.lit(part) for gauge in Gauge for part in (int(gauge), gauge.name.lower())))
    named = rows.withColumn("gauge", F.coalesce(names[F.col("gauge").cast("int")], F.col("gauge").cast("string")))
    found = named.groupBy("run", *by, "gauge").agg(F.count("*").alias("rows"), *spread(F.col("value")))
    return measured(found, "gauges", by)
