"""The checks on what the simulator does under crashes, partitions and subsets, as it is and with one row spoilt."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import pytest
from histories import frame, statuses
from pyspark.sql import SparkSession

from isthmus.core.layer import Kind
from isthmus.fuzz.scenarios import random_scenario
from isthmus.judge.oracle import PROPERTIES, Oracle
from isthmus.pipeline.check import verdicts as on_spark
from isthmus.sim.run import SimRun
from isthmus.stacks.registry import STACKS
from isthmus.trace.schema import KIND, LOCAL, PAYLOAD, PROCESS, Row

KNOWN = ("integrity", "fifo", "causal", "total", "uniform-total", "agreement", "validity", "views", "final")
check = partial(on_spark.check, run_rows_max=0)  # by tables that all tasks share, however short a run is
pytestmark = pytest.mark.full  # minutes of Spark

SCENARIOS = [("token-site", 1), ("token-site", 2), ("token-site", 6), ("fifo", 4), ("fifo", 8)]
WANTED = (Kind.SUBMIT, Kind.DELIVER, Kind.VIEW, Kind.SUSPECT, Kind.TRUST, Kind.CRASH, Kind.RECOVER)


def drop(rows: list[Row], index: int, random: Random) -> list[Row]:
    return rows[:index] + rows[index + 1 :]


def twice(rows: list[Row], index: int, random: Random) -> list[Row]:
    last = max(row[LOCAL] for row in rows if row[PROCESS] == rows[index][PROCESS])
    return [*rows, (*rows[index][:LOCAL], last + 1, *rows[index][LOCAL + 1 :])]


def swap(rows: list[Row], index: int, random: Random) -> list[Row]:
    """Two deliveries of one process trade places."""
    own = [i for i, row in enumerate(rows) if row[KIND] == Kind.DELIVER and row[PROCESS] == rows[index][PROCESS]]
    other = random.choice(own)
    rows = list(rows)
    one, two = rows[index], rows[other]
    rows[index] = (*one[:LOCAL], two[LOCAL], *one[LOCAL + 1 :])
    rows[other] = (*two[:LOCAL], one[LOCAL], *two[LOCAL + 1 :])
    return rows


def cut(rows: list[Row], index: int, random: Random) -> list[Row]:
    row = rows[index]
    return [*rows[:index], (*row[:PAYLOAD], row[PAYLOAD] + 1, *row[PAYLOAD + 1 :]), *rows[index + 1 :]]


SPOILT: list[Callable[[list[Row], int, Random], list[Row]]] = [drop, twice, swap, cut]


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> tuple[list[tuple[str, bool, list[Row]]], dict[tuple[int, int, str], str]]:
    """Each run: its stack, whether it is as the simulator made it, its rows; and all verdicts."""
    runs: list[tuple[str, bool, list[Row]]] = []
    for stack, seed in SCENARIOS:
        made: list[Row] = []
        SimRun(random_scenario(stack, seed), made).execute()
        rows = [row for row in made if row[KIND] in WANTED]
        runs.append((stack, True, rows))
        random = Random(seed)
        deliveries = [index for index, row in enumerate(rows) if row[KIND] == Kind.DELIVER]
        runs += [(stack, False, spoil(rows, random.choice(deliveries), random)) for spoil in SPOILT]
    return runs, statuses(check(frame(spark, [rows for _, _, rows in runs]), PROPERTIES))


def test_nothing_is_reported_on_good_runs(judged):
    runs, found = judged
    for number, (stack, good, _) in enumerate(runs):
        if good:
            promised = [name for name in STACKS[stack].properties if name in PROPERTIES]
            assert [name for name in promised if found[number, 0, name] == "violated"] == []
            assert found[number, 0, "causal"] != "violated" or stack == "fifo"
            assert found[number, 0, "primary"] != "violated"


@pytest.mark.parametrize("name", KNOWN)
def test_status_is_the_oracles(judged, name):
    runs, found = judged
    for number, (stack, good, rows) in enumerate(runs):
        for expected in Oracle(rows).scoped([name]):
            status = found[number, expected.group, name]
            assert status == expected.status, (number, stack, good, expected.group, expected.witness)


def test_spoilt_rows_are_noticed(judged):
    runs, found = judged
    for number, (_, good, _) in enumerate(runs):
        broken = {key for key, status in found.items() if key[0] == number and key[2] in KNOWN and status == "violated"}
        assert good or broken
