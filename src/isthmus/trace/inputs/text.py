"""CSV and JSON lines as rows, each with its file and line, for error messages.

The columns are those of the trace (docs/TRACE.md); values are integers or their texts, kinds also names, destinations a
list or the text of one. Rows without a local number take it from their order in the files, for each process.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.trace.inputs.columns import (
    DEFAULTS,
    KINDS_EXPECTED,
    LIST,
    VIEW_NUMBER,
    WITH_MESSAGE,
    arrow_type,
    check_names,
)
from isthmus.trace.inputs.files import opened, unreadable_text
from isthmus.trace.schema import COLUMN_BITS, NONE, Row

SEPARATORS = ",;\t"
INTEGER = re.compile(r"\s*[+-]?\d+\s*")
NUMBERS = re.compile(LIST)
KINDS = {kind.name: int(kind) for kind in Kind}
INTEGERS = [name for name in COLUMN_BITS if name not in ("kind", "local", "origin", "destinations")]
Cells = Mapping[str, Any]  # column to what the file has; None and blanks are nothing
Placed = tuple[Row, Path, int]


def text_rows(files: Sequence[Path], form: str, source: str) -> Iterator[Placed]:
    """The rows of CSV or JSON files, in their order, with file and line."""
    counters: dict[tuple[int, int], int] = {}  # run and process to the last local number given
    told: bool | None = None  # whether files have local numbers
    for file in files:
        for cells, names, line in csv_cells(file) if form == "csv" else json_cells(file):
            if told is not None and told != ("local" in names):
                raise InputError(source, "local", "it in some files only", "it in all of them, or in none")
            told = "local" in names
            yield row_of(cells, f"{file}, line {line}", None if told else counters), file, line


def csv_cells(file: Path) -> Generator[tuple[Cells, Sequence[str], int]]:
    """The rows of a CSV file: commas, or semicolons or tabs where the header has no comma."""
    try:
        with opened(file) as raw, TextIOWrapper(raw, encoding="utf-8-sig", newline="") as stream:
            head, at = "", 0
            while not head.strip():
                head = stream.readline()
                at += 1
                if not head:
                    raise InputError(str(file), "", "only blank lines", "a trace with at least one row")
            separator = next((mark for mark in SEPARATORS if mark in head), ",")
            names = [name.strip() for name in next(csv.reader([head], delimiter=separator))]
            check_names(str(file), names)
            reader = csv.reader(stream, delimiter=separator, skipinitialspace=True)
            empty = True
            for values in reader:
                if not values:
                    continue
                empty = False
                if len(values) != len(names):
                    found, wanted = f"{len(values)} cells", f"{len(names)}, as in the header"
                    raise InputError(f"{file}, line {at + reader.line_num}", "", found, wanted)
                yield dict(zip(names, values, strict=True)), names, at + reader.line_num
            if empty:
                raise InputError(str(file), "", "a header without rows", "a trace with at least one row")
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise unreadable_text(file, error) from error


def json_cells(file: Path) -> Generator[tuple[Cells, Sequence[str], int]]:
    known: list[str] | None = None
    try:
        with opened(file) as stream:
            for number, raw in enumerate(stream, start=1):
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                if not text:
                    continue
                cells = json_object(file, number, text)
                if known is None:
                    known = list(cells)
                    check_names(str(file), known)
                yield cells, known, number
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise unreadable_text(file, error) from error
    if known is None:
        raise InputError(str(file), "", "only blank lines", "a trace with at least one row")


def json_object(file: Path, line: int, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{file}, line {line}", "", f"the line {text[:60]!r}", "one JSON object per line")
    return found


def row_of(cells: Cells, place: str, counters: dict[tuple[int, int], int] | None) -> Row:
    """One row; `counters` give the local number where the file has none."""
    kind = kind_of(cells.get("kind"), place)
    value: dict[str, Any] = {name: integer(cells, name, place) for name in INTEGERS}
    for name in ("sender", "number"):
        if value[name] is None:
            if kind in WITH_MESSAGE:
                raise InputError(place, name, "nothing", "a message in a row of this kind")
            value[name] = NONE
    if value["process"] is None:
        raise InputError(place, "process", "nothing", f"{arrow_type('process')} in every row")
    if kind == Kind.VIEW:
        value["value"] = view_number(value["view"], value["value"], place)
    for name, default in DEFAULTS.items():
        if name in value and value[name] is None:
            value[name] = default
    run, process, sender, group = value["run"], value["process"], value["sender"], value["group"]
    origin = integer(cells, "origin", place)
    if origin is None:
        origin = group if sender != NONE else NONE
    if counters is not None:
        local = counters[run, process] = counters.get((run, process), -1) + 1
    else:
        found = integer(cells, "local", place)
        if found is None:
            raise InputError(place, "local", "nothing", f"{arrow_type('local')} in every row")
        local = found
    sites = destinations(cells.get("destinations"), place)
    message = (origin, sender, value["number"])
    sizes = (value["payload_bytes"], value["control_bytes"], value["value"], value["gauge"])
    return (run, process, local, value["time_ns"], kind, *message, group, value["view"], sites, *sizes)


def view_number(view: int | None, value: int | None, place: str) -> int | None:
    """The number of an installed view, which its row may tell in either column."""
    if value is None:
        return view
    if view is not None and view > 0 and view != value:
        raise InputError(place, "view", f"{view} in a row of the value {value}", VIEW_NUMBER)
    return value


def integer(cells: Cells, name: str, place: str) -> Any:
    """An integer that fits its column; None where there is nothing."""
    found = cells.get(name)
    if found is None or (isinstance(found, str) and not found.strip()):
        return None
    if isinstance(found, str) and INTEGER.fullmatch(found):
        found = int(found)
    high = 1 << COLUMN_BITS[name] - 1
    if not isinstance(found, int) or isinstance(found, bool) or not -high <= found < high:
        raise InputError(place, name, f"'{found}'", arrow_type(name))
    return found


def kind_of(found: Any, place: str) -> int:
    number: Any = found
    if isinstance(found, str):
        text = found.strip()
        number = int(text) if INTEGER.fullmatch(text) else KINDS.get(text.upper())
    if not isinstance(number, int) or not 1 <= number <= len(Kind):
        raise InputError(place, "kind", "nothing" if found in (None, "") else f"'{found}'", KINDS_EXPECTED)
    return number


def destinations(found: Any, place: str) -> tuple[int, ...] | None:
    """Destinations from a list of integers, or from the text of one; an empty list is null."""
    if found is None:
        return None
    if isinstance(found, list) and all(isinstance(one, int) for one in found):
        return tuple(found) or None
    if isinstance(found, str) and (NUMBERS.match(found) or found.strip().lower() in ("null", "all")):
        return tuple(int(one) for one in re.findall(r"-?\d+", found)) or None
    raise InputError(place, "destinations", f"'{found}'", "numbers such as 1 2 3 or [1,2,3]")
