"""Columns of other systems' traces: required ones, defaults of the others, and errors for wrong ones.

Both readers of foreign traces, in this process (text.py, parquet.py) and on Spark (pipeline/ingest/columns.py), take
their rules and sentences from here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.trace.schema import COLUMN_BITS, COLUMN_NAMES, NONE

REQUIRED = ("process", "local", "kind", "sender", "number")
DEFAULTS = {
    **dict.fromkeys(("run", "time_ns", "group", "payload_bytes", "control_bytes", "value", "gauge"), 0),
    "view": NONE,
    "destinations": None,
    "origin": None,  # at first; then the row's group, where there is a message
}
LIST = r"^\s*[\[{(]?\s*(-?\d+([\s,;]+-?\d+)*)?\s*[\])}]?\s*$"
WITH_MESSAGE = (Kind.SUBMIT, Kind.TENTATIVE, Kind.DELIVER, Kind.REVOKE)
KIND_NAMES = ", ".join(kind.name for kind in Kind)
KINDS_EXPECTED = f"1 to {len(Kind)} or one of {KIND_NAMES}"
HIVE = re.compile(r"^(\w+)=(.+)$")


CLOSE = 0.75  # similarity, by difflib, above which a name is taken for a misspelling
VIEW_NUMBER = "the number of the view in view and value, or in one of them alone"


def arrow_type(name: str) -> str:
    width = f"int{COLUMN_BITS[name]}"
    return f"list<item: {width}>" if name == "destinations" else width


def missing_column(source: str, name: str, names: list[str]) -> InputError:
    there = ", ".join(names) if names else "none"
    return InputError(source, name, f"no such column among {there}", f"a column of {arrow_type(name)}")


def wrong_type(source: str, name: str, found: str) -> InputError:
    expected = f"{arrow_type(name)} or a name" if name == "kind" else arrow_type(name)
    return InputError(source, name, f"a column of {found}", expected)


def check_names(source: str, names: list[str]) -> None:
    """Refuse a head that lacks a column or has one twice; `local` may be left to the order of the file."""
    for name in REQUIRED:
        if name not in names and name != "local":
            raise missing_column(source, name, names)
    for name in COLUMN_NAMES:
        if names.count(name) > 1:
            raise InputError(source, name, f"{names.count(name)} columns of that name", "one")


def misspelt_columns(names: Sequence[str]) -> list[str]:
    """A note on each ignored column whose name is almost that of an optional column that is not there."""
    absent = [name for name in DEFAULTS if name not in names]
    notes = []
    for name in names:
        near = [] if name in COLUMN_NAMES else get_close_matches(name.lower(), absent, 1, CLOSE)
        notes += [f"The column {name!r} is ignored; one that would be read is called {meant!r}" for meant in near]
    return notes
