"""Verdicts of a study: the checks give one row per run, group and property; here is one row per property and status.

Every run and every property has one status: the worst that a check gave it, or unknown where none did. For each
property the numbers of runs add up to the runs of the study. An example is the run with the lowest number, with its
replay command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.check.verdicts import check_sweeps as check_sweeps
from isthmus.pipeline.sweep.simulate import Outcome
from isthmus.pipeline.sweep.sweep import RunSpec, Sweep
from isthmus.studies.results import STATUSES, Status, VerdictRow

NOT_JUDGED = "no check has a verdict on this run"
Check = Callable[[Sequence[Sweep], Mapping[str, Sequence[range]]], DataFrame]  # of properties, each with its runs
Found = dict[tuple[int, str], "RunVerdict"]  # by run and property
COUNTS = ("runs", "evidence", "violations")
COLUMNS = pa.schema([(name, pa.int64() if name in COUNTS else pa.string()) for name in VerdictRow.__struct_fields__])


class RunVerdict(msgspec.Struct, frozen=True):
    """The verdict of the checks on one property in one run."""

    status: Status
    evidence: int = 0
    violations: int = 0
    witness: str = ""


def worst_verdicts(checked: DataFrame) -> Found:
    """The worst status of each run and property over its groups; one row per run and property is collected."""
    rank = F.when(F.col("status") == "violated", 0).when(F.col("status") == "valid", 2).otherwise(1)
    rows = checked.groupBy("run", "property").agg(
        F.min(rank).alias("rank"),
        F.sum("evidence_count").alias("evidence"),
        F.sum("violation_count").alias("violations"),
        F.min_by("witness", rank).alias("witness"),
    )
    return {
        (row["run"], row["property"]): RunVerdict(
            STATUSES[row["rank"]], row["evidence"], row["violations"], row["witness"] or ""
        )
        for row in rows.collect()
    }


def unknown_all(runs: Iterable[int], properties: Iterable[str], why: str) -> Found:
    """The verdicts where the checks were not run."""
    return {(run, name): RunVerdict("unknown", witness=why) for run in runs for name in properties}


def count_by_status(
    specs: Sequence[RunSpec], outcomes: Sequence[Outcome], properties: Sequence[str], found: Found
) -> list[VerdictRow]:
    """One row per property and status that occurs, the worst first."""
    rows: list[VerdictRow] = []
    for name in properties:
        by_status: dict[Status, list[tuple[RunSpec, RunVerdict]]] = {status: [] for status in STATUSES}
        for spec, outcome in zip(specs, outcomes, strict=True):
            verdict = found.get((spec.run, name), RunVerdict("unknown", witness=NOT_JUDGED))
            if outcome.status != "ok":
                verdict = RunVerdict("unknown", witness=f"the run failed: {outcome.error}")
            by_status[verdict.status].append((spec, verdict))
        rows += [
            VerdictRow(
                name,
                status,
                len(members),
                sum(verdict.evidence for _, verdict in members),
                sum(verdict.violations for _, verdict in members),
                members[0][1].witness,
                "" if status == "valid" else members[0][0].replay,
            )
            for status, members in by_status.items()
            if members
        ]
    return rows


def to_table(rows: list[VerdictRow]) -> pa.Table:
    return pa.Table.from_pylist(msgspec.to_builtins(rows), COLUMNS)
