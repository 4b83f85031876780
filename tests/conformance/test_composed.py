"""One composed scenario, run by the simulator and live: the same messages, and the same verdicts on every domain."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from isthmus.core.layer import Kind
from isthmus.judge.judgement import judge
from isthmus.live.run.harness import measure, run_live
from isthmus.measure.summary import RunSummary
from isthmus.scenario.load import load_scenario
from isthmus.sim.run import SimRun
from isthmus.trace.domain import read_domains
from isthmus.trace.reader import read_meta, read_rows
from isthmus.trace.schema import GROUP, KIND, NUMBER, ORIGIN, PROCESS, SENDER, Row
from isthmus.trace.writer import TraceWriter

PATH = Path(__file__).parent / "composed.toml"
ROUTERS = {2, 5}
TIMEOUT_S = 240.0  # for slow machines; a run ends by itself as soon as all is delivered

CRASH = """
[[faults]]
kind = "crash"
site = "lisbon-router-0"
at_ms = 500

[[faults]]
kind = "recover"
site = "lisbon-router-0"
at_ms = 900
"""


PATIENT = """
[membership]
kind = "agreed"
agreed.rounds.answer = 40
agreed.rounds.attempt = 60
"""  # who loses a question and its repeat is left out by default; with a router so goes a link of two, for good


def live_of(path: Path, folder: Path) -> Path:
    patient = folder.with_suffix(".toml")
    patient.write_text(path.read_text(encoding="utf-8") + PATIENT, encoding="utf-8")
    asyncio.run(asyncio.wait_for(run_live(load_scenario(patient), patient, folder), TIMEOUT_S))
    return folder


def simulated_of(path: Path, folder: Path) -> Path:
    with TraceWriter(folder) as writer:
        SimRun(load_scenario(path), writer).execute()
    return folder


def told(path: Path, folder: Path) -> list[tuple[str, str, str]]:
    verdicts = judge(load_scenario(path), read_rows(folder)).verdicts
    return [(verdict.domain or str(verdict.group), verdict.property, verdict.status) for verdict in verdicts]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return live_of(PATH, tmp_path_factory.mktemp("live"))


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated_of(PATH, tmp_path_factory.mktemp("sim"))


def test_both_hosts_give_the_same_verdicts(live: Path, simulated: Path) -> None:
    verdicts = told(PATH, live)
    assert verdicts == told(PATH, simulated)
    assert {status for _, _, status in verdicts} == {"valid"}
    assert {name for domain, name, _ in verdicts if domain == "offices"} == {"integrity", "fifo", "causal", "total"}


def test_nothing_is_owed_and_classes_are_told_apart(live: Path) -> None:
    members = {group.id: group.processes for group in load_scenario(PATH).groups_of_run()}
    figures = measure(list(read_rows(live)), RunSummary(members, composed=True))
    assert figures.by_class and figures.undelivered_count() == 0
    assert sorted(figures.by_class) == [(0, False), (0, True), (1, True)]


def test_one_seed_means_the_same_messages_on_both_hosts(live: Path, simulated: Path) -> None:
    def submitted(folder: Path) -> set[tuple[int, int, int]]:
        """Messages by group and sender, counted from the first number of its incarnation."""
        found = {message(row) for row in read_rows(folder) if row[KIND] == Kind.SUBMIT}
        first: dict[int, int] = {}
        for _, sender, number in sorted(found):
            first[sender] = min(number, first.get(sender, number))
        return {(group, sender, number - first[sender]) for group, sender, number in found}

    assert submitted(live) == submitted(simulated)


def test_a_trace_tells_domains_and_no_deliveries_of_routers(live: Path) -> None:
    assert [domain.name for domain in read_domains(read_meta(live))] == ["offices"]
    rows = list(read_rows(live))
    assert not [row for row in rows if row[PROCESS] in ROUTERS and row[KIND] in (Kind.SUBMIT, Kind.DELIVER, Kind.VIEW)]
    assert {row[GROUP] for row in rows if row[KIND] == Kind.DELIVER} == {0, 1}


def message(row: Row) -> tuple[int, int, int]:
    return row[ORIGIN], row[SENDER], row[NUMBER]


@pytest.mark.full
def test_replicas_take_over_from_a_router_that_is_killed(tmp_path: Path) -> None:
    """Nothing is lost, repeated or reordered, live as simulated; the killed replica is started again."""
    text = PATH.read_text(encoding="utf-8") + CRASH
    text = text.replace('name = "lisbon-router"\n', 'name = "lisbon-router"\nreplicas = 3\n')
    text = text.replace('"lisbon-router"]', '"lisbon-router-0", "lisbon-router-1", "lisbon-router-2"]')
    path = tmp_path / "replicas.toml"
    path.write_text(text, encoding="utf-8")
    (tmp_path / "live").mkdir()
    live, simulated = live_of(path, tmp_path / "live"), simulated_of(path, tmp_path / "sim")
    verdicts = told(path, live)
    assert verdicts == told(path, simulated) and {status for _, _, status in verdicts} == {"valid"}
    assert ("0", "validity", "valid") in verdicts
    members = {group.id: group.processes for group in load_scenario(path).groups_of_run()}
    assert measure(list(read_rows(live)), RunSummary(members, composed=True)).undelivered_count() == 0


@pytest.mark.full
def test_a_link_between_two_routers_carries_causal_order(tmp_path: Path) -> None:
    text = PATH.read_text(encoding="utf-8")
    text = text.replace('name = "cable"\nstack = "token-site"', 'name = "cable"\nkind = "link"')
    text = text.replace('"causal-total"', '"causal"').replace('"shadow-and-hold"', '"plain"')
    path = tmp_path / "link.toml"
    path.write_text(text, encoding="utf-8")
    (tmp_path / "live").mkdir()
    verdicts = told(path, live_of(path, tmp_path / "live"))
    assert verdicts == told(path, simulated_of(path, tmp_path / "sim"))
    assert {status for _, _, status in verdicts} == {"valid"}
    assert ("offices", "causal", "valid") in verdicts
