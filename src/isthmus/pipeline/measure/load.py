"""What a run cost: control bytes, bytes sent, load of links.

Bytes on the wire are in the trace only where a scenario asks for wire rows; the table of runs has the sums always.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.engine.formats import measured
from isthmus.pipeline.measure.basics import NS_PER_S, of_kind


def control_bytes(runs: DataFrame) -> DataFrame:
    """The protocol's bytes over all copies, and a message's and a delivery's share of them; from the table of runs."""
    found = runs.select(
        "run",
        "control_bytes",
        (F.col("control_bytes") / F.nullif("submitted", F.lit(0))).alias("control_bytes_per_message"),
        (F.col("control_bytes") / F.nullif("delivered", F.lit(0))).alias("control_bytes_per_delivery"),
        (F.col("packets") / F.nullif("submitted", F.lit(0))).alias("packets_per_message"),
    )
    return measured(found, "control_bytes")


def sent_bytes(trace: DataFrame) -> DataFrame:
    """What each process put on the wire, over all copies; where wire rows exist."""
    copies = F.col("value")
    found = (
        trace.where(of_kind(Kind.SEND))
        .groupBy("run", "process")
        .agg(
            F.count("*").alias("multicasts"),
            F.sum(copies).alias("copies"),
            F.sum(copies * F.col("payload_bytes")).alias("payload_bytes"),
            F.sum(copies * F.col("control_bytes")).alias("control_bytes"),
        )
    )
    return measured(found, "sent_bytes")


def link_load(trace: DataFrame) -> DataFrame:
    """Packets and bytes that arrived, for each ordered pair of processes; where wire rows exist.

    Rates are over the whole run's time, so that links of one run compare. Control bytes are 0 in a simulation that does
    not look at sizes (`wire = "reference"`).
    """
    spans = trace.groupBy("run").agg((F.max("time_ns") - F.min("time_ns")).alias("span_ns"))
    seconds = F.nullif(F.first("span_ns") / F.lit(NS_PER_S), F.lit(0.0))
    size = F.col("payload_bytes") + F.col("control_bytes")
    found = (
        trace.where(of_kind(Kind.RECEIVE))
        .join(F.broadcast(spans), "run")
        .groupBy("run", F.col("value").alias("source"), F.col("process").alias("target"))
        .agg(
            F.count("*").alias("packets"),
            F.sum("payload_bytes").alias("payload_bytes"),
            F.sum("control_bytes").alias("control_bytes"),
            (F.count("*") / seconds).alias("packets_per_s"),
            (F.sum(size) / seconds).alias("bytes_per_s"),
        )
    )
    return measured(found, "link_load")
