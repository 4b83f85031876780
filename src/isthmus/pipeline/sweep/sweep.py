"""From a grid of runs to one trace: simulate in the executors, write Parquet once, and say what became of each run.

A run specification is a number, a study and the scenario itself as JSON, so that a row holds all that decides its run.
Rows are balanced over tasks by their likely cost (balance.py); `mapInArrow` calls the simulator (simulate.py). Events
and outcomes go to different folders in one Parquet write; several studies can share that one job.

Layout: FOLDER/trace/study=NAME/*.parquet, in the trace's schema (and a column `outcome` that is always null), and
FOLDER/runs.parquet, one row per run, with a column for each parameter.

Invariants: the number of a run is its place in the grid. The same grid gives the same rows, whatever the number of
tasks and executors. The folder gets its parts when the sweep is done.
"""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.errors import InputError, LocalError
from isthmus.pipeline.engine.formats import RUN_SPEC
from isthmus.pipeline.engine.session import cores_of
from isthmus.pipeline.sweep.balance import assign_tasks, expected_cost, task_count
from isthmus.pipeline.sweep.simulate import (
    OUTCOMES,
    STREAM_COLUMNS,
    TRACE_COLUMNS,
    Make,
    Outcome,
    simulate_all,
)
from isthmus.scenario.model import Scenario
from isthmus.sim.packets.twin import compile_ahead
from isthmus.sim.simulate import make_run

POLL_S = 0.2
WRITERS = "spark.sql.maxConcurrentOutputFileWriters"  # above 0 spares a sort by folder before the write
WRITERS_MAX = 64
GROWING = ("local", "time_ns", "number")  # neighbours differ by little: kept as differences, without a dictionary
QUICK = {"parquet.compression.codec.zstd.level": "1"}  # a tenth more bytes, a quarter less time to write a row
ENCODING = QUICK | {"parquet.writer.version": "v2"} | {f"parquet.enable.dictionary#{name}": "false" for name in GROWING}

Scalar = str | int | float | bool
Progress = Callable[[int | None, int], None]  # runs done (None: Spark does not say), runs asked


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a grid: all that decides it, and how to have it again."""

    run: int
    study: str
    scenario: Scenario
    parameters: Mapping[str, Scalar] = {}
    replay: str = ""  # a command


class Sweep(msgspec.Struct, frozen=True):
    """A grid that has been run."""

    trace: DataFrame
    runs: DataFrame
    outcomes: tuple[Outcome, ...]  # by number of run
    files: tuple[Path, ...]  # of the trace; every run stands whole in one of them

    def failed(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.status != "ok"]

    def good_trace(self) -> DataFrame:
        """The events of the runs that came to their end; what a failed one left behind proves nothing."""
        if not self.failed():
            return self.trace
        bad = self.runs.where(F.col("status") != "ok").select("run")
        return self.trace.join(F.broadcast(bad), "run", "left_anti")


def sweep(
    spark: SparkSession,
    specs: Sequence[RunSpec],
    folder: Path,
    *,
    tasks: int | None = None,
    progress: Progress | None = None,
    make: Make = make_run,
) -> Sweep:
    """Run a grid and write its trace and its runs into a folder that has neither."""
    return sweep_together(spark, {folder: specs}, tasks=tasks, progress=progress, make=make)[0]


def sweep_together(
    spark: SparkSession,
    grids: Mapping[Path, Sequence[RunSpec]],
    *,
    tasks: int | None = None,
    progress: Progress | None = None,
    make: Make = make_run,
) -> list[Sweep]:
    """Run the grids of several studies, each for a folder of its own on one file system, as one job."""
    studies = [{spec.study for spec in specs} for specs in grids.values()]
    if not grids or any(len(names) > 1 for names in studies) or len(set().union(*studies)) < sum(map(len, studies)):
        raise LocalError("a grid is of one study, and a study has one grid")
    if bad := [name for names in studies for name in names if name == OUTCOMES or not re.fullmatch(r"[\w.-]+", name)]:
        raise LocalError(f"{bad[0]!r} is not a valid name for the folder of a study")
    for folder, specs in grids.items():
        if [spec.run for spec in specs] != list(range(len(specs))):
            raise LocalError("the number of a run is its place in the grid")
        for path in (folder / "trace", folder / "runs.parquet"):
            if path.exists():
                raise InputError(str(folder), "", f"{path.name} already", "a folder without a sweep")
    for folder in grids:
        folder.mkdir(parents=True, exist_ok=True)
    staging = next(iter(grids)) / ".sweep"
    shutil.rmtree(staging, ignore_errors=True)
    try:
        every = [spec for specs in grids.values() for spec in specs]
        compile_ahead(spec.scenario for spec in every)
        costs = [expected_cost(spec.scenario) for spec in every]
        count = task_count(costs, cores_of(spark)) if tasks is None else min(tasks, len(every))
        write(spark, every, staging, assign_tasks(costs, count), progress, make)
        outcomes = read_outcomes(staging / f"study={OUTCOMES}")
        return [settle(spark, specs, staging, folder, outcomes) for folder, specs in grids.items()]
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def settle(
    spark: SparkSession,
    specs: Sequence[RunSpec],
    staging: Path,
    folder: Path,
    outcomes: Mapping[tuple[str, int], Outcome],
) -> Sweep:
    found = [outcomes[key] for spec in specs if (key := (spec.study, spec.run)) in outcomes]
    if len(found) != len(specs):
        raise LocalError(f"{len(specs)} runs were requested, {len(found)} completed")
    table = runs_table(specs, found)
    trace, runs = folder / "trace", folder / "runs.parquet"
    trace.mkdir()
    for name in {f"study={spec.study}" for spec in specs}:
        if (staging / name).exists():  # not if nothing happened
            (staging / name).rename(trace / name)
    pq.write_table(table, runs)
    files = tuple(sorted(trace.rglob("*.parquet")))
    return Sweep(read_trace(spark, trace), spark.read.parquet(str(runs)), tuple(found), files)


def read_trace(spark: SparkSession, folder: Path) -> DataFrame:
    """A sweep's events; one in which nothing happened has none."""
    columns = f"{TRACE_COLUMNS}, `study` string"
    if not any(folder.rglob("*.parquet")):
        return spark.createDataFrame([], columns)
    return spark.read.schema(columns).parquet(str(folder))


def spec_table(specs: Iterable[RunSpec]) -> pa.Table:
    return pa.table(
        {
            "run": pa.array([spec.run for spec in specs], pa.int64()),
            "study": pa.array([spec.study for spec in specs], pa.string()),
            "scenario": pa.array([msgspec.json.encode(spec.scenario) for spec in specs], pa.binary()),
        }
    )


def write(
    spark: SparkSession,
    specs: Sequence[RunSpec],
    folder: Path,
    tasks: Sequence[int],
    progress: Progress | None,
    make: Make,
) -> None:
    """The one Spark job: simulate and write, events and outcomes apart; `tasks` has the task of each run."""
    counter = counter_of(spark)
    done = None if counter is None else partial(counter.add, 1)

    def count() -> int | None:
        return None if counter is None else counter.value

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return simulate_all(batches, make, done)

    table = spec_table(specs).append_column("task", pa.array(tasks, pa.int32()))
    rows = (
        spark.createDataFrame(table).repartitionById(max(tasks, default=0) + 1, "task").mapInArrow(work, STREAM_COLUMNS)
    )
    before = spark.conf.get(WRITERS, None)
    spark.conf.set(WRITERS, WRITERS_MAX)
    try:
        with watched(count, len(specs), progress):
            rows.write.options(**ENCODING).partitionBy("study").parquet(str(folder))
    finally:
        if before is None:
            spark.conf.unset(WRITERS)
        else:
            spark.conf.set(WRITERS, before)


def counter_of(spark: SparkSession) -> Accumulator[int] | None:
    """Where tasks count the runs they have done; Connect has no such thing."""
    try:
        return spark.sparkContext.accumulator(0)
    except Exception:
        return None


@contextmanager
def watched(count: Callable[[], int | None], total: int, progress: Progress | None) -> Iterator[None]:
    """Report how many runs are done while the block runs; tasks report when they end."""
    if progress is None:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        while not over.wait(POLL_S):
            progress(count(), total)

    progress(count(), total)
    thread = threading.Thread(target=watch, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    progress(total, total)


def read_outcomes(folder: Path) -> dict[tuple[str, int], Outcome]:
    if not folder.exists():
        return {}
    texts = pq.read_table(folder, columns=["outcome"]).column("outcome").to_pylist()
    found = [msgspec.json.decode(text, type=Outcome) for text in texts]
    outcomes = {(outcome.study, outcome.run): outcome for outcome in found}
    if len(outcomes) != len(found):
        raise LocalError(f"{len(outcomes)} runs came back {len(found)} times")
    return outcomes


def runs_table(specs: Sequence[RunSpec], outcomes: Sequence[Outcome]) -> pa.Table:
    """One row per run: what was asked (formats.RUN_SPEC), what came of it (Outcome), its figures and parameters."""
    columns: dict[str, list[object]] = {name: [] for name in RUN_SPEC}
    for spec in specs:
        scenario, parameters = spec.scenario, json.dumps(dict(spec.parameters))
        asked = (spec.run, spec.study, scenario.stack.name, scenario.seed, parameters, spec.replay)
        for name, value in zip(RUN_SPEC, asked, strict=True):
            columns[name].append(value)
    for name in Outcome.__struct_fields__:
        if name != "figures":
            columns.setdefault(name, [getattr(outcome, name) for outcome in outcomes])
    for name in dict.fromkeys(name for outcome in outcomes for name in outcome.figures):
        columns[name] = [None if (found := outcome.figures.get(name)) is None else float(found) for outcome in outcomes]
    for name in dict.fromkeys(name for spec in specs for name in spec.parameters if name != "seed"):
        if name in columns:
            raise LocalError(f"a parameter cannot be called {name}: the table of runs has a column of that name")
        columns[name] = [spec.parameters.get(name) for spec in specs]
    try:
        return pa.table(columns)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise LocalError(f"a parameter has values of different kinds: {error}") from error
