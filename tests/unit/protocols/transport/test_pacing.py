"""When and what to ask again: tables of the arithmetic."""

from __future__ import annotations

import pytest

from isthmus.core.message import SiteId
from isthmus.protocols.transport.reliable.pacing import (
    ASKS_MAX,
    LONGEST_WAIT_MS,
    Asked,
    Gaps,
    Pacing,
    RequestedRun,
    count,
    first_of,
    near,
    without,
)

MS = 1_000_000
WAIT = 100 * MS
ORIGIN, OTHER = SiteId(3), SiteId(5)


def run(first: int, last: int) -> RequestedRun:
    return RequestedRun(first, last, ORIGIN, 0, WAIT, True, False)


@pytest.mark.parametrize(
    ("gaps", "runs", "left"),
    [
        (((1, 5),), [], ((1, 5),)),
        (((1, 5),), [run(1, 5)], ()),
        (((1, 5),), [run(3, 3)], ((1, 2), (4, 5))),
        (((1, 5),), [run(0, 2), run(5, 9)], ((3, 4),)),
        (((1, 2), (4, 9)), [run(2, 5)], ((1, 1), (6, 9))),
        (((1, 2),), [run(7, 9)], ((1, 2),)),
    ],
)
def test_gaps_but_for_what_was_asked(gaps: Gaps, runs: list[RequestedRun], left: Gaps) -> None:
    assert without(gaps, runs) == left
    assert count(left) == sum(last - first + 1 for first, last in left)


@pytest.mark.parametrize(
    ("gaps", "held", "slots", "expected"),
    [
        (((1, 9),), [], 4, ((1, 4),)),
        (((1, 1), (3, 9)), [1], 4, ((1, 1), (3, 4))),  # frame 2 is held, and has a slot of its own
        (((1, 2), (7, 9)), [2, 3, 4, 5], 4, ((1, 2),)),  # what is held beyond 2 makes place for it
        (((1, 9),), [], 0, ((1, 1),)),  # the very next needs no place
        (((1, 9),), [], -3, ((1, 1),)),
    ],
)
def test_what_there_is_room_for(gaps: Gaps, held: list[int], slots: int, expected: Gaps) -> None:
    assert near(gaps, held, slots) == expected


def test_the_first_numbers() -> None:
    assert first_of(((1, 3), (7, 9)), 4) == ((1, 3), (7, 7))


def test_what_is_on_its_way_is_not_asked_for_again() -> None:
    asked = Asked()
    gaps = ((1, 4), (8, 9))
    assert asked.due(gaps, 0) == (gaps, [])
    asked.note(((1, 4),), ORIGIN, 0, WAIT)
    assert asked.due(gaps, 50 * MS) == (((8, 9),), [])
    asked.note(((8, 9),), OTHER, 50 * MS, WAIT)
    assert asked.due(gaps, 99 * MS) == ((), [])
    assert asked.due_ns(-1) == WAIT
    assert asked.due(gaps, 100 * MS) == (((1, 4),), [ORIGIN])
    assert asked.due(gaps, 99 * MS, longest_ns=60 * MS) == (((1, 4),), [])  # cut short, not in vain
    assert asked.due(gaps, 150 * MS) == (gaps, [ORIGIN, OTHER])


def test_every_answer_tells_a_round_trip() -> None:
    asked = Asked()
    first = asked.note(((1, 4),), ORIGIN, 0, WAIT)
    again = asked.note(((1, 2),), ORIGIN, 100 * MS, WAIT)
    assert asked.round_ns(first, 130 * MS) == 130 * MS
    assert asked.round_ns(again, 130 * MS) == 30 * MS
    assert asked.round_ns(77, 130 * MS) is None
    for _ in range(ASKS_MAX):
        asked.note(((1, 2),), ORIGIN, 200 * MS, WAIT)
    assert asked.round_ns(again, 230 * MS) is None  # forgotten


def test_only_what_was_asked_for_once_can_be_late() -> None:
    asked = Asked()
    asked.note(((1, 4),), ORIGIN, 0, WAIT)
    assert asked.late_ns(2, 30 * MS) == 30 * MS
    assert asked.late_ns(5, 30 * MS) is None
    asked.note(((1, 2),), ORIGIN, 100 * MS, WAIT)
    assert asked.late_ns(2, 130 * MS) is None


def test_what_is_overtaken_is_due_at_once_and_not_in_vain() -> None:
    asked = Asked()
    asked.note(((1, 4),), ORIGIN, 0, WAIT)
    asked.note(((6, 6),), ORIGIN, 1, WAIT)
    assert asked.overtaken(3)
    assert not asked.overtaken(3)
    assert asked.due(((1, 2), (4, 4), (6, 6)), 10 * MS) == (((1, 2),), [])
    assert asked.overtaken(6)  # 4 was asked for before it
    assert asked.due(((1, 2), (4, 4)), 10 * MS) == (((1, 2), (4, 4)), [])


def test_waits_double_from_the_second_in_vain_on_until_an_answer() -> None:
    pacing = Pacing(100, 5)
    waits = []
    for _ in range(13):
        waits.append(pacing.wait_ns(ORIGIN) / MS)
        pacing.in_vain(ORIGIN)
    assert waits[:5] == [100, 100, 200, 400, 800]
    assert waits[-1] == LONGEST_WAIT_MS
    assert pacing.urgent_ns(ORIGIN) == 1000 * MS
    assert pacing.wait_ns(OTHER) == 100 * MS
    pacing.answered(ORIGIN, 40 * MS)
    assert pacing.wait_ns(ORIGIN) == 55 * MS  # three eighths above the round trip: how much it varies is not known yet
    assert pacing.wait_ns(ORIGIN, round_ns=80 * MS) == 95 * MS
    pacing.answered(ORIGIN, 4_000 * MS)
    assert pacing.urgent_ns(ORIGIN) > 4_000 * MS  # a queue that grows is waited for


def test_waits_come_close_to_steady_round_trips() -> None:
    pacing = Pacing(100, 5)
    for _ in range(40):
        pacing.answered(ORIGIN, 200 * MS)
    assert pacing.wait_ns(ORIGIN) == 210 * MS
    assert pacing.round_ns(ORIGIN, 0) == 200 * MS
    assert pacing.round_ns(OTHER, 0) == 100 * MS  # assumed


def test_late_frames_teach_patience() -> None:
    pacing = Pacing(100, 5)
    assert pacing.delay_ns(ORIGIN) == 5 * MS
    pacing.came_late(ORIGIN, 12 * MS)
    assert pacing.delay_ns(ORIGIN) == 17 * MS
    for _ in range(100):
        pacing.answered(ORIGIN, 40 * MS)
    assert pacing.delay_ns(ORIGIN) == 5 * MS
    pacing.came_late(ORIGIN, 5000 * MS)
    assert pacing.delay_ns(ORIGIN) == 40 * MS  # no longer than an answer takes
