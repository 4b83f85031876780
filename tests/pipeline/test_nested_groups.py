"""Nested groups on Spark: what a crashed process may have been alone with is left out there, too, row for row."""

from __future__ import annotations

from functools import partial

from histories import frame, statuses
from pyspark.sql import SparkSession
from tests.unit.judge.test_nested import AFTER, ALONE, BOTH, INNER, random_nested

from isthmus.judge.arrange import without_unsure
from isthmus.judge.oracle import Oracle
from isthmus.pipeline.check import nested
from isthmus.pipeline.check import verdicts as on_spark
from isthmus.trace.schema import LOCAL, PROCESS

check = partial(on_spark.check, run_rows_max=0)  # by tables that all tasks share, however short a run is
ASKED = ("views",)


def test_both_engines_leave_out_the_same_rows(spark: SparkSession) -> None:
    runs = [random_nested(seed) for seed in range(60)]
    kept = nested.without_unsure(frame(spark, runs)).select("run", "process", "local").collect()
    wanted = [(run, row[PROCESS], row[LOCAL]) for run, rows in enumerate(runs) for row in without_unsure(rows)]
    assert sorted(map(tuple, kept)) == sorted(wanted)
    assert sum(map(len, runs)) - len(wanted) > 0


def test_both_engines_judge_nested_groups_alike(spark: SparkSession) -> None:
    rows = [*BOTH, *ALONE, *AFTER]
    found = statuses(check(frame(spark, [rows]), ASKED))
    verdicts = Oracle(rows).scoped(ASKED)
    assert {(0, one.group, one.property): one.status for one in verdicts} == found
    assert found[0, INNER, "views"] != "violated"
