"""`isthmus compare` and `--stack` as a user meets them, and the parts behind them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from tests.planted.transport import PLANTED

from isthmus.advise.compare.choice import choose
from isthmus.advise.compare.figures import SEEDS_MIN, figures_of, mean_of
from isthmus.advise.compare.measure import ComparedRun, run_compared
from isthmus.advise.compare.processes import WorkerDied, each
from isthmus.advise.compare.run import compare
from isthmus.core.errors import InputError
from isthmus.judge.judgement import Judgement
from isthmus.judge.result import RunResult
from isthmus.judge.verdict import Verdict
from isthmus.measure.summary import RunSummary
from isthmus.scenario.load import load_scenario
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.variants import with_stack
from isthmus.scenario.workload import Poisson
from isthmus.stacks.registry import STACKS
from isthmus.studies.causal.setup import LAN, WAN
from isthmus.topology.shapes import lan_ring

SCENARIO = """
name = "small"
seed = 4
duration_ms = 800
[topology]
defaults = { lan = { delay = 1 }, wan = { delay = 10 } }
clusters = [{ name = "a", sites = 2 }, { name = "b" }]
[stack]
name = "token-site"
sequencer = "b-0"
credit = { window = 77 }
[[workloads]]
kind = "poisson"
rate_per_s = 40
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch) -> Path:
    (tmp_path / "small.toml").write_text(SCENARIO)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "small.toml"


def test_all_stacks_are_compared_judged_and_drawn(path: Path, isthmus) -> None:
    code, out, err = isthmus("compare", "small.toml", "--all", "--seeds", "3", "--jobs", "1")
    assert (code, err.strip()) == (0, "")
    for name, stack in STACKS.items():
        assert f"{name}: {', '.join(stack.properties)}: valid in 3 runs" in out
    assert "guess ms" in out and "hits %" in out
    assert out.count("Choose ") == 1 and "per message" in out
    folder = path.parent / "out" / "small-compare-4"
    found = json.loads((folder / "compare.json").read_text())
    assert [row["stack"] for row in found["stacks"]] == list(STACKS) and found["seeds"] == [4, 5, 6]
    assert (folder / "compare.svg").exists() and (folder / "compare.png").exists()
    code, _, err = isthmus("compare", "small.toml", "--all", "--seeds", "1")
    assert code == 2 and "--force" in err


def test_an_earlier_comparison_stays_until_there_is_another(path: Path, isthmus) -> None:
    folder = path.parent / "mine"
    folder.mkdir()
    (folder / "compare.json").write_text("earlier")
    (folder / "notes.txt").write_text("notes")
    code, _, _ = isthmus("compare", "small.toml", "--stack", "nope", "-o", "mine", "--force")
    assert code == 2 and (folder / "compare.json").read_text() == "earlier"
    code, _, _ = isthmus("compare", "small.toml", "--stack", "fifo", "--seeds", "1", "-o", "mine", "--force")
    assert code == 0 and (folder / "compare.json").read_text() != "earlier"
    assert (folder / "notes.txt").read_text() == "notes"
    code, _, err = isthmus("compare", "small.toml", "--stack", "fifo", "-o", "mine/notes.txt/deeper")
    assert code == 2 and "expected a folder for new files" in err


def test_processes_change_no_figure(path: Path) -> None:
    scenario = load_scenario(path)
    alone, many = (compare(scenario, ["fifo", "optimistic"], range(3), jobs=jobs) for jobs in (1, 2))

    def without_cpu(result):
        rows = [msgspec.structs.replace(row, cpu_us_per_delivery=mean_of([0.0])) for row in result.stacks]
        return msgspec.json.encode(msgspec.structs.replace(result, stacks=tuple(rows)))

    assert without_cpu(alone) == without_cpu(many)


def test_json_is_all_that_is_printed(path: Path, isthmus) -> None:
    code, out, err = isthmus(
        "compare", "small.toml", "--stack", "fifo", "--stack", "token-site", "--seeds", "1", "--json"
    )
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["choice"]["stack"] == "token-site"  # fifo does not promise what the scenario's stack does
    assert found["stacks"][0]["message_ms"]["half"] is None
    code, out, err = isthmus("sim", "small.toml", "--stack", "optimistic", "--json")
    found = json.loads(out)
    assert (code, err, found["stack"], found["hit_percent"] > 0) == (0, "", "optimistic", True)
    assert found["tentative_ms"]["mean"] < found["delivery_ms"]["mean"]


def test_sim_takes_a_stack_and_shows_guesses_in_a_folder_of_its_own(path: Path, isthmus) -> None:
    code, out, _ = isthmus("sim", "small.toml", "--stack", "optimistic")
    assert code == 0 and "tentative latency" in out and "hit ratio" in out
    assert "The trace is in out/small-optimistic-4." in out
    assert "hit ratio" not in isthmus("sim", "small.toml")[1]


def test_a_stack_takes_over_what_it_knows(path: Path) -> None:
    scenario = load_scenario(path)
    optimistic, fifo = with_stack(scenario, "optimistic").stack, with_stack(scenario, "fifo").stack
    assert (optimistic.sequencer, optimistic.credit.window) == ("b-0", 77)
    assert (fifo.sequencer, fifo.credit.window) == (None, 77)
    (path.parent / "own.toml").write_text('name = "hybrid"\nhybrid = { active = ["a-0"] }\n')
    assert with_stack(scenario, "own.toml").stack.hybrid.active == ("a-0",)
    with pytest.raises(InputError, match="did you mean hybrid"):
        with_stack(scenario, "hybird")


def test_a_stack_that_does_not_run_there_is_left_out_of_all_and_refused_by_name(path: Path) -> None:
    path.write_text(SCENARIO.replace("{ delay = 10 }", "{ delay = 10, fifo = false }").replace(
        'name = "token-site"\nsequencer = "b-0"', 'name = "unordered"\ntransport = "direct"'))  # fmt: skip
    scenario = load_scenario(path)
    result = compare(scenario, list(STACKS), [1], strict=False)
    able = {name for name, stack in STACKS.items() if stack.reorders or "transport" not in stack.options}
    assert {row.stack for row in result.stacks} == able
    assert set(result.left_out) == set(STACKS) - able
    with pytest.raises(InputError, match="direct"):
        compare(scenario, ["token-site"], [1])


def test_groups_with_stacks_of_their_own_cannot_be_compared(path: Path) -> None:
    path.write_text(SCENARIO + '[[groups]]\nname = "g"\nstack = { name = "fifo" }\n')
    with pytest.raises(InputError, match="a stack of their own"):
        with_stack(load_scenario(path), "fifo")


def test_a_broken_promise_is_told_with_the_command_that_shows_it(path: Path, isthmus, monkeypatch) -> None:
    stack, build = PLANTED["a gap ignored"]
    monkeypatch.setitem(STACKS, stack, msgspec.structs.replace(STACKS[stack], build=build))
    path.write_text(SCENARIO.replace("{ delay = 10 }", "{ delay = 10, loss = 0.2 }"))
    code, out, _ = isthmus("compare", "small.toml", "--stack", stack, "--seeds", "1", "--jobs", "1")
    assert code == 1 and "broken" in out and f"isthmus sim small.toml --stack {stack} --seed 4" in out
    assert "No choice" in out


def test_what_crashes_kept_from_being_delivered_stands_beside_the_latencies(path: Path, isthmus) -> None:
    """A site that is down is owed nothing, which would flatter a stack that leaves it out early."""
    argument = ("compare", "small.toml", "--stack", "fifo", "--seeds", "1", "--jobs", "1", "-o", "mine", "--force")
    _, out, _ = isthmus(*argument)
    assert " undelivered " not in out
    slow = SCENARIO.replace("{ delay = 10 }", "{ delay = 200 }")
    path.write_text(slow + '[[faults]]\nkind = "crash"\nsite = "a-0"\nat_ms = 300\n')
    _, out, _ = isthmus(*argument)
    assert " delivered " in out and " undelivered " in out
    (row,) = msgspec.json.decode((path.parent / "mine" / "compare.json").read_bytes())["stacks"]
    assert row["forgiven"] > 0 and row["undelivered"] == 0


# The choice


def compared(stack: str, seed: int, ms: float, packets: int = 100, status: str = "valid") -> ComparedRun:
    summary = RunSummary(2)
    summary.submitted_count = 10
    summary.delivered.add(round(ms * 1e6))
    summary.per_message.add(round(ms * 1e6))
    judgement = Judgement((Verdict("total", status, 1, 0, ""),))  # type: ignore[arg-type]
    scenario = Scenario(
        topology=lan_ring(2, 1, LAN, WAN), stack=StackSpec(name="fifo"), workloads=(Poisson(rate_per_s=1),), seed=seed
    )
    return ComparedRun(stack, RunResult(scenario=scenario, summary=summary, judgement=judgement, packets=packets))


def row(stack: str, latencies: list[float], **more):
    return figures_of(stack, [compared(stack, seed, ms, **more) for seed, ms in enumerate(latencies)])


PROMISES = {"a": ("total",), "b": ("total", "final"), "c": ("fifo",)}


def test_the_fastest_that_promises_enough_is_chosen() -> None:
    rows = [row("a", [20, 21, 20]), row("b", [30, 31, 32]), row("c", [1, 1, 1])]
    choice = choose(rows, PROMISES, ["total"])
    assert choice.stack == "a" and "the least of the 2 that keep total" in choice.sentence
    assert "next is b with 31.0" in choice.sentence


def test_within_the_spread_of_the_seeds_fewer_packets_count() -> None:
    rows = [row("a", [20, 24, 20], packets=300), row("b", [21, 21, 22])]
    assert choose(rows, PROMISES, ["total"]).stack == "b"
    paired = [row("a", [20, 40, 60], packets=300), row("b", [21, 41, 61.1])]  # apart in every seed by the same
    assert choose(paired, PROMISES, ["total"]).stack == "a"
    few = [row("a", [20], packets=300), row("b", [21])]
    assert choose(few, PROMISES, ["total"]).stack == "a" and "no interval" in choose(few, PROMISES, ["total"]).sentence


def test_nothing_is_chosen_that_did_not_keep_its_promise() -> None:
    rows = [row("a", [20, 20, 20], status="violated"), row("c", [1, 1, 1])]
    assert choose(rows, PROMISES, ["total"]).stack is None
    assert choose([rows[1]], PROMISES, ["total"]).stack is None
    assert "of the stacks that promise total, none was seen to keep" in choose(rows, PROMISES, ["total"]).sentence
    assert "none of the stacks promises total" in choose([rows[1]], PROMISES, ["total"]).sentence


def test_intervals_need_seeds() -> None:
    assert mean_of([1.0] * (SEEDS_MIN - 1)).half is None
    assert mean_of([1.0, 2.0, 3.0]).half == pytest.approx(2.484, abs=0.001)  # Student's t of 2 degrees: 4.303


# Processes


def double(number: int) -> int:
    if number < 0:
        os._exit(9)
    return 2 * number


def test_results_come_with_their_place_from_one_process_or_several() -> None:
    for jobs in (1, 3):
        assert sorted(each(double, list(range(7)), jobs)) == [(place, 2 * place) for place in range(7)]


def test_a_worker_that_dies_is_an_error_and_not_a_wait_for_ever() -> None:
    with pytest.raises(WorkerDied, match="code 9"):
        list(each(double, [1, -1, 2, 3], 2))


def test_ctrl_c_leaves_no_process_behind(path: Path) -> None:
    path.write_text(SCENARIO.replace("duration_ms = 800", "duration_ms = 800_000"))
    code = "from isthmus.cli.main import main; main()"
    words = ["compare", "small.toml", "--all", "--jobs", "2"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 30
    while len(group_of(process.pid)) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert err.strip().endswith("isthmus: interrupted") and "Traceback" not in err
    while group_of(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert group_of(process.pid) == []


def group_of(session: int) -> list[int]:
    """The processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def test_causal_stacks_tell_their_metadata() -> None:
    """Entries and bytes of timestamps, entries of histories; a matrix has as many as pairs of members."""
    topology = lan_ring(3, 2, LAN, WAN)
    workloads = (Poisson(rate_per_s=20),)
    made = {}
    for stack in ("causal-vector", "causal-matrix", "causal-history"):
        scenario = Scenario(topology=topology, stack=StackSpec(name=stack), workloads=workloads, duration_ms=500)
        made[stack] = figures_of(
            stack, [run_compared((stack, msgspec.structs.replace(scenario, seed=seed))) for seed in (1, 2, 3)]
        )
    sites = len(topology.sites)
    vector, matrix, history = made.values()
    assert vector.timestamp_entries.mean == sites and vector.timestamp_bytes.mean >= sites
    assert matrix.timestamp_entries.mean == sites**2 and matrix.timestamp_bytes.mean >= sites**2
    assert vector.history_entries is None and matrix.history_entries is None
    assert 0 < history.timestamp_entries.mean < sites**2 and history.timestamp_bytes.mean > 0
    assert history.history_entries.mean > 0
