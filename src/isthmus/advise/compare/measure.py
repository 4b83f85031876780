"""One run of a comparison: simulate a scenario, judge what its stack promises, keep the figures that people compare."""

from __future__ import annotations

import time
import traceback

import msgspec

from isthmus.advise.compare.metadata import Metadata, metadata, with_samples
from isthmus.judge.oracle import Verdict
from isthmus.judge.promises import promised_verdicts
from isthmus.measure.histogram import Histogram
from isthmus.measure.optimism import Guesses, guesses
from isthmus.scenario.model import Scenario
from isthmus.sim.packets.twin import run_of
from isthmus.trace.schema import Row

ROWS_MAX = 2_000_000  # that a worker keeps in memory to judge them


class Task(msgspec.Struct, frozen=True):
    """A run to make."""

    stack: str  # what the comparison calls it
    scenario: Scenario


class Measured(msgspec.Struct, frozen=True):
    """What came out of a run; `error` is the traceback of one that failed."""

    stack: str
    seed: int
    error: str
    submitted: int
    undelivered: int  # deliveries still owed at the end
    delivered: Histogram  # latency of each delivery, ns
    per_message: Histogram  # latency of each message, ns
    guessed: Guesses | None  # None: nothing was delivered tentatively, or there were too many rows
    packets: int
    control_bytes: int | None  # None: the scenario does not count bytes
    cpu_s: float
    verdicts: tuple[Verdict, ...]
    metadata: Metadata | None = None  # of causal order
    forgiven: int = 0  # deliveries that were owed to a site when it crashed, or was left out


class Kept:
    """A sink that keeps the rows of a run until there are too many, then none."""

    __slots__ = ("full", "rows")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.full = False

    def append(self, row: Row) -> None:
        if not self.full:
            self.rows.append(row)
            if len(self.rows) > ROWS_MAX:
                self.full = True
                self.rows.clear()


def simulate(scenario: Scenario) -> Measured:
    """Make one run of a scenario, and reduce it to its figures and verdicts."""
    return measure(Task(scenario.stack.name, scenario))


def measure(task: Task) -> Measured:
    """Make a run and reduce it to its figures."""
    scenario = msgspec.structs.replace(with_samples(task.scenario), trace="events")
    kept = Kept()
    run = run_of(scenario, kept)
    error = ""
    start = time.process_time()
    try:
        run.execute()
    except Exception:
        error = traceback.format_exc()
    cpu_s = time.process_time() - start
    summary = run.summary
    return Measured(
        stack=task.stack,
        seed=scenario.seed,
        error=error,
        submitted=summary.submitted_count,
        undelivered=summary.undelivered_count(),
        forgiven=summary.forgiven_count,
        delivered=summary.delivered,
        per_message=summary.per_message,
        guessed=guesses(kept.rows),
        packets=run.network.packet_count,
        control_bytes=None if run.meter is None else run.meter.control_bytes,
        cpu_s=cpu_s,
        verdicts=tuple(judged(scenario, kept)),
        metadata=metadata(kept.rows),
    )


def judged(scenario: Scenario, kept: Kept) -> list[Verdict]:
    verdicts = promised_verdicts(scenario, kept.rows)
    if not kept.full:
        return verdicts
    why = f"not judged: over {ROWS_MAX:,} rows; `isthmus sim` and `isthmus check` take more"
    return [msgspec.structs.replace(verdict, witness=why) for verdict in verdicts]
