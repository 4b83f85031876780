"""The studies of total order by tickets on Spark: their tables say what plain simulation says."""

from __future__ import annotations

import msgspec
import pytest
from tests.harness.cells import measure

from isthmus.pipeline.sweep.sweep import sweep
from isthmus.studies.dynamic_roles import changes as network_changes
from isthmus.studies.dynamic_roles import setup as dynamic_roles
from isthmus.studies.dynamic_roles.claims import POISSON_ONLY
from isthmus.studies.dynamic_roles.claims import STUDY as DYNAMIC_ROLES
from isthmus.studies.isolation import setup as isolation
from isthmus.studies.isolation.claims import STUDY as ISOLATION
from isthmus.studies.model import Study
from isthmus.studies.nine_scenarios import setup as nine_scenarios
from isthmus.studies.nine_scenarios.claims import STUDY as NINE_SCENARIOS
from isthmus.studies.regret import setup as regret
from isthmus.studies.regret.claims import STUDY as REGRET
from isthmus.studies.regret.measure import CHOICES
from isthmus.studies.tickets import labels
from isthmus.studies.tickets.labels import PERIODIC, POISSON


def collected(spark, tmp_path, study: Study, cells) -> dict[str, list[dict[str, object]]]:
    small = msgspec.structs.replace(study, grid=lambda scale, seeds: cells)
    done = sweep(spark, small.specs("quick", 1), tmp_path)
    return {name: frame.toArrow().to_pylist() for name, frame in study.tables(done.trace, done.runs).items()}


def test_nine_scenarios(spark, tmp_path) -> None:
    cells = [nine_scenarios.cell(name, PERIODIC, "LLLHH", 101, 500.0) for name in nine_scenarios.PROTOCOLS]
    tables = collected(spark, tmp_path, NINE_SCENARIOS, cells)
    assert len(tables["periodic"]) == len(tables["cells"]) == len(cells)
    for cell in cells:
        (row,) = (row for row in tables["cells"] if row["protocol"] == cell.parameters["protocol"])
        plain = measure(cell)
        assert row["latency_ms"] == pytest.approx(plain.mean_ms())
        assert row["counted"] == len(plain.latencies)
        assert row["undelivered_messages"] == plain.undelivered
        assert row["control_bytes_per_message"] > 0
        submitted = plain.multicasts / row["multicasts_per_message"]
        assert submitted == pytest.approx(round(submitted))


def test_dynamic_roles(spark, tmp_path) -> None:
    cells = [dynamic_roles.cell(name, POISSON, 1, 16_000.0, ("LLLHL",)) for name in dynamic_roles.PROTOCOLS]
    tables = collected(spark, tmp_path, DYNAMIC_ROLES, cells)
    for cell in cells:
        name, plain = cell.parameters["protocol"], measure(cell)
        (phase,) = (row for row in tables["phases"] if row["protocol"] == name)
        (costs,) = (row for row in tables["costs"] if row["protocol"] == name)
        assert phase["latency_ms"] == pytest.approx(plain.mean_ms())
        assert phase["scenario"].startswith("1 ")
        assert costs["role_changes"] == plain.role_changes
        assert costs["multicasts"] == pytest.approx(plain.multicasts)
        assert costs["undelivered_messages"] == plain.undelivered
        seconds = [row["second"] for row in tables["time_poisson"] if row["protocol"] == name]
        assert seconds == ([] if name in POISSON_ONLY else [float(second) for second in range(16)])


def test_networks_that_change(spark, tmp_path) -> None:
    part = network_changes.parts()[1]
    names = (labels.TOKEN_SITE, labels.DYNAMIC)
    stacks = dynamic_roles.PROTOCOLS
    cells = [network_changes.cell(part, name, stacks[name], POISSON, 1, 4_000.0) for name in names]
    tables = collected(spark, tmp_path, DYNAMIC_ROLES, cells)
    assert {row["phase"] for row in tables["changes"]} == {"link: 1 whole", "link: 2 link failed", "link: 3 mended"}
    assert {row["change"] for row in tables["transients"]} == {"link: 2 link failed", "link: 3 mended"}
    for row in tables["every_transient"]:
        assert row["peak_ratio"] == pytest.approx(row["peak_ms"] / row["usual_ms"]) and 0 <= row["recovery_s"] <= 4
    failed = {row["protocol"]: row["latency_ms"] for row in tables["changes"] if "failed" in row["phase"]}
    whole = {row["protocol"]: row["latency_ms"] for row in tables["changes"] if "whole" in row["phase"]}
    assert all(failed[name] > 1.5 * whole[name] for name in names), "the long way"


def test_isolation(spark, tmp_path) -> None:
    cells = [isolation.cell(name, PERIODIC, 50.0, 1, 2_000.0) for name in (labels.TOKEN_SITE, labels.SYMMETRIC)]
    tables = collected(spark, tmp_path, ISOLATION, cells)
    for cell, row in zip(sorted(cells, key=lambda cell: cell.parameters["protocol"]), tables["latency"], strict=True):
        plain = measure(cell)
        assert row["latency_ms"] == pytest.approx(plain.mean_ms())
        assert row["over_delay"] == pytest.approx(plain.mean_ms() / 50)
        assert row["undelivered_messages"] == plain.undelivered


def test_regret(spark, tmp_path) -> None:
    instance = next(iter(regret.instances("quick")))
    cells = list(regret.cells_of(instance, 1, "quick"))
    tables = collected(spark, tmp_path, REGRET, cells)
    plain = {cell.parameters["choice"] + cell.parameters["roles"]: measure(cell).mean_ms() for cell in cells}
    best = min(value for name, value in plain.items() if not name.startswith((labels.RULE_NO_NULLS, labels.DYNAMIC)))
    found = {row["choice"]: row["regret_percent"] for row in tables["regret"]}
    assert set(found) == set(CHOICES)
    assert found[labels.DYNAMIC] == pytest.approx(100 * (plain[labels.DYNAMIC] / best - 1), abs=1e-6)
    assert min(row["regret_percent"] for row in tables["runs"] if row["choice"] == regret.FIXED) >= 0
