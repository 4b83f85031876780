"""The coordinator and its processes: what is refused, and that none outlives its run."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.harness.ports import free_ports

from isthmus.cli.live import command
from isthmus.core.errors import InputError, LocalError
from isthmus.core.layer import Kind
from isthmus.judge.judgement import judge
from isthmus.judge.oracle import Oracle
from isthmus.live.run.harness import run_live, tally
from isthmus.live.run.scenario import live_scenario
from isthmus.scenario.load import load_scenario, scenario_from_tables
from isthmus.trace.reader import read_rows
from isthmus.trace.schema import DESTINATIONS, GAUGE, GROUP, KIND, ORIGIN, PROCESS, VALUE, Gauge, Recording

TIMEOUT_S = 60.0
TABLES: dict[str, Any] = {
    "duration_ms": 200.0,
    "stack": {"name": "fifo"},
    "topology": {"defaults": {"lan": {"delay": 0.1}}, "clusters": [{"name": "c", "sites": 2}]},
    "workloads": [{"kind": "periodic", "rate_per_s": 50.0}],
}
CRASH = {"kind": "crash", "site": "c-0", "at_ms": 1.0}
TOML = """
duration_ms = {duration_ms}
stack.name = "fifo"
topology.defaults.lan.delay = 0.1
topology.clusters = [{{ name = "c", sites = 2 }}]
workloads = [{{ kind = "periodic", rate_per_s = 50.0 }}]
"""


GROUPS_TOML = """
duration_ms = 300
stack.name = "fifo"
topology.defaults.lan.delay = 0.1
topology.clusters = [{ name = "c", sites = 3 }]
groups = [{ name = "all" }, { name = "some", sites = ["c-1", "c-2"], stack = { name = "token-site" } }]
workloads = [
    { kind = "periodic", rate_per_s = 50.0, group = "all" },
    { kind = "periodic", rate_per_s = 50.0, group = "some" },
]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "two.toml"
    path.write_text(TOML.format(duration_ms=200))
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"faults": [CRASH], "membership": {"kind": "ideal"}}, "faults.0.: found a crash"),
        ({"faults": [CRASH | {"kind": "clock-jump", "by_ms": 5.0}]}, "found a clock-jump; expected crash"),
        ({"random_faults": {"clock_jumps": 1}}, "random_faults.clock_jumps: found 1"),
        ({"random_faults": {"crashes": 1}, "membership": {"kind": "ideal"}}, "random_faults: found crashes"),
        ({"stack": {"name": "fifo", "transport": "direct"}}, "UDP may lose"),
        ({"clocks": {"offset_ms": 1.0}}, "clocks: found"),
        ({"topology": {"defaults": {"lan": {"delay": 1}}, "clusters": [{"name": "c", "sites": 17}]}}, "found 17 sites"),
    ],
)
def test_what_cannot_be_done_live_is_refused(change: dict[str, Any], words: str) -> None:
    scenario = scenario_from_tables(TABLES | change, "two.toml", Path())
    with pytest.raises(InputError, match=words):
        live_scenario(scenario, "two.toml")


def test_what_says_nothing_of_the_membership_agrees_on_views() -> None:
    """And may have faults; the ideal service, asked for by its kind or by an option of it, is one view for good."""
    plain = scenario_from_tables(TABLES | {"faults": [CRASH]}, "two.toml", Path())
    assert plain.membership.kind is None and live_scenario(plain, "two.toml").membership.kind == "agreed"
    for asked in ({"kind": "ideal"}, {"detection_ms": 100.0}):
        ideal = scenario_from_tables(TABLES | {"membership": asked}, "two.toml", Path())
        assert live_scenario(ideal, "two.toml") is ideal


def test_what_is_owed_is_what_was_sent_and_not_delivered() -> None:
    statuses = [{"sent": [2, 1], "delivered": 2}, {"sent": [0, 3], "delivered": 4}]
    assert tally(statuses) == ([2, 4], [2, 4])
    assert tally([{}, {}]) == ([0, 0], [0, 0])


@pytest.mark.parametrize("how", ["--no-emulate", "--sealed"])
def test_the_command_runs_and_judges(how: str, path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    result = CliRunner().invoke(command, [str(path), "-o", str(folder), how])
    assert result.exit_code == 0, result.output
    assert "5 valid, 0 violated, 0 unknown" in result.output
    again = CliRunner().invoke(command, [str(path), "-o", str(folder)])
    assert isinstance(again.exception, InputError) and "--force" in str(again.exception)


@pytest.mark.parametrize("kind", ["ideal", "agreed"])
def test_sites_listen_where_the_topology_says(kind: str, tmp_path: Path) -> None:
    first, second = free_ports(["a", "b"]).values()
    path = tmp_path / "placed.toml"
    sites = f'[{{ name = "a", address = "127.0.0.1:{first}" }}, {{ name = "b", address = "127.0.0.2:{second}" }}]'
    made = TOML.format(duration_ms=200).replace("sites = 2", f"sites = {sites}")
    path.write_text(made + f'membership.kind = "{kind}"\n')
    summaries = asyncio.run(asyncio.wait_for(run_live(load_scenario(path), path, tmp_path, emulate=False), TIMEOUT_S))
    assert [summary.delivered > 5 for summary in summaries] == [True, True]
    path.write_text(made.replace("127.0.0.2", "192.0.2.1"))
    with pytest.raises(LocalError, match=r"192\.0\.2\.1:\d+, which cannot be bound"):
        asyncio.run(asyncio.wait_for(run_live(load_scenario(path), path, tmp_path, emulate=False), TIMEOUT_S))


def test_groups_of_a_scenario_run_beside_each_other(tmp_path: Path) -> None:
    path = tmp_path / "groups.toml"
    path.write_text(GROUPS_TOML)
    folder = tmp_path / "out"
    result = CliRunner().invoke(command, [str(path), "-o", str(folder), "--no-emulate"])
    assert result.exit_code == 0, result.output
    assert "0 owed" in result.output and "11 valid" in result.output and "0 unknown" in result.output
    delivered = {(row[GROUP], row[PROCESS]) for row in read_rows(folder) if row[KIND] == Kind.DELIVER}
    assert delivered == {(0, 0), (0, 1), (0, 2), (1, 1), (1, 2)}


AGREED_TOML = """
duration_ms = 4_000
drain_ms = 20_000
membership = "agreed"
stack.name = "token-site"
topology.defaults.lan.delay = 0.1
topology.clusters = [{ name = "c", sites = 3 }]
workloads = [{ kind = "periodic", rate_per_s = 30.0 }]
faults = [
    { kind = "crash", site = "c-0", at_ms = 1_500 },
    { kind = "recover", site = "c-0", at_ms = 2_000 },
    { kind = "leave", site = "c-2", at_ms = 3_500 },
]
"""


LINKS_TOML = """
duration_ms = 1_500
drain_ms = 20_000
stack.name = "token-site"
topology.defaults.lan.delay = 0.1
topology.clusters = [{ name = "c", sites = 3 }]
workloads = [{ kind = "periodic", rate_per_s = 30.0 }]
random_faults = { losses = 1 }
faults = [
    { kind = "loss", at_ms = 200, until_ms = 1_000, source = ["c-0"], target = ["c-1"], probability = 1.0 },
    { kind = "delay-shift", at_ms = 300, until_ms = 900, source = ["c-2"], add_ms = 20 },
]
"""


@pytest.mark.parametrize("more", [[], ["--no-emulate"]])
def test_links_that_fail_in_one_direction_lose_and_delay(more: list[str], tmp_path: Path) -> None:
    path = tmp_path / "links.toml"
    path.write_text(LINKS_TOML)
    result = CliRunner().invoke(command, [str(path), "-o", str(tmp_path / "out"), *more])
    assert result.exit_code == 0, result.output
    assert "s  loss of 100 % from c-0 to c-1" in result.output and "end of loss of 100 %" in result.output
    assert "delay times 1 plus 20 ms from c-2 to all" in result.output


@pytest.mark.full
def test_sites_that_agree_on_views_go_on_without_one_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "agreed.toml"
    path.write_text(AGREED_TOML)
    news: list[str] = []
    asyncio.run(
        asyncio.wait_for(
            run_live(
                load_scenario(path), path, tmp_path / "live", emulate=False, news=lambda _, text: news.append(text)
            ),
            TIMEOUT_S,
        )
    )
    assert "c-0 is killed" in news and "c-0 is started again" in news and "c-2 leaves" in news
    views = [text.split(": ")[1] for text in news if text.startswith("view ")]
    assert "c-1, c-2" in views and views.index("c-0, c-1, c-2") < views.index("c-1, c-2")
    found = {verdict.property: verdict for verdict in Oracle(read_rows(tmp_path / "live")).verdicts()}
    for name in ("agreement", "fifo", "total", "views", "primary"):
        assert found[name].status == "valid", found[name]
    for name in ("integrity", "validity"):
        assert found[name].status != "violated", found[name]  # the last rows of the killed process may be gone


PAUSED_TOML = """
duration_ms = 5_000
drain_ms = 20_000
stack.name = "token-site"
topology.defaults.lan.delay = 0.1
topology.clusters = [{ name = "c", sites = 3 }]
workloads = [{ kind = "periodic", rate_per_s = 30.0 }]
membership.kind = "agreed"
membership.agreed.lan = { heartbeat_ms = 20, floor_ms = 1_500, ceiling_ms = 1_600 }
faults = [
    { kind = "pause", site = "c-1", at_ms = 1_000, until_ms = 1_200 },
    { kind = "pause", site = "c-2", at_ms = 2_000, until_ms = 5_000 },
]
"""


@pytest.mark.full
def test_a_process_that_stands_still_is_left_out_only_where_that_takes_too_long(tmp_path: Path) -> None:
    path = tmp_path / "paused.toml"
    path.write_text(PAUSED_TOML)
    news: list[str] = []
    scenario, folder = load_scenario(path), tmp_path / "live"
    live = run_live(scenario, path, folder, emulate=False, news=lambda _, text: news.append(text))
    asyncio.run(asyncio.wait_for(live, TIMEOUT_S))
    assert not [text for text in news if "suspects c-1" in text]
    views = [text.split(": ")[1] for text in news[news.index("c-2 is stopped") :] if text.startswith("view ")]
    assert views == ["c-0, c-1", "c-0, c-1, c-2"]
    rows = list(read_rows(folder))
    stood = {row[PROCESS]: row[VALUE] / 1e6 for row in rows if row[GAUGE] == Gauge.PAUSE_NS}
    assert stood == {1: pytest.approx(200, abs=150), 2: pytest.approx(3_000, abs=150)}
    assert [row[PROCESS] for row in rows if row[KIND] == Kind.CRASH] == [2]
    assert "violated" not in {verdict.status for verdict in judge(scenario, rows).verdicts}


PARTICIPANTS_TOML = """
duration_ms = 5_000
drain_ms = 20_000
stack.name = "{stack}"
topology.defaults.lan.delay = 0.1
topology.clusters = [{{ name = "c", sites = 3 }}]
workloads = [{{ kind = "periodic", rate_per_s = 10.0 }}]
membership = "agreed"
participants = [
    {{ name = "ann", group = "orders", site = "c-0", period_ms = 20 }},
    {{ name = "bob", group = "orders", site = "c-1", period_ms = 20, join_ms = 500, leave_ms = 4_500 }},
    {{ name = "eve", group = "orders", site = "c-2", period_ms = 20, join_ms = 800 }},
]
faults = [
    {{ kind = "pause", site = "c-2", at_ms = 2_000, until_ms = 4_000 }},
]
"""


@pytest.mark.full
@pytest.mark.parametrize("stack", ["token-site", "fifo"])
def test_participants_of_a_live_run_are_judged_by_its_trace(tmp_path: Path, stack: str) -> None:
    path, folder = tmp_path / "light.toml", tmp_path / "out"
    path.write_text(PARTICIPANTS_TOML.format(stack=stack))
    result = CliRunner().invoke(command, [str(path), "-o", str(folder), "--no-emulate"])
    assert result.exit_code != 1, result.output
    rows = list(read_rows(folder))
    (orders,) = judge(load_scenario(path), rows).participants
    judged = {verdict.property for verdict in orders.verdicts if verdict.status == "valid"}
    assert judged >= {"integrity", "agreement", "views", "fifo"}, orders
    hosts = [row[DESTINATIONS] for row in rows if row[KIND] == Kind.VIEW and row[ORIGIN] == 0 and row[PROCESS] == 0]
    assert (0, 1, 2) in hosts and (0, 1) in hosts[hosts.index((0, 1, 2)) :]  # eve's site was left out, with eve


def test_a_site_that_fails_fails_the_run(path: Path, tmp_path: Path) -> None:
    scenario = load_scenario(path)
    path.write_text("nonsense")
    with pytest.raises(LocalError, match="ended too early"):
        asyncio.run(asyncio.wait_for(run_live(scenario, path, tmp_path / "out"), TIMEOUT_S))


def site_process(path: Path, folder: Path) -> tuple[subprocess.Popen[str], int]:
    """A site alone, its peer absent, started and under way."""
    process = subprocess.Popen(
        [sys.executable, "-m", "isthmus.live.run.site_process", str(path), "--site", "0", "--out", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    port = json.loads(process.stdout.readline())["port"]
    process.stdin.write(json.dumps({"ports": [port, port ^ 1], "start_ns": 0}) + "\n")
    process.stdin.flush()
    while not json.loads(process.stdout.readline())["delivered"]:
        pass
    return process, port


@pytest.mark.parametrize("end", ["input", "terminate", "interrupt"])
def test_a_site_ends_when_told_or_left_alone_and_its_trace_is_readable(path: Path, tmp_path: Path, end: str) -> None:
    path.write_text(TOML.format(duration_ms=600_000) + 'membership = "ideal"\n')
    process, _ = site_process(path, tmp_path / "out")
    if end == "input":
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
    else:
        process.send_signal(signal.SIGTERM if end == "terminate" else signal.SIGINT)
    assert process.wait(TIMEOUT_S) == 0
    assert list(read_rows(tmp_path / "out"))
    assert process.stdout is not None
    assert "summary" in process.stdout.read()
    process.stdout.close()
    if process.stdin is not None:
        process.stdin.close()


def test_an_interrupted_run_leaves_no_process(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(TOML.format(duration_ms=600_000))
    folder = tmp_path / "out"
    started: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def start_and_note(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_and_note)

    async def interrupted() -> None:
        under_way = asyncio.Event()
        run = asyncio.create_task(
            run_live(load_scenario(path), path, folder, progress=lambda _s, done, _o: under_way.set() if done else None)
        )
        await under_way.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(asyncio.wait_for(interrupted(), TIMEOUT_S))
    rows = list(read_rows(folder))
    last = {row[PROCESS]: row[VALUE] for row in rows if row[KIND] == Kind.RECORD}
    assert last == {0: Recording.CUT, 1: Recording.CUT}
    validity = Oracle(rows).verdicts(["validity"])[0]
    assert (validity.status, validity.witness) == ("unknown", "the trace of processes 0, 1 was cut short")
    assert len(started) == 2 and all(process.returncode is not None for process in started)
