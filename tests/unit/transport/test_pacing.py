"""When and what to ask again: tables of the arithmetic."""

from __future__ import annotations

import pytest

from isthmus.core.message import SiteId
from isthmus.protocols.transport.pacing import LONGEST_WAIT_MS, Asked, Gaps, Pacing, Run, count, first_of, near, without

MS = 1_000_000
WAIT = 100 * MS
ORIGIN = SiteId(3)


def run(first: int, last: int) -> Run:
    return Run(first, last, 0, True, False)


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
def test_gaps_but_for_what_was_asked(gaps: Gaps, runs: list[Run], left: Gaps) -> None:
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
    assert asked.due(gaps, 0, WAIT) == (gaps, False)
    asked.note(((1, 4),), 0, WAIT)
    assert asked.due(gaps, 50 * MS, WAIT) == (((8, 9),), False)
    asked.note(((8, 9),), 50 * MS, WAIT)
    assert asked.due(gaps, 99 * MS, WAIT) == ((), False)
    assert asked.due(gaps, 100 * MS, WAIT) == (((1, 4),), True)
    assert asked.earliest_ns(-1) == 0


def test_only_what_was_asked_for_once_tells_a_round_trip() -> None:
    asked = Asked()
    asked.note(((1, 4),), 0, WAIT)
    assert asked.sample_ns(2, 30 * MS) == 30 * MS
    assert asked.sample_ns(5, 30 * MS) is None
    asked.note(((1, 2),), 100 * MS, WAIT)
    assert asked.sample_ns(2, 130 * MS) is None


def test_what_is_overtaken_is_due_at_once_and_not_in_vain() -> None:
    asked = Asked()
    asked.note(((1, 4),), 0, WAIT)
    asked.note(((6, 6),), 1, WAIT)
    assert asked.overtaken(3)
    assert not asked.overtaken(3)
    assert asked.due(((1, 2), (4, 4), (6, 6)), 10 * MS, WAIT) == (((1, 2),), False)
    assert asked.overtaken(6)  # 4 was asked for before it
    assert asked.due(((1, 2), (4, 4)), 10 * MS, WAIT) == (((1, 2), (4, 4)), False)


def test_waits_double_until_a_clear_answer() -> None:
    pacing = Pacing(100, 5)
    waits = []
    for _ in range(12):
        waits.append(pacing.wait_ns(ORIGIN) / MS)
        pacing.in_vain(ORIGIN)
    assert waits[:4] == [100, 200, 400, 800]
    assert waits[-1] == LONGEST_WAIT_MS
    assert pacing.wait_ns(ORIGIN, longest_ms=1000) == 1000 * MS
    pacing.answered(ORIGIN, None)  # of two requests: which it answers nobody knows
    assert 100 * MS < pacing.wait_ns(ORIGIN) < LONGEST_WAIT_MS * MS
    pacing.answered(ORIGIN, 40 * MS)
    assert pacing.wait_ns(ORIGIN) == 60 * MS
    assert pacing.wait_ns(ORIGIN, round_ns=80 * MS) == 120 * MS


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
