"""Following a trace as live sites write it: rows into a lake, verdicts kept up to date (docs/design/pipeline.md).

A micro-batch is a fixed range of segments that the checkpoint remembers. It is written to the lake as partitions of its
own, `rows/run=R/batch=N`, which replace what an earlier attempt left there; then the runs it touched are judged afresh
on all their rows and their verdicts replaced.

Invariants: batch N always holds the same segments, so writing is exactly-once whenever the watcher is killed. Late rows
need no watermark: a verdict rests on all rows so far, and a violation that only stood on a missing segment is
withdrawn. A change is reported before it is stored. A lake belongs to one folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import IntegerType, StructField, StructType

from isthmus.core.errors import InputError
from isthmus.pipeline.engine.formats import VERDICT_KEY
from isthmus.pipeline.ingest.columns import TRACE_TYPE, with_added
from isthmus.trace.arrow import SCHEMA
from isthmus.trace.reader import check_version, readable, segments

CHANGES_MAX = 1000  # lines reported per batch; the verdicts themselves have no bound
AT_REST = ("agreement", "validity")  # they presume that the run has come to an end
ROW_TYPE = StructType([*TRACE_TYPE, StructField("batch", IntegerType())])
DYNAMIC = {"partitionOverwriteMode": "dynamic"}

Judge: TypeAlias = Callable[[DataFrame, Sequence[str]], DataFrame]
Report: TypeAlias = "Callable[[list[VerdictChange]], None]"


class VerdictChange(NamedTuple):
    """One verdict that is not what it was."""

    run: int
    group: int
    property: str
    before: str  # "" the first time
    after: str
    violation_count: int
    witness: str
    domain: str = ""  # where it is one of a domain, and the group NONE


class Lake:
    """A folder that collects the rows and verdicts of one followed trace."""

    __slots__ = ("checkpoint", "root", "rows", "verdicts")

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root).resolve()
        self.rows = self.root / "rows"
        self.verdicts = self.root / "verdicts"
        self.checkpoint = self.root / "_checkpoint"

    def claim(self, folder: Path) -> None:
        """Note which folder this lake follows; refuse another."""
        note = self.root / "_source.json"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            if not note.exists():
                fresh = note.with_name("._source.json")
                fresh.write_text(json.dumps({"folder": str(folder)}), encoding="utf-8")
                fresh.replace(note)
            known = json.loads(note.read_text(encoding="utf-8")).get("folder")
        except (OSError, ValueError, AttributeError) as error:
            raise InputError(str(self.root), "", f"a folder that cannot be used ({error})", "a lake of ours") from error
        if known != str(folder):
            raise InputError(str(self.root), "", f"the lake of {known}", f"a folder of its own for {folder}")

    def read_rows(self, spark: SparkSession) -> DataFrame:
        """All rows so far, with the batch that brought them."""
        if not self.rows.is_dir():
            return spark.createDataFrame([], ROW_TYPE)
        return with_added(spark.read.schema(ROW_TYPE).parquet(str(self.rows)))

    def read_verdicts(self, spark: SparkSession) -> DataFrame | None:
        """The latest verdicts; none before the first batch."""
        return spark.read.parquet(str(self.verdicts)) if self.verdicts.is_dir() else None

    def take(self, batch: DataFrame, number: int) -> None:
        """Write the rows of a batch, replacing what an earlier attempt at it left."""
        rows = with_added(batch).select(*SCHEMA.names, F.lit(number).alias("batch")).hint("rebalance", "run")
        rows.write.mode("overwrite").options(**DYNAMIC).partitionBy("run", "batch").parquet(str(self.rows))

    def judge(self, spark: SparkSession, number: int, judge: Judge, report: Report, properties: Sequence[str]) -> None:
        """Judge the runs of a batch on all their rows; report what changed, then store it."""
        runs = self.runs_of(spark, number)
        if not runs:
            return
        trace = self.read_rows(spark).where(F.col("run").isin(runs)).select(*SCHEMA.names)
        fresh = judge(trace, properties).persist()
        try:
            report(changes(self.read_verdicts(spark), fresh))
            writer = fresh.write.mode("overwrite").options(**DYNAMIC).partitionBy("run")
            writer.parquet(str(self.verdicts))
        finally:
            fresh.unpersist()

    def runs_of(self, spark: SparkSession, number: int) -> list[int]:
        """The runs that a batch has rows of."""
        found = self.read_rows(spark).where(F.col("batch") == number).select("run").distinct().collect()
        return sorted(row.run for row in found)


def follow(
    spark: SparkSession,
    folder: Path | str,
    lake: Lake,
    judge: Judge,
    report: Report,
    properties: Sequence[str],
    *,
    once: bool = False,
    every_s: float = 1.0,
    segments_max: int = 0,
) -> StreamingQuery:
    """Start following a folder; `once` ends when all that is there now has been taken."""
    source = Path(folder).resolve()
    if not source.is_dir() and once:
        raise InputError(str(folder), "", "no such file or directory", "a folder that sites write their segments to")
    source.mkdir(parents=True, exist_ok=True)
    lake.claim(source)
    stream = segments_of(spark, source, segments_max)

    known: set[Path] = set()

    def take(batch: DataFrame, number: int) -> None:
        check_versions(source, known)
        lake.take(batch, number)
        lake.judge(batch.sparkSession, number, judge, report, properties)

    writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(lake.checkpoint))
    timed = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every_s} seconds")
    return timed.start()


def segments_of(spark: SparkSession, folder: Path, most: int) -> DataFrame:
    """The segments of a folder as a stream of Spark's own file source, `most` at a time.

    It reads Parquet without a Python process, whose start on a busy machine can take longer than Spark waits for it;
    `isthmus` (source.py) is for those who want the trace in a query of their own. By default the file source forgets
    files a week older than the newest: a site that was cut off so long would lose its rows.
    """
    options = {"recursiveFileLookup": "true", "pathGlobFilter": "*.parquet", "maxFileAge": "36500d"}
    if most:
        options["maxFilesPerTrigger"] = str(most)
    return spark.readStream.schema(TRACE_TYPE).options(**options).parquet(str(folder))


def check_versions(folder: Path, known: set[Path]) -> None:
    """Refuse a segment of an unknown version before its rows are taken; `known` are those looked at before."""
    for segment in segments(folder):
        if segment not in known:
            with readable(segment):
                check_version(segment, pq.read_schema(segment))
            known.add(segment)


def changes(before: DataFrame | None, after: DataFrame) -> list[VerdictChange]:
    """The verdicts that differ from those stored, in order; what is unknown from the start is no news."""
    keys = list(VERDICT_KEY)
    now = after.select(*keys, "status", "violation_count", "witness")
    if before is None:
        old = now.limit(0)
    else:
        old = before.select(*(F.col(name).cast(now.schema[name].dataType).alias(name) for name in now.columns))
    old = old.select(*keys, F.col("status").alias("was"), F.col("violation_count").alias("had"))
    both = now.join(old, keys, "left")
    news = F.col("was").isNull() & (F.col("status") != "unknown")
    moved = (F.col("was") != F.col("status")) | (F.col("had") != F.col("violation_count"))
    found = both.where(news | moved).orderBy(*keys).limit(CHANGES_MAX).collect()
    return [
        VerdictChange(
            row.run, row.group, row.property, row.was or "", row.status, row.violation_count, row.witness, row.domain
        )
        for row in found
    ]
