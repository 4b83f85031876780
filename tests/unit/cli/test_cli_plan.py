"""`isthmus plan` as a user meets it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NET = """\
name = "two-lans"
[defaults]
lan = { delay = 20 }
wan = { delay = 540 }
[[clusters]]
name = "west"
sites = ["A", "B", "C"]
[[clusters]]
name = "east"
sites = ["D", "E"]
"""
TRAFFIC = """\
[[workloads]]
kind = "periodic"
sites = ["A", "D"]
rate_per_s = 100
[[workloads]]
kind = "periodic"
sites = ["B", "C", "E"]
rate_per_s = 1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.toml").write_text(NET)
    (tmp_path / "traffic.toml").write_text(TRAFFIC)
    return tmp_path


def isthmus(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from isthmus.cli.main import main; main()", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)


def plan(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return isthmus("plan", *arguments, cwd=cwd)


def refused(*arguments: str, cwd: Path) -> str:
    done = plan(*arguments, cwd=cwd)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    return done.stderr.removeprefix("isthmus: ")


def test_roles_and_latencies_are_shown_and_nothing_is_written(folder: Path) -> None:
    done = plan("net.toml", "--traffic", "traffic.toml", cwd=folder)
    assert done.returncode == 0 and done.stderr == ""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    assert rows[0] == ["planned", "hybrid", "A, D", "545.3"]
    assert rows[1] == ["token-site", "token-site", "A", "808.9"]
    assert rows[3] == ["paper's rule", "hybrid", "A, D", "545.3"]
    assert rows[6][:5] == ["C", "west", "1", "passive, through A", "565.0"]
    assert "Recommended: the stack hybrid" in done.stdout
    assert sorted(path.name for path in folder.iterdir()) == ["net.toml", "traffic.toml"]


def test_the_plan_is_a_stack_that_a_scenario_can_name(folder: Path) -> None:
    done = plan("net.toml", "--traffic", "traffic.toml", "-o", "out", cwd=folder)
    assert done.returncode == 0 and "wrote out/plan.toml" in done.stdout
    assert (folder / "out/roles.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (folder / "out/roles.svg").read_bytes()
    scenario = 'name = "planned"\nduration_ms = 3000\ntopology = "net.toml"\nstack = "out/plan.toml"\n'
    (folder / "scenario.toml").write_text(scenario + TRAFFIC)
    run = isthmus("sim", "scenario.toml", cwd=folder)
    assert run.returncode == 0, run.stderr
    assert "planned: hybrid on 5 sites" in run.stdout and "0 violated" in run.stdout
    again = plan("scenario.toml", cwd=folder)
    assert again.returncode == 0 and "545.3" in again.stdout


def test_files_that_exist_are_replaced_only_when_told(folder: Path) -> None:
    (folder / "plan.toml").write_text("mine")
    assert "an existing file" in refused("net.toml", "--traffic", "traffic.toml", "-o", ".", cwd=folder)
    assert (folder / "plan.toml").read_text() == "mine"
    assert plan("net.toml", "--traffic", "traffic.toml", "-o", ".", "--force", cwd=folder).returncode == 0
    assert "hybrid" in (folder / "plan.toml").read_text()
    (folder / "traffic.toml").rename(folder / "plan.toml")
    found = refused("net.toml", "--traffic", "plan.toml", "-o", ".", "--force", cwd=folder)
    assert "the input itself" in found


def test_what_was_predicted_is_verified(folder: Path) -> None:
    options = ("--verify", "--seeds", "1", "--duration-ms", "6000")
    done = plan("net.toml", "--traffic", "traffic.toml", *options, cwd=folder)
    assert done.returncode == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    for row in rows[:4]:
        assert abs(float(row[5].removesuffix(" %"))) < 3 and row[6] == "0"
    assert " / " in rows[4][4]


def test_what_is_left_out_is_noted(folder: Path) -> None:
    (folder / "net.toml").write_text(NET.replace("delay = 540", "delay = 540, loss = 0.01"))
    (folder / "traffic.toml").write_text("[[workloads]]\nkind = 'burst'\nperiod_ms = 50\nburst_count = 3\nto = 2\n")
    done = plan("net.toml", "--traffic", "traffic.toml", "--null-ms", "0", "--wait", cwd=folder)
    assert done.returncode == 0
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["note"] * 3


@pytest.mark.parametrize(
    "traffic, words",
    [
        ("", "traffic.toml: workloads: found nothing; expected at least one [[workloads]] table"),
        ("[[workloads]]\nkind = 'poison'\n", "traffic.toml: workloads[0].kind: found 'poison'; expected one of"),
        (
            "[[workloads]]\nkind = 'poisson'\nrate_per_s = 1\nsites = ['F']\n",
            "traffic.toml: workloads[0].sites[0]: found 'F'; expected one of west, east, A",
        ),
        ("[[workloads]]\nkind = 'reply'\n", "traffic.toml: workloads: found no site that sends; expected at least one"),
    ],
)
def test_bad_traffic_is_one_sentence(traffic: str, words: str, folder: Path) -> None:
    (folder / "traffic.toml").write_text(traffic)
    assert refused("net.toml", "--traffic", "traffic.toml", cwd=folder).startswith(words)


def test_other_mistakes_are_one_sentence(folder: Path) -> None:
    assert refused("net.toml", cwd=folder).startswith("net.toml: workloads: found nothing; expected a scenario")
    assert refused("none.toml", "--traffic", "traffic.toml", cwd=folder).startswith("none.toml: found no such file")
    low = refused("net.toml", "--traffic", "traffic.toml", "--null-ms", "0.01", cwd=folder)
    assert low.startswith("--null-ms: found 0.01; expected 0, or a number from 0.1")
    (folder / "net.toml").write_text(NET.replace('["D", "E"]', "1000"))
    assert "found 1003 sites; expected at most 200" in refused("net.toml", "--traffic", "traffic.toml", cwd=folder)


def test_help_has_examples(folder: Path) -> None:
    shown = plan("--help", cwd=folder)
    assert shown.returncode == 0 and "Examples:" in shown.stdout and "--verify" in shown.stdout


def test_causal_stacks_are_predicted_beside_their_simulation(folder: Path) -> None:
    arguments = ("net.toml", "--traffic", "traffic.toml", "--order", "causal")
    done = plan(*arguments, cwd=folder)
    assert done.returncode == 0 and "Recommended: the stack causal-" in done.stdout
    beside = plan(*arguments, "--verify", "--seeds", "1", "--duration-ms", "1000", cwd=folder)
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in beside.stdout.splitlines() if "│" in line]
    found = {row[0]: row[1] for row in rows}
    assert found["causal-vector"] == "5.0 / 5.0, +0 %" and found["causal-matrix"] == "25.0 / 25.0, +0 %"
    assert "%" in found["causal-history"]
    assert "no -o, --null-ms or --wait" in refused(*arguments, "--wait", cwd=folder)
