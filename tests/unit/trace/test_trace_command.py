"""`isthmus trace`: what it prints and the exit codes it ends with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from stories import Story, quiet_run

from isthmus.cli.trace import command
from isthmus.core.errors import InputError
from isthmus.trace.writer import TraceWriter

PAGE = Path(__file__).parents[3] / "docs" / "TRACE.md"


def saved(folder: Path, *runs: Story) -> str:
    with TraceWriter(folder, {"seed": "7"}) as sink:
        for run, story in enumerate(runs):
            for row in story.rows:
                sink.append((run, *row[1:]))
    return str(folder)


def invoke(*arguments: str):
    return CliRunner().invoke(command, arguments)


def test_show_prints_rows(tmp_path):
    result = invoke("show", saved(tmp_path, quiet_run()))
    assert result.exit_code == 0
    for word in ("seed 7", "submit", "deliver", "2:1", "1 2 3"):
        assert word in result.output
    assert "--limit" not in result.output


def test_show_chooses(tmp_path):
    path = saved(tmp_path, quiet_run(), quiet_run())
    output = invoke("show", path, "--process", "3", "--kind", "deliver", "--kind", "view", "--run", "1").output
    assert output.count("deliver") == 4
    assert "submit" not in output
    assert "The first 2 rows" in invoke("show", path, "--limit", "2").output
    assert "No such rows" in invoke("show", path, "--process", "99").output


def test_check_valid_is_0(tmp_path):
    result = invoke("check", saved(tmp_path, quiet_run()))
    assert result.exit_code == 0
    assert "1 run: 9 valid, 0 violated, 0 unknown." in result.output


def test_check_violation_wins_over_unknown_and_runs_are_judged_apart(tmp_path):
    bad = Story().submit(1, 1, 2).deliver(2, (1, 2), (1, 1))
    path = saved(tmp_path, quiet_run(), bad)
    result = invoke("check", path)
    assert result.exit_code == 1
    assert "process 2 delivered 1:1 after 1:2 of the same sender" in result.output
    assert "2 runs:" in result.output
    assert invoke("check", path, "--property", "integrity").exit_code == 0
    assert invoke("check", path, "--property", "views").exit_code == 3


def test_check_of_many_runs_shows_what_is_not_valid(tmp_path):
    bad = Story().submit(1, 1).deliver(2, (1, 1), (1, 1))
    result = invoke("check", saved(tmp_path, *[quiet_run()] * 70, bad), "--property", "integrity")
    assert result.exit_code == 1
    assert "process 2 delivered 1:1 twice" in result.output
    assert "71 runs: 70 valid, 1 violated, 0 unknown." in result.output
    assert len(result.output.splitlines()) < 10


def test_check_of_an_empty_trace_is_3(tmp_path):
    result = invoke("check", saved(tmp_path))
    assert result.exit_code == 3
    assert "no process submitted or delivered anything" in result.output


def test_bad_input_is_an_input_error(tmp_path):
    assert isinstance(invoke("check", str(tmp_path / "missing")).exception, InputError)
    assert invoke("check", str(tmp_path), "--property", "totl").exit_code == 2


@pytest.mark.parametrize("name", ["", "show", "check"])
def test_help_has_examples(name):
    assert "Examples:" in invoke(*([name] if name else []), "--help").output


def test_the_examples_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(example, space)
    assert "integrity valid" in capsys.readouterr().out
    assert invoke("check", "trace.parquet", "--property", "integrity", "--property", "validity").exit_code == 0
