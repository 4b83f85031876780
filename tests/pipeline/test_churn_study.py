"""The study of members that come and go on Spark: its tables say what plain simulation says."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from isthmus.core.layer import Kind
from isthmus.core.units import NS_PER_MS
from isthmus.pipeline.sweep.sweep import sweep
from isthmus.sim.run import SimRun
from isthmus.studies.churn import setup
from isthmus.studies.churn.claims import DYNAMIC, STUDY, VIEWS
from isthmus.trace.schema import KIND, NUMBER, PROCESS, SENDER, TIME_NS, Row


def test_churn(spark, tmp_path) -> None:
    cells = [setup.cell(stack, 8, rate, 1) for stack in (DYNAMIC, VIEWS) for rate in (0.0, 2.0)]
    small = msgspec.structs.replace(STUDY, grid=lambda scale, seeds: cells)
    done = sweep(spark, small.specs("quick", 1), tmp_path)
    tables = {name: frame.toArrow().to_pylist() for name, frame in STUDY.tables(done.trace, done.runs).items()}
    assert [row["protocol"] for row in tables["links"]] == [VIEWS, DYNAMIC]
    assert len(tables["largest"]) == len(tables["figures"]) == len(cells)
    for cell in cells:
        which = {name: value for name, value in cell.parameters.items() if name != "seed"}
        (found,) = (row for row in tables["figures"] if which.items() <= row.items())
        rows: list[Row] = []
        run = SimRun(cell.scenario, rows)
        run.execute()
        first_ns, last_ns = (round(ms * NS_PER_MS) for ms in (setup.WARM_UP_MS, setup.SENDING_MS))
        sent = {
            (row[SENDER], row[NUMBER]): row[TIME_NS]
            for row in rows
            if row[KIND] == Kind.SUBMIT and row[SENDER] < setup.STAYING and row[TIME_NS] >= first_ns
        }
        got: dict[int, list[tuple[int, int]]] = {process: [] for process in range(setup.STAYING)}
        for row in rows:
            if row[KIND] == Kind.DELIVER and row[PROCESS] < setup.STAYING and (row[SENDER], row[NUMBER]) in sent:
                got[row[PROCESS]].append((row[TIME_NS], row[TIME_NS] - sent[row[SENDER], row[NUMBER]]))
        latencies = [latency for log in got.values() for _, latency in log]
        gaps = [b - a for log in got.values() for (a, _), (b, _) in pairwise(log) if b < last_ns]
        assert found["latency_mean_ms"] == pytest.approx(sum(latencies) / len(latencies) / NS_PER_MS)
        assert found["gap_ms"] == pytest.approx(max(gaps) / NS_PER_MS)
        assert found["lost"] == len(sent) * setup.STAYING - len(latencies) == 0
        assert found["packets_each"] == pytest.approx(run.network.packet_count / run.summary.delivered.count)
        assert found["moved"] == (cell.parameters["asked"] or None)
        assert (found["join_ms"] is None) == (found["links_each"] is None) == (cell.parameters["changes_per_s"] == 0)
