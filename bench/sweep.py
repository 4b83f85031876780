"""A sweep on two cores beside a plain loop: runs a second, once what Spark takes to start is subtracted.

Both simulate the same runs and write their trace as Parquet. A sweep takes a time that does not depend on the number of
runs, for planning, starting workers and committing files; so two sweeps are timed, a small one and a large one, and the
rate is what the difference gives. The session and its workers are warm. Loop and sweeps take turns; the best of each
counts, as anything else on the machine can only add.

Runs a second need a quiet machine. Where there is /proc, the same ratio is taken of processor time, which hardly minds
company: what one run costs the loop, and what it costs Java and its workers together.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from bench.simulator import scenario
from isthmus.pipeline.engine.session import spark_session
from isthmus.pipeline.sweep.sweep import RunSpec, sweep
from isthmus.sim.run import SimRun
from isthmus.trace.writer import TraceWriter

CORES = 2
SMALL, LARGE = 8, 72  # runs
LOOP = 12
ROUNDS = 3
DURATION_MS = 3_000.0
TARGET = 1.7


def grid(runs: int) -> list[RunSpec]:
    given = msgspec.structs.replace(scenario("reliable"), wire="sized", trace="events", duration_ms=DURATION_MS)
    return [
        RunSpec(run=run, study="bench", scenario=msgspec.structs.replace(given, seed=run), parameters={"seed": run})
        for run in range(runs)
    ]


class Cost(NamedTuple):
    """What a job took: by the clock, and of the processors."""

    wall_s: float
    cpu_s: float

    def __sub__(self, other: Cost) -> Cost:  # type: ignore[override]
        return Cost(self.wall_s - other.wall_s, self.cpu_s - other.cpu_s)

    def per_run(self, runs: int) -> Cost:
        return Cost(self.wall_s / runs, self.cpu_s / runs)


def best(costs: list[Cost]) -> Cost:
    return Cost(min(cost.wall_s for cost in costs), min(cost.cpu_s for cost in costs))


def now() -> Cost:
    """The clock, and what this process and all below it have used so far; 0 without /proc."""
    return Cost(time.monotonic(), sum(family().values()))


def family() -> dict[int, float]:
    """Processor seconds of this process and its descendants, dead children that were waited for included."""
    tick = os.sysconf("SC_CLK_TCK")
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(path.parent.name)] = int(fields[1])
        used[int(path.parent.name)] = sum(map(int, fields[11:15])) / tick
    found = {os.getpid()} & used.keys()
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return {pid: used[pid] for pid in found}


def in_process(folder: Path) -> Cost:
    """A loop in this process."""
    start = now()
    with TraceWriter(folder) as writer:
        for spec in grid(LOOP):
            SimRun(spec.scenario, writer, run=spec.run).execute()
    return now() - start


def main() -> bool:
    loops: list[Cost] = []
    small: list[Cost] = []
    large: list[Cost] = []
    with tempfile.TemporaryDirectory() as scratch, spark_session(f"local[{CORES}]") as spark:

        def timed(runs: int, name: str) -> Cost:
            start = now()
            sweep(spark, grid(runs), Path(scratch) / name)
            return now() - start

        timed(SMALL, "warm")
        for number in range(ROUNDS):
            loops.append(in_process(Path(scratch) / f"loop-{number}"))
            small.append(timed(SMALL, f"small-{number}"))
            large.append(timed(LARGE, f"large-{number}"))
    loop = best(loops).per_run(LOOP)
    swept = (best(large) - best(small)).per_run(LARGE - SMALL)
    times = loop.wall_s / swept.wall_s
    table = Table(title=f"{LARGE} runs of {DURATION_MS / 1000:g} s of token-site on 10 sites")
    for column in ("", "runs a second", "times the loop", "processor ms a run", "so, on idle cores"):
        table.add_column(column, justify="left" if not column else "right")
    table.add_row("a loop in one process", f"{1 / loop.wall_s:.2f}", "1.00", f"{1000 * loop.cpu_s:.0f}", "1.00")
    idle = f"{CORES * loop.cpu_s / swept.cpu_s:.2f}" if swept.cpu_s else "-"
    row = (f"{1 / swept.wall_s:.2f}", f"{times:.2f}", f"{1000 * swept.cpu_s:.0f}", idle)
    table.add_row(f"a sweep on {CORES} cores", *row)
    Console(width=110).print(table)
    fixed_s = max(0.0, best(small).wall_s - SMALL * swept.wall_s)
    print(f"a sweep's fixed part: {fixed_s:.1f} s, as much as {fixed_s / loop.wall_s:.0f} runs of the loop")
    print(f"target: at least {TARGET} times the loop")
    return times >= TARGET
