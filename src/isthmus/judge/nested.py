"""Groups that live in another one, such as participant groups in a site group.

A process that crashed is held to what it did in views that it survived: in its last one it may have delivered by an
order that nobody else ever learnt. The views of a nested group are placed by messages of the outer one, so for them the
views of the *outer* group count: what a process did in a nested group after its last VIEW row of the outer one, before
it crashed, may be known to no other. Such VIEW and DELIVER rows are not judged; what it submitted was submitted.
"""

from __future__ import annotations

from isthmus.core.layer import Kind
from isthmus.trace.schema import GROUP, KIND, LOCAL, NONE, ORIGIN, PROCESS, RUN, Row

CRASH, DELIVER, VIEW = Kind.CRASH, Kind.DELIVER, Kind.VIEW


def outer_groups(rows: list[Row]) -> dict[int, int]:
    """The outer group of each nested one."""
    return {row[GROUP]: row[ORIGIN] for row in rows if row[KIND] == VIEW and row[ORIGIN] != NONE}


def without_unsure(rows: list[Row]) -> list[Row]:
    """The rows without what a crashed process may have been alone with, in nested groups."""
    outer = outer_groups(rows)
    if not outer:
        return rows
    outside = set(outer.values())
    looked = [
        row
        for row in rows
        if row[KIND] == CRASH
        or (row[KIND] == VIEW and row[GROUP] in outside)
        or (row[GROUP] in outer and row[KIND] in (VIEW, DELIVER))
    ]
    looked.sort(key=lambda row: (row[RUN], row[PROCESS], row[LOCAL]))
    unsure: set[tuple[int, int, int]] = set()
    open_rows: dict[tuple[int, int, int], list[tuple[int, int, int]]] = {}  # by run, process and outer group
    for row in looked:
        process = (row[RUN], row[PROCESS])
        if row[KIND] == CRASH:
            for group in sorted(outside):
                unsure.update(open_rows.pop((*process, group), ()))
        elif row[GROUP] in outer:
            open_rows.setdefault((*process, outer[row[GROUP]]), []).append((*process, row[LOCAL]))
        else:
            open_rows.pop((*process, row[GROUP]), None)
    return [row for row in rows if (row[RUN], row[PROCESS], row[LOCAL]) not in unsure]
