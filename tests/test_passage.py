"""A run passes through the packages in one direction: `bench/passage.py` counts modules and changes of package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_a_simulated_run_keeps_the_limits_of_the_passage() -> None:
    ran = subprocess.run([sys.executable, "-m", "bench.passage"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
