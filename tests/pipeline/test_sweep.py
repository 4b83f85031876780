"""Sweeps: the same rows wherever they are made, bounded memory in a worker, and a bad run that harms no other."""

from __future__ import annotations

import msgspec
import pyarrow.parquet as pq
import pytest

from isthmus.core.errors import InputError, LocalError
from isthmus.fuzz.scenarios import random_scenario
from isthmus.pipeline.sweep import simulate
from isthmus.pipeline.sweep.simulate import OUTCOMES, Outcome, simulate_all
from isthmus.pipeline.sweep.sweep import RunSpec, runs_table, spec_table, sweep, sweep_together
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Poisson
from isthmus.sim.run import SimRun
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.arrow import SCHEMA
from isthmus.trace.reader import read_rows


def grid(runs=9):
    return [
        RunSpec(
            run=number,
            study="fuzz",
            scenario=random_scenario("token-site", number),
            parameters={"place": number % 3, "seed": number},
            replay=f"isthmus fuzz token-site --seed {number}",
        )
        for number in range(runs)
    ]


def in_process(specs):
    """What a plain loop over the simulator gives."""
    rows = []
    for spec in specs:
        SimRun(spec.scenario, rows, run=spec.run).execute()
    return rows


def as_tuples(frame):
    rows = frame.select(*[f"`{name}`" for name in SCHEMA.names]).collect()
    return sorted(tuple(tuple(cell) if isinstance(cell, list) else cell for cell in row) for row in rows)


def plain(rows):
    return sorted((*map(int, row[:10]), row[10] or None, *row[11:]) for row in rows)


def test_the_same_rows_whatever_the_number_of_tasks(spark, tmp_path):
    specs = grid()
    expected = plain(in_process(specs))
    tables = []
    for tasks in (1, 2, 7):
        done = sweep(spark, specs, tmp_path / str(tasks), tasks=tasks)
        assert as_tuples(done.trace) == expected
        assert plain(read_rows(tmp_path / str(tasks) / "trace")) == expected  # without Spark, too
        tables.append(pq.read_table(tmp_path / str(tasks) / "runs.parquet").to_pylist())
    assert tables[0] == tables[1] == tables[2]
    assert not (tmp_path / "1" / ".sweep").exists()


def test_the_table_of_runs_has_parameters_and_figures(spark, tmp_path):
    specs = grid(4)
    seen = []
    done = sweep(spark, specs, tmp_path / "out", progress=lambda *told: seen.append(told))
    assert seen[-1] == (4, 4)
    assert all(asked == 4 and 0 <= now <= 4 for now, asked in seen)
    assert [row["run"] for row in done.runs.where("place = 1").select("run").collect()] == [1]
    for spec, row in zip(specs, done.runs.orderBy("run").collect(), strict=True):
        run = SimRun(spec.scenario)
        summary = run.execute()
        assert (row["status"], row["error"], row["study"], row["stack"]) == ("ok", "", "fuzz", "token-site")
        assert (row["seed"], row["replay"]) == (spec.scenario.seed, spec.replay)
        assert (row["submitted"], row["delivered"]) == (summary.submitted_count, summary.delivered.count)
        assert (row["undelivered"], row["packets"]) == (summary.undelivered_count(), run.network.packet_count)
        assert row["event_count"] == run.scheduler.event_count
        assert row["control_bytes"] == (run.meter.control_bytes if run.meter else 0)
    with pytest.raises(InputError):
        sweep(spark, specs, tmp_path / "out")


def test_studies_swept_together_give_each_what_it_gives_alone(spark, tmp_path):
    other = [msgspec.structs.replace(spec, study="other", parameters={"place": "north"}) for spec in grid(3)]
    grids = {tmp_path / "fuzz": grid(4), tmp_path / "other": other}
    together = sweep_together(spark, grids)
    for (folder, specs), done in zip(grids.items(), together, strict=True):
        alone = sweep(spark, specs, tmp_path / "alone" / folder.name)
        assert as_tuples(done.trace) == as_tuples(alone.trace) == plain(in_process(specs))
        assert done.outcomes == alone.outcomes
        assert done.runs.orderBy("run").collect() == alone.runs.orderBy("run").collect()
    with pytest.raises(LocalError, match="a study has one grid"):
        sweep_together(spark, {tmp_path / "a": grid(2), tmp_path / "b": grid(2)})
    with pytest.raises(LocalError, match="not a valid name for the folder"):
        sweep(spark, [msgspec.structs.replace(spec, study="a/b") for spec in grid(1)], tmp_path / "c")


def test_a_run_that_fails_is_a_row(spark, tmp_path):
    specs = grid(5)

    class Exploding(SimRun):
        def steps(self):
            self.start()
            self.scheduler.run(self.end_ns, 50)
            yield self.scheduler.now_ns
            raise ValueError("planted\nin two lines")

    def make(scenario, sink, run):
        return (Exploding if run == 3 else SimRun)(scenario, sink, run=run)

    done = sweep(spark, specs, tmp_path / "out", make=make)
    (bad,) = done.failed()
    assert (bad.run, bad.error) == (3, "ValueError: planted")
    assert "in steps" in bad.traceback
    row = done.runs.where("status = 'failed'").collect()
    assert [(found["run"], found["seed"], found["replay"]) for found in row] == [(3, 3, specs[3].replay)]
    left = done.trace.where("run = 3").count()
    assert left == bad.row_count > 0  # what it got to
    assert {found["run"] for found in done.good_trace().select("run").distinct().collect()} == {0, 1, 2, 4}


def test_a_sweep_in_which_all_fail_has_an_empty_trace(spark, tmp_path):
    def refuse(scenario, sink, run):
        raise RuntimeError("no")

    done = sweep(spark, grid(2), tmp_path / "out", make=refuse)
    assert [outcome.status for outcome in done.outcomes] == ["failed", "failed"]
    assert done.trace.count() == done.good_trace().count() == 0


def test_a_long_run_leaves_the_worker_in_small_batches(monkeypatch):
    monkeypatch.setattr(simulate, "BATCH_ROWS", 100)
    monkeypatch.setattr("isthmus.sim.run.SLICE", 50)
    channel = Channel(Constant(5.0))
    scenario = Scenario(
        topology=mesh(1, 4, channel, channel), stack=StackSpec(name="token-site"), workloads=(Poisson(rate_per_s=50),)
    )
    specs = [RunSpec(run=number, study="s", scenario=scenario) for number in range(2)]
    kept = []  # rows that a sink had made and nobody had taken

    def watching(given, sink, run):
        class Watched:
            def append(self, row):
                sink.append(row)
                waiting = sum(batch.num_rows for batch in (*sink.outlet.full, *sink.outlet.small))
                kept.append(len(sink.rows) + waiting)

        return SimRun(given, Watched(), run=run)

    sizes = [batch.num_rows for batch in simulate_all(spec_table(specs).to_batches(), watching)]
    assert sum(sizes) == 2 * len(in_process(specs[:1])) + 2
    assert len(sizes) > 20
    assert max(sizes) < 300
    assert max(kept) < 500  # two batches, and what fifty events make


def test_rows_that_do_not_fit_fail_their_own_run_alone():
    specs = grid(3)

    class Outgrowing(SimRun):
        def steps(self):
            yield from super().steps()
            self.logs[0].sink.append((1, 2**40, *([0] * 11)))

    def outgrow(scenario, sink, run):
        return (Outgrowing if run == 1 else SimRun)(scenario, sink, run=run)

    outcomes = []
    for batch in simulate_all(spec_table(specs).to_batches(), outgrow):
        for row in batch.to_pylist():
            assert (row["study"] == OUTCOMES) == (row["outcome"] is not None)
            if row["study"] == OUTCOMES:
                outcomes.append(msgspec.json.decode(row["outcome"], type=Outcome))
    assert [(outcome.run, outcome.status) for outcome in outcomes] == [(0, "ok"), (1, "failed"), (2, "ok")]
    assert "process" in outcomes[1].error


def test_who_stops_taking_batches_stops_the_runs(monkeypatch):
    monkeypatch.setattr(simulate, "BATCH_ROWS", 10)
    monkeypatch.setattr("isthmus.sim.run.SLICE", 10)
    made = []

    def counted(scenario, sink, run):
        made.append(SimRun(scenario, sink, run=run))
        return made[-1]

    stream = simulate_all(spec_table(grid(9)).to_batches(), counted)
    next(stream)
    stream.close()
    assert [run.scheduler.now_ns < run.end_ns for run in made] == [True]  # the first, and not to its end


def test_grids_that_cannot_be_tables_are_refused(spark, tmp_path):
    specs = grid(2)
    with pytest.raises(LocalError, match="place in the grid"):
        sweep(spark, specs[1:], tmp_path / "out")
    outcomes = [Outcome(run=0), Outcome(run=1)]
    clash = [msgspec.structs.replace(spec, parameters={"status": 1}) for spec in specs]
    with pytest.raises(LocalError, match="status"):
        runs_table(clash, outcomes)
    mixed = [
        msgspec.structs.replace(spec, parameters={"p": value}) for spec, value in zip(specs, (1, "a"), strict=True)
    ]
    with pytest.raises(LocalError, match="different kinds"):
        runs_table(mixed, outcomes)


def test_figures_of_a_network_are_columns_of_the_runs():
    table = runs_table(grid(2), [Outcome(run=0, figures={"hops": 3, "delay_mean_ms": 0.5}), Outcome(run=1)])
    assert table.column("hops").to_pylist() == [3.0, None]
    assert table.column("delay_mean_ms").to_pylist() == [0.5, None]
