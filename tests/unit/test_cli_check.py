"""`isthmus check` and `isthmus watch`: what they print, draw and return, in the session that all tests share."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from isthmus.cli import check, watch
from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.pipeline.streaming import Change
from isthmus.trace.writer import TraceWriter

sys.path.insert(0, str(Path(__file__).parent / "trace"))
from stories import Story, quiet_run

CROSSED = Story().submit(1, 1).submit(2, 1).deliver(1, (1, 1), (2, 1)).deliver(2, (2, 1), (1, 1))


@pytest.fixture
def invoke(spark, monkeypatch, tmp_path):
    @contextmanager
    def one(*arguments, **options):
        yield spark

    for module in (check, watch):
        monkeypatch.setattr(module, "spark_session", one)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(check.command, [str(argument) for argument in arguments])


def saved(folder: Path, *runs: Story) -> Path:
    with TraceWriter(folder) as sink:
        for run, story in enumerate(runs):
            for row in story.rows:
                sink.append((run, *row[1:]))
    return folder


@pytest.mark.full  # minutes of Spark
def test_all_valid_is_0(invoke, tmp_path):
    result = invoke(saved(tmp_path / "t", quiet_run()), "--property", "integrity", "--property", "fifo")
    assert result.exit_code == 0, result.output
    assert result.output.count("valid") == 2
    assert not (tmp_path / "out").exists()


def test_a_violation_is_1_and_its_witness_is_drawn(invoke, tmp_path):
    path = saved(tmp_path / "t", quiet_run(), CROSSED)
    result = invoke(path, "-o", tmp_path / "o", "--png", "--property", "total", "--property", "integrity")
    assert result.exit_code == 1, result.output
    assert "run 1: " in result.output
    for suffix in ("svg", "png"):
        drawn = tmp_path / "o" / f"total-run-1.{suffix}"
        assert drawn.stat().st_size > 1000
        assert str(drawn) in result.output
    before = (tmp_path / "o" / "total-run-1.svg").read_bytes()
    assert invoke(path, "-o", tmp_path / "o", "--property", "total").exit_code == 1
    assert (tmp_path / "o" / "total-run-1.svg").read_bytes() == before


def test_a_domain_is_judged_end_to_end(invoke, tmp_path):
    crossing = Story().submit(1, 1).submit(3, 1, group=1)
    for process in (1, 2):
        crossing.deliver(process, (1, 1)).deliver(process, (3, 1), origin=1)
    for process in (3, 4):
        crossing.deliver(process, (3, 1), group=1).deliver(process, (1, 1), group=1, origin=0)
    path = saved(tmp_path / "t", crossing)
    result = invoke(path, "-o", tmp_path / "o", "--property", "total", "--domain", "both=0,1")
    assert result.exit_code == 1, result.output
    assert "run 0, domain both: process 1 delivered 0/1:1 before 1/3:1" in " ".join(result.output.split()).replace(
        "│ ", ""
    )
    assert (tmp_path / "o" / "total-run-0-domain-both.svg").stat().st_size > 1000
    assert isinstance(invoke(path, "--domain", "both=0").exception, InputError)


def test_unknown_is_3(invoke, tmp_path):
    result = invoke(saved(tmp_path / "t", Story().submit(1, 1)), "--property", "fifo")
    assert result.exit_code == 3, result.output
    assert "unknown" in result.output


@pytest.mark.full  # minutes of Spark
def test_by_default_what_can_be_judged_is_and_the_rest_is_named(invoke, tmp_path):
    (tmp_path / "t.csv").write_text("process,kind,sender,number\n1,submit,1,1\n1,deliver,1,1\n2,deliver,1,1\n")
    result = invoke(tmp_path / "t.csv")
    assert result.exit_code in (0, 3), result.output
    assert "Not judged: " in result.output
    for reason in ("views (no VIEW row)", "final (no TENTATIVE row)", "clock-precision (no CLOCK row)"):
        assert reason in result.output.replace("\n", " ")
    assert "3 rows judged" in result.output


def test_hosts_of_a_log_are_named(invoke, tmp_path):
    (tmp_path / "t.log").write_text('bob {"bob":1}\nsubmit m=bob:1\namy {"bob":1,"amy":1}\ndeliver m=bob:1\n')
    result = invoke(tmp_path / "t.log", "--property", "integrity")
    assert result.exit_code == 0, result.output
    assert "Processes: 0 is bob, 1 is amy." in result.output


def test_bad_input_is_an_input_error(invoke, tmp_path):
    assert isinstance(invoke(tmp_path / "none").exception, InputError)
    (tmp_path / "t.csv").write_text("process,kind,sender,number\n1,arrive,1,1\n")
    error = invoke(tmp_path / "t.csv").exception
    assert isinstance(error, InputError)
    assert "t.csv: kind: found 'arrive'; expected" in str(error)
    assert invoke(tmp_path, "--property", "totl").exit_code == 2
    assert isinstance(invoke(tmp_path / "t.csv", "--pattern", "x").exception, InputError)


def test_the_command_says_it_in_one_line(tmp_path):
    program = [sys.executable, "-c", "from isthmus.cli.main import main; main()", "check", str(tmp_path / "none")]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("isthmus: ") and done.stderr.count("\n") == 1


def test_a_property_is_left_out_for_a_reason():
    kinds = {int(Kind.SUBMIT): 1, int(Kind.DELIVER): 2, int(Kind.CLOCK): 1}
    asked, left_out = check.choose([], kinds, {"clock-accuracy": 5})
    assert "total" in asked and "clock-accuracy" in asked
    assert left_out["clock-precision"] == "no --clock-precision"
    assert left_out["views"] == "no VIEW row"
    assert check.choose([], {}, {})[0] == ["integrity"]
    assert check.choose(["views", "views"], {}, {}) == (["views"], {})


def test_watch_once_takes_what_is_there_and_goes_on_later(invoke, tmp_path):
    live = saved(tmp_path / "live", quiet_run())
    options = [str(live), "-o", str(tmp_path / "lake"), "--once", "--property", "fifo", "--property", "total"]
    first = CliRunner().invoke(watch.command, options)
    assert first.exit_code == 0, first.output
    assert "run 0: fifo valid" in first.output and "run 0: total valid" in first.output
    with TraceWriter(live, prefix="site-001") as sink:
        for row in CROSSED.rows:
            sink.append((7, *row[1:]))
    second = CliRunner().invoke(watch.command, options)
    assert second.exit_code == 1, second.output
    assert "run 7: total violated" in second.output and "run 0" not in second.output
    assert (tmp_path / "lake" / "rows" / "run=7").is_dir()


def test_a_change_reads_well():
    change = Change(3, 0, "total", "valid", "violated", 2, "a [b]")
    assert watch.line(change) == "run 3: total valid -> [red]violated[/], 2 violations: a \\[b]"
    assert watch.line(change._replace(before="", group=2, violation_count=1, witness="")).startswith(
        "run 3, group 2: total [red]"
    )
    joint = change._replace(group=-1, domain="campus")
    assert watch.line(joint).startswith("run 3, domain campus: total valid")
    assert [watch.exit_code(codes) for codes in ([], ["valid"], ["valid", "unknown"], ["unknown", "violated"])] == [
        3,
        0,
        3,
        1,
    ]


@pytest.mark.parametrize("module", [check, watch])
def test_help_has_examples(module):
    assert "Examples:" in CliRunner().invoke(module.command, ["--help"]).output
