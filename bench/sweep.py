"""A sweep on two cores beside a plain loop: runs a second, once what Spark takes to start is subtracted.

Both simulate the same runs and write their trace as Parquet. A sweep takes a time that does not depend on the number of
runs, for planning, starting workers and committing files; so two sweeps are timed, a small one and a large one, and the
rate is what the difference gives. The session and its workers are warm. Loop and sweeps take turns; the best of each
counts, as anything else on the machine can only add.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench.simulator import scenario
from isthmus.pipeline.session import spark_session
from isthmus.pipeline.sweep import RunSpec, sweep
from isthmus.sim.run import Run
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


def in_process(folder: Path) -> float:
    """Runs a second of a loop in this process."""
    start = time.monotonic()
    with TraceWriter(folder) as writer:
        for spec in grid(LOOP):
            Run(spec.scenario, writer, run=spec.run).execute()
    return LOOP / (time.monotonic() - start)


def main() -> bool:
    loops: list[float] = []
    small: list[float] = []
    large: list[float] = []
    with tempfile.TemporaryDirectory() as scratch, spark_session(f"local[{CORES}]") as spark:

        def timed(runs: int, name: str) -> float:
            start = time.monotonic()
            sweep(spark, grid(runs), Path(scratch) / name)
            return time.monotonic() - start

        timed(SMALL, "warm")
        for number in range(ROUNDS):
            loops.append(in_process(Path(scratch) / f"loop-{number}"))
            small.append(timed(SMALL, f"small-{number}"))
            large.append(timed(LARGE, f"large-{number}"))
    rate = (LARGE - SMALL) / (min(large) - min(small))
    fixed_s = max(0.0, min(small) - SMALL / rate)
    table = Table(title=f"runs a second, {LARGE} runs of {DURATION_MS / 1000:g} s of token-site on 10 sites")
    for column in ("", "runs a second", "times the loop"):
        table.add_column(column, justify="left" if not column else "right")
    table.add_row("a loop in one process", f"{max(loops):.2f}", "1.00")
    table.add_row(f"a sweep on {CORES} cores", f"{rate:.2f}", f"{rate / max(loops):.2f}")
    Console(width=110).print(table)
    print(f"a sweep's fixed part: {fixed_s:.1f} s, as much as {fixed_s * max(loops):.0f} runs of the loop")
    print(f"target: at least {TARGET} times the loop")
    return rate / max(loops) >= TARGET
