"""When to ask again, by tables: the first wait, its growth, what is on its way, and which answers are round trips."""

from __future__ import annotations

import pytest

from isthmus.core.message import SiteId
from isthmus.protocols.transport.pacing import LONGEST_WAIT_MS, Asked, Gaps, Pacing, count, first_of

MS = 1_000_000
ORIGIN, OTHER = SiteId(3), SiteId(4)
FIRST_MS, LEAST_MS = 100.0, 10.0


def pacing(*samples_ms: float) -> Pacing:
    """One that has seen round trips with the origin."""
    made = Pacing(FIRST_MS, LEAST_MS)
    for sample in samples_ms:
        made.answered(ORIGIN, round(sample * MS))
    return made


@pytest.mark.parametrize(
    ("samples_ms", "wait_ms"),
    [
        ((), FIRST_MS),  # nothing is known
        ((40.0,), 60.0),  # one and a half of the first
        ((40.0, 40.0), 60.0),
        ((400.0,), 600.0),
        ((0.0,), LEAST_MS),
        ((1.0,), LEAST_MS),
    ],
)
def test_the_first_wait(samples_ms: tuple[float, ...], wait_ms: float) -> None:
    assert pacing(*samples_ms).wait_ns(ORIGIN) == round(wait_ms * MS)
    assert pacing(*samples_ms).wait_ns(OTHER) == round(FIRST_MS * MS), "origins are apart"


def test_a_new_sample_moves_the_wait_towards_it() -> None:
    faster, steady, slower, new = (pacing(*seen).wait_ns(ORIGIN) for seen in [(40, 20), (40, 40), (40, 80), (80,)])
    assert faster < steady < slower < new


@pytest.mark.parametrize("samples_ms", [(), (40.0,), (3.0,)])
def test_the_wait_doubles_each_time_that_it_passes_in_vain_up_to_a_bound(samples_ms: tuple[float, ...]) -> None:
    made = pacing(*samples_ms)
    waits = [made.wait_ns(ORIGIN)]
    for _ in range(20):
        made.in_vain(ORIGIN)
        waits.append(made.wait_ns(ORIGIN))
    assert waits[:4] == [waits[0], 2 * waits[0], 4 * waits[0], 8 * waits[0]]
    assert waits == sorted(waits) and waits[-1] == LONGEST_WAIT_MS * MS
    assert made.wait_ns(OTHER) == FIRST_MS * MS


def test_back_off_makes_a_wait_no_longer_than_asked_for_and_a_round_trip_does() -> None:
    made = pacing(40.0)
    for _ in range(10):
        made.in_vain(ORIGIN)
    assert made.wait_ns(ORIGIN, 1_000.0) == 1_000 * MS
    assert pacing(2_000.0).wait_ns(ORIGIN, 1_000.0) == 3_000 * MS


def test_a_clear_answer_ends_the_doubling() -> None:
    made = pacing(40.0)
    for _ in range(5):
        made.in_vain(ORIGIN)
    made.answered(ORIGIN, 40 * MS)
    assert made.wait_ns(ORIGIN) == 60 * MS


@pytest.mark.parametrize(
    ("requests", "number", "sample_ms"),
    [
        ([], 5, None),  # it came unasked
        ([(0, ((5, 5),))], 5, 200),
        ([(0, ((3, 9),))], 5, 200),
        ([(0, ((3, 4), (6, 9)))], 5, None),
        ([(50, ((5, 5),))], 5, 150),
        ([(0, ((5, 5),)), (110, ((5, 5),))], 5, None),  # asked for twice: nobody knows which of the two it answers
        ([(0, ((3, 9),)), (110, ((5, 5),))], 5, None),
        ([(0, ((3, 4),)), (110, ((5, 5),))], 5, 90),  # another run was, not this one
    ],
)
def test_only_what_was_asked_for_once_is_a_round_trip(
    requests: list[tuple[int, Gaps]], number: int, sample_ms: int | None
) -> None:
    """Karn's rule."""
    asked = Asked()
    for at_ms, gaps in requests:
        asked.note(gaps, 0, at_ms * MS, 100 * MS)
    assert asked.sample_ns(number, 200 * MS) == (None if sample_ms is None else sample_ms * MS)


@pytest.mark.parametrize(
    ("gaps", "at_ms", "due", "again"),
    [
        (((5, 8),), 50, (), False),  # all is on its way
        (((5, 9),), 50, ((9, 9),), False),
        (((2, 9),), 50, ((2, 4), (9, 9)), False),
        (((1, 2), (11, 12)), 50, ((1, 2), (11, 12)), False),
        (((5, 8),), 100, ((5, 8),), True),  # the wait is over
        (((6, 6),), 100, ((6, 6),), True),
        (((9, 9),), 100, ((9, 9),), False),
        ((), 100, (), False),
    ],
)
def test_what_is_on_its_way_is_not_asked_for_again(gaps: Gaps, at_ms: int, due: Gaps, again: bool) -> None:
    asked = Asked()
    asked.note(((5, 8),), 0, 0, 100 * MS)
    assert asked.due(gaps, at_ms * MS, 100 * MS) == (due, again)


def test_what_has_come_is_forgotten() -> None:
    asked = Asked()
    asked.note(((1, 4),), 0, 0, 100 * MS)
    asked.note(((9, 9),), 4, 50 * MS, 100 * MS)
    assert [run[:2] for run in asked.runs] == [(9, 9)] and asked.earliest_ns(0) == 50 * MS
    assert Asked().earliest_ns(7) == 7


@pytest.mark.parametrize(
    ("gaps", "most", "first"),
    [
        (((1, 3), (6, 6)), 9, ((1, 3), (6, 6))),
        (((1, 3), (6, 6)), 4, ((1, 3), (6, 6))),
        (((1, 3), (6, 9)), 5, ((1, 3), (6, 7))),
        (((1, 3), (6, 6)), 2, ((1, 2),)),
        ((), 5, ()),
    ],
)
def test_the_first_of_some_gaps(gaps: Gaps, most: int, first: Gaps) -> None:
    assert first_of(gaps, most) == first and count(first) == min(count(gaps), most)
