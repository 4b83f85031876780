"""The tables of the study `nine-scenarios`, measured on Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.measure.seeds import over_seeds
from isthmus.studies.tickets.labels import HYBRID_NULLS, PERIODIC, POISSON, SYMMETRIC_NULLS, TOKEN_SITE
from isthmus.studies.tickets.measure import latency_summary, message_latencies, multicast_cost
from isthmus.studies.tickets.setup import SITES

OFFERED = (TOKEN_SITE, SYMMETRIC_NULLS, HYBRID_NULLS)  # as users run them


def tables(trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """Latency, undelivered messages and cost, one row per cell of the grid; one table per figure."""
    by = ["protocol", "source", "scenario"]
    each = latency_summary(message_latencies(trace, runs)).join(multicast_cost(runs, len(SITES)), "run")
    columns = ["latency_ms", "counted", "undelivered_messages", "multicasts_per_message", "control_bytes_per_message"]
    cells = over_seeds(each.join(runs.select("run", *by), "run"), by, columns).localCheckpoint()
    return {
        "cells": cells,
        "periodic": cells.where(F.col("source") == PERIODIC).orderBy("scenario", "protocol"),
        "poisson": cells.where(F.col("source") == POISSON).orderBy("scenario", "protocol"),
        "offered": cells.where(F.col("source") == POISSON)
        .where(F.col("protocol").isin(*OFFERED))
        .orderBy("scenario", "protocol"),
    }
