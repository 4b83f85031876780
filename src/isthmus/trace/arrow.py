"""The schema of a trace in Arrow, with its version and description as metadata of a file.

Apart from schema.py, so that programs that only record rows in memory load no Arrow. Arrow's own conversions, such as
`pa.array`, `pa.scalar` and `to_numpy`, load pandas; those here do not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isthmus.trace.schema import COLUMN_BITS, VERSION

VERSION_KEY = b"isthmus.trace.version"
META_KEY = b"isthmus.trace.meta"
INTEGERS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
SCHEMA = pa.schema(
    [
        pa.field(name, pa.list_(INTEGERS[bits])) if name == "destinations" else pa.field(name, INTEGERS[bits], False)
        for name, bits in COLUMN_BITS.items()
    ]
)


def schema_with(meta: Mapping[str, str]) -> pa.Schema:
    """Return the schema with its version and a description of the trace; equal descriptions give equal bytes."""
    text = json.dumps(dict(meta), sort_keys=True, ensure_ascii=False)
    return SCHEMA.with_metadata({VERSION_KEY: str(VERSION).encode(), META_KEY: text.encode()})


def meta_of(schema: pa.Schema) -> dict[str, str]:
    """Return the description that a trace carries; empty where another system wrote none."""
    try:
        found = json.loads((schema.metadata or {}).get(META_KEY, b"{}"))
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def version_of(schema: pa.Schema) -> str:
    """Return the version of a trace; the current one where the trace names none."""
    version: bytes = (schema.metadata or {}).get(VERSION_KEY, str(VERSION).encode())
    return version.decode(errors="replace")


def integer_array(values: NDArray[Any]) -> pa.Array:
    """Return integers as a column without nulls, which shares their memory."""
    return pa.Array.from_buffers(INTEGERS[8 * values.itemsize], len(values), [None, pa.py_buffer(values)])


def integer_scalar(value: int, kind: pa.DataType = INTEGERS[64]) -> pa.Scalar:
    """Return one integer as a scalar."""
    return integer_array(np.array([value], np.int64))[0].cast(kind)


def integers(column: pa.Array) -> list[int]:
    if not len(column):
        return []
    whole = np.frombuffer(column.buffers()[1], f"i{column.type.bit_width // 8}")
    found: list[int] = whole[column.offset : column.offset + len(column)].tolist()
    return found
