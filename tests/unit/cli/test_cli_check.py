"""`isthmus check` and `isthmus watch`: what they print, draw and return; Spark is the session that all tests share."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from isthmus.cli import check, watch
from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.judge.runs import choose
from isthmus.pipeline.check import check as checking
from isthmus.pipeline.ingest.streaming import VerdictChange
from isthmus.trace.writer import TraceWriter

sys.path.insert(0, str(Path(__file__).parent / "trace"))
from tests.unit.judge.stories import Story, quiet_run

CROSSED = Story().submit(1, 1).submit(2, 1).deliver(1, (1, 1), (2, 1)).deliver(2, (2, 1), (1, 1))


@pytest.fixture
def invoke(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(check.command, [str(argument) for argument in arguments])


@pytest.fixture
def one_session(spark, monkeypatch):
    @contextmanager
    def one(*arguments, **options):
        yield spark

    for module in (checking, watch):
        monkeypatch.setattr(module, "spark_session", one)


def saved(folder: Path, *runs: Story, **meta: str) -> Path:
    with TraceWriter(folder, meta) as sink:
        for run, story in enumerate(runs):
            for row in story.rows:
                sink.append((run, *row[1:]))
    return folder


def proof(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "verdicts.json").read_text())


def test_all_valid_is_0_and_leaves_a_proof(invoke, tmp_path):
    path = saved(tmp_path / "t", quiet_run())
    result = invoke(path, "--property", "integrity", "--property", "fifo")
    assert result.exit_code == 0, result.output
    assert result.output.count("valid") == 2
    found = proof(tmp_path / "out" / "check")
    assert (found["format"], found["version"], found["engine"]) == ("isthmus.verdicts", 1, "local")
    assert found["input"]["rows"] == len(quiet_run().rows) and len(found["input"]["sha256"]) == 64
    assert [(one["property"], one["status"]) for one in found["properties"]] == [
        ("integrity", "valid"),
        ("fifo", "valid"),
    ]
    assert invoke(path).exit_code == 0  # what has no evidence was not asked for


def test_what_only_safe_delivery_promises_is_judged_where_it_is_promised_or_asked_for(invoke, tmp_path):
    def judged(path: Path, *options: str) -> set[str]:
        invoke(path, *options)
        return {one["property"] for one in proof(tmp_path / "out" / "check")["properties"]}

    foreign, plain = saved(tmp_path / "f", CROSSED), saved(tmp_path / "p", CROSSED, promises="fifo,total")
    safe = saved(tmp_path / "s", CROSSED, promises="fifo,total,uniform-total")
    assert {"total", "uniform-total"} <= judged(foreign) and {"total", "uniform-total"} <= judged(safe)
    assert "total" in judged(plain) and "uniform-total" not in judged(plain)
    assert "--property uniform-total judges it" in invoke(plain).output
    assert judged(plain, "--property", "uniform-total") == {"uniform-total"}


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
    assert not (tmp_path / "o" / "total-run-1.png").exists()  # the folder is replaced as a whole
    witness = proof(tmp_path / "o")["properties"][0]["witness"]
    assert (witness["run"], witness["form"], witness["pictures"]) == (1, "order", ["total-run-1.svg"])
    assert [event["kind"] for event in witness["events"]] == ["SUBMIT"] * 2 + ["DELIVER"] * 4


def test_a_missing_delivery_is_an_event(invoke, tmp_path):
    path = saved(tmp_path / "t", Story().submit(1, 1, 2).deliver(1, (1, 1), (1, 2)).deliver(2, (1, 2)))
    result = invoke(path, "--property", "fifo", "--json")
    assert result.exit_code == 1
    printed = json.loads(result.output)
    assert printed == proof(tmp_path / "out" / "check")
    missing = [event for event in printed["properties"][0]["witness"]["events"] if event["missing"]]
    assert [(event["process"], event["before_local"], event["message"]["name"]) for event in missing] == [(2, 0, "1:1")]


def test_a_foreign_folder_is_refused_before_any_work(invoke, tmp_path):
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "thesis.tex").write_text("years")
    error = invoke(saved(tmp_path / "t", quiet_run()), "-o", tmp_path / "o").exception
    assert isinstance(error, InputError)
    assert "not of an earlier check (it has thesis.tex)" in str(error)
    assert [path.name for path in (tmp_path / "o").iterdir()] == ["thesis.tex"]


def test_a_domain_is_judged_end_to_end(invoke, tmp_path):
    crossing = Story().submit(1, 1).submit(3, 1, group=1)
    for process in (1, 2):
        crossing.deliver(process, (1, 1)).deliver(process, (3, 1), origin=1)
    for process in (3, 4):
        crossing.deliver(process, (3, 1), group=1).deliver(process, (1, 1), group=1, origin=0)
    path = saved(tmp_path / "t", crossing)
    result = invoke(path, "-o", tmp_path / "o", "--property", "total", "--domain", "both=0,1")
    assert result.exit_code == 1, result.output
    assert "run 0, domain both: process 1 delivered 0/1:1 before 1/3:1" in result.output
    assert (tmp_path / "o" / "total-run-0-domain-both.svg").stat().st_size > 1000
    assert isinstance(invoke(path, "--domain", "both=0").exception, InputError)
    error = invoke(path, "--domain", "both=0,7").exception
    assert str(error) == "--domain: both: found group 7, which the trace does not have; expected groups among 0, 1"


def test_unknown_is_3(invoke, tmp_path):
    result = invoke(saved(tmp_path / "t", Story().submit(1, 1)), "--property", "fifo")
    assert result.exit_code == 3, result.output
    assert "unknown" in result.output


def test_a_partial_trace_is_no_violation(invoke, tmp_path):
    path = saved(tmp_path / "t", Story().submit(1, 1, 2).deliver(1, (1, 1), (1, 2)).deliver(2, (1, 1)))
    assert invoke(path, "--property", "validity").exit_code == 1
    result = invoke(path, "--property", "validity", "--partial")
    assert result.exit_code == 3
    assert "the trace is partial, as --partial says" in result.output


def test_by_default_what_can_be_judged_is_and_the_rest_is_named(invoke, tmp_path):
    (tmp_path / "t.csv").write_text("process,kind,sender,number\n1,submit,1,1\n1,deliver,1,1\n2,deliver,1,1\n")
    result = invoke(tmp_path / "t.csv")
    assert result.exit_code == 0, result.output
    for reason in ("views (no VIEW row)", "final (no TENTATIVE row)", "total (no two processes", "clock-precision (no"):
        assert reason in result.output.replace("\n", " ")
    assert "3 rows judged" in result.output
    assert "up to 2,000,000 rows" in result.output


def test_hosts_of_a_log_are_named_and_what_is_misspelt_is_counted(invoke, tmp_path):
    log = 'bob {"bob":1}\nsubmit m=bob:1\namy {"bob":1,"amy":1}\ndeliver m=bob:1\n'
    (tmp_path / "t.log").write_text(log + 'bob {"bob":2}\ndelivr m=bob:1\nbob {"bob":3}\nwaits for nothing\n')
    result = invoke(tmp_path / "t.log", "--property", "validity")
    assert result.exit_code == 1, result.output
    assert "Processes: 0 is bob, 1 is amy." in result.output
    assert "bob never delivered bob:1, submitted by bob" in result.output
    assert "1 event ignored as misspelt: 'delivr' 1 time (first in t.log:6)." in result.output
    submitted = proof(tmp_path / "out" / "check")["properties"][0]["witness"]["events"][0]
    assert submitted["place"] == "t.log:2" and submitted["message"]["name"] == "bob:1"


def test_bad_input_is_an_input_error_with_its_line(invoke, tmp_path):
    assert isinstance(invoke(tmp_path / "none").exception, InputError)
    (tmp_path / "t.csv").write_text("process,kind,sender,number\n1,submit,1,1\n1,arrive,1,1\n")
    for engine in ("local", "spark"):
        error = invoke(tmp_path / "t.csv", "--engine", engine).exception
        assert isinstance(error, InputError)
        assert "t.csv, line 3: kind: found 'arrive'; expected" in str(error)
    (tmp_path / "t.csv").write_text("process,kind,sender,number\n\n1,deliver,1,x\n")
    assert "t.csv, line 3: number: found 'x'; expected int64" in str(invoke(tmp_path / "t.csv").exception)
    (tmp_path / "t.jsonl").write_text('{"process":1,"kind":"crash","sender":null,"number":null}\n{"process":1}\n')
    assert "t.jsonl, line 2: kind: found nothing" in str(invoke(tmp_path / "t.jsonl").exception)
    assert invoke(tmp_path, "--property", "totl").exit_code == 2
    assert isinstance(invoke(tmp_path / "t.csv", "--pattern", "x").exception, InputError)
    assert isinstance(invoke(tmp_path / "t.csv", "--engine", "local", "--master", "local[1]").exception, InputError)


def test_the_command_says_it_in_one_line(tmp_path):
    program = [sys.executable, "-c", "from isthmus.cli.main import main; main()", "check", str(tmp_path / "none")]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("isthmus: ") and done.stderr.count("\n") == 1


def test_a_small_trace_needs_no_spark_and_little_time(tmp_path):
    """At most 2 CPU seconds from command to verdict, pictures included."""
    path = saved(tmp_path / "t", CROSSED)
    code = (
        "import resource, runpy, sys\n"
        f"sys.argv = ['isthmus', 'check', {str(path)!r}, '-o', {str(tmp_path / 'o')!r}]\n"
        "from isthmus.cli.main import main\n"
        "try:\n    main()\nfinally:\n"
        "    used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "    print('SPARK' if 'pyspark' in sys.modules else 'ALONE', used.ru_utime + used.ru_stime)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    word, seconds = done.stdout.split()[-2:]
    assert word == "ALONE"
    assert float(seconds) < 4  # twice the promise, for machines that are busy


def test_a_property_is_left_out_for_a_reason():
    kinds = {int(Kind.SUBMIT): 1, int(Kind.DELIVER): 2, int(Kind.CLOCK): 1}
    asked, left_out = choose([], kinds)
    assert "total" in asked and "clock-accuracy" in asked
    assert left_out["views"] == "no VIEW row"
    assert choose([], {})[0] == ["integrity"]
    assert choose([], {int(Kind.DELIVER): 2})[1]["clock-precision"] == "no CLOCK row"
    assert choose(["views", "views"], {}) == (["views"], {})


def test_both_engines_print_the_same_proof(one_session, invoke, tmp_path):
    """Every field but the engine's name, for a log with hosts, a domain's worth of faults, and pictures."""
    log = ['bob {"bob":1}', "submit m=bob:1", 'amy {"amy":1}', "deliver m=bob:1", 'amy {"amy":2}', "submit m=amy:1"]
    log += ['carl {"carl":1}', "deliver m=amy:1", 'carl {"carl":2}', "deliver m=bob:1", 'bob {"bob":2}', "delivr m=x"]
    (tmp_path / "t.log").write_text("\n".join(log))
    found = {}
    for engine in ("local", "spark"):
        result = invoke(tmp_path / "t.log", "--engine", engine, "--json", "-o", tmp_path / engine)
        assert result.exit_code == 1, result.output
        found[engine] = json.loads(result.stdout)
        assert found[engine].pop("engine") == engine
    assert found["local"] == found["spark"]
    for picture in (tmp_path / "local").glob("*.svg"):
        assert picture.read_bytes() == (tmp_path / "spark" / picture.name).read_bytes()


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_view_with_too_few_weights_is_bad_input(engine, one_session, invoke, tmp_path):
    story = Story().add(1, Kind.VIEW, to=(1, 2, 3, 1), value=1, gauge=3).add(2, Kind.VIEW, to=(1, 2, 3), value=1)
    path = saved(tmp_path / "t", story)
    result = invoke(path, "--engine", engine, "--property", "primary")
    assert isinstance(result.exception, InputError) and "weight" in str(result.exception), result.output


def test_watch_once_takes_what_is_there_and_goes_on_later(one_session, tmp_path):
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


def test_watch_once_of_a_healthy_run_is_0(one_session, tmp_path):
    live = saved(tmp_path / "live", Story().view(1, 1, 2).submit(1, 1, 2).deliver(1, (1, 1)).deliver(2, (1, 1)))
    options = [str(live), "-o", str(tmp_path / "lake"), "--once"]
    assert CliRunner().invoke(watch.command, options).exit_code == 1  # 1:2 is delivered nowhere
    good = saved(tmp_path / "good", Story().view(1, 1, 2).submit(1, 1).deliver(1, (1, 1)).deliver(2, (1, 1)))
    result = CliRunner().invoke(watch.command, [str(good), "-o", str(tmp_path / "other"), "--once"])
    assert result.exit_code == 0, result.output


def test_a_change_reads_well():
    change = VerdictChange(3, 0, "total", "valid", "violated", 2, "a [b]")
    assert watch.line(change) == "run 3: total valid -> [red]violated[/], 2 violations: a \\[b]"
    assert watch.line(change._replace(before="", group=2, violation_count=1, witness="")).startswith(
        "run 3, group 2: total [red]"
    )
    joint = change._replace(group=-1, domain="campus")
    assert watch.line(joint).startswith("run 3, domain campus: total valid")
    codes = ([], ["valid"], ["valid", "unknown"], ["unknown", "violated"])
    assert [watch.code_of(code, asked=True) for code in codes] == [3, 0, 3, 1]
    assert [watch.code_of(code, asked=False) for code in codes] == [3, 0, 0, 1]


@pytest.mark.parametrize("module", [check, watch])
def test_help_has_examples(module):
    assert "Examples:" in CliRunner().invoke(module.command, ["--help"]).output
