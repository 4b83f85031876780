"""Memory over a run of five million events that writes its trace: flat, but for what Python has not returned yet.

The run is a process of its own. It reads its resident memory after each tenth of its events; what counts is how much
the last tenth has over the second, when all buffers have filled once.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench.simulator import scenario
from isthmus.sim.run import Run
from isthmus.trace.writer import TraceWriter

EVENTS = 5_000_000
EVENTS_PER_S = 21_000  # of virtual time, about; the run ends by its count of events
GROWTH_MAX = 1.10


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


def measure(results: multiprocessing.Queue[list[tuple[int, float]]]) -> None:
    given = msgspec.structs.replace(scenario("reliable"), duration_ms=1e3 * EVENTS / EVENTS_PER_S * 2, trace="events")
    readings: list[tuple[int, float]] = []
    with tempfile.TemporaryDirectory() as folder, TraceWriter(Path(folder) / "trace", {}) as writer:
        run = Run(given, writer)
        run.start()
        while run.scheduler.event_count < EVENTS:
            run.scheduler.run(run.end_ns, EVENTS // 10)
            readings.append((run.scheduler.event_count, resident_mb()))
    results.put(readings)


def main() -> bool:
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[list[tuple[int, float]]] = context.Queue()
    process = context.Process(target=measure, args=(results,))
    process.start()
    readings = results.get()
    process.join()
    table = Table(title="resident memory over one run that writes its trace")
    table.add_column("events", justify="right")
    table.add_column("MB", justify="right")
    for events, mb in readings:
        table.add_row(f"{events:,}", f"{mb:.0f}")
    growth = readings[-1][1] / readings[1][1]
    Console(width=110).print(table)
    print(f"growth from the second tenth to the last: {growth:.3f} times; target: at most {GROWTH_MAX}")
    return growth <= GROWTH_MAX
