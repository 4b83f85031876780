"""What an executor does with its share of a grid: simulate run after run, and hand out the rows as they come.

The problem: the simulator pushes rows into a sink, Spark pulls batches from an iterator, and a run may have more rows
than a worker has memory. The idea: the runs of one task go on in a thread that puts full batches into a queue of two;
the iterator takes them out. A batch has the columns of the trace, the study, and an outcome, which is null in a row of
the trace. The one row that says, as JSON, what became of a run goes under a study of its own, `_runs`, so that a write
by study puts it apart.

Invariants: a row is a function of its run's specification alone. No more than a few batches of 64 k rows are in
memory, whatever the run. A run that raises is an outcome with its error, behind the events it got to; the next run goes
on. Runs follow each other in a task, never mixed.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, Full, Queue
from typing import Literal

import msgspec
import pyarrow as pa

from isthmus.scenario.model import Scenario
from isthmus.sim.run import Run
from isthmus.trace.schema import SCHEMA, Row, Sink
from isthmus.trace.writer import to_batch

BATCH_ROWS = 1 << 16
QUEUE_MAX = 2  # batches that wait to be taken
POLL_S = 0.2  # how soon a thread sees that nobody takes its batches any more
OUTCOMES = "_runs"  # the study under which outcomes travel
STREAM = pa.schema([*SCHEMA, pa.field("study", pa.string()), pa.field("outcome", pa.string())])
TYPES = {pa.int64(): "bigint", pa.int32(): "int", pa.int8(): "tinyint", pa.string(): "string"}
TYPES[SCHEMA.field("destinations").type] = "array<int>"
TRACE_COLUMNS = ", ".join(f"`{field.name}` {TYPES[field.type]}" for field in SCHEMA)
STREAM_COLUMNS = ", ".join(f"`{field.name}` {TYPES[field.type]}" for field in STREAM)

Simulate = Callable[[Scenario, Sink, int], Run]  # scenario, where rows go, number of the run


class Outcome(msgspec.Struct, kw_only=True):
    """What became of one run; a failed one has its error and the number of its rows, and no other figures."""

    run: int
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


def execute(scenario: Scenario, sink: Sink, run: int) -> Run:
    """The simulator itself; a test plants another in its place."""
    made = Run(scenario, sink, run=run)
    made.execute()
    return made


class Abandoned(BaseException):
    """Nobody takes the batches any more: the task was cancelled."""


class Outlet:
    """Batches on their way from the thread that simulates to the one that Spark waits in."""

    def __init__(self) -> None:
        self.queue: Queue[pa.RecordBatch | BaseException | None] = Queue(QUEUE_MAX)
        self.closed = False
        self.small: list[pa.RecordBatch] = []  # of several runs, fewer than BATCH_ROWS rows together

    def put(self, item: pa.RecordBatch | BaseException | None) -> None:
        while not self.closed:
            try:
                self.queue.put(item, timeout=POLL_S)
            except Full:
                continue
            return
        raise Abandoned

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch of any size; small ones travel together."""
        self.small.append(batch)
        if sum(waiting.num_rows for waiting in self.small) >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        if self.small:
            for batch in pa.Table.from_batches(self.small).combine_chunks().to_batches():
                self.put(batch)
            self.small = []

    def take(self) -> Iterator[pa.RecordBatch]:
        """Batches until the other side is done; an error of its own is raised here."""
        while (item := self.queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def close(self) -> None:
        """Let the other side end, wherever it is."""
        self.closed = True
        try:
            while True:
                self.queue.get_nowait()
        except Empty:
            pass


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
    batches: Iterable[pa.RecordBatch], simulate: Simulate = execute, done: Callable[[], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """Run every specification (columns run, study, scenario) and stream what it gives; `done` is called after each."""
    outlet = Outlet()
    specs = [row for batch in batches for row in batch.to_pylist()]  # taken in Spark's own thread

    def work() -> None:
        try:
            for row in specs:
                simulate_one(row["run"], row["study"], row["scenario"], simulate, outlet)
                if done is not None:
                    done()
            outlet.flush()
            outlet.put(None)
        except Abandoned:
            pass
        except BaseException as error:
            outlet.put(error)

    thread = threading.Thread(target=work, name="simulate", daemon=True)
    thread.start()
    try:
        yield from outlet.take()
    finally:
        outlet.close()
        thread.join()


def simulate_one(run: int, study: str, scenario: bytes, simulate: Simulate, outlet: Outlet) -> None:
    """One run: its events, then what became of it."""
    sink = RowSink(outlet, study)
    outcome = Outcome(run=run)
    try:
        made = simulate(msgspec.json.decode(scenario, type=Scenario), sink, run)
        sink.flush()
        outcome = outcome_of(run, made)
    except Exception as error:
        outcome.status = "failed"
        outcome.error = f"{type(error).__name__}: {error}".splitlines()[0]
        outcome.traceback = traceback.format_exc()
        try:
            sink.flush()
        except Exception:  # rows that do not fit the trace: the error says so
            sink.rows = []
    outcome.row_count = sink.count
    nothing: Row = (run, -1, 0, 0, 0, -1, -1, 0, 0, None, 0, 0, 0)
    outlet.add(stream_batch(to_batch([nothing]), OUTCOMES, msgspec.json.encode(outcome).decode()))


def outcome_of(run: int, made: Run) -> Outcome:
    summary, meter = made.summary, made.meter
    return Outcome(
        run=run,
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
    )
