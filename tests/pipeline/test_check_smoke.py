"""The checks on Spark, one job: a simulated run as it is, and with two deliveries of one process swapped."""

from __future__ import annotations

from itertools import pairwise

import msgspec
from tests.pipeline.histories import frame

from isthmus.core.layer import Kind
from isthmus.fuzz.scenarios import random_scenario
from isthmus.judge.oracle import Oracle
from isthmus.pipeline.check.verdicts import check
from isthmus.scenario.faults import RandomFaults
from isthmus.sim.run import SimRun
from isthmus.trace.schema import GROUP, KIND, LOCAL, ORIGIN, PROCESS, RUN, SENDER, VIEW, Row

PROPERTIES = ("integrity", "fifo", "total", "agreement", "validity", "views")


def swapped(rows: list[Row]) -> list[Row]:
    """Two deliveries of different senders change places at process 0; process 1 has both."""
    others = {row[ORIGIN:GROUP] for row in rows if row[PROCESS] == 1 and row[KIND] == Kind.DELIVER}
    mine = [row for row in rows if row[PROCESS] == 0 and row[KIND] == Kind.DELIVER and row[ORIGIN:GROUP] in others]
    one, two = next((a, b) for a, b in pairwise(mine) if a[SENDER] != b[SENDER] and a[VIEW] == b[VIEW])
    places = {
        (one[RUN], 0, one[LOCAL]): (*one[:ORIGIN], *two[ORIGIN:]),
        (two[RUN], 0, two[LOCAL]): (*two[:ORIGIN], *one[ORIGIN:]),
    }
    return [places.get((row[RUN], row[PROCESS], row[LOCAL]), row) for row in rows]


def test_a_run_as_it_is_and_with_two_deliveries_swapped(spark) -> None:
    rows: list[Row] = []
    calm = msgspec.structs.replace(random_scenario("token-site", 3), random_faults=RandomFaults())  # nobody crashes
    SimRun(calm, rows).execute()
    spoilt = [(1, *row[1:]) for row in swapped(rows)]
    verdicts = check(frame(spark, [rows, spoilt]), PROPERTIES).collect()
    found = {(row.run, row.property): row.status for row in verdicts}
    for run, history in enumerate((rows, spoilt)):
        for verdict in Oracle(history).verdicts(PROPERTIES):
            assert found[run, verdict.property] == verdict.status, (run, verdict)
    assert found[0, "total"] == "valid" and found[1, "total"] == "violated"
