"""A study from end to end, small: the folder it leaves, its verdicts, and what a bad run does to it."""

from __future__ import annotations

import json

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.errors import InputError
from isthmus.pipeline.sweep.balance import expected_cost
from isthmus.pipeline.sweep.sweep import sweep
from isthmus.report.results import find_studies
from isthmus.sim.run import SimRun
from isthmus.studies.model import Cell
from isthmus.studies.run import StudyResult, SweptStudy, batch_studies, judge_runs, run_studies
from isthmus.studies.token_site.claims import STUDY as TOKEN_SITE
from isthmus.studies.verdicts import NOT_JUDGED


def small_grid(scale, seeds):
    """The study's own runs, two delays, and for a tenth of the time."""
    cells = [cell for cell in TOKEN_SITE.grid("quick", seeds) if cell.parameters["delay_ms"] in (25.0, 100.0)]
    return [Cell(cell.parameters, msgspec.structs.replace(cell.scenario, duration_ms=300)) for cell in cells]


SMALL = msgspec.structs.replace(TOKEN_SITE, grid=small_grid, seeds={"quick": 1, "full": 1})


def stub(status, lost=None):
    """A check that says the same of every run, but for one of which it says nothing."""

    def check(sweeps, properties):
        (done,) = sweeps
        runs = done.good_trace().select("run").distinct()
        names = done.trace.sparkSession.createDataFrame([(name,) for name in properties], "property string")
        return (
            runs.where(F.col("run") != (-1 if lost is None else lost))
            .crossJoin(names)
            .select(
                "run",
                F.lit(0).alias("group"),
                "property",
                F.lit(status).alias("status"),
                F.lit(7).alias("evidence_count"),
                F.lit(1 if status == "violated" else 0).alias("violation_count"),
                F.lit("planted" if status == "violated" else "").alias("witness"),
            )
        )

    return check


def test_a_study_leaves_a_folder_that_says_it_all(spark, tmp_path):
    steps = []
    (result,) = run_studies(spark, [SMALL], "quick", tmp_path, on_step=steps.append, check=stub("valid"))
    assert steps == ["simulating", "checking", "measuring token-site"]
    assert result.exit_code() == 0
    folder = tmp_path / "token-site"
    assert {path.name for path in tmp_path.iterdir()} == {"token-site"}
    parts = ("study.json", "claims.json", "figures.json", "runs.parquet", "verdicts.parquet", "trace", "tables")
    assert all((folder / part).exists() for part in parts)
    about = json.loads((folder / "study.json").read_text())
    assert (about["runs"], about["failed_runs"], about["seeds"], about["scale"]) == (4, 0, 1, "quick")
    assert set(about["versions"]) == {"isthmus", "python", "pyspark", "java"}
    assert about["command"] == "isthmus study run token-site --scale quick"
    claims = {claim["statement"]: claim for claim in json.loads((folder / "claims.json").read_text())}
    assert claims["The sequencer's own messages take 1 network delay."]["verdict"] == "holds"
    assert claims["Messages of all other processes take 2 network delays."]["measured"] == pytest.approx(2)
    verdicts = pq.read_table(folder / "verdicts.parquet").to_pylist()
    assert [(row["property"], row["status"], row["runs"], row["evidence"]) for row in verdicts] == [
        (name, "valid", 4, 28) for name in SMALL.properties
    ]
    (read,) = find_studies([tmp_path])  # the report takes it
    assert read.about.name == "token-site"
    (drawn,) = read.figures
    assert {drawn[0].x, drawn[0].y, drawn[0].series, drawn[0].error} <= set(drawn[1].column_names)


def test_checks_that_were_not_run_or_lost_a_run_are_unknown_and_violations_count(spark, tmp_path):
    specs = SMALL.specs("quick")
    done = sweep(spark, specs, tmp_path)
    result = StudyResult(None, tmp_path, [], [], [])

    def judged(check):
        (rows,) = judge_runs([SweptStudy(SMALL, specs, done)], check)
        code = msgspec.structs.replace(result, verdicts=rows).exit_code()
        return {(row.status, row.runs, row.witness) for row in rows}, code

    assert judged(None) == ({("unknown", 4, "the checks were not run")}, 3)
    assert judged(stub("valid")) == ({("valid", 4, "")}, 0)
    assert judged(stub("valid", lost=2)) == ({("unknown", 1, NOT_JUDGED), ("valid", 3, "")}, 3)
    assert judged(stub("violated")) == ({("violated", 4, "planted")}, 1)


def test_a_failed_run_makes_claims_unknown_and_is_told(spark, tmp_path):
    def explode(scenario, sink, run):
        if run == 1:
            raise ValueError("planted")
        return SimRun(scenario, sink, run=run)

    plain = msgspec.structs.replace(SMALL, tables=lambda trace, runs: {"runs": runs})
    (result,) = run_studies(spark, [plain], "quick", tmp_path, check=stub("valid"), make=explode)
    assert result.exit_code() == 1
    assert {claim.verdict for claim in result.claims} == {"unknown"}
    assert [claim.detail for claim in result.claims if claim.measured == 0] == ["1 run failed"]
    assert {(row.status, row.runs) for row in result.verdicts} == {("unknown", 1), ("valid", 3)}
    ((spec, outcome),) = result.failed
    assert (spec.run, outcome.error) == (1, "ValueError: planted")


def test_a_folder_that_is_no_study_is_left_alone(spark, tmp_path):
    (tmp_path / "token-site").mkdir()
    (tmp_path / "token-site" / "letter.txt").write_text("mine")
    with pytest.raises(InputError, match="not a study"):
        list(run_studies(spark, [SMALL], "quick", tmp_path, check=None))
    assert (tmp_path / "token-site" / "letter.txt").read_text() == "mine"


def test_studies_carried_out_together_have_verdicts_of_their_own(spark, tmp_path):
    """The second study's runs all fail; the first and third are judged by the real checks, for other properties."""

    def make(scenario, sink, run):
        if scenario.name == "bad":
            raise ValueError("planted")
        return SimRun(scenario, sink, run=run)

    def renamed(name, scenario_name, properties):
        def grid(scale, seeds):
            return [
                Cell(cell.parameters, msgspec.structs.replace(cell.scenario, name=scenario_name))
                for cell in small_grid(scale, seeds)
            ]

        return msgspec.structs.replace(SMALL, name=name, grid=grid, properties=properties)

    studies = [
        renamed("one", "good", ("integrity", "fifo")),
        renamed("two", "bad", ("integrity",)),
        renamed("three", "good", ("total", "agreement", "integrity")),
    ]
    first, second, third = run_studies(spark, studies, "quick", tmp_path, make=make)
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two", "three"}
    assert [(row.property, row.status, row.runs) for row in first.verdicts] == [
        ("integrity", "valid", 4),
        ("fifo", "valid", 4),
    ]
    assert [(row.property, row.status, row.runs) for row in second.verdicts] == [("integrity", "unknown", 4)]
    assert [(row.property, row.status, row.runs) for row in third.verdicts] == [
        ("total", "valid", 4),
        ("agreement", "valid", 4),
        ("integrity", "valid", 4),
    ]
    assert [result.exit_code() for result in (first, second, third)] == [0, 1, 0]
    assert json.loads((tmp_path / "three" / "study.json").read_text())["together"] == 3
    runs = pq.read_table(tmp_path / "three" / "trace").column("run").unique().to_pylist()
    assert sorted(runs) == [0, 1, 2, 3]  # its own numbers, by which runs are replayed


def test_small_studies_go_together_and_large_ones_alone(monkeypatch):
    cost = sum(expected_cost(spec.scenario) for spec in SMALL.specs("quick"))
    monkeypatch.setattr("isthmus.studies.run.TOGETHER", 2 * cost)
    large = msgspec.structs.replace(SMALL, name="large", grid=lambda scale, seeds: 3 * small_grid(scale, seeds))
    assert batch_studies([SMALL] * 5, "quick") == [[SMALL] * 2, [SMALL] * 2, [SMALL]]
    assert batch_studies([SMALL, large, SMALL, SMALL], "quick") == [[SMALL], [large], [SMALL, SMALL]]
