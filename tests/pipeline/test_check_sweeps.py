"""Sweeps are judged from the files that their runs stand in, as their traces would be."""

from __future__ import annotations

from functools import reduce

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.fuzz.scenarios import random_scenario
from isthmus.pipeline.check.verdicts import check, check_sweeps
from isthmus.pipeline.sweep.sweep import RunSpec, sweep_together

PROPERTIES = ("integrity", "fifo", "total", "views")


def grid(stack, runs):
    """Random runs of a stack."""
    return [
        RunSpec(run=number, study=stack, scenario=random_scenario(stack, number), parameters={}, replay="")
        for number in range(runs)
    ]


@pytest.fixture(scope="module")
def sweeps(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweeps")
    return sweep_together(spark, {folder / stack: grid(stack, 4) for stack in ("token-site", "unordered")})


def found(frame):
    return sorted(tuple(map(str, row)) for row in frame.collect())


def test_sweeps_are_judged_as_their_traces_are(sweeps):
    shifted = [one.trace.withColumn("run", F.col("run") + 4 * number) for number, one in enumerate(sweeps)]
    spans = {name: [range(8)] for name in PROPERTIES} | {"total": [range(4)]}
    judged = found(check_sweeps(sweeps, spans))
    assert judged == found(check(reduce(DataFrame.unionByName, shifted), spans))
    assert {row[0] for row in judged} == set(map(str, range(8)))
    assert any("violated" in row for row in judged)  # unordered keeps no order of senders


def test_failed_runs_are_left_out(sweeps):
    first, second = sweeps
    failed = msgspec.structs.replace(first.outcomes[2], status="failed")
    broken = msgspec.structs.replace(first, outcomes=(*first.outcomes[:2], failed, *first.outcomes[3:]))
    judged = found(check_sweeps([broken, second], {"integrity": [range(8)]}))
    assert {row[0] for row in judged} == set(map(str, range(8))) - {"2"}


def test_a_file_that_lacks_rows_of_a_run_is_no_verdict(sweeps, tmp_path):
    (path, *others) = sweeps[0].files
    cut = tmp_path / "cut.parquet"
    pq.write_table(pq.read_table(path).slice(0, 3), cut)
    less = msgspec.structs.replace(sweeps[0], files=(cut, *others))
    with pytest.raises(PythonException, match="has 3 rows of run"):
        check_sweeps([less], {"integrity": [range(4)]})
