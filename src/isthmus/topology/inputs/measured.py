"""Measured round trips from CSV.

A matrix has the same host names in its first row and first column. A table has one row per measurement, with a column
for each end, one for the round trip and perhaps the least round trip and its deviation; other columns are ignored, and
repeated rows are samples. Commas, semicolons or tabs; next to semicolons a number may have a decimal comma.

The two directions of a pair are kept apart; if only one was measured, it stands for both. Empty and NaN cells are
measurements that failed. A positive diagonal means that a name stands for a region.
"""

from __future__ import annotations

import csv
import re
from math import isfinite, isnan
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isthmus.core.errors import InputError

SOURCE = ("src", "source", "from", "a", "origin")
TARGET = ("dst", "dest", "destination", "target", "to", "b")
ROUND_TRIP = ("avg_ms", "rtt_ms", "mean_ms", "median_ms", "avg_rtt_ms", "rtt", "avg", "mean", "median", "ms")
LEAST = ("min_ms", "min", "min_rtt_ms")
DEVIATION = ("mdev_ms", "mdev", "sd_ms", "std_ms", "stddev_ms", "stddev")
FAILED = ("", "-", "na", "n/a", "nan", "null", "none")
DECIMAL_COMMA = re.compile(r"^\s*(\d+),(\d+)\s*$")
SEPARATORS = ",;\t"  # the first of these that the header has
Pair = tuple[int, int]  # numbers of names, from and to; equal: the diagonal


class RoundTripSample(NamedTuple):
    """One measured round trip, in ms."""

    rtt_ms: float
    min_ms: float | None = None
    mdev_ms: float | None = None


class MeasuredNetwork(NamedTuple):
    """The contents of a file of measurements."""

    names: tuple[str, ...]
    samples: dict[Pair, list[RoundTripSample]]  # every two names have at least one, in one direction or both

    def towards(self, a: int, b: int) -> list[RoundTripSample]:
        """The samples from one name to another; those of the other direction if there are none."""
        return self.samples.get((a, b)) or self.samples[b, a]

    def between(self, a: int, b: int) -> list[RoundTripSample]:
        """The samples between two names, in both directions."""
        return self.samples.get((a, b), []) + (self.samples.get((b, a), []) if a != b else [])

    def has_diagonal(self) -> bool:
        """Whether names stand for regions: whether any round trip inside one was measured."""
        return any(a == b and any(s.rtt_ms > 0 for s in samples) for (a, b), samples in self.samples.items())

    def matrix(self) -> NDArray[np.float64]:
        table = np.zeros((len(self.names), len(self.names)))
        for a in range(len(self.names)):
            for b in range(a):
                table[a, b] = table[b, a] = median(sample.rtt_ms for sample in self.between(a, b))
        return table


def read_measured(path: Path) -> MeasuredNetwork:
    """The measurements of a CSV file, matrix or table."""
    rows = read_csv_rows(path)
    header = [cell.strip() for cell in rows[0][1]]
    lower = [cell.lower() for cell in header]
    source, target = find_column(lower, SOURCE), find_column(lower, TARGET)
    rtt = find_column(lower, ROUND_TRIP)
    shared = {row[0].strip() for _, row in rows[1:]} & set(header[1:])  # names of both the first row and column
    if source is None or target is None or (shared and rtt is None):
        measured = read_matrix(path, header, rows)
    else:
        if rtt is None:
            raise InputError(
                str(path), f"line {rows[0][0]}", f"the columns {', '.join(header)}",
                f"a column of round trips, named one of {', '.join(ROUND_TRIP)}",
            )  # fmt: skip
        extra = (find_column(lower, LEAST), find_column(lower, DEVIATION))
        measured = read_pairs(path, rows, (source, target, rtt), *extra)
    names = measured.names
    for b in range(len(names)):
        for a in range(b):
            if not measured.between(a, b):
                found = f"no round trip between {names[a]} and {names[b]}"
                raise InputError(str(path), "", found, "at least one measurement of each pair")
    return measured


def read_csv_rows(path: Path) -> list[tuple[int, list[str]]]:
    """The rows that are not empty, each with its line number; the first is the header."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            file.seek(0)
            separator = next((mark for mark in SEPARATORS if mark in first), ",")
            reader = csv.reader(file, delimiter=separator)
            rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
            if separator == ";":
                rows = [(line, [DECIMAL_COMMA.sub(r"\1.\2", cell) for cell in row]) for line, row in rows]
    except FileNotFoundError:
        raise InputError(str(path), "", "no such file", "the path of a CSV file of round trips") from None
    except IsADirectoryError:
        raise InputError(str(path), "", "a folder", "the path of a CSV file of round trips") from None
    except UnicodeDecodeError:
        raise InputError(str(path), "", "bytes that are not UTF-8", "a CSV file of round trips") from None
    except csv.Error as error:
        raise InputError(str(path), "", f"a syntax error ({error})", "a CSV file of round trips") from None
    if len(rows) < 2:
        raise InputError(str(path), "", f"{len(rows)} rows", "a header and at least one row of round trips")
    return rows


def read_matrix(path: Path, header: list[str], rows: list[tuple[int, list[str]]]) -> MeasuredNetwork:
    names = header[1:]
    number = {name: index for index, name in enumerate(names)}
    first = {row[0].strip() for _, row in rows[1:]}
    if not names or first.isdisjoint(names):
        raise InputError(
            str(path), f"line {rows[0][0]}", f"the columns {', '.join(header)[:60]}",
            "a matrix with the same names in its first row and column, or a table with src, dst and rtt_ms",
        )  # fmt: skip
    if len(number) < len(names) or "" in number:
        raise InputError(str(path), f"line {rows[0][0]}", "an empty or repeated name", "unique names")
    samples: dict[Pair, list[RoundTripSample]] = {}
    seen: set[str] = set()
    for line, row in rows[1:]:
        name = row[0].strip()
        if name not in number or name in seen:
            found = f"the row {name!r}" + (" again" if name in seen else "")
            raise InputError(str(path), f"line {line}", found, "one row for each name of the first row")
        seen.add(name)
        if len(row) != len(header):
            raise InputError(str(path), f"line {line}", f"{len(row)} cells", f"{len(header)}, as in the first row")
        for other, cell in enumerate(row[1:]):
            add(samples, (number[name], other), path, line, cell)
    if missing := [name for name in names if name not in seen]:
        raise InputError(str(path), "", f"no row for {', '.join(missing)}", "one row for each name of the first row")
    return MeasuredNetwork(tuple(names), samples)


def read_pairs(
    path: Path,
    rows: list[tuple[int, list[str]]],
    columns: tuple[int, int, int],
    least: int | None,
    deviation: int | None,
) -> MeasuredNetwork:
    source, target, rtt = columns
    number: dict[str, int] = {}
    samples: dict[Pair, list[RoundTripSample]] = {}
    width = len(rows[0][1])
    for line, row in rows[1:]:
        if len(row) != width:
            raise InputError(str(path), f"line {line}", f"{len(row)} cells", f"{width}, as in the first row")
        ends = [row[end].strip() for end in (source, target)]
        if not all(ends):
            raise InputError(str(path), f"line {line}", "an empty name", "the names of both ends")
        a, b = (number.setdefault(name, len(number)) for name in ends)
        extra = ["" if place is None else row[place] for place in (least, deviation)]
        add(samples, (a, b), path, line, row[rtt], *extra)
    return MeasuredNetwork(tuple(number), samples)


def add(
    samples: dict[Pair, list[RoundTripSample]],
    pair: Pair,
    path: Path,
    line: int,
    rtt: str,
    least: str = "",
    mdev: str = "",
) -> None:
    """Add a measurement to its pair, unless it failed."""
    value = read_ms(rtt, path, line)
    if value is not None:
        sample = RoundTripSample(value, read_ms(least, path, line), read_ms(mdev, path, line))
        samples.setdefault(pair, []).append(sample)


def read_ms(text: str, path: Path, line: int) -> float | None:
    """A cell as milliseconds, None if the measurement failed."""
    if text.strip().lower() in FAILED:
        return None
    try:
        value = float(text)
    except ValueError:
        raise InputError(str(path), f"line {line}", repr(text.strip()), "a number of milliseconds") from None
    if isnan(value):
        return None
    if not isfinite(value) or value < 0:
        raise InputError(str(path), f"line {line}", repr(value), "a finite number of milliseconds of at least 0")
    return value


def find_column(header: list[str], names: tuple[str, ...]) -> int | None:
    """The first column of one of these names, in the order of the names."""
    return next((header.index(name) for name in names if name in header), None)
