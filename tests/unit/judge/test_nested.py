"""Groups in groups: what a crashed process may have been alone with is not held against it."""

from __future__ import annotations

from random import Random

from isthmus.core.layer import Kind
from isthmus.judge.arrange import outer_groups, without_unsure
from isthmus.judge.oracle import Oracle
from isthmus.trace.schema import GROUP, KIND, LOCAL, NONE, PROCESS, Row

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


def random_nested(seed: int) -> list[Row]:
    """Rows of two groups nested in the first of two outer ones, with crashes and recoveries, in any order."""
    random = Random(f"nested/{seed}")
    rows: list[Row] = []
    for process in range(3):
        rows.append(view(process, 0, 1, (0, 1, 2), inner=True))
        for local in range(1, random.randint(2, 14)):
            group = random.choice([OUTER, OUTER + 1, INNER, INNER + 1])
            kind = random.choice([Kind.VIEW, Kind.DELIVER, Kind.DELIVER, Kind.SUBMIT, Kind.CRASH, Kind.RECOVER])
            origin = OUTER if group >= INNER and kind is Kind.VIEW else NONE
            rows.append(row(process, local, kind, group, origin=origin, value=local, to=(0, 1, 2)))
    random.shuffle(rows)
    return rows


def is_unsure(one: Row, rows: list[Row]) -> bool:
    """By the words of the rule: before a crash, with no view of the outer group, and no other crash, in between."""
    if one[GROUP] < INNER or one[KIND] not in (Kind.VIEW, Kind.DELIVER) or one[GROUP] not in outer_groups(rows):
        return False
    later = sorted(
        (other[LOCAL], other[KIND])
        for other in rows
        if other[PROCESS] == one[PROCESS]
        and other[LOCAL] > one[LOCAL]
        and (other[KIND] == Kind.CRASH or (other[KIND] == Kind.VIEW and other[GROUP] == OUTER))
    )
    return bool(later) and later[0][1] == Kind.CRASH


def test_what_is_left_out_is_what_the_rule_says_row_by_row() -> None:
    left_out = 0
    for seed in range(300):
        rows = random_nested(seed)
        wanted = [one for one in rows if not is_unsure(one, rows)]
        assert without_unsure(rows) == wanted, seed
        left_out += len(rows) - len(wanted)
    assert left_out > 300
