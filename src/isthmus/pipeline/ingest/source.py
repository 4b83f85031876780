"""The trace as a Spark data source: `spark.read.format("isthmus").load(dir)`, and the same as a stream.

A stream must hand over every segment exactly once, while sites write and join. The writer gives whole segments
consecutive numbers (trace/writer.py), so the place in the stream is a number for each prefix: how many of its segments
have been read. A file without a number is a prefix of its own with one segment.

Invariants: a segment counts only when all before it are there. What lies between two offsets is the same rows whenever
it is asked for. One task reads `rows` rows' worth of row groups of one segment.

Options: `rows`, rows that a task reads (a million); `segments`, at most so many per micro-batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from isthmus.core.errors import InputError
from isthmus.pipeline.ingest.columns import TRACE_TYPE
from isthmus.trace.reader import check, conform, readable, segments

NAME = "isthmus"
TASK_ROWS = 1_000_000
NUMBERED = re.compile(r"^(?P<prefix>.+)-(?P<number>\d{5,})\.parquet$")


class RowGroupRange(InputPartition):
    """The row groups of one segment that one task reads."""

    def __init__(self, path: str, first: int, last: int) -> None:
        self.path = path
        self.first = first
        self.last = last  # exclusive


class Segments(NamedTuple):
    """The segments of a folder as a stream: for each prefix, how many are there without a gap."""

    counts: dict[str, int]
    paths: dict[tuple[str, int], Path]


def register(spark: SparkSession) -> None:
    spark.dataSource.register(TraceSource)


class TraceSource(DataSource):
    """Traces as Isthmus writes them."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return TRACE_TYPE

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return TraceReader(dict(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return TraceStreamReader(dict(self.options))


class TraceReader(DataSourceReader):
    """A trace as it is now."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.path = folder_of(options)
        self.rows = number_of(options, "rows", TASK_ROWS)

    def partitions(self) -> Sequence[InputPartition]:
        return [part for segment in segments(self.path) for part in slices(segment, self.rows)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return batches(partition)


class TraceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A trace as it grows; an offset is the number of segments read of each prefix."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.path = folder_of(options)
        self.rows = number_of(options, "rows", TASK_ROWS)
        self.segments = number_of(options, "segments", 0)
        self.end: dict[str, int] | None = None  # what was there when a run over all that is available began

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxFiles(self.segments) if self.segments else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.end = survey(self.path).counts

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return survey(self.path).counts

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """How far to read: all that is there, or so many segments more, the rarest-read prefixes first."""
        end = survey(self.path).counts if self.end is None else self.end
        return advance(start, end, limit.max_files if isinstance(limit, ReadMaxFiles) else 0)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        found: list[InputPartition] = []
        paths = survey(self.path).paths
        for prefix in sorted(end):
            for number in range(start.get(prefix, 0), end[prefix]):
                path = paths.get((prefix, number))
                if path is None:
                    gone = f"no segment {number} of {prefix} any more"
                    raise InputError(self.path, "", gone, "segments that stay until they are read")
                found += slices(path, self.rows)
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return batches(partition)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing to release: segments stay where they are."""


def survey(folder: Path | str) -> Segments:
    """What a folder and its subfolders hold now; a folder that is not there yet holds nothing."""
    root = Path(folder)
    try:
        files = segments(root)
    except InputError:
        files = []
    paths: dict[tuple[str, int], Path] = {}
    for file in files:
        name = file.relative_to(root) if file != root else Path(file.name)
        match = NUMBERED.match(name.name)
        if match is None or f"{int(match['number']):05d}" != match["number"]:
            paths[name.as_posix(), 0] = file
        else:
            paths[(name.parent / match["prefix"]).as_posix(), int(match["number"])] = file
    counts: dict[str, int] = {}
    for prefix, number in sorted(paths):
        if number == counts.get(prefix, 0):
            counts[prefix] = number + 1
    return Segments(counts, paths)


def advance(start: Mapping[str, int], there: Mapping[str, int], most: int) -> dict[str, int]:
    """The next offset: never behind `start`, at most `most` segments ahead of it, taken from each prefix in turn."""
    end = dict(start)
    left = most or sum(there.values())
    while left > 0:
        behind = [prefix for prefix in sorted(there) if end.get(prefix, 0) < there[prefix]]
        if not behind:
            break
        for prefix in behind[:left]:
            end[prefix] = end.get(prefix, 0) + 1
        left -= min(left, len(behind))
    return dict(sorted(end.items()))


def slices(segment: Path, rows: int) -> list[InputPartition]:
    """One segment in tasks of about `rows` rows."""
    with readable(segment):
        metadata = pq.read_metadata(segment)
    check(segment, metadata.schema.to_arrow_schema())
    found: list[InputPartition] = []
    first = held = 0
    for group in range(metadata.num_row_groups):
        held += metadata.row_group(group).num_rows
        if held >= rows:
            found.append(RowGroupRange(str(segment), first, group + 1))
            first, held = group + 1, 0
    if held:
        found.append(RowGroupRange(str(segment), first, metadata.num_row_groups))
    return found


def batches(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, RowGroupRange)
    segment = Path(partition.path)
    with readable(segment), pq.ParquetFile(segment) as file:
        groups = list(range(partition.first, partition.last))
        for batch in file.iter_batches(row_groups=groups, columns=check(segment, file.schema_arrow)):
            yield conform(segment, batch)


def folder_of(options: Mapping[str, Any]) -> str:
    path = options.get("path")
    if not path:
        raise InputError(NAME, "path", "none", f'a folder: spark.read.format("{NAME}").load(folder)')
    return re.sub(r"^file:/+", "/", str(path))


def number_of(options: Mapping[str, Any], name: str, default: int) -> int:
    text = str(options.get(name, default))
    if not text.isdigit():
        raise InputError(NAME, name, repr(text), "a whole number")
    return int(text)
