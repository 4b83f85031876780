"""Writing a trace in bounded memory, so that no reader ever sees half a file.

A trace is a folder of segments. Rows gather in a list; at `batch_rows` they become one row group of the open segment,
which grows under a hidden name and takes its real one, `part-00000.parquet` and so on, when it is complete.

Invariants: at most `batch_rows` rows are in memory; a file with a segment's name is complete and never changes; the
same rows and the same sizes give the same bytes. Closing completes the open segment, also when leaving by an exception.
Several writers share a folder under prefixes of their own (`site-003` of a live site), and each minds its own segments;
the default prefix is for a writer alone and refuses a folder that holds any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isthmus.core.errors import InputError, LocalError
from isthmus.trace.arrow import SCHEMA, integer_array, schema_with
from isthmus.trace.schema import DESTINATIONS, Row

ALONE = "part"  # the prefix of a writer that has its folder to itself
SEGMENT = re.compile(r"^(?P<prefix>.+)-\d{5,}\.parquet$")
BATCH_ROWS = 1 << 16
SEGMENT_ROWS = 1 << 22
GROWING = ["local", "time_ns", "number"]  # neighbours differ by little: kept as differences
PICKS = [
    (index, field.name, itemgetter(index), field.type.to_pandas_dtype())
    for index, field in enumerate(SCHEMA)
    if index != DESTINATIONS
]


class TraceWriter:
    """A sink that turns rows into the segments of one trace."""

    def __init__(
        self,
        folder: Path | str,
        meta: Mapping[str, str] | None = None,
        *,
        prefix: str = ALONE,
        batch_rows: int = BATCH_ROWS,
        segment_rows: int = SEGMENT_ROWS,
        compression: str = "zstd",
        overwrite: bool = False,
    ) -> None:
        if batch_rows < 1 or segment_rows < 1:
            raise LocalError(f"a batch of {batch_rows} and a segment of {segment_rows} rows: both need at least one")
        if not prefix or prefix[0] in "._" or "/" in prefix:
            raise LocalError(f"{prefix!r} is no prefix for a segment: it must not be hidden or hold a slash")
        self._folder = Path(folder)
        self._prefix = prefix
        self._schema = schema_with(meta or {})
        self._batch_rows = batch_rows
        self._segment_rows = segment_rows
        self._options = {
            "compression": compression,
            "use_dictionary": [field.name for field in SCHEMA if field.name not in GROWING],
            "column_encoding": dict.fromkeys(GROWING, "DELTA_BINARY_PACKED"),
        }
        self._rows: list[Row] = []  # fewer than batch_rows between two calls
        self._file: pq.ParquetWriter | None = None  # the open segment
        self._open_rows = 0  # rows in the open segment
        self.segment_count = 0  # complete ones
        self.closed = False
        with self._writing():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._claim(overwrite)

    def append(self, row: Row, /) -> None:
        """Take one row; it may stay in memory until its batch is full."""
        rows = self._rows
        rows.append(row)
        if len(rows) >= self._batch_rows:
            self.flush()

    def flush(self) -> None:
        """Write the rows in memory as one row group; complete a segment that is long enough."""
        if self.closed:
            raise LocalError(f"the trace {self._folder} is closed")
        if self._rows:
            try:
                batch = to_batch(self._rows, self._schema)
            except LocalError:
                self._rows.clear()  # so that closing can still complete what was written before
                raise
            with self._writing():
                self._opened().write_batch(batch, row_group_size=self._batch_rows)
            self._open_rows += len(self._rows)
            self._rows.clear()
            if self._open_rows >= self._segment_rows:
                self._complete()

    def roll(self) -> None:
        """Complete the open segment now, so that a reader that follows the folder sees its rows."""
        self.flush()
        if self._file is not None:
            self._complete()

    def close(self) -> None:
        """Write the remaining rows and complete the last segment; idempotent."""
        if self.closed:
            return
        try:
            self.flush()
            if self._file is None and self.segment_count == 0:
                with self._writing():
                    self._opened()
            if self._file is not None:
                self._complete()
        finally:
            self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.close()
        except InputError:
            if error is None:
                raise  # otherwise the first error is reported

    def _claim(self, overwrite: bool) -> None:
        """Refuse, or remove, segments of an earlier trace."""
        for path in sorted(self._folder.iterdir()):
            hidden = path.name.startswith(".")
            match = SEGMENT.match(path.name.lstrip("."))
            if match is None or (match["prefix"] != self._prefix and (hidden or self._prefix != ALONE)):
                continue
            if not (hidden or overwrite):
                raise InputError(str(self._folder), "", f"a trace already ({path.name})", "an empty folder, or --force")
            path.unlink()

    def _path(self) -> Path:
        return self._folder / f"{self._prefix}-{self.segment_count:05d}.parquet"

    def _hidden(self) -> Path:
        return self._folder / f".{self._path().name}"

    def _opened(self) -> pq.ParquetWriter:
        if self._file is None:
            self._file = pq.ParquetWriter(str(self._hidden()), self._schema, **self._options)
        return self._file

    def _complete(self) -> None:
        """Finish the open segment and give it its name."""
        assert self._file is not None
        with self._writing():
            self._file.close()
            self._hidden().rename(self._path())
        self._file = None
        self._open_rows = 0
        self.segment_count += 1

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Report an OSError as one sentence; remove the partial segment, keep the complete ones."""
        try:
            yield
        except OSError as error:
            with suppress(OSError):
                if self._file is not None:
                    self._file.close()
            with suppress(OSError):
                self._hidden().unlink(missing_ok=True)
            self._file = None
            self._rows.clear()
            self.closed = True
            reason = error.strerror or str(error).splitlines()[0]
            raise InputError(str(self._folder), "", reason, "a folder that can be written, with room on it") from error


def to_batch(rows: list[Row], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    """Rows as columns; a row of the wrong shape is an error of its host."""
    count = len(rows)
    arrays: list[pa.Array] = []
    for index, name, pick, dtype in PICKS:
        if index == DESTINATIONS + 1:
            arrays.append(destination_lists([row[DESTINATIONS] or () for row in rows]))
        try:
            arrays.append(integer_array(np.fromiter(map(pick, rows), dtype, count)))
        except (TypeError, ValueError, OverflowError, IndexError) as error:
            raise LocalError(f"a row's {name} does not fit {np.dtype(dtype).name}: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def destination_lists(sites: list[tuple[int, ...]]) -> pa.Array:
    """Return destinations as a list column, null where there are none."""
    kind = SCHEMA.field(DESTINATIONS).type
    if not any(sites):
        return pa.nulls(len(sites), kind)
    counts = np.fromiter(map(len, sites), np.int32, len(sites))
    offsets = np.zeros(len(sites) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    values = integer_array(np.fromiter(chain.from_iterable(sites), np.int32, int(offsets[-1])))
    present = pa.py_buffer(np.packbits(counts > 0, bitorder="little"))
    return pa.ListArray.from_buffers(kind, len(sites), [present, pa.py_buffer(offsets)], children=[values])
