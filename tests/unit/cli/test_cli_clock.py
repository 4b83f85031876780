"""`isthmus clock`, and `isthmus live` of a scenario with clocks, as a user meets them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from isthmus.cli import clock, live
from isthmus.core.errors import InputError

SCENARIO = """
name = "clocks"
duration_ms = 3000
stack.name = "fifo"
workloads = [{{ kind = "periodic", rate_per_s = 5 }}]
[topology]
clusters = [{{ name = "c", sites = 2, references = {references} }}]
defaults.lan.delay = 0.1
[membership]
kind = "{membership}"
[clocks.service]
period_ms = 300
window_ms = 60
agreement_ms = 120
sample_ms = 100
"""


def scenario(folder: Path, references: str = '["c-0"]', membership: str = "agreed") -> Path:
    path = folder / "clocks.toml"
    path.write_text(SCENARIO.format(references=references, membership=membership))
    return path


def invoke(*words: object) -> Result:
    return CliRunner().invoke(clock.command, [str(word) for word in words])


def refused(*words: object) -> str:
    error = invoke(*words).exception
    assert isinstance(error, InputError)
    return str(error)


def test_the_clocks_of_live_sites_are_shown(tmp_path: Path) -> None:
    """Long enough for a dozen rounds, of which a busy machine may lose most."""
    result = invoke(scenario(tmp_path), "--seconds", 5, "--json", "--no-emulate")
    found = json.loads(result.stdout)
    assert [one["site"] for one in found] == ["c-0", "c-1"]
    assert [one["reference"] for one in found] == ["system", ""]
    assert result.exit_code == (3 if any(one["earliest_ns"] is None for one in found) else 0)
    for one in found:
        assert one["stamps"] in ("kernel", "user")
        if one["earliest_ns"] is not None:
            assert one["earliest_ns"] <= one["time_ns"] <= one["latest_ns"]


@pytest.mark.parametrize("membership", ["agreed", "ideal"])
def test_a_live_run_with_clocks_is_judged_and_its_trace_shows_them(tmp_path: Path, membership: str) -> None:
    folder = tmp_path / "trace"
    path = scenario(tmp_path, membership=membership)
    judged = CliRunner().invoke(live.command, [str(path), "-o", str(folder), "--no-emulate"])
    assert judged.exit_code in (0, 3), judged.output  # 3: no round was agreed on, on a machine that is too busy
    assert "clock-accuracy" in judged.output and "clock-precision" in judged.output
    shown = invoke(folder, "--json")
    assert [one["site"] for one in json.loads(shown.stdout)] == ["c-0", "c-1"]


def test_what_is_wrong_is_said_in_a_sentence(tmp_path: Path) -> None:
    path = scenario(tmp_path)
    assert "expected one of the references of its cluster" in refused(path, "--reference", "c-1=system")
    assert "SITE=WHERE" in refused(path, "--reference", "c-0=sundial")
    assert "c-0" in refused(path, "--reference", "c-9=system"), "it names what there is"
    assert "no reference" in refused(scenario(tmp_path, references="[]"))
    assert "no such file" in refused(tmp_path / "nothing.toml")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert refused(empty)
    assert "none where the source is a trace" in refused(empty, "--reference", "c-0=system")


def test_what_a_killed_command_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left, kept = (tmp_path / f"{clock.SCRATCH}{pid}-abc" for pid in (dead.pid, os.getpid()))
    others = [tmp_path / name for name in (f"{clock.SCRATCH}abc", f"{clock.SCRATCH}x-y", "else")]
    for folder in (left, kept, *others):
        folder.mkdir()
    (left / "trace").write_text("")
    clock.sweep(tmp_path)
    assert not left.exists()
    assert all(folder.exists() for folder in (kept, *others))
