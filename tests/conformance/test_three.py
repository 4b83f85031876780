"""One scenario file, run by the simulator and live: two traces of one schema, on which the same order holds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from isthmus.core.layer import Kind
from isthmus.judge.oracle import Oracle
from isthmus.live.run.harness import measure, run_live
from isthmus.measure.summary import RunSummary
from isthmus.scenario.load import load_scenario
from isthmus.sim.run import SimRun
from isthmus.stacks.registry import STACKS
from isthmus.trace.reader import read_meta, read_rows
from isthmus.trace.schema import KIND, LOCAL, NUMBER, PROCESS, SENDER, Row
from isthmus.trace.writer import TraceWriter

PATH = Path(__file__).parent / "three.toml"
TIMEOUT_S = 120.0  # for slow machines; a run ends by itself as soon as all is delivered


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("live")
    summaries = asyncio.run(asyncio.wait_for(run_live(load_scenario(PATH), PATH, folder), TIMEOUT_S))
    assert len(summaries) == 3 and sum(summary.lost for summary in summaries) > 0
    return folder


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sim")
    with TraceWriter(folder) as writer:
        SimRun(load_scenario(PATH), writer).execute()
    return folder


@pytest.mark.parametrize("host", ["live", "simulated"])
def test_every_promise_is_kept(host: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(host)
    promised = STACKS["token-site"].properties
    verdicts = Oracle(read_rows(folder)).verdicts(promised)
    assert [verdict.property for verdict in verdicts if verdict.status == "valid"] == list(promised), verdicts
    assert measure(list(read_rows(folder)), RunSummary(3)).undelivered_count() == 0


def test_each_site_writes_its_own_segments(live: Path) -> None:
    assert {path.name[:8] for path in live.iterdir()} == {f"site-{site:03d}" for site in range(3)}
    assert read_meta(live)["stack"] == "token-site"
    for site in range(3):
        rows = [row for path in sorted(live.glob(f"site-{site:03d}-*.parquet")) for row in read_rows(path)]
        assert {row[PROCESS] for row in rows} == {site}
        assert [row[LOCAL] for row in rows] == list(range(len(rows)))


def test_one_seed_means_the_same_messages_on_both_hosts(live: Path, simulated: Path) -> None:
    def submitted(folder: Path) -> set[tuple[int, int]]:
        """Messages by sender, counted from the first number of its incarnation."""
        found = {message(row) for row in read_rows(folder) if row[KIND] == Kind.SUBMIT}
        first = {site: min(number for sender, number in found if sender == site) for site, _ in found}
        return {(sender, number - first[sender]) for sender, number in found}

    assert submitted(live) == submitted(simulated)


def message(row: Row) -> tuple[int, int]:
    return row[SENDER], row[NUMBER]


@pytest.mark.parametrize("stack", ["flooding", "flooding-dynamic"])
def test_a_flood_keeps_its_promises_live(stack: str, tmp_path: Path) -> None:
    """The same loss, repetition and reordering, over channels between neighbours."""
    path = tmp_path / "three.toml"
    path.write_text(PATH.read_text(encoding="utf-8").replace("token-site", stack), encoding="utf-8")
    folder = tmp_path / "live"
    folder.mkdir()
    asyncio.run(asyncio.wait_for(run_live(load_scenario(path), path, folder), TIMEOUT_S))
    verdicts = Oracle(read_rows(folder)).verdicts(STACKS[stack].properties)
    assert {verdict.status for verdict in verdicts} == {"valid"}, verdicts
    assert measure(list(read_rows(folder)), RunSummary(3)).undelivered_count() == 0
