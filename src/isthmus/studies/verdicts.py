"""Verdicts of a study: the checks give one row per run, group and property; here is one row per property and status.

The problem: a study has hundreds of runs and wants a page; yet no run may fall through. The idea: every run and every
property asked for has one status: the worst that a check gave it, or unknown where none did, because the run failed,
left nothing to look at, or the checks could not be run. These are counted.

Invariants: for each property the numbers of runs add up to the runs of the study. What was not checked is unknown,
never valid. An example is the run with the lowest number, with its replay command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.sweep.simulate import Outcome
from isthmus.pipeline.sweep.sweep import RunSpec, Sweep

Status = Literal["violated", "unknown", "valid"]
WORST_FIRST: tuple[Status, ...] = ("violated", "unknown", "valid")
NOT_JUDGED = "no check has a verdict on this run"
Check = Callable[[Sequence[Sweep], Mapping[str, Sequence[range]]], DataFrame]  # properties, each with its runs
COLUMNS = pa.schema(
    [
        ("property", pa.string()),
        ("status", pa.string()),
        ("runs", pa.int64()),
        ("evidence", pa.int64()),
        ("violations", pa.int64()),
        ("witness", pa.string()),
        ("replay", pa.string()),
    ]
)


class RunVerdict(msgspec.Struct, frozen=True):
    """What the checks say of one property in one run."""

    status: Status
    evidence: int = 0
    violations: int = 0
    witness: str = ""


def pipeline_check(sweeps: Sequence[Sweep], properties: Mapping[str, Sequence[range]]) -> DataFrame:
    """The checks of the pipeline, loaded when they are needed: to list or replay a study takes none."""
    from isthmus.pipeline.check.verdicts import check_sweeps

    return check_sweeps(sweeps, properties)


def found_by(checked: DataFrame) -> dict[tuple[int, str], RunVerdict]:
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
            WORST_FIRST[row["rank"]], row["evidence"], row["violations"], row["witness"] or ""
        )
        for row in rows.collect()
    }


def unknown_all(runs: Iterable[int], properties: Iterable[str], why: str) -> dict[tuple[int, str], RunVerdict]:
    """What is said where the checks were not run."""
    return {(run, name): RunVerdict("unknown", witness=why) for run in runs for name in properties}


def count_by_status(
    specs: Sequence[RunSpec],
    outcomes: Sequence[Outcome],
    properties: Sequence[str],
    found: Mapping[tuple[int, str], RunVerdict],
) -> list[dict[str, Any]]:
    """A row for each property and status that occurs, the worst first."""
    rows: list[dict[str, Any]] = []
    for name in properties:
        by_status: dict[Status, list[tuple[RunSpec, RunVerdict]]] = {status: [] for status in WORST_FIRST}
        for spec, outcome in zip(specs, outcomes, strict=True):
            verdict = found.get((spec.run, name), RunVerdict("unknown", witness=NOT_JUDGED))
            if outcome.status != "ok":
                verdict = RunVerdict("unknown", witness=f"the run failed: {outcome.error}")
            by_status[verdict.status].append((spec, verdict))
        for status, members in by_status.items():
            if members:
                first_spec, first = members[0]
                rows.append(
                    {
                        "property": name,
                        "status": status,
                        "runs": len(members),
                        "evidence": sum(verdict.evidence for _, verdict in members),
                        "violations": sum(verdict.violations for _, verdict in members),
                        "witness": first.witness,
                        "replay": "" if status == "valid" else first_spec.replay,
                    }
                )
    return rows


def to_table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, COLUMNS)
