"""A trace of any format as rows in this process, with its names, lines, size and hash."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from isthmus.trace.domain import Domain, read_domains
from isthmus.trace.inputs.columns import misspelt_columns
from isthmus.trace.inputs.files import chosen_files, digest_of_files, line_count
from isthmus.trace.inputs.parquet import table_columns, table_count, table_meta, table_rows
from isthmus.trace.inputs.shiviz import PATTERNS, ShivizLog
from isthmus.trace.inputs.text import csv_cells, json_cells, text_rows
from isthmus.trace.schema import LOCAL, PROCESS, PROMISES, RUN, Row

RowPlace = tuple[int, int, int]  # run, process, local: a row


class TraceInput:
    """A file, or a folder of files of one format; read on demand."""

    __slots__ = ("_log", "files", "form", "path", "patterns")

    def __init__(self, path: Path, form: str = "auto", patterns: Mapping[str, str] = PATTERNS) -> None:
        self.path = path
        self.patterns = patterns
        self.form, self.files = chosen_files(path, form)
        self._log: ShivizLog | None = None

    @property
    def log(self) -> ShivizLog:
        if self._log is None:
            self._log = ShivizLog(self.files, str(self.path), self.patterns)
        return self._log

    def size(self) -> int:
        """Return an upper bound on the rows, from Parquet metadata or lines of text."""
        if self.form == "parquet":
            return table_count(self.files)
        lines = line_count(self.files)
        return lines // 2 if self.form == "shiviz" else lines

    def rows(self) -> Iterator[Row]:
        if self.form == "parquet":
            yield from table_rows(self.path, self.files)
        else:
            for row, _, _ in self._placed():
                yield row

    def places(self, wanted: Container[RowPlace]) -> dict[RowPlace, str]:
        """Return the file and line of some rows of a text; empty for Parquet."""
        if self.form == "parquet":
            return {}
        return {
            (row[RUN], row[PROCESS], row[LOCAL]): f"{file.name}:{line}"
            for row, file, line in self._placed()
            if (row[RUN], row[PROCESS], row[LOCAL]) in wanted
        }

    def names(self) -> dict[int, str]:
        """The names of processes, where the input has them: the hosts of a log, the sites of a run of ours."""
        if self.form == "shiviz":
            return {process: host for host, process in self.log.hosts.items()}
        try:
            sites = json.loads(self.meta().get("sites", "[]"))
        except ValueError:
            return {}
        return {number: str(name) for number, name in enumerate(sites)} if isinstance(sites, list) else {}

    def meta(self) -> dict[str, str]:
        return table_meta(self.files[0]) if self.form == "parquet" else {}

    def domains(self) -> tuple[Domain, ...]:
        return read_domains(self.meta())

    def promised(self) -> set[str] | None:
        """Return the properties that the stacks of a run of Isthmus promise; None where unknown."""
        if self.form != "parquet":
            return None
        words = [table_meta(file).get(PROMISES) for file in self.files]
        told = [word.split(",") for word in words if word is not None]
        return {name for names in told for name in names} if told else None

    def notes(self) -> list[str]:
        """Return notes on events of a log, or columns, that look misspelt."""
        if self.form != "shiviz":
            return misspelt_columns(self._columns())
        if not self.log.misspelt:
            return []
        told = ", ".join(
            f"{word!r} {count} time{'s' if count > 1 else ''} (first in {where})"
            for word, (count, where) in sorted(self.log.misspelt.items())
        )
        count = sum(count for count, _ in self.log.misspelt.values())
        return [f"{count} event{'s' if count > 1 else ''} ignored as misspelt: {told}"]

    def _columns(self) -> Sequence[str]:
        """The columns that the first file has, by its head or its first object."""
        first = self.files[0]
        if self.form == "parquet":
            return table_columns(first)
        with closing(csv_cells(first) if self.form == "csv" else json_cells(first)) as cells:
            return next(cells)[1]

    def digest(self) -> str:
        return digest_of_files(self.path, self.files)

    def _placed(self) -> Iterator[tuple[Row, Path, int]]:
        if self.form == "shiviz":
            return self.log.rows()
        return text_rows(self.files, self.form, str(self.path))
