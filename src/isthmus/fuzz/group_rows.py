"""The rows of one group out of a run with several, as if it had been alone.

A message that a courier brought into a group is named there by its author in another. To judge the group by itself,
the courier is taken for its sender, and its number follows the courier's last one: what the courier submits, own or
carried, is one sequence of messages to the group, and the stack owes it all that it owes to any other.
"""

from __future__ import annotations

from collections.abc import Iterable

from isthmus.core.layer import Kind
from isthmus.trace.schema import GROUP, KIND, NUMBER, ORIGIN, PROCESS, SENDER, MessageKey, Row

EVERYWHERE = (Kind.CRASH, Kind.RECOVER)  # rows about a site as a whole
SHIFT = 20  # numbers of carried messages are below own ones shifted by this


def rows_of_group(rows: Iterable[Row], group: int) -> list[Row]:
    """The rows that tell of a group, in their order; carried messages as their couriers'."""
    mine = [row for row in rows if row[GROUP] == group or row[KIND] in EVERYWHERE]
    if all(row[ORIGIN] in (group, -1) for row in mine):
        return mine
    names: dict[MessageKey, tuple[int, int]] = {}
    last: dict[int, int] = {}  # process to the number of what it submitted last
    for row in mine:
        if row[KIND] == Kind.SUBMIT:
            own = row[ORIGIN] == group
            number = row[NUMBER] << SHIFT if own else last.get(row[PROCESS], 0) + 1
            last[row[PROCESS]] = number
            names.setdefault(key_of(row), (row[PROCESS], number))
    return [renamed(row, group, names) for row in mine]


def renamed(row: Row, group: int, names: dict[MessageKey, tuple[int, int]]) -> Row:
    """A row with the name that its message has in the group; what nobody brought there keeps its own."""
    if row[ORIGIN] == -1:
        return row
    unknown = (row[SENDER], row[NUMBER] << SHIFT)
    return (*row[:ORIGIN], group, *names.get(key_of(row), unknown), *row[GROUP:])


def key_of(row: Row) -> MessageKey:
    return row[ORIGIN], row[SENDER], row[NUMBER]


def strangers(rows: Iterable[Row]) -> list[str]:
    """Messages delivered in a group that were never submitted by their author in the group they are said to be of."""
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
