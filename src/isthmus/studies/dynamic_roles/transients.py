"""Tables of networks that change: latency by phase, and the transient of each change.

A *transient* is the cost of a change: the *peak*, the slowest second of a phase, and the time to *recover*, from the
change until two consecutive seconds are within a quarter of the usual latency, the mean of the last three seconds of
the phase.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from statistics import fmean

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.measure.seeds import over_seeds
from isthmus.studies.claim import Rows
from isthmus.studies.dynamic_roles.claims import LOADS
from isthmus.studies.tickets.labels import POISSON
from isthmus.studies.tickets.measure import latency_summary, message_latencies

SLICE_MS = 1_000.0
LAST = 3  # seconds of a phase whose mean is the usual latency
USUAL = 1.25  # times the usual latency, beyond which a second is not usual


def phase_label(number: int, phase: str) -> str:
    return f"{number + 1} {phase}"


def change_tables(trace: DataFrame, runs: DataFrame, labels: Mapping[str, Sequence[str]]) -> dict[str, DataFrame]:
    """Latency by phase where the network changes, and the transients of all changes, including those of loads."""
    by = ["part", "protocol", "source"]
    named = runs.select("run", *by, "phase_ms", "seed", "packets", "sites")
    latencies = message_latencies(trace, runs).join(F.broadcast(named), "run").localCheckpoint()
    number = F.floor(F.col("submitted_ms") / F.col("phase_ms")).cast("int")
    second = F.floor(F.col("submitted_ms") % F.col("phase_ms") / SLICE_MS).cast("int")
    slices = latencies.withColumn("phase", number).withColumn("second", second)
    collected = slices.groupBy("run", *by, "seed", "phase", "second").agg(F.mean("latency_ms").alias("latency_ms"))
    found = transients(collected.where("latency_ms is not null").toArrow().to_pylist(), labels)
    schema = "part string, protocol string, source string, seed long, change string, usual_ms double, peak_ms double, "
    each = trace.sparkSession.createDataFrame(found, schema + "peak_ratio double, recovery_s double")
    changes = latencies.where(F.col("part") != LOADS)
    title = F.lit("")
    for part, names in labels.items():
        chosen = F.get(F.array(*(F.lit(phase_label(place, name)) for place, name in enumerate(names))), number)
        title = F.when(F.col("part") == part, F.concat_ws(": ", F.lit(part), chosen)).otherwise(title)
    phases = latency_summary(changes.withColumn("phase", title), ["phase"]).join(named, "run")
    costs = named.where(F.col("part") != LOADS).withColumn("multicasts", F.col("packets") / F.col("sites"))
    by_phase = over_seeds(phases, [*by, "phase"], ["latency_ms", "undelivered_messages"]).localCheckpoint()
    by_change = over_seeds(each, [*by, "change"], ["usual_ms", "peak_ms", "peak_ratio", "recovery_s"])
    return {
        "changes": by_phase,
        "changes_poisson": by_phase.where(F.col("source") == POISSON).orderBy("phase", "protocol"),
        "change_costs": over_seeds(costs, by, ["multicasts"]),
        "transients": by_change,
        "transients_poisson": by_change.where(F.col("source") == POISSON).orderBy("change", "protocol"),
        "every_transient": each.orderBy("part", "protocol", "source", "seed", "change"),
    }


def transients(slices: Iterable[Mapping[str, object]], labels: Mapping[str, Sequence[str]]) -> Rows:
    """One row per run and change: peak and recovery, from the mean latency of each second."""
    names = ("part", "protocol", "source", "seed", "phase")

    def key(row: Mapping[str, object]) -> tuple[object, ...]:
        return tuple(row[name] for name in names)

    rows: Rows = []
    for phase, group in groupby(sorted(slices, key=lambda row: (*map(str, key(row)), row["second"])), key):
        part, number = str(phase[0]), int(str(phase[-1]))
        if number == 0 or number >= len(labels[part]):  # no change at the start; the drain belongs to no phase
            continue
        means = {int(str(row["second"])): float(str(row["latency_ms"])) for row in group}
        usual, peak, recovery = transient(means)
        change = f"{part}: {phase_label(number, labels[part][number])}"
        of_run = dict(zip(names[:-1], phase[:-1], strict=True))
        figures = {"usual_ms": usual, "peak_ms": peak, "peak_ratio": peak / usual, "recovery_s": recovery}
        rows.append({**of_run, "change": change, **figures})
    return rows


def transient(means: Mapping[int, float]) -> tuple[float, float, float]:
    """The usual latency of a phase, its slowest second, and the seconds until latency was usual again."""
    seconds = sorted(means)
    usual = fmean(means[second] for second in seconds[-LAST:])
    peak = max(means.values())
    for first, then in pairwise(seconds):
        if max(means[first], means[then]) <= USUAL * usual:
            return usual, peak, float(first)
    return usual, peak, float(seconds[-1] + 1)
