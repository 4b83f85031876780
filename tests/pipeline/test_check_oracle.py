"""The checks on Spark against the oracle and against checkers that try everything: hundreds of small runs at once."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from histories import DELIVER, frame, guessed, random_rows, statuses
from pyspark.sql import SparkSession

from isthmus.core.layer import Kind
from isthmus.pipeline.verdicts import PROPERTIES, check
from isthmus.trace.oracle import PROPERTIES as KNOWN
from isthmus.trace.oracle import Oracle
from isthmus.trace.schema import DESTINATIONS, KIND, LOCAL, NUMBER, PROCESS, SENDER, Row

pytestmark = pytest.mark.full  # minutes of Spark

SEEDS = 300
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
    assert 10 < len(wrong) < len(runs) - 10


def breaks_causality(rows: list[Row]) -> bool:
    """Whether some process delivers a message before, or without, one of its past that is addressed to it."""
    submits = {name(row): row for row in reversed(rows) if row[KIND] == Kind.SUBMIT and row[PROCESS] == row[SENDER]}
    down = {row[PROCESS] for row in rows if row[KIND] == Kind.CRASH}
    by_process: dict[int, list[Row]] = {}
    for row in sorted((row for row in rows if row[KIND] in (Kind.SUBMIT, DELIVER)), key=lambda row: row[LOCAL]):
        by_process.setdefault(row[PROCESS], []).append(row)
    orders = {p: list(dict.fromkeys(name(row) for row in own if row[KIND] == DELIVER)) for p, own in by_process.items()}
    past = pasts(by_process, submits)
    for process, order in orders.items():
        for place, message in enumerate(order):
            for earlier in past.get(message, set()) - {message} - set(order[:place]):
                to = submits[earlier][DESTINATIONS] if earlier in submits else ()
                if to is not None and process not in to:
                    continue
                survives = any(earlier in other for p, other in orders.items() if p not in down)
                if earlier in order or earlier[0] not in down or survives:
                    return True
    return False


def pasts(by_process: dict[int, list[Row]], submits: dict[tuple[int, int], Row]) -> dict[tuple[int, int], set]:
    """All messages that happened before each: walk every process until nothing is added."""
    past: dict[tuple[int, int], set] = {message: set() for message in submits}
    size = -1
    while size != sum(map(len, past.values())):
        size = sum(map(len, past.values()))
        for own in by_process.values():
            seen: set = set()
            for row in own:
                if submits.get(name(row)) is row:
                    past[name(row)] |= seen
                seen |= {name(row)} | past.get(name(row), set())
    return past


def name(row: Row) -> tuple[int, int]:
    return row[SENDER], row[NUMBER]
