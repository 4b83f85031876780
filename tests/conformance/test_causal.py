"""One scenario file with every causal stack, simulated and live: members agree on views, and a gateway is killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from isthmus.judge.oracle import Oracle
from isthmus.live.run.harness import run_live
from isthmus.scenario.load import load_scenario
from isthmus.sim.run import SimRun
from isthmus.stacks.registry import STACKS
from isthmus.trace.reader import read_rows
from isthmus.trace.schema import Row

PATH = Path(__file__).parent / "causal.toml"
TIMEOUT_S = 120.0  # for slow machines; a run ends by itself as soon as nothing arrives any more
CAUSAL = [
    name
    for name, stack in STACKS.items()
    if "causal" in stack.properties and "total" not in stack.properties and not stack.steady
]
RELAYING = [name for name in CAUSAL if STACKS[name].relays]


def scenario_file(folder: Path, stack: str) -> Path:
    path = folder / "causal.toml"
    path.write_text(PATH.read_text().replace("causal-separators", stack))
    return path


@pytest.mark.parametrize("stack", CAUSAL)
def test_simulated(stack: str, tmp_path: Path) -> None:
    rows: list[Row] = []
    SimRun(load_scenario(scenario_file(tmp_path, stack)), rows).execute()
    verdicts = Oracle(rows).verdicts((*STACKS[stack].properties, "primary"))
    assert [verdict for verdict in verdicts if verdict.status != "valid"] == []


@pytest.mark.parametrize(
    "stack", [stack if stack in RELAYING else pytest.param(stack, marks=pytest.mark.full) for stack in CAUSAL]
)
def test_live(stack: str, tmp_path: Path) -> None:
    path, folder, news = scenario_file(tmp_path, stack), tmp_path / "live", list[str]()
    running = run_live(load_scenario(path), path, folder, news=lambda _, text: news.append(text))
    asyncio.run(asyncio.wait_for(running, TIMEOUT_S))
    views = [set(text.split(": ")[1].split(", ")) for text in news if text.startswith("view ")]
    killed = news.index("tokyo-0 is killed")
    assert any("tokyo-0" not in view for view in views) and "tokyo-0" in views[-1], news[killed:]
    found = {verdict.property: verdict for verdict in Oracle(read_rows(folder)).verdicts(STACKS[stack].properties)}
    for name in ("agreement", "views", "fifo", "causal"):
        assert found[name].status == "valid", found[name]
    for name in ("integrity", "validity"):
        assert found[name].status != "violated", found[name]  # the last rows of the killed process may be gone
