"""Parquet of any system as rows: other integer types, columns left out, kinds by name, partition folders.

The strict reader (reader.py) takes what Isthmus writes; this one takes what docs/TRACE.md allows others to write. What
is wrong is said of a file and a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.trace.arrow import SCHEMA, integer_array, integer_scalar, meta_of
from isthmus.trace.inputs.columns import (
    DEFAULTS,
    HIVE,
    KINDS_EXPECTED,
    REQUIRED,
    VIEW_NUMBER,
    WITH_MESSAGE,
    arrow_type,
    missing_column,
    wrong_type,
)
from isthmus.trace.reader import BATCH_ROWS, check_version, conform, readable, to_rows
from isthmus.trace.schema import NONE, Row

MESSAGE_KINDS = integer_array(np.array(WITH_MESSAGE, np.int8))
KIND_NUMBERS = {kind.name: int(kind) for kind in Kind}


def table_rows(root: Path, files: Sequence[Path]) -> Iterator[Row]:
    studies: dict[int, str] = {}  # run to the study that has it
    for file in files:
        folders = file.relative_to(root).parts[:-1] if file != root else ()
        hive = {found[1]: found[2] for found in map(HIVE.match, folders) if found}
        with readable(file), pq.ParquetFile(file) as opened:
            schema = opened.schema_arrow
            check_version(file, schema)
            for field in SCHEMA:
                check_column(str(file), schema, field, hive)
            known = [name for name in SCHEMA.names if name in schema.names]
            for batch in opened.iter_batches(batch_size=BATCH_ROWS, columns=known):
                whole = conform(file, completed(file, batch, hive))
                if "study" in hive:
                    refuse_mixed(root, whole, hive["study"], studies)
                yield from to_rows(whole)


def table_count(files: Sequence[Path]) -> int:
    count = 0
    for file in files:
        with readable(file):
            count += pq.read_metadata(file).num_rows
    return count


def table_columns(file: Path) -> list[str]:
    with readable(file):
        return list(pq.read_schema(file).names)


def table_meta(file: Path) -> dict[str, str]:
    with readable(file):
        return meta_of(pq.read_schema(file))


def check_column(source: str, schema: pa.Schema, field: pa.Field, hive: dict[str, str]) -> None:
    """Refuse a column of a Parquet file that is missing, doubled or of a type that cannot be meant."""
    places = schema.get_all_field_indices(field.name)
    if not places and field.name in REQUIRED and field.name not in hive:
        raise missing_column(source, field.name, schema.names)
    if len(places) > 1:
        raise InputError(source, field.name, f"{len(places)} columns of that name", "one")
    for place in places:
        kind = schema.field(place).type
        if pa.types.is_list(field.type):
            fits = (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and pa.types.is_integer(kind.value_type)
            fits = fits or pa.types.is_null(kind)
        else:
            fits = pa.types.is_integer(kind) or (field.name == "kind" and is_text(kind))
        if not fits:
            raise wrong_type(source, field.name, str(kind))


def is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def completed(file: Path, batch: pa.RecordBatch, hive: dict[str, str]) -> pa.RecordBatch:
    """The batch with every column of the schema: defaults where it has none, no nulls where none belong."""
    given = {name: batch.column(name) for name in batch.schema.names}
    given["kind"] = kinds_of(file, column_of(file, given, hive, "kind", batch.num_rows))
    if "view" in given:
        given["value"] = view_numbers(file, given)
    columns = []
    for field in SCHEMA:
        name = field.name
        if name == "destinations":
            found = given.get(name)
            there = found is not None and not pa.types.is_null(found.type)
            columns.append(found if there else pa.nulls(batch.num_rows, field.type))
        elif name == "origin" and name not in given:
            continue  # the reader derives it
        else:
            found = column_of(file, given, hive, name, batch.num_rows)
            columns.append(filled(file, name, found, given["kind"]))
    names = [name for name in SCHEMA.names if name != "origin" or "origin" in given]
    return pa.RecordBatch.from_arrays(columns, names=names)


def column_of(file: Path, given: dict[str, pa.Array], hive: dict[str, str], name: str, count: int) -> pa.Array:
    if name in given:
        return given[name]
    value: Any = hive.get(name, DEFAULTS.get(name, NONE))
    try:
        return pa.repeat(integer_scalar(int(value), pa.int64()), count)
    except (ValueError, OverflowError):
        raise InputError(str(file), name, repr(value), f"{arrow_type(name)} in the name of its folder") from None


def kinds_of(file: Path, column: pa.Array) -> pa.Array:
    """Kinds from their numbers or names."""
    if is_text(column.type):
        found = []
        for text in column.to_pylist():
            plain = (text or "").strip()
            found.append(int(plain) if plain.isdigit() else KIND_NUMBERS.get(plain.upper()))
            if found[-1] is None or not 1 <= found[-1] <= len(Kind):
                raise InputError(str(file), "kind", f"'{text}'" if text else "nothing", KINDS_EXPECTED)
        return integer_array(np.array(found, np.int8))
    if column.null_count:
        raise InputError(str(file), "kind", "nothing", KINDS_EXPECTED)
    ends = pc.min_max(column).as_py()
    if len(column) and not 1 <= ends["min"] <= ends["max"] <= len(Kind):
        wrong = next(kind for kind in column.to_pylist() if not 1 <= kind <= len(Kind))
        raise InputError(str(file), "kind", f"'{wrong}'", KINDS_EXPECTED)
    return column.cast(pa.int8())


def view_numbers(file: Path, given: dict[str, pa.Array]) -> pa.Array:
    """The values, in VIEW rows the number of the view, which a row may tell in either column."""
    installs, view = pc.equal(given["kind"], integer_scalar(int(Kind.VIEW))), given["view"].cast(pa.int64())
    value = given["value"].cast(pa.int64()) if "value" in given else pa.nulls(len(view), pa.int64())
    differs = pc.and_(pc.not_equal(view, value), pc.greater(view, integer_scalar(0)))
    wrong = pc.indices_nonzero(pc.and_(installs, differs))
    if len(wrong):
        at = wrong[0].as_py()
        raise InputError(str(file), "view", f"{view[at]} in a row of the value {value[at]}", VIEW_NUMBER)
    return pc.if_else(pc.and_(installs, pc.is_null(value)), view, value)


def filled(file: Path, name: str, column: pa.Array, kinds: pa.Array) -> pa.Array:
    """A column without nulls: what they stand for, or a sentence where something must be told."""
    if not column.null_count:
        return column
    if name in ("process", "local"):
        raise InputError(str(file), name, "nothing", f"{arrow_type(name)} in every row")
    if name in ("sender", "number"):
        needed = pc.is_in(kinds, MESSAGE_KINDS)
        if pc.any(pc.and_(needed, pc.is_null(column))).as_py():
            raise InputError(str(file), name, "nothing", "a message in a row of this kind")
    default = DEFAULTS.get(name)
    return pc.fill_null(column, integer_scalar(NONE if default is None else default, column.type))


def refuse_mixed(root: Path, batch: pa.RecordBatch, study: str, studies: dict[int, str]) -> None:
    """Refuse a run number that two studies have, because their rows would be taken for one run's."""
    for run in pc.unique(batch.column("run")).to_pylist():
        other = studies.setdefault(run, study)
        if other != study:
            one, two = sorted((other, study))
            shown = f"run {run} in the studies {one} and {two}"
            raise InputError(str(root), "run", shown, f"one study, such as {root}/study={one}")
