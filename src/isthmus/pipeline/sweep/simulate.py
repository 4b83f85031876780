"""What an executor does with its share of a grid: simulate run after run, and hand out the rows as they come.

The simulator pushes rows into a sink, Spark pulls batches from an iterator: a run goes on in steps of some ten thousand
events, and after each the iterator hands out the batches that have become full. The one row that says, as JSON, what
became of a run goes under a study of its own, `_runs`, so that a write by study puts it apart.

Invariants: a row is a function of its run's specification alone. No more than a batch of 64 k rows and those of one
step are in memory. A run that raises is an outcome with its error; the next run goes on.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec
import pyarrow as pa

from isthmus.scenario.model import Scenario
from isthmus.sim.base import Simulation
from isthmus.sim.simulate import make_run
from isthmus.trace.arrow import SCHEMA
from isthmus.trace.schema import Row, Sink
from isthmus.trace.writer import to_batch

BATCH_ROWS = 1 << 16
COLLECT = (50_000, 20, 10)  # rows are objects that live for a while: looked through less often than is usual
OUTCOMES = "_runs"  # the study under which outcomes travel
STREAM = pa.schema([*SCHEMA, pa.field("study", pa.string()), pa.field("outcome", pa.string())])
TYPES = {pa.int64(): "bigint", pa.int32(): "int", pa.int16(): "smallint", pa.int8(): "tinyint", pa.string(): "string"}
TYPES[SCHEMA.field("destinations").type] = "array<int>"
TRACE_COLUMNS = ", ".join(f"`{field.name}` {TYPES[field.type]}" for field in SCHEMA)
STREAM_COLUMNS = ", ".join(f"`{field.name}` {TYPES[field.type]}" for field in STREAM)

Make = Callable[[Scenario, Sink, int], Simulation]  # of scenario, where rows go, number of the run: a run to be started


class Outcome(msgspec.Struct, kw_only=True):
    """What became of one run; a failed one has its error and the number of its rows, and no other figures."""

    run: int
    study: str = ""
    status: Literal["ok", "failed"] = "ok"
    error: str = ""  # one line
    traceback: str = ""
    event_count: int = 0  # of the simulator
    row_count: int = 0  # of the trace
    submitted: int = 0
    delivered: int = 0
    undelivered: int = 0  # deliveries still owed at the end
    refused: int = 0
    rejected: int = 0
    control_bytes: int = 0  # over all copies; 0 where sizes were not looked at
    payload_bytes: int = 0
    packets: int = 0
    dropped: int = 0
    virtual_ns: int = 0
    figures: dict[str, float] = {}  # what only some networks measure (sim/packets/figures.py)


class Outlet:
    """Batches on their way out; small ones of several runs travel together."""

    __slots__ = ("full", "small", "small_rows")

    def __init__(self) -> None:
        self.full: list[pa.RecordBatch] = []  # to be taken
        self.small: list[pa.RecordBatch] = []
        self.small_rows = 0  # in `small`; fewer than BATCH_ROWS

    def add(self, batch: pa.RecordBatch) -> None:
        self.small.append(batch)
        self.small_rows += batch.num_rows
        if self.small_rows >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        if self.small:
            self.full += pa.Table.from_batches(self.small).combine_chunks().to_batches()
        self.small, self.small_rows = [], 0

    def take(self) -> list[pa.RecordBatch]:
        """What is full by now."""
        taken, self.full = self.full, []
        return taken


class RowSink:
    """Rows of one run, turned into batches as they come."""

    __slots__ = ("count", "outlet", "rows", "study")

    def __init__(self, outlet: Outlet, study: str) -> None:
        self.outlet = outlet
        self.study = study
        self.rows: list[Row] = []
        self.count = 0  # of all rows, those written already included

    def append(self, row: Row, /) -> None:
        self.rows.append(row)
        if len(self.rows) >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        rows, self.rows = self.rows, []
        if rows:
            self.outlet.add(stream_batch(to_batch(rows), self.study))
            self.count += len(rows)


def stream_batch(batch: pa.RecordBatch, study: str, outcome: str | None = None) -> pa.RecordBatch:
    more = [pa.repeat(pa.scalar(value, pa.string()), batch.num_rows) for value in (study, outcome)]
    return pa.RecordBatch.from_arrays([*batch.columns, *more], schema=STREAM)


def simulate_all(
    batches: Iterable[pa.RecordBatch], make: Make = make_run, done: Callable[[], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """Run every specification (columns run, study, scenario) and stream what it gives; `done` is called after each."""
    outlet = Outlet()
    gc.set_threshold(*COLLECT)
    for specs in batches:
        for row in specs.to_pylist():
            for _ in simulate_one(row["run"], row["study"], row["scenario"], make, outlet):
                yield from outlet.take()
            if done is not None:
                done()
    outlet.flush()
    yield from outlet.take()


def simulate_one(run: int, study: str, scenario: bytes, make: Make, outlet: Outlet) -> Iterator[None]:
    """One run in steps: its events, then what became of it."""
    sink = RowSink(outlet, study)
    outcome = Outcome(run=run, study=study)
    try:
        made = make(msgspec.json.decode(scenario, type=Scenario), sink, run)
        for _ in made.steps():
            yield
        sink.flush()
        outcome = outcome_of(run, study, made)
    except Exception as error:
        outcome.status = "failed"
        outcome.error = f"{type(error).__name__}: {error}".splitlines()[0]
        outcome.traceback = traceback.format_exc()
        try:
            sink.flush()
        except Exception:  # rows that do not fit the trace: the error says so
            sink.rows = []
    outcome.row_count = sink.count
    nothing: Row = (run, -1, 0, 0, 0, -1, -1, -1, 0, 0, None, 0, 0, 0, 0)
    outlet.add(stream_batch(to_batch([nothing]), OUTCOMES, msgspec.json.encode(outcome).decode()))
    yield


def outcome_of(run: int, study: str, made: Simulation) -> Outcome:
    summary, meter = made.summary, made.meter
    return Outcome(
        run=run,
        study=study,
        event_count=made.scheduler.event_count,
        submitted=summary.submitted_count,
        delivered=summary.delivered.count,
        undelivered=summary.undelivered_count(),
        refused=summary.refused_count,
        rejected=summary.rejected_count,
        control_bytes=0 if meter is None else meter.control_bytes,
        payload_bytes=0 if meter is None else meter.payload_bytes,
        packets=made.network.packet_count,
        dropped=made.network.dropped_count,
        virtual_ns=made.scheduler.now_ns,
        figures=made.figures(),
    )
