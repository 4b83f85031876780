"""`isthmus check` in one process: CPU time from command to verdict, and per row of a large trace: `make bench-check`.

Two traces of a million rows: every message to all, in one order; and every message to a random tenth, in which no two
processes share a sequence. All properties are judged together, reading included. A third trace has sixty rows: what it
costs is the command itself. Times are CPU seconds of a child process, so that the start of Python counts.

    python -m bench.check [ROWS]
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.traces import write

ROWS = 1_000_000
ROW_US_MAX = 20.0
SMALL_S_MAX = 2.0
SMALL_ROWS = "process,kind,sender,number\n" + "".join(
    f"1,submit,1,{number}\n1,deliver,1,{number}\n2,deliver,1,{number}\n" for number in range(1, 21)
)
COMMAND = "from isthmus.cli.main import main; main()"


def cpu_seconds(path: Path, folder: Path) -> float:
    """The CPU time of one check, all properties that the trace can have."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    arguments = ["check", str(path), "--engine", "local", "-o", str(folder)]
    done = subprocess.run([sys.executable, "-c", COMMAND, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> bool:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "small.csv").write_text(SMALL_ROWS)
        small_s = cpu_seconds(folder / "small.csv", folder / "small")
        print(f"60 rows of CSV: {small_s:.2f} CPU s (at most {SMALL_S_MAX:g})")
        good = small_s <= SMALL_S_MAX
        for told, share in (("to all", 1.0), ("to a tenth", 0.1)):
            write(folder / "large.parquet", round(rows * (0.99 if share == 1.0 else 0.9)), share)
            row_us = cpu_seconds(folder / "large.parquet", folder / "large") / rows * 1e6
            print(f"{rows:,} rows, every message {told}: {row_us:.1f} us a row (at most {ROW_US_MAX:g})")
            good &= row_us <= ROW_US_MAX
    return good


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
