"""`isthmus trace`: what it prints and the exit codes it ends with."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.unit.judge.stories import Story, quiet_run

from isthmus.cli import check
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


@pytest.mark.parametrize("name", ["", "show"])
def test_help_has_examples(name):
    assert "Examples:" in invoke(*([name] if name else []), "--help").output


def test_the_examples_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(example, space)
    assert "integrity valid" in capsys.readouterr().out
    judged = CliRunner().invoke(check.command, ["trace.parquet", "--property", "integrity", "--property", "validity"])
    assert judged.exit_code == 0, judged.output


def test_show_reads_what_check_reads(tmp_path):
    story = saved(tmp_path / "parquet", quiet_run())
    lines = invoke("show", story, "--json", "--limit", "99").output.splitlines()
    rows = [json.loads(line) for line in lines]
    assert {row["kind"] for row in rows} >= {"submit", "deliver"}
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    names = list(rows[0])
    cells = [",".join(str(row[name]).replace(",", " ").replace("None", "") for name in names) for row in rows]
    (tmp_path / "a.csv").write_text("\n".join([",".join(names), *cells]))
    (tmp_path / "a.log").write_text('a {"a":1}\nsubmit m=a:1\nb {"a":1,"b":1}\ndeliver m=a:1\n')
    for name in ("a.jsonl", "a.csv"):
        assert invoke("show", str(tmp_path / name), "--json", "--limit", "99").output.splitlines() == lines
    assert "deliver" in invoke("show", str(tmp_path / "a.log")).output


def test_a_name_that_contradicts_the_content_is_refused(tmp_path):
    (tmp_path / "a.parquet").write_text("process,local,kind,sender,number\n0,0,submit,0,1\n")
    with pytest.raises(InputError, match=r"CSV in a file named as Parquet.*--format csv"):
        CliRunner().invoke(command, ["show", str(tmp_path / "a.parquet")], catch_exceptions=False)
    assert "submit" in invoke("show", str(tmp_path / "a.parquet"), "--format", "csv").output
