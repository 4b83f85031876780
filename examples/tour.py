"""One network with every stack: compared in the simulator, then one of them live; results in out/tour.

The same from the command line: `isthmus compare three-lans.toml --all`, then `isthmus live three-lans.toml`. Exit code
1 where a promise was not kept.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from isthmus import STACKS, Oracle, compare, load_scenario, read_rows

EXAMPLE, OUT = Path(__file__).resolve().parent / "three-lans.toml", Path("out/tour")
SEEDS, JOBS = range(1, 4), 2


def simulated() -> bool:
    """Compare all stacks in the simulator; return whether all kept what they promise."""
    result = compare(load_scenario(EXAMPLE), list(STACKS), SEEDS, jobs=JOBS)
    for row in result.stacks:
        print(f"{row.stack:20} {row.message_ms.mean:7.1f} ms per message, promises {row.promises}")
    print(result.choice.sentence)
    return result.exit_code() == 0


def live() -> bool:
    """Run the example's own stack in real time, one process per site; return whether it kept what it promises."""
    folder = OUT / "live"
    command = [sys.executable, "-m", "isthmus", "live", str(EXAMPLE), "-o", str(folder), "--force"]
    subprocess.run(command, check=False)
    stack = load_scenario(EXAMPLE).stack.name
    verdicts = Oracle(read_rows(folder)).verdicts(STACKS[stack].properties)
    kept = all(verdict.status == "valid" for verdict in verdicts)
    print(f"{stack}, live: promises {'kept' if kept else 'broken'}")
    return kept


def main() -> int:
    kept = [simulated(), live()]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
