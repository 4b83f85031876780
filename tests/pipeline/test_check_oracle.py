"""The checks on Spark against the oracle and against checkers that try everything: hundreds of small runs at once."""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random

import pytest
from histories import DOMAINS, frame, guessed, random_groups, random_rows, statuses
from pyspark.sql import SparkSession
from tests.unit.judge.brute import breaks_causality

from isthmus.core.layer import Kind
from isthmus.judge.oracle import PROPERTIES, Oracle
from isthmus.pipeline.check import verdicts as on_spark
from isthmus.trace.domain import DOMAIN_PROPERTIES
from isthmus.trace.schema import KIND, Row

KNOWN = ("integrity", "fifo", "causal", "total", "uniform-total", "agreement", "validity", "views", "final")
check = partial(on_spark.check, run_rows_max=0)  # by tables that all tasks share, however short a run is
pytestmark = pytest.mark.full  # minutes of Spark

SEEDS = 300
GROUP_SEEDS = 150
ORDERS = ("none", "none", "drop", "swap", "unflushed", "astray", "unsent")


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> tuple[list[list[Row]], dict[tuple[int, int, str], str]]:
    made = [(seed, rows) for seed in range(SEEDS) if (rows := random_rows(seed))]
    runs = [rows if seed % 3 else guessed(rows, Random(f"guess/{seed}")) for seed, rows in made]
    return runs, statuses(check(frame(spark, runs), PROPERTIES))


@pytest.mark.parametrize("name", KNOWN)
def test_status_is_the_oracles(judged, name):
    runs, found = judged
    counts: Counter[str] = Counter()
    for number, rows in enumerate(runs):
        expected = Oracle(rows).verdicts([name])[0]
        assert found[number, 0, name] == expected.status, f"run {number}: {expected.witness}"
        counts[expected.status] += 1
    assert min(counts["valid"], counts["violated"], counts["unknown"]) > 0, counts


@pytest.fixture(scope="module")
def grouped(spark: SparkSession) -> tuple[list[list[Row]], dict[tuple[int, int | str, str], tuple[str, int]]]:
    runs = [rows for seed in range(GROUP_SEEDS) if (rows := random_groups(seed))]
    found = check(frame(spark, runs), PROPERTIES, domains=DOMAINS).collect()
    return runs, {
        (row["run"], row["domain"] or row["group"], row["property"]): (row["status"], row["evidence_count"])
        for row in found
    }


@pytest.mark.parametrize("name", KNOWN)
def test_groups_and_domains_are_judged_as_by_the_oracle(grouped, name):
    """Statuses and evidence, of each group and of each domain with carried messages."""
    runs, found = grouped
    counts: dict[str, Counter[str]] = {"group": Counter(), "domain": Counter()}
    for number, rows in enumerate(runs):
        for expected in Oracle(rows, DOMAINS).scoped([name]):
            key = (number, expected.domain or expected.group, name)
            told = found.get(key, ("unknown", 0))  # a domain in which nothing happened has no row on Spark
            assert told == (expected.status, expected.evidence_count), (key, expected.witness)
            counts["domain" if expected.domain else "group"][expected.status] += 1
    assert set(counts["group"]) >= ({"unknown"} if name in ("views", "final") else {"valid", "violated"}), counts
    if name in DOMAIN_PROPERTIES:
        assert min(counts["domain"]["valid"], counts["domain"]["violated"]) > 10, counts


def test_fifo_total_is_both(judged):
    runs, found = judged
    for number in range(len(runs)):
        parts = {found[number, 0, name] for name in ("fifo", "total")}
        expected = "violated" if "violated" in parts else "unknown" if "unknown" in parts else "valid"
        assert found[number, 0, "fifo-total"] == expected


def test_causal_agrees_with_trying_every_pair(spark):
    made = [random_rows(seed, ORDERS) for seed in range(1000, 1400)]
    runs = [rows for rows in made if rows and not any(row[KIND] in (Kind.VIEW, Kind.RECOVER) for row in rows)]
    found = statuses(check(frame(spark, runs), ["causal"]))
    wrong = {number for number, rows in enumerate(runs) if breaks_causality(rows)}
    assert {number for number, _, _ in found if found[number, 0, "causal"] == "violated"} == wrong
    assert {
        number for number, rows in enumerate(runs) if Oracle(rows).verdicts(["causal"])[0].status == "violated"
    } == wrong
    assert 10 < len(wrong) < len(runs) - 10


def test_causal_is_told_as_by_the_oracle(spark):
    """Counts and sentences, chain included: blocks of receivers find the violation that the whole group shows."""
    seen: Counter[str] = Counter()
    for runs, domains in (
        ([rows for seed in range(2000, 2150) if (rows := random_rows(seed))], ()),
        ([rows for seed in range(2000, 2080) if (rows := random_groups(seed))], DOMAINS),
    ):
        rows = check(frame(spark, runs), ["causal"], domains=domains).collect()
        found = {(row.run, row.domain or row.group): row for row in rows}
        for number, run in enumerate(runs):
            for expected in Oracle(run, domains).scoped(["causal"]):
                row = found.get((number, expected.domain or expected.group))
                if row is None:
                    assert expected.status == "unknown"  # a domain in which nothing happened has no row on Spark
                    continue
                told = (expected.status, expected.evidence_count, expected.violation_count)
                assert (row.status, row.evidence_count, row.violation_count) == told, (number, expected.witness)
                if expected.status == "violated":
                    assert row.witness == expected.witness, number
                seen[expected.status] += 1
    assert min(seen["valid"], seen["violated"]) > 20, seen
