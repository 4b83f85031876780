"""`isthmus sim`, `isthmus fuzz` and `isthmus topology show SCENARIO` as a user meets them."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import msgspec
import pytest
from tests.planted.participants import FIFO, with_participants
from tests.planted.transport import PLANTED

from isthmus.cli import fuzz as fuzz_command
from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.judge.oracle import Oracle
from isthmus.scenario.load import load_scenario
from isthmus.sim.run import SimRun
from isthmus.sim.simulate import execute
from isthmus.stacks.registry import STACKS
from isthmus.trace.reader import read_rows
from isthmus.trace.schema import KIND, VALUE, Recording, Row

NET = """
[defaults]
lan = { delay = 1 }
wan = { delay = 10, loss = 0.2, fifo = false }
[[clusters]]
name = "a"
sites = 2
[[clusters]]
name = "b"
"""
SCENARIO = """
name = "small"
topology = "net.toml"
duration_ms = 1000
stack = { name = "fifo" }
[[workloads]]
kind = "poisson"
rate_per_s = 40
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    (tmp_path / "net.toml").write_text(NET)
    (tmp_path / "small.toml").write_text(SCENARIO)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plant(monkeypatch, bug: str) -> None:
    stack, build = PLANTED[bug]
    monkeypatch.setitem(STACKS, stack, msgspec.structs.replace(STACKS[stack], build=build))


def test_a_run_prints_its_figures_and_verdicts_and_writes_its_trace(folder: Path, isthmus) -> None:
    code, out, err = isthmus("sim", "small.toml")
    assert (code, err) == (0, "")
    for words in ("small: fifo on 3 sites, seed 0", "submitted", "0 undelivered", "latency per message", "lost"):
        assert words in out
    assert "The trace is in out/small-fifo-0." in out and "1 run: 5 valid, 0 violated, 0 unknown." in out
    assert any(row[KIND] == 5 for row in read_rows(folder / "out" / "small-fifo-0"))


def test_a_run_with_a_clock_service_says_how_well_it_kept_time(folder: Path, isthmus) -> None:
    net = NET.replace("sites = 2", 'sites = 2\nreferences = ["a-0"]').replace("loss = 0.2, ", "")
    (folder / "net.toml").write_text(net)
    (folder / "small.toml").write_text(SCENARIO + "[clocks]\ndrift_ppm = 10\n[clocks.service]\nperiod_ms = 200\n")
    code, out, err = isthmus("sim", "small.toml")
    assert (code, err) == (0, "")
    for words in ("clock precision", "true time always within", "clock bounds", "failed", "3 synchronised"):
        assert words in out
    assert "clock-precision" in out and "clock-accuracy" in out and "1 run: 7 valid" in out
    code, out, _ = isthmus("sim", "small.toml", "--json", "--force")
    figures = msgspec.json.decode(out)["figures"]
    assert code == 0 and figures["clock_misses"] == 0 and figures["clock_synchronised"] == 3
    assert 0 < figures["clock_precision_us"] <= figures["clock_bound_precision_us"]


def test_a_trace_is_not_replaced_unasked(folder: Path, isthmus) -> None:
    assert isthmus("sim", "small.toml", "-o", "here")[0] == 0
    before = {path.name: path.read_bytes() for path in (folder / "here").iterdir()}
    code, _out, err = isthmus("sim", "small.toml", "--seed", "9", "-o", "here")
    assert code == 2 and err.startswith("isthmus: here: found a trace already") and err.count("\n") == 1
    assert {path.name: path.read_bytes() for path in (folder / "here").iterdir()} == before
    assert isthmus("sim", "small.toml", "--seed", "9", "-o", "here", "--force")[0] == 0
    assert {path.name: path.read_bytes() for path in (folder / "here").iterdir()} != before


def test_the_seed_given_counts_and_names_the_folder(folder: Path, isthmus) -> None:
    assert "seed 7" in isthmus("sim", "small.toml", "--seed", "7")[1]
    assert isthmus("sim", "small.toml", "--seed", "7", "-o", "again")[0] == 0
    assert isthmus("sim", "small.toml", "--seed", "8", "-o", "other")[0] == 0
    rows = [list(read_rows(folder / name)) for name in ("out/small-fifo-7", "again", "other")]
    assert rows[0] == rows[1] != rows[2]


def test_without_a_trace_nothing_is_written_and_nothing_judged(folder: Path, isthmus) -> None:
    (folder / "small.toml").write_text('trace = "none"\n' + SCENARIO)
    code, out, _ = isthmus("sim", "small.toml")
    assert code == 0 and "Not checked: there is no trace." in out
    assert not (folder / "out").exists()


def test_a_check_may_be_left_out(folder: Path, isthmus) -> None:
    code, out, _ = isthmus("sim", "small.toml", "--no-check")
    assert code == 0 and "valid" not in out and (folder / "out" / "small-fifo-0").is_dir()


def test_silence_is_no_proof(folder: Path, isthmus) -> None:
    (folder / "small.toml").write_text(SCENARIO + "count = 0\n")
    code, out, err = isthmus("sim", "small.toml")
    assert code == 3 and "unknown" in out and "not all promises could be judged" in err


def test_a_broken_promise_names_the_command_that_replays_it(folder: Path, isthmus, monkeypatch) -> None:
    plant(monkeypatch, "a gap ignored")
    (folder / "my small.toml").write_text("drain_ms = 2000\n" + SCENARIO)
    code, out, err = isthmus("sim", "my small.toml", "--seed", "3")
    assert code == 1 and "violated" in out
    command = "isthmus sim 'my small.toml' --seed 3 -o out/small-fifo-3 --force"
    assert err.startswith("isthmus: violated: ") and err.endswith(f"; replay it with: {command}\n")
    words = ["sim", "my small.toml", "--seed", "3", "-o", "out/small-fifo-3", "--force"]
    again = isthmus(*words)
    assert again[0] == 1 and again[2] == err


def test_an_error_inside_a_run_is_shown_with_the_time_and_the_command(folder: Path, isthmus, monkeypatch) -> None:
    def broken(host, application, options):
        stack = STACKS["unordered"].build(host, application, options)
        application.on_deliver = lambda cast, finality: 1 // (cast.number < 5)
        return stack

    monkeypatch.setitem(STACKS, "fifo", msgspec.structs.replace(STACKS["fifo"], build=broken))
    code, out, err = isthmus("sim", "small.toml")
    assert code == 1 and "ZeroDivisionError" in out
    assert "the run ended in an error at " in err and "replay it with: isthmus sim small.toml --seed 0" in err
    assert list(read_rows(folder / "out" / "small-fifo-0")), "what happened until then can be looked at"


def test_a_trace_that_cannot_be_written_is_no_fault_of_the_run(folder: Path, isthmus, monkeypatch) -> None:
    (folder / "out").write_text("in the way")
    code, _out, err = isthmus("sim", "small.toml")
    assert code == 2 and err.startswith("isthmus: out/small-fifo-0: found ") and err.count("\n") == 1

    class Full:
        def append(self, row: object) -> None:
            raise InputError("disk", "", "No space left", "room on it")

    with pytest.raises(InputError):
        execute(SimRun(load_scenario(folder / "small.toml"), Full()))


def test_an_interrupted_run_says_so_in_its_trace(folder: Path) -> None:
    def interrupt(_now_ns: int, _events: int) -> None:
        raise KeyboardInterrupt

    rows: list[Row] = []
    with pytest.raises(KeyboardInterrupt):
        execute(SimRun(load_scenario(folder / "small.toml"), rows), interrupt)
    assert {row[VALUE] for row in rows if row[KIND] == Kind.RECORD} == {Recording.BEGUN, Recording.CUT}
    verdict = Oracle(rows).verdicts(["validity"])[0]
    assert verdict.status == "unknown" and "was cut short" in verdict.witness


@pytest.mark.parametrize("stack", STACKS)
def test_a_few_random_scenarios_are_good(stack: str, isthmus) -> None:
    code, out, _ = isthmus("fuzz", stack, "--runs", "4", "--first", "20")
    assert code == 0 and f"4 runs of {stack}: 0 failed." in out


def test_members_may_agree_on_views(isthmus) -> None:
    code, out, _ = isthmus("fuzz", "fifo", "--runs", "3", "--agreed")
    assert code == 0 and "3 runs of fifo: 0 failed." in out
    code, out, _ = isthmus("fuzz", "fifo", "--seed", "1", "--agreed")
    assert code == 0 and "agreed-fifo-1" in out
    assert isthmus("fuzz", "fifo", "--agreed", "--hard")[0] == 2


def test_one_random_scenario_is_shown(isthmus) -> None:
    code, out, _ = isthmus("fuzz", "token-site", "--seed", "5")
    assert code == 0 and out.startswith("sites c0-0")
    for words in ("workload ", "fuzz-token-site-5", "6 valid"):
        assert words in out


def test_a_failing_stack_is_found_and_its_seed_replayed(isthmus, monkeypatch) -> None:
    plant(monkeypatch, "a ticket out of order")
    code, out, _ = isthmus("fuzz", "token-site", "--runs", "10")
    assert code == 1 and "replay it with: isthmus fuzz token-site --seed " in out
    seed = out.split("--seed ")[1].split()[0]
    code, out, _ = isthmus("fuzz", "token-site", "--seed", seed)
    assert code == 1 and "violated" in out


def test_the_replay_of_an_error_shows_it(isthmus, monkeypatch) -> None:
    def broken(host, application, options):
        stack = STACKS["unordered"].build(host, application, options)
        application.on_deliver = lambda cast, finality: 1 // 0
        return stack

    monkeypatch.setitem(STACKS, "fifo", msgspec.structs.replace(STACKS["fifo"], build=broken))
    code, out, err = isthmus("fuzz", "fifo", "--runs", "2")
    assert code == 1 and "error: ZeroDivisionError" in out and "2 failed" in out
    code, out, err = isthmus("fuzz", "fifo", "--seed", "0")
    assert code == 1 and "ZeroDivisionError" in out and err == ""


def test_several_processes_find_the_same_and_end_with_the_command(isthmus) -> None:
    code, out, _ = isthmus("fuzz", "fifo", "--runs", "3", "--jobs", "2")
    assert code == 0 and "3 runs of fifo: 0 failed." in out
    assert multiprocessing.active_children() == []


def test_an_interruption_ends_the_processes(isthmus, monkeypatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        assert multiprocessing.active_children()
        raise KeyboardInterrupt

    monkeypatch.setattr("rich.progress.Progress.advance", interrupted)
    code, out, _err = isthmus("fuzz", "fifo", "--runs", "16", "--jobs", "2")
    assert code == 130 and "failed" not in out
    assert multiprocessing.active_children() == []
    monkeypatch.setattr(fuzz_command, "attempt", interrupted_at_once)
    assert isthmus("fuzz", "fifo", "--runs", "2")[0] == 130


def interrupted_at_once(case: object) -> None:
    raise KeyboardInterrupt


def test_bad_options_are_refused(isthmus) -> None:
    for arguments in (
        ("fuzz", "fifo", "--runs", "0"),
        ("fuzz", "lifo"),
        ("fuzz",),
        ("sim",),
        ("sim", "x", "--seed", "y"),
    ):
        code, out, err = isthmus(*arguments)
        assert code == 2 and out == "" and "Error: " in err and "Traceback" not in err


@pytest.mark.parametrize("name", ["sim", "fuzz"])
def test_help_has_examples(name: str, isthmus) -> None:
    assert "Examples:" in isthmus(name, "--help")[1]


def test_topology_show_takes_a_scenario(folder: Path, isthmus) -> None:
    plain = isthmus("topology", "show", "net.toml")
    assert plain[0] == 0 and isthmus("topology", "show", "small.toml") == plain
    inside = NET.replace("[defaults", "[topology.defaults").replace("[[clusters", "[[topology.clusters")
    (folder / "whole.toml").write_text(SCENARIO.replace('topology = "net.toml"', "") + inside)
    code, out, _ = isthmus("topology", "show", "whole.toml", "--svg", "net.svg")
    assert code == 0 and out.splitlines()[1:-1] == plain[1].splitlines()[1:] and (folder / "net.svg").exists()
    (folder / "net.toml").unlink()
    code, _, err = isthmus("topology", "show", "small.toml")
    assert code == 2
    assert (
        err
        == "isthmus: small.toml: topology: found 'net.toml', which is no file; expected the path of a topology file\n"
    )


PARTICIPANTS = """
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
[participant_groups.orders]
majority_of = ["ann", "bob", "kim"]
"""


def test_participant_groups_are_shown(folder: Path, isthmus) -> None:
    (folder / "light.toml").write_text(SCENARIO + PARTICIPANTS)
    code, out, err = isthmus("sim", "light.toml")
    assert (code, err) == (0, "")
    assert "participant groups" in out and "ann@a-0, eve@a-1" in out
    assert "no: 1 of ann, bob, kim present, no majority" in out


def test_a_promise_to_participants_that_is_broken_names_the_command(folder: Path, isthmus, monkeypatch) -> None:
    build = with_participants("fifo", FIFO["applied at delivery"])
    monkeypatch.setitem(STACKS, "fifo", msgspec.structs.replace(STACKS["fifo"], build=build))
    (folder / "light.toml").write_text(SCENARIO + PARTICIPANTS)
    code, _, err = isthmus("sim", "light.toml")
    assert code == 1 and "findings on participants); replay it with: isthmus sim light.toml --seed 0" in err
