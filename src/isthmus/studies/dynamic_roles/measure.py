"""The tables of the study `dynamic-roles`, measured on Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.measure.membership import role_changes
from isthmus.pipeline.measure.seeds import over_seeds
from isthmus.studies.dynamic_roles.changes import parts
from isthmus.studies.dynamic_roles.claims import LOADS, POISSON_ONLY
from isthmus.studies.dynamic_roles.detectors import compare_detectors, submission_gaps
from isthmus.studies.dynamic_roles.transients import change_tables
from isthmus.studies.tickets.labels import NINE, PERIODIC, POISSON, TOKEN_SITE
from isthmus.studies.tickets.measure import latency_spread, latency_summary, message_latencies, multicast_cost
from isthmus.studies.tickets.setup import SITES

PHASES = {LOADS: NINE} | {part.name: part.phases for part in parts()}
SLICE_MS = 1_000.0  # of the figure over time


def tables(trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """Latency by phase and by second; cost and role changes of each run; changes of the network; detectors."""
    by = ["protocol", "source"]
    every_run, runs = runs, runs.where(F.col("part") == LOADS)
    named = F.broadcast(runs.select("run", *by))
    length = F.broadcast(runs.select("run", "phase_ms"))
    latencies = message_latencies(trace, runs).join(length, "run").localCheckpoint()
    number = F.floor(F.col("submitted_ms") / F.col("phase_ms")).cast("int")
    scenario = F.concat_ws(" ", (number + 1).cast("string"), F.get(F.array(*map(F.lit, NINE)), number))
    phases = latency_summary(latencies.withColumn("scenario", scenario), ["scenario"]).join(named, "run")
    second = F.floor(F.col("submitted_ms") / SLICE_MS) * (SLICE_MS / 1000)
    over_time = latency_summary(latencies.withColumn("second", second), ["second"]).join(named, "run")
    each = (
        runs.select("run", *by, "submitted")
        .join(multicast_cost(runs, len(SITES)), "run")
        .join(latency_summary(latencies).select("run", "latency_ms", "undelivered_messages"), "run")
        .join(role_changes(trace), "run", "left")
        .fillna(0, ["role_changes", "role_changes_max"])
    )
    shown = over_time.where(~F.col("protocol").isin(*POISSON_ONLY))  # the others coincide with ours or are far above it
    lines = over_seeds(shown, [*by, "second"], ["latency_ms"]).localCheckpoint()
    per_run = ["latency_ms", "undelivered_messages", "multicasts", "multicasts_per_message", "role_changes"]
    by_phase = over_seeds(phases, [*by, "scenario"], ["latency_ms", "undelivered_messages"]).localCheckpoint()
    return {
        "phases": by_phase,
        "phases_poisson": by_phase.where(F.col("source") == POISSON).orderBy("scenario", "protocol"),
        "every_phase": phases.select("run", *by, "scenario", "latency_ms", "undelivered_messages").orderBy("run"),
        "costs": over_seeds(each, by, [*per_run, "control_bytes_per_message"]),
        "spread_poisson": latency_spread(latencies.join(named, "run").where(F.col("source") == POISSON), "protocol"),
        "time_periodic": lines.where(F.col("source") == PERIODIC).orderBy("protocol", "second"),
        "time_poisson": lines.where(F.col("source") == POISSON).orderBy("protocol", "second"),
        "detectors": trace.sparkSession.createDataFrame(
            compare_detectors(submission_gaps(trace, runs.where(F.col("protocol") == TOKEN_SITE)))
        ),
        **change_tables(trace, every_run, PHASES),
    }
