"""The tutorial: every command runs as printed, in order, in an empty folder, with the files that it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "TUTORIAL.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INSTALL = "pip install"  # done already
SLOW = ("isthmus live", "isthmus compare", "isthmus plan")  # seconds each; the others answer at once
PARTS = {"build": "## 1.", "choose": "## 2.", "prove": "## 3.", "compose": "## 4."}


def part(start: str) -> list[tuple[str, str]]:
    """The blocks of a part, with those of the introduction before them."""
    intro, *parts = re.split(r"^(?=## \d)", TEXT, flags=re.MULTILINE)
    return BLOCK.findall(intro) + BLOCK.findall(next(text for text in parts if text.startswith(start)))


def commands(blocks: list[tuple[str, str]]) -> list[str]:
    lines = [line for kind, body in blocks if kind == "console" for line in body.splitlines()]
    assert all(line.startswith("$ ") for line in lines)
    return [line.removeprefix("$ ") for line in lines if not line.startswith(f"$ {INSTALL}")]


def follow(blocks: list[tuple[str, str]], folder: Path, slow: bool) -> None:
    """Write the files, then run the commands."""
    for kind, body in blocks:
        head, _, rest = body.partition("\n")
        if kind != "console" and head.startswith("# file: "):
            (folder / head.removeprefix("# file: ")).write_text(rest, encoding="utf-8")
    tools = folder / "bin"
    tools.mkdir()
    for name, words in (("isthmus", "-m isthmus"), ("python", "")):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (tools / name).chmod(0o755)
    path = os.environ.get("PYTHONPATH", "")
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": f"{ROOT / 'src'}:{path}"}
    for command in commands(blocks):
        if not slow and (command.startswith(SLOW) or "-live" in command):
            continue
        done = subprocess.run(
            command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("start", PARTS.values(), ids=list(PARTS))
def test_the_quick_commands_run_as_printed(start: str, tmp_path: Path) -> None:
    follow(part(start), tmp_path, slow=False)


@pytest.mark.full
@pytest.mark.parametrize("start", PARTS.values(), ids=list(PARTS))
def test_all_commands_run_as_printed(start: str, tmp_path: Path) -> None:
    follow(part(start), tmp_path, slow=True)


def test_the_readme_shows_commands_that_exist() -> None:
    from isthmus.cli.main import COMMANDS

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\s*\$? ?isthmus (\w+)", text, flags=re.MULTILINE))
    assert named and named <= set(COMMANDS)
