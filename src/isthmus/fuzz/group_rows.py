"""Trace rows of one group, extracted from a run with several groups, as if it had run alone.

A courier counts as the sender of what it forwards into the group, with its next number: all that it submits there is
one sequence with all the guarantees of the stack.
"""

from __future__ import annotations

from collections.abc import Iterable

from isthmus.core.layer import Kind
from isthmus.trace.schema import GROUP, KIND, NUMBER, ORIGIN, PROCESS, SENDER, MessageKey, Row

EVERYWHERE = (Kind.CRASH, Kind.RECOVER)  # rows about a site as a whole
SHIFT = 20  # a forwarded message is numbered below the next own one, whose number is shifted by this


def rows_of_group(rows: Iterable[Row], group: int) -> list[Row]:
    """Return the rows of a group, in order, with forwarded messages renamed to their couriers."""
    mine = [row for row in rows if row[GROUP] == group or row[KIND] in EVERYWHERE]
    if all(row[ORIGIN] in (group, -1) for row in mine):
        return mine
    names: dict[MessageKey, tuple[int, int]] = {}
    last: dict[int, int] = {}  # process to the number of its last submit
    for row in mine:
        if row[KIND] == Kind.SUBMIT:
            own = row[ORIGIN] == group
            number = row[NUMBER] << SHIFT if own else last.get(row[PROCESS], 0) + 1
            last[row[PROCESS]] = number
            names.setdefault(key_of(row), (row[PROCESS], number))
    return [renamed(row, group, names) for row in mine]


def renamed(row: Row, group: int, names: dict[MessageKey, tuple[int, int]]) -> Row:
    """Return a row with its message renamed for the group; a message that was never submitted there keeps its name."""
    if row[ORIGIN] == -1:
        return row
    unknown = (row[SENDER], row[NUMBER] << SHIFT)
    return (*row[:ORIGIN], group, *names.get(key_of(row), unknown), *row[GROUP:])


def key_of(row: Row) -> MessageKey:
    return row[ORIGIN], row[SENDER], row[NUMBER]


def strangers(rows: Iterable[Row]) -> list[str]:
    """Report deliveries of messages that their author never submitted in the group of origin."""
    submitted: set[MessageKey] = set()
    delivered: dict[MessageKey, Row] = {}
    for row in rows:
        key = key_of(row)
        if row[KIND] == Kind.SUBMIT and row[GROUP] == row[ORIGIN] and row[PROCESS] == row[SENDER]:
            submitted.add(key)
        elif row[KIND] == Kind.DELIVER:
            delivered.setdefault(key, row)
    return [
        f"process {row[PROCESS]} delivered {sender}:{number} of group {origin} in group {row[GROUP]}: never submitted"
        for (origin, sender, number), row in delivered.items()
        if (origin, sender, number) not in submitted
    ]
