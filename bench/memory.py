"""Memory: of 600 sites before the first event, and over a run of five million events that writes its trace.

Over the run it is flat, but for what Python has not returned yet. Each is a process of its own. The run reads its
resident memory after each tenth of its events; what counts is how much the last tenth has over the second, when all
buffers have filled once.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec
from rich.console import Console
from rich.table import Table

from bench.simulator import scenario
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Poisson
from isthmus.sim.run import SimRun
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.writer import TraceWriter

EVENTS = 5_000_000
EVENTS_PER_S = 21_000  # of virtual time, about; the run ends by its count of events
GROWTH_MAX = 1.10
SITES = 600
START_MAX_MB = 200
T = TypeVar("T")


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


def start(transport: str) -> float:
    """Start a group of many sites, each with a link, a stream and a path to each other one once they are used."""
    channel = Channel(Constant(50.0))
    stack = StackSpec(name="token-site", transport=transport)
    topology = mesh(SITES // 10, 10, channel, channel)
    run = SimRun(
        Scenario(topology=topology, stack=stack, workloads=(Poisson(rate_per_s=1),), duration_ms=1, trace="none")
    )
    run.start()
    return resident_mb()


def run_events() -> list[tuple[int, float]]:
    given = msgspec.structs.replace(scenario("reliable"), duration_ms=1e3 * EVENTS / EVENTS_PER_S * 2, trace="events")
    readings: list[tuple[int, float]] = []
    with tempfile.TemporaryDirectory() as folder, TraceWriter(Path(folder) / "trace", {}) as writer:
        run = SimRun(given, writer)
        run.start()
        while run.scheduler.event_count < EVENTS:
            run.scheduler.run(run.end_ns, EVENTS // 10)
            readings.append((run.scheduler.event_count, resident_mb()))
    return readings


def in_process(measure: Callable[..., T], *arguments: str) -> T:
    """What a process of its own has measured."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(measure, *arguments).result()


def main() -> bool:
    starts = {transport: in_process(start, transport) for transport in ("direct", "reliable")}
    told = ", ".join(f"{mb:.0f} MB with the {transport} transport" for transport, mb in starts.items())
    print(f"{SITES} sites before the first event: {told}; target: at most {START_MAX_MB}")
    readings = in_process(run_events)
    table = Table(title="resident memory over one run that writes its trace")
    table.add_column("events", justify="right")
    table.add_column("MB", justify="right")
    for events, mb in readings:
        table.add_row(f"{events:,}", f"{mb:.0f}")
    growth = readings[-1][1] / readings[1][1]
    Console(width=110).print(table)
    print(f"growth from the second tenth to the last: {growth:.3f} times; target: at most {GROWTH_MAX}")
    return growth <= GROWTH_MAX and max(starts.values()) <= START_MAX_MB
