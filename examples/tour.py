"""One network with every stack: compared in the simulator, then one of them live; pictures and figures in out/tour.

The same from the command line: `isthmus compare three-lans.toml --all`, then `isthmus live three-lans.toml`. Exit code
1 where a promise was not kept.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from isthmus import Oracle, compare, load_scenario, read_rows
from isthmus.live.run.harness import measure, run_live
from isthmus.report.pictures.distributions import save_spreads
from isthmus.report.pictures.network import save_network
from isthmus.stacks.registry import STACKS

EXAMPLE, OUT = Path(__file__).resolve().parent / "three-lans.toml", Path("out/tour")
SEEDS, JOBS = range(1, 4), 2


def simulated() -> bool:
    """Compare all stacks in the simulator; whether all kept what they promise."""
    result = compare(load_scenario(EXAMPLE), list(STACKS), SEEDS, jobs=JOBS)
    for row in result.stacks:
        print(f"{row.stack:20} {row.message_ms.mean:7.1f} ms per message, promises {row.promises}")
    print(result.choice.sentence)
    save_spreads(result.stacks, f"{result.scenario}, {result.sites} sites", OUT)
    return result.exit_code() == 0


def live() -> bool:
    """Run the example's own stack in real time, one process per site; whether it kept what it promises."""
    scenario, folder = load_scenario(EXAMPLE), OUT / "live"
    for old in folder.glob("*.parquet"):
        old.unlink()
    asyncio.run(run_live(scenario, EXAMPLE, folder))
    figures = measure(folder, len(scenario.topology.sites))
    stack = scenario.stack.name
    verdicts = Oracle(read_rows(folder)).verdicts(STACKS[stack].properties)
    kept = all(verdict.status == "valid" for verdict in verdicts)
    print(
        f"{stack}, live: {figures.per_message.mean() / 1e6:.1f} ms per message, promises {'kept' if kept else 'broken'}"
    )
    return kept


def main() -> int:
    OUT.mkdir(parents=True, exist_ok=True)
    save_network(load_scenario(EXAMPLE).topology, OUT / "network.svg")
    kept = [simulated(), live()]
    print(f"Pictures: {OUT / 'network.svg'}, {OUT / 'compare.svg'}")
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
