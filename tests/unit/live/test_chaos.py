"""Chaos: what is planted in the records of a round is found, a round is a function of its seed, and a few run live."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from isthmus.cli.live import command
from isthmus.core.errors import InputError
from isthmus.live.chaos.compare import ChaosFinding, Order, RecordComparison
from isthmus.live.chaos.plan import CHAOS_STACKS, ChaosOptions, plan_of
from isthmus.live.chaos.records import Recorder, read_records
from isthmus.scenario.faults import Crash, Heal, Loss, Partition, Pause, Recover

NAMES = ["a-0", "a-1", "b-0"]
WAIT_S = 120.0
# Three sites, each of which sends one message after it has delivered the one before, and says that it is settled.
FIRST = ["view 1 7", "sent 0.0.1 11", "taken 0.0.1", "delivered 0.0.1 11", "settled 0.0.1"]
SECOND = ["restored", "view 1 8", "delivered 0.0.1 11", "sent 1.0.1 22 0.0.1", "taken 1.0.1"]
THIRD = ["restored", "view 1 9", "delivered 0.0.1 11", "delivered 1.0.1 22", "sent 2.0.1 33 0.0.1 1.0.1"]
REST = ["delivered 1.0.1 22", "delivered 2.0.1 33"]
GOOD = [[*FIRST, *REST], [*SECOND, *REST], [*THIRD, "taken 2.0.1", "delivered 2.0.1 33"]]
# The third site ends its life with a message that nobody else has; or with one that has another place elsewhere.
ENDED = [*THIRD, "taken 2.0.1", "delivered 2.0.1 33"]
AGAIN = ["restored 0.0.1 1.0.1", "view 2 10"]


def compared(
    folder: Path, files: list[list[str]], order: Order = "total", safe: bool = False, ended: bool = True
) -> list[ChaosFinding]:
    for site, lines in enumerate(files):
        recorder = Recorder(folder, site, 0)
        for line in lines:
            recorder.note(*line.split())
    records = read_records(folder)
    return RecordComparison(records, NAMES, order, safe, records if ended else ()).run()


@pytest.mark.parametrize("order", ["total", "causal", "fifo"])
@pytest.mark.parametrize("safe", [True, False])
def test_nothing_is_found_where_nothing_is_wrong(order: Order, safe: bool, tmp_path: Path) -> None:
    assert compared(tmp_path, GOOD, order, safe) == []


@pytest.mark.parametrize(
    ("kind", "site", "old", "new"),
    [
        ("not sent", 1, "delivered 2.0.1 33", "delivered 2.0.2 33"),
        ("altered", 1, "delivered 2.0.1 33", "delivered 2.0.1 34"),
        ("refused", 2, "taken 2.0.1", "refused 2.0.1"),
        ("duplicate", 0, "delivered 2.0.1 33", "delivered 1.0.1 22"),
        ("agreement", 0, "delivered 2.0.1 33", "view 2 7"),
        ("fifo", 0, "settled 0.0.1", "delivered 0.0.0 11"),
    ],
)
def test_a_planted_fault_is_found(kind: str, site: int, old: str, new: str, tmp_path: Path) -> None:
    files = [list(lines) for lines in GOOD]
    files[site][files[site].index(old)] = new
    assert kind in [finding.kind for finding in compared(tmp_path, files)]


def test_another_order_is_found_where_one_is_promised(tmp_path: Path) -> None:
    swapped = [line for line in GOOD[0] if line not in REST] + REST[::-1]
    files = [swapped, *GOOD[1:]]
    assert [one.kind for one in compared(tmp_path, files, "total")] == ["causal", "order", "order"]
    (found,) = compared(tmp_path, files, "causal")
    assert found == ChaosFinding(
        "causal", "a-0: delivered 2.0.1 before 1.0.1, which its sender had delivered before it"
    )
    assert compared(tmp_path, files, "fifo") == []


def test_what_a_life_delivered_last_may_be_lost_but_not_with_safe_delivery(tmp_path: Path) -> None:
    """Nor what it had delivered before a view that it went on to."""
    short = [line for line in GOOD[0] if line != "delivered 2.0.1 33"]
    files = [short, [line for line in GOOD[1] if line != "delivered 2.0.1 33"], [*ENDED, *AGAIN]]
    assert compared(tmp_path, files) == []
    (found,) = compared(tmp_path, files, safe=True)
    assert found == ChaosFinding("lost", "b-0: delivered 2.0.1 safely (1 such), which is lost")
    files[2] = [*ENDED, "view 2 9", *AGAIN]
    (found,) = compared(tmp_path, files)
    assert found == ChaosFinding("lost", "b-0: delivered 2.0.1 before its last view (1 such), which is lost")
    assert compared(tmp_path, files, ended=False) == [], "a round that never rested has no end to compare with"


def test_a_life_that_delivered_the_last_message_twice_is_a_finding(tmp_path: Path) -> None:
    twice = [*GOOD[2], "delivered 2.0.1 33", "view 2 9"]
    found = compared(tmp_path, [*GOOD[:2], twice])
    assert ChaosFinding("duplicate", "b-0: delivered 2.0.1 twice") in found
    assert ChaosFinding("order", "b-0: delivered 2.0.1 as number 4, where nothing is in the end") in found


def test_an_order_that_a_dead_process_saw_alone_counts_with_safe_delivery(tmp_path: Path) -> None:
    dead = ["restored", "view 1 9", "delivered 1.0.1 22"]
    for site, lines in enumerate([*GOOD[:2], dead]):
        recorder = Recorder(tmp_path, site, 0)
        for line in lines if site < 2 else [line for line in lines if "2.0.1" not in line]:
            recorder.note(*line.split())
    recorder = Recorder(tmp_path, 2, 1)
    for line in ["restored 0.0.1 1.0.1", "view 2 10", "sent 2.0.1 33", "taken 2.0.1", "delivered 2.0.1 33"]:
        recorder.note(*line.split())
    records = read_records(tmp_path)
    ended = [(0, 0), (1, 0), (2, 1)]
    assert RecordComparison(records, NAMES, "total", False, ended).run() == []
    assert RecordComparison(records, NAMES, "total", True, ended, first_start=1).run() == [], "after a power cut"
    (found,) = RecordComparison(records, NAMES, "total", True, ended).run()
    assert found == ChaosFinding("order", "b-0: delivered 1.0.1 as number 1, where 0.0.1 is in the end")


def test_what_was_settled_must_be_there(tmp_path: Path) -> None:
    files = [[*GOOD[0], "sent 0.0.2 44", "taken 0.0.2", "settled 0.0.2", "restored 0.0.1 1.0.1 2.0.1"], *GOOD[1:]]
    (found,) = compared(tmp_path, files)
    assert found.kind == "settled" and "0.0.2" in found.text
    files[0] = [line for line in files[0] if line != "settled 0.0.2"]
    assert compared(tmp_path, files) == []


def test_a_round_is_a_function_of_its_seed_and_keeps_its_rules() -> None:
    kinds, stacks = set(), set()
    for seed in range(300):
        plan = plan_of(ChaosOptions(seed))
        assert plan_of(ChaosOptions(seed)) == plan
        scenario, faults = plan.scenario, plan.scenario.faults
        stacks.add(scenario.stack.name)
        kinds |= {type(fault) for fault in faults} | {key for action in plan.actions for key in action.command}
        victims = {fault.site for fault in faults if isinstance(fault, Crash)}
        assert len(victims) == 5 if plan.power_cut else len(victims) <= 2, "a majority lives on"
        assert not plan.power_cut or (scenario.membership.agreed.file and not plan.forgets)
        for fault in faults:
            assert max(fault.at_ms, getattr(fault, "until_ms", 0.0)) <= scenario.duration_ms
            if victims and not plan.power_cut and isinstance(fault, Pause):
                assert len(victims | {fault.site}) <= 2
        for site in victims:
            ups = [isinstance(one, Recover) for one in faults if isinstance(one, Crash | Recover) and one.site == site]
            assert ups == [False, True] * (len(ups) // 2)
        ends = [isinstance(fault, Heal) for fault in faults if isinstance(fault, Partition | Heal)]
        assert ends == [False, True] * (len(ends) // 2)
    assert stacks == set(CHAOS_STACKS)
    assert {Crash, Recover, Pause, Partition, Loss, "block_s", "slow_ms", "large"} <= kinds


def test_what_is_given_replaces_what_is_drawn_and_nothing_else() -> None:
    drawn, given = plan_of(ChaosOptions(3)), plan_of(ChaosOptions(3, "ring", True, None, True))
    assert given.scenario.stack.name == "ring" and given.scenario.stack.safe and given.overload
    assert given.scenario.faults == drawn.scenario.faults and given.actions == drawn.actions
    assert ChaosOptions(3, "ring", True, False).command() == "isthmus live --chaos 3 --stack ring --safe --no-files"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Give a scenario, or --chaos SEED"),
        (["--chaos", "1", "x.toml"], "takes neither a scenario"),
        (["x.toml", "--rounds", "2"], "go with --chaos"),
        (["x.toml", "--safe"], "go with --chaos"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words: list[str], said: str) -> None:
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 2 and said in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--chaos", "1", "--stack", "flooding", "--safe"], "found the stack flooding; expected a stack with safe"),
        (["--chaos", "1", "-o", "/dev/null/x"], "found Not a directory; expected a folder"),
        (["examples/three-lans.toml", "-o", "/dev/null/x"], "found Not a directory; expected a folder"),
    ],
)
def test_what_cannot_be_is_refused_before_a_process_starts(words: list[str], said: str) -> None:
    result = CliRunner().invoke(command, words)
    assert isinstance(result.exception, InputError) and said in str(result.exception)


def test_a_round_runs_and_is_judged(tmp_path: Path) -> None:
    """Two sites are killed at a time, one of them cut off in one direction; large messages, blocked loops; safe."""
    folder = tmp_path / "kept"
    words = ["--chaos", "32", "--stack", "token-site", "--safe", "--no-overload", "--json", "-o", str(folder)]
    result = CliRunner().invoke(command, words)
    found = json.loads(result.output)
    (only,) = found["rounds"]
    assert result.exit_code == 0 and only["good"] and only["findings"] == [], only
    assert only["messages"] > 50 and only["deliveries"] > 3 * only["messages"] and only["rest_s"] is not None
    assert found["replay"] == "isthmus live --chaos 32 --stack token-site --safe --no-overload"
    assert {one["property"] for one in only["verdicts"] if one["status"] == "valid"} >= {
        "total",
        "agreement",
        "primary",
    }
    again = CliRunner().invoke(command, words)
    assert "expected an empty folder, or --force" in str(again.exception)


def test_an_interrupted_round_leaves_no_process(tmp_path: Path) -> None:
    words = ["--chaos", "1", "--overload", "-o", str(tmp_path)]
    run = subprocess.Popen(
        [sys.executable, "-m", "isthmus", "live", *words], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert run.stdout is not None
    for line in run.stdout:
        if "view 1" in line:
            break
    run.send_signal(signal.SIGINT)
    assert run.wait(WAIT_S) == 130
    end = time.monotonic() + WAIT_S
    while any(str(tmp_path) in text for text in command_lines()):
        assert time.monotonic() < end
        time.sleep(0.1)


def command_lines() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if path.parent.name != str(os.getpid()):
            try:
                found.append(path.read_text())
            except OSError:
                continue  # it has ended meanwhile
    return found


@pytest.mark.full
def test_a_group_finds_together_after_a_power_cut(tmp_path: Path) -> None:
    assert plan_of(ChaosOptions(17)).power_cut
    result = CliRunner().invoke(command, ["--chaos", "17", "-o", str(tmp_path / "out")])
    assert result.exit_code in (0, 3), result.output


@pytest.mark.full
@pytest.mark.parametrize("stack", CHAOS_STACKS)
@pytest.mark.parametrize("overload", [True, False])
def test_rounds_of_each_stack(stack: str, overload: bool, tmp_path: Path) -> None:
    words = ["--chaos", "1000", "--rounds", "10", "--stack", stack, f"--{'' if overload else 'no-'}overload"]
    result = CliRunner().invoke(command, [*words, "-o", str(tmp_path / "out")])
    assert result.exit_code in (0, 3), result.output
