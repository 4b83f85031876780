"""Metadata of Parquet files, judged before any row is read.

A footer has the types, and statistics of every row group; where they show that no required column has a null and every
kind is known, the rows need no test. A file is trusted only if its statistics say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from isthmus.core.layer import Kind
from isthmus.trace.arrow import SCHEMA
from isthmus.trace.inputs.columns import HIVE
from isthmus.trace.inputs.parquet import check_column
from isthmus.trace.reader import check_version, readable


class FileMeta(NamedTuple):
    """One file: what must be equal for two files to share a scan, and what its statistics vouch for."""

    file: Path
    shape: tuple[object, ...]
    hive: dict[str, str]  # from the folders between the trace and the file
    trusted: bool  # no null in a required column, only known kinds
    runs: tuple[int, int] | None  # the lowest and the highest; none where not told


def read_file_meta(root: Path, file: Path) -> FileMeta:
    """Read and judge the metadata of a file."""
    with readable(file):
        metadata = pq.read_metadata(file)
        schema = metadata.schema.to_arrow_schema()
    check_version(file, schema)
    folders = file.relative_to(root).parts[:-1] if file != root else ()
    hive = {found[1]: found[2] for found in map(HIVE.match, folders) if found}
    for field in SCHEMA:
        check_column(str(file), schema, field, hive)
    low = Ranges(metadata)
    trusted = all(low.complete(field.name) for field in SCHEMA if not field.nullable and field.name in schema.names)
    kinds = low.range("kind")
    trusted = trusted and kinds is not None and kinds[0] >= min(Kind) and kinds[1] <= max(Kind)
    run = (int(hive["run"]),) * 2 if hive.get("run", "").isdigit() and "run" not in schema.names else low.range("run")
    shape = (tuple((name, str(schema.field(name).type)) for name in SCHEMA.names if name in schema.names), tuple(hive))
    return FileMeta(file, shape, hive, trusted or metadata.num_rows == 0, run)


class Ranges:
    """The statistics of one file's flat columns, over its row groups."""

    __slots__ = ("_columns", "_metadata")

    def __init__(self, metadata: pq.FileMetaData) -> None:
        self._metadata = metadata
        paths = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
        self._columns = {path: index for index, path in enumerate(paths)}

    def complete(self, name: str) -> bool:
        """Whether every row group says that it has no null."""
        return all(found is not None and found.null_count == 0 for found in self._statistics(name))

    def range(self, name: str) -> tuple[int, int] | None:
        """The lowest and the highest integer, if every row group tells."""
        found = self._statistics(name)
        if not found or not all(one is not None and one.has_min_max and isinstance(one.min, int) for one in found):
            return None
        return min(one.min for one in found), max(one.max for one in found)

    def _statistics(self, name: str) -> list[pq.Statistics]:
        if name not in self._columns:
            return []
        groups = (self._metadata.row_group(index) for index in range(self._metadata.num_row_groups))
        found = [group.column(self._columns[name]) for group in groups if group.num_rows]
        return [column.statistics if column.is_stats_set else None for column in found]


def overlapping_studies(metas: Sequence[FileMeta]) -> bool:
    """Whether two studies may have runs of one number: their ranges meet, or are not told."""
    spans: dict[str, tuple[int, int]] = {}
    for meta in metas:
        study = meta.hive.get("study")
        if study is not None:
            low, high = meta.runs or (0, 1 << 62)
            known = spans.get(study, (low, high))
            spans[study] = (min(known[0], low), max(known[1], high))
    ordered = sorted(spans.values())
    return any(low <= high for (_, high), (low, _) in pairwise(ordered))
