"""Groups that live in another one, such as participant groups in a site group.

Their views are placed by messages of the outer group, so that its views count: what a process did in a nested group
after its last VIEW row of the outer one, before it crashed, may be known to no other, and is not judged.
"""

from __future__ import annotations

from isthmus.core.layer import Kind
from isthmus.trace.schema import GROUP, KIND, LOCAL, NONE, ORIGIN, PROCESS, RUN, Row

CRASH, DELIVER, VIEW = Kind.CRASH, Kind.DELIVER, Kind.VIEW


def outer_groups(rows: list[Row]) -> dict[int, int]:
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
