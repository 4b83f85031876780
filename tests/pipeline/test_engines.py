"""Both engines give equal verdicts and equal witnesses: over random histories, and for all planted faults."""

from __future__ import annotations

from random import Random

import pytest
from histories import DOMAINS, frame, guessed, random_groups, random_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession
from tests.unit.judge.stories import Story, answers, quiet_run, recorded

from isthmus.core.layer import Kind
from isthmus.judge.oracle import PROPERTIES, Oracle
from isthmus.judge.verdict import Verdict
from isthmus.judge.witness import WitnessEvent
from isthmus.pipeline.check.verdicts import check
from isthmus.trace.schema import Recording

BOUNDS = {"clock-precision": 5, "clock-accuracy": 5}
PLANTED = {
    "quiet": quiet_run(),
    "circle": answers(),
    "before its submit": Story().deliver(1, (1, 1)).submit(1, 1),
    "gap": Story().submit(1, 1, 2).deliver(1, (1, 1), (1, 2)).deliver(2, (1, 2)),
    "skipped by its sender": Story().submit(1, 1, 2).deliver(1, (1, 2)).deliver(2, (1, 2)).crash(1),
    "chain": Story().submit(1, 1).deliver(2, (1, 1)).submit(2, 1, to=(3,)).deliver(3, (2, 1)).submit(3, 1)
    .deliver(4, (3, 1), (1, 1)),
    "silent": Story().submit(1, 1, to=(1, 2, 3)).deliver(1, (1, 1)).deliver(2, (1, 1)).add(4, Kind.RECEIVE, value=1),
    "after a crash": Story().submit(1, 1).deliver(1, (1, 1)).crash(1).deliver(1, (1, 1)).submit(1, 2),
    "stranger": Story().view(1, 1, 2, at=(1, 2, 3)),
    "absent": Story().view(1, 1, 2, 3).view(2, 1, 2, 3, at=(1, 2)),
    "told twice": Story().view(1, 1, 2).view(1, 1, 2).submit(1, 1).deliver(1, (1, 1)).deliver(2, (1, 1)),
    "tentative": Story().submit(2, 1).tentative(1, (2, 1), (2, 9)).deliver(2, (2, 1)),
    "digest": Story().add(1, Kind.SUBMIT, (1, 1), value=7).add(1, Kind.DELIVER, (1, 1), value=8),
    "recovered sender": Story().submit(1, 1).deliver(2, (1, 1)).crash(1).recover(1).submit(1, (1 << 32) + 1),
    "cut short": recorded(Recording.CUT),
    "killed": recorded(None),
    "clocks": Story().add(1, Kind.CLOCK, value=100).add(2, Kind.CLOCK, value=0),
    "an interval that misses true time": Story().clock(1, 50, 60, 9).clock(2, 50, 52, 9).clock(1, 90, 90, 9),
    "intervals with nothing in common": Story().clock(1, 50, 48, 1).clock(2, 50, 52, 1).clock(3, 50, 51),
    "two bounds with one reading": Story().clock(1, 50, 53, 9).clock(1, 50, 53, 2).clock(2, 50, 50, 8),
    "rivals": Story().view(1, 1, 2).view(1, 3, 4),
}  # fmt: skip


def compared(row: Row) -> tuple[object, ...]:
    place = (row.run, row.domain or row.group, row.property)
    events = tuple(WitnessEvent(**event.asDict()) for event in row.witness_events)
    return (*place, row.status, row.evidence_count, row.violation_count, row.witness, events)


def expected(run: int, verdict: Verdict) -> tuple[object, ...]:
    counts = (verdict.evidence_count, verdict.violation_count)
    place = (run, verdict.domain or verdict.group, verdict.property)
    return (*place, verdict.status, *counts, verdict.witness, verdict.events)


def assert_equal(found: DataFrame, runs: list[list], domains: tuple = ()) -> None:
    judged = [
        expected(run, verdict)
        for run, rows in enumerate(runs)
        for verdict in Oracle(rows, domains, BOUNDS).scoped(PROPERTIES)
    ]
    assert sorted(map(compared, found.collect()), key=str) == sorted(judged, key=str)


def test_planted_faults_have_the_same_verdicts_and_witnesses(spark: SparkSession):
    runs = [story.rows for story in PLANTED.values()]
    assert_equal(check(frame(spark, runs), PROPERTIES, BOUNDS), runs)
    statuses = {name: {v.status for v in Oracle(story.rows).scoped()} for name, story in PLANTED.items()}
    assert all("violated" in found for name, found in statuses.items() if name not in (
        "quiet", "told twice", "cut short", "killed", "clocks"
    )), statuses  # fmt: skip


def test_rows_that_were_ingested_twice_count_once(spark: SparkSession):
    runs = [quiet_run().rows, PLANTED["gap"].rows]
    trace = frame(spark, runs)
    assert_equal(check(trace.unionByName(trace), PROPERTIES, BOUNDS), runs)


def test_a_sender_that_a_partial_trace_has_no_row_of(spark: SparkSession):
    rows = Story().submit(1, 1).deliver(1, (1, 1), (3, 1)).deliver(2, (1, 1), (3, 1)).rows
    told = Oracle(rows, partial=True).verdicts(["integrity"])[0]
    for run_rows_max in (0, 1_000):  # by tables, and by the oracle in a task
        found = check(frame(spark, [rows]), ["integrity"], partial=True, run_rows_max=run_rows_max).collect()
        assert [(row.status, row.violation_count) for row in found] == [(told.status, 0)] == [("unknown", 0)]


@pytest.mark.full  # minutes of Spark
def test_long_runs_have_the_same_statuses_and_evidence(spark: SparkSession):
    """By the tables that all tasks share: planted faults, some of them ingested twice."""
    runs = [story.rows for story in PLANTED.values()]
    for trace in (frame(spark, runs), frame(spark, runs).unionByName(frame(spark, runs))):
        found = check(trace, PROPERTIES, BOUNDS, run_rows_max=0).collect()
        judged = {(row.run, row.group, row.property): (row.status, row.evidence_count) for row in found}
        for run, rows in enumerate(runs):
            for verdict in Oracle(rows, bounds=BOUNDS).scoped(PROPERTIES):
                place = (run, verdict.group, verdict.property)
                assert judged[place] == (verdict.status, verdict.evidence_count), (place, verdict.witness)


@pytest.mark.full  # minutes of Spark
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(first=st.integers(0, 100_000))
def test_random_histories_have_the_same_verdicts_and_witnesses(spark: SparkSession, first: int):
    """Runs with views, crashes, recoveries, subsets, guesses, several groups and domains, many in each example."""
    plain = [random_rows(seed) for seed in range(first, first + 15)]
    runs = [rows for rows in (*plain, *(random_groups(seed) for seed in range(first, first + 10))) if rows]
    runs += [guessed(rows, Random(f"{first}/{number}")) for number, rows in enumerate(runs[:5])]
    assert_equal(check(frame(spark, runs), PROPERTIES, BOUNDS, DOMAINS), runs, DOMAINS)
