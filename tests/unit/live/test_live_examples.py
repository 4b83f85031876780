"""Every example runs live, in a shorter copy; one that a live run cannot do is refused with a sentence."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from click.testing import CliRunner

from isthmus.cli.live import command
from isthmus.core.errors import InputError

EXAMPLES = Path(__file__).parents[3] / "examples"
SCENARIOS = sorted(path.stem for path in EXAMPLES.glob("*.toml") if not path.stem.startswith("composition-"))
REFUSED = {"clocks": "reference-jump", "clocks-figure": "clocks that are off", "packets": "'packets'"}
LONGEST_MS = 4_000.0
TIMEOUT_S = 120.0


def shortened(tables: dict[str, Any]) -> dict[str, Any]:
    """A scenario in which everything happens sooner, and as much of it."""
    factor = min(1.0, LONGEST_MS / tables["duration_ms"])
    tables["duration_ms"] *= factor
    for fault in tables.get("faults", ()):
        fault |= {key: fault[key] * factor for key in ("at_ms", "until_ms") if key in fault}
    for participant in tables.get("participants", ()):
        participant |= {key: participant[key] * factor for key in ("join_ms", "leave_ms") if key in participant}
    if isinstance(tables.get("composition"), str):
        tables["composition"] = str(EXAMPLES / tables["composition"])
    return tables


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_example_runs_live(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.toml"
    path.write_text(tomli_w.dumps(shortened(tomllib.loads((EXAMPLES / f"{name}.toml").read_text()))))
    result = CliRunner().invoke(command, [str(path), "-o", str(tmp_path / "out")])
    if name in REFUSED:
        assert isinstance(result.exception, InputError) and REFUSED[name] in str(result.exception)
    else:
        assert result.exit_code in (0, 3), result.output  # 3: too short for evidence of every property
        assert " 0 violated" in result.output


@pytest.mark.parametrize("name", ["three_sites", "regions_chat"])
def test_a_program_among_the_examples_runs(name: str) -> None:
    run = subprocess.run([sys.executable, EXAMPLES / f"{name}.py"], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert run.returncode == 0 and run.stdout and "different orders" not in run.stdout, run.stderr
