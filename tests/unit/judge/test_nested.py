"""Groups in groups: what a crashed process may have been alone with is not held against it."""

from __future__ import annotations

from isthmus.core.layer import Kind
from isthmus.judge.arrange import outer_groups, without_unsure
from isthmus.judge.oracle import Oracle
from isthmus.trace.schema import LOCAL, NONE, PROCESS, Row

OUTER, INNER = 0, 1 << 30


def row(process: int, local: int, kind: Kind, group: int = OUTER, **more: object) -> Row:
    given = {"origin": NONE, "sender": NONE, "number": NONE, "view": 1, "to": None, "value": 0} | more
    head = (0, process, local, local, int(kind), given["origin"], given["sender"], given["number"], group)
    return (*head, given["view"], given["to"], 0, 0, given["value"], 0)  # type: ignore[return-value]


def view(process: int, local: int, number: int, to: tuple[int, ...], inner: bool = False) -> Row:
    group, origin = (INNER, OUTER) if inner else (OUTER, NONE)
    return row(process, local, Kind.VIEW, group, origin=origin, view=number, value=number, to=to)


BOTH = [
    *[view(process, 0, 1, (0, 1)) for process in (0, 1)],
    *[view(process, 1, 1, (0, 1), inner=True) for process in (0, 1)],
]
ALONE = [view(0, 2, 2, (0,), inner=True), row(0, 3, Kind.CRASH)]  # by an order that died with process 0
AFTER = [view(1, 2, 2, (1,)), view(1, 3, 2, (1,), inner=True)]


def test_the_outer_group_of_a_nested_one_is_told_by_its_views() -> None:
    assert outer_groups(BOTH) == {INNER: OUTER}
    assert outer_groups([one for one in BOTH if one[8] == OUTER]) == {}


def test_what_a_process_did_last_before_its_crash_is_left_out() -> None:
    rows = [*BOTH, *ALONE, *AFTER]
    gone = [(one[PROCESS], one[LOCAL]) for one in rows if one not in without_unsure(rows)]
    assert gone == [(0, 1), (0, 2)]
    assert Oracle(rows).in_group(INNER, ["views"])[0].status != "violated"


def test_what_it_did_before_a_view_of_the_outer_group_counts() -> None:
    survived = [view(0, 2, 2, (0,), inner=True), view(0, 3, 2, (0, 1)), row(0, 4, Kind.CRASH)]
    rows = [*BOTH, *survived, *AFTER]
    assert without_unsure(rows) == rows
    assert Oracle(rows).in_group(INNER, ["views"])[0].status == "violated"
