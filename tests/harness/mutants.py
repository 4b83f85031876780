"""Bugs planted as changes of text in a copy of the sources, to see that the tests find them (tests/mutants.toml).

    python -m tests.harness.mutants               plant each, and print the test that found it
    python -m tests.harness.mutants relay safe    those whose name has one of these words

Exit code 1 if a bug was not found.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

TREE = Path(__file__).parents[2]
SOURCES = TREE / "src" / "isthmus"
TIMEOUT_S = 1800


class Mutant(NamedTuple):
    """One planted bug."""

    name: str
    file: str  # below src/isthmus
    old: str
    new: str
    tests: list[str]

    def applied(self) -> str:
        """The file's text with the bug in it; raises ValueError unless it applies in exactly one place."""
        text = (SOURCES / self.file).read_text()
        old, new = self.old.strip("\n"), self.new.strip("\n")
        if text.count(old) != 1 or old == new:
            raise ValueError(f"{self.name}: its text is {text.count(old)} times in {self.file}; once is needed")
        return text.replace(old, new)


def load() -> list[Mutant]:
    return [Mutant(**each) for each in tomllib.loads((TREE / "tests" / "mutants.toml").read_text())["mutant"]]


def finding(mutant: Mutant) -> str | None:
    """The first test that fails with a bug planted; None where all pass."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(TREE / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / "isthmus" / mutant.file).write_text(mutant.applied())
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-m",
            "not full",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            *mutant.tests,
        ]
        environment = os.environ | {"PYTHONPATH": str(copy)}
        done = subprocess.run(
            command, cwd=TREE, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))]
    if done.returncode == 0:
        return None
    if done.returncode != 1 or not lines:
        raise RuntimeError(f"{mutant.name}: pytest ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr}")
    return lines[0]


def main(words: list[str]) -> int:
    chosen = [each for each in load() if not words or any(word in each.name for word in words)]
    missed = 0
    for mutant in chosen:
        found = finding(mutant)
        missed += found is None
        print(f"{mutant.name}\n    {found or 'NOT FOUND'}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} planted bugs were found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
