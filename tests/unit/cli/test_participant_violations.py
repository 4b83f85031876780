"""A planted violation of what participants are promised: every command that judges a simulated run reports it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from tests.planted.participants import FIFO, with_participants

from isthmus.cli import study as study_command
from isthmus.pipeline.sweep.sweep import RunSpec
from isthmus.scenario.load import load_scenario
from isthmus.stacks.registry import STACKS

SCENARIO = """
name = "light"
duration_ms = 1000
[topology]
defaults = { lan = { delay = 1 }, wan = { delay = 10, loss = 0.2, fifo = false } }
clusters = [{ name = "a", sites = 2 }, { name = "b" }]
[stack]
name = "fifo"
[[workloads]]
kind = "poisson"
rate_per_s = 40
[[participants]]
name = "ann"
group = "orders"
site = "a-0"
period_ms = 10
[[participants]]
name = "bob"
group = "orders"
site = "b-0"
join_ms = 300
leave_ms = 600
period_ms = 5
[[participants]]
name = "eve"
group = "orders"
site = "a-1"
join_ms = 400
period_ms = 5
"""


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch) -> Path:
    build = with_participants("fifo", FIFO["applied at delivery"])
    monkeypatch.setitem(STACKS, "fifo", msgspec.structs.replace(STACKS["fifo"], build=build))
    (tmp_path / "light.toml").write_text(SCENARIO)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "light.toml"


def test_sim_reports_it(scenario: Path, isthmus) -> None:
    code, _, err = isthmus("sim", "light.toml")
    assert code == 1 and "findings on participants); replay it with: isthmus sim light.toml --seed 0" in err


def test_sim_as_json_reports_it(scenario: Path, isthmus) -> None:
    code, out, _ = isthmus("sim", "light.toml", "--json")
    found = json.loads(out)
    assert code == 1
    assert {one["property"] for one in found["verdicts"] if one["status"] == "violated"} == {"participants"}
    (orders,) = found["participants"]
    assert (orders["group"], orders["members"]) == ("orders", ["ann@a-0", "eve@a-1"])


def test_compare_reports_it(scenario: Path, isthmus) -> None:
    code, out, _ = isthmus("compare", "light.toml", "--stack", "fifo", "--seeds", "1", "--jobs", "1", "--json")
    (row,) = json.loads(out)["stacks"]
    assert code == 1 and row["promises"] == "broken"
    assert any(one["property"] == "participants" and one["violated"] for one in row["verdicts"])


@pytest.mark.parametrize("options", [(), ("-o", "kept")])
def test_study_replay_reports_it(scenario: Path, isthmus, monkeypatch, options: tuple[str, ...]) -> None:
    spec = RunSpec(run=3, study="light", scenario=load_scenario(scenario), replay="isthmus study replay light --run 3")
    study = SimpleNamespace(spec=lambda number, scale, seeds: spec)
    monkeypatch.setattr(study_command, "find_study", lambda studies, name: study)
    code, _, err = isthmus("study", "replay", "light", "--run", "3", *options)
    assert code == 1 and "findings on participants" in err
