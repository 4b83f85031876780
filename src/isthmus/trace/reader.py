"""Reading a trace batch by batch, from any system that writes the schema.

Segments are read in the order of their names, one row group's worth at a time; each file's schema is judged before its
rows, and every column is cast to ours if it can be without loss.

Invariants: rows come in the order they were written; whatever is wrong with a file is one `InputError` that names the
file and the column. Hidden names and names with a leading underscore are not segments. Unknown columns are left out;
columns that version 2 added are filled in where a file lacks them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise, repeat
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from isthmus.core.errors import InputError
from isthmus.trace.arrow import SCHEMA, integer_scalar, integers, meta_of, version_of
from isthmus.trace.schema import ADDED, DESTINATIONS, NONE, READABLE, Row

BATCH_ROWS = 1 << 16


def read_rows(path: Path | str) -> Iterator[Row]:
    """The rows of a trace, segment by segment; raises InputError where it is none."""
    for batch in read_batches(path):
        yield from to_rows(batch)


def read_batches(path: Path | str, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    for segment in segments(path):
        with readable(segment), pq.ParquetFile(segment) as file:
            columns = check(segment, file.schema_arrow)
            for batch in file.iter_batches(batch_size=batch_rows, columns=columns):
                yield conform(segment, batch)


def read_meta(path: Path | str) -> dict[str, str]:
    segment = segments(path)[0]
    with readable(segment):
        return meta_of(pq.read_schema(segment))


def segments(path: Path | str) -> list[Path]:
    """The complete segments of a folder and its subfolders, by name; a file is its own only segment."""
    path = Path(path)
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(str(path), "", "no such file or directory", "a Parquet file, or a folder of such files")
    found = [
        file
        for file in path.rglob("*.parquet")
        if file.is_file() and not any(part[0] in "._" for part in file.relative_to(path).parts)
    ]
    if not found:
        raise InputError(str(path), "", "no Parquet file in this folder", "a trace with at least one segment")
    return sorted(found)


def check(segment: Path, schema: pa.Schema) -> list[str]:
    """Judge a file's schema and return the columns to read: each there once, integers where integers belong."""
    check_version(segment, schema)
    names = []
    for field in SCHEMA:
        places = schema.get_all_field_indices(field.name)
        if not places and field.name in ADDED:
            continue
        if len(places) != 1:
            found = f"{len(places)} columns of that name" if places else f"no such column among {listed(schema.names)}"
            raise InputError(str(segment), field.name, found, f"one column of {field.type}")
        kind = schema.field(places[0]).type
        if pa.types.is_list(field.type):
            fits = (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and pa.types.is_integer(kind.value_type)
        else:
            fits = pa.types.is_integer(kind)
        if not fits:
            raise InputError(str(segment), field.name, f"a column of {kind}", f"{field.type}")
        names.append(field.name)
    return names


def check_version(segment: Path, schema: pa.Schema) -> None:
    """Refuse a file of a version that is not known."""
    if (version := version_of(schema)) not in READABLE:
        raise InputError(str(segment), "schema version", version, "version " + " or ".join(READABLE))


def conform(segment: Path, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch in our order and widths, with the columns that version 2 added."""
    arrays = []
    for field in SCHEMA:
        there = field.name in batch.schema.names
        column = batch.column(field.name) if there else added(batch, field.name)
        if column.null_count and not field.nullable:
            raise InputError(str(segment), field.name, f"{column.null_count} nulls", f"{field.type} in every row")
        if column.type != field.type:
            try:
                column = column.cast(field.type)
            except pa.ArrowInvalid as error:
                raise InputError(str(segment), field.name, str(error), f"values within {field.type}") from error
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def added(batch: pa.RecordBatch, name: str) -> pa.Array:
    """A column that the file lacks: the origin of a message is the row's group, and no row is a gauge."""
    if name == "origin":
        none = pc.equal(batch.column("sender"), integer_scalar(NONE))
        return pc.if_else(none, integer_scalar(NONE, batch.column("group").type), batch.column("group"))
    assert name == "gauge"
    return pa.repeat(integer_scalar(0, SCHEMA.field(name).type), batch.num_rows)


def to_rows(batch: pa.RecordBatch) -> Iterator[Row]:
    columns: list[Iterable[object]] = [
        destination_tuples(column) if index == DESTINATIONS else integers(column)
        for index, column in enumerate(batch.columns)
    ]
    rows: Iterator[Row] = zip(*columns, strict=True)  # conform() has made the types ours
    return rows


def destination_tuples(column: pa.ListArray) -> Iterable[tuple[int, ...] | None]:
    """A list column as tuples; null and empty both are None: every member of the view."""
    if column.null_count == len(column):
        return repeat(None, len(column))
    values = integers(column.values)
    valid = integers(column.is_valid().cast(pa.int8()))
    bounds = pairwise(integers(column.offsets))
    return [
        tuple(values[start:end]) if there and end > start else None
        for there, (start, end) in zip(valid, bounds, strict=True)
    ]


@contextmanager
def readable(segment: Path) -> Iterator[None]:
    """Turn what Arrow raises about a file inside the block into one sentence."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(str(segment), "", f"an unreadable file ({reason})", "a complete Parquet file") from error


def listed(names: list[str]) -> str:
    return ", ".join(names) if names else "none"
