"""Runs that fit a task, judged in the executors by the oracle of one process; so both engines say the same of them.

Rows are brought together by run, and judge/oracle.py gives the verdicts and witnesses there, all runs in parallel; only
runs that outgrow a task need tables.py. A sweep needs no shuffle: each of its runs stands whole in one file, and its
files are balanced over tasks and read there.

Invariant: a run is judged by all its rows or not at all. A file that lacks rows of a run is an error, not a verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from msgspec.structs import asdict
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from isthmus.core.errors import LocalError
from isthmus.judge.oracle import Oracle
from isthmus.judge.verdict import Verdict
from isthmus.pipeline.engine.formats import IDENTITY, VERDICT, ddl
from isthmus.pipeline.engine.session import cores_of
from isthmus.pipeline.sweep.balance import assign_tasks
from isthmus.trace.arrow import SCHEMA
from isthmus.trace.domain import Domain
from isthmus.trace.reader import read_batches, to_rows

Spans = Mapping[str, Sequence[range] | None]  # each property with the runs that it is asked of; None: all


TASKS_PER_CORE = 4  # for files: so that no core waits long for the last one


class RunFile(NamedTuple):
    """A file with whole runs."""

    path: Path
    shift: int  # what is added to the numbers of its runs


class Judge:
    """Asks the oracle for the verdicts on one run after another; in the executors."""

    __slots__ = ("bounds", "domains", "partial", "shape", "wanted")

    def __init__(self, spans: Spans, bounds: Mapping[str, int], domains: Sequence[Domain], partial: bool) -> None:
        self.wanted = {name: None if given is None else list(given) for name, given in spans.items()}
        self.bounds = bounds
        self.domains = domains
        self.partial = partial
        self.shape = pa.schema([pa.field(name, arrow_type(kind)) for name, kind in VERDICT.items()])

    def oracle(self) -> Oracle:
        return Oracle(domains=self.domains, bounds=self.bounds, partial=self.partial)

    def verdicts(self, run: int, oracle: Oracle) -> list[dict[str, object]]:
        asked = [name for name, given in self.wanted.items() if given is None or any(run in span for span in given)]
        return [verdict_row(run, verdict) for verdict in oracle.scoped(asked)] if asked else []


def judge_runs(
    trace: DataFrame, spans: Spans, bounds: Mapping[str, int], domains: Sequence[Domain], partial: bool
) -> DataFrame:
    judge = Judge(spans, bounds, domains, partial)

    def judge_rows(rows: pa.Table) -> pa.Table:
        oracle = judge.oracle()
        for batch in rows.select(SCHEMA.names).cast(SCHEMA).to_batches():
            oracle.extend(to_rows(batch))
        return pa.Table.from_pylist(judge.verdicts(rows.column("run")[0].as_py(), oracle), schema=judge.shape)

    return trace.select(*SCHEMA.names).groupBy("run").applyInArrow(judge_rows, ddl(VERDICT))


def judge_files(
    spark: SparkSession, files: Sequence[RunFile], row_counts: Mapping[int, int], spans: Spans
) -> DataFrame:
    """The verdicts on runs that stand whole in files; `row_counts` has those to judge, by their shifted numbers."""
    judge = Judge(spans, {}, (), partial=False)
    counts = dict(row_counts)
    tasks = max(1, min(len(files), TASKS_PER_CORE * cores_of(spark)))
    assigned = assign_tasks([file.path.stat().st_size for file in files], tasks)
    table = pa.table(
        {
            "path": pa.array([str(file.path.resolve()) for file in files], pa.string()),
            "shift": pa.array([file.shift for file in files], pa.int64()),
            "task": pa.array(assigned, pa.int32()),
        }
    )

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                found = judge_file(judge, RunFile(Path(row["path"]), row["shift"]), counts)
                yield from pa.Table.from_pylist(found, schema=judge.shape).to_batches()

    return spark.createDataFrame(table).repartitionById(tasks, "task").mapInArrow(work, ddl(VERDICT))


def judge_file(judge: Judge, file: RunFile, counts: Mapping[int, int]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for run, parts in groupby(stretches(file), itemgetter(0)):
        if run not in counts:
            continue
        oracle, seen = judge.oracle(), 0
        for _, part in parts:
            oracle.extend(to_rows(part))
            seen += part.num_rows
        if seen != counts[run]:
            raise LocalError(f"{file.path} has {seen} rows of run {run}, which has {counts[run]}")
        found += judge.verdicts(run, oracle)
    return found


def stretches(file: RunFile) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a file, cut where one run ends and the next begins: the number of the run, and rows of it."""
    for batch in read_batches(file.path):
        runs = batch.column("run").to_numpy() + file.shift
        bounds = [0, *(np.flatnonzero(runs[1:] != runs[:-1]) + 1).tolist(), len(runs)]
        for start, end in pairwise(bounds):
            if start < end:
                yield int(runs[start]), batch.slice(start, end - start)


def arrow_type(kind: str) -> pa.DataType:
    shape = StructType.fromDDL(f"x {kind}")
    assert isinstance(shape, StructType)
    return to_arrow_type(shape["x"].dataType)


def verdict_row(run: int, verdict: Verdict) -> dict[str, object]:
    row = asdict(verdict) | {"run": run, "witness_events": list(map(asdict, verdict.events)), "shown": None}
    if (shown := verdict.shown) is not None:
        lives = [{"process": process, "life": life} for process, life in shown.lives]
        messages = [dict(zip(IDENTITY[1:], message, strict=True)) for message in shown.messages]
        row["shown"] = asdict(shown) | {"lives": lives, "messages": messages}
    return row
