"""When to ask again, by tables: the first wait, its growth, and which answers count as a round trip."""

from __future__ import annotations

import pytest

from isthmus.core.message import SiteId
from isthmus.protocols.transport.pacing import Pacing

MS = 1_000_000
ORIGIN, OTHER = SiteId(3), SiteId(4)
FIRST_MS, LEAST_MS = 100.0, 10.0


def pacing(*samples_ms: float) -> Pacing:
    """One that has seen round trips."""
    made = Pacing(FIRST_MS, LEAST_MS)
    now = 0
    for sample in samples_ms:
        made.wait_ms(ORIGIN, 0, now)
        now += round(sample * MS)
        made.answered(ORIGIN, 1, now)
    return made


def test_nothing_is_known_at_first() -> None:
    assert pacing().wait_ms(ORIGIN, 0, 0) == FIRST_MS


@pytest.mark.parametrize("samples", [(), (40.0,), (40.0, 60.0)])
def test_the_wait_doubles_with_each_try_up_to_a_bound(samples: tuple[float, ...]) -> None:
    waits = [pacing(*samples).wait_ms(ORIGIN, tries, 0) for tries in range(12)]
    assert waits == sorted(waits) and waits[1] == 2 * waits[0]
    assert waits[-1] == waits[-2], "there is a bound"


@pytest.mark.parametrize(("sample_ms", "least", "most"), [(40, 40, 160), (400, 400, 1600)])
def test_a_wait_is_longer_than_a_round_trip_and_no_multiple_of_it(sample_ms: int, least: float, most: float) -> None:
    assert least < pacing(sample_ms).wait_ms(ORIGIN, 0, 0) <= most


def test_a_wait_has_a_floor() -> None:
    assert pacing(0.0).wait_ms(ORIGIN, 0, 0) == LEAST_MS
    assert pacing(0.001).wait_ms(ORIGIN, 0, 0) == LEAST_MS


def test_a_new_sample_moves_the_wait_towards_it() -> None:
    steady, slower, faster = (pacing(40.0, then).wait_ms(ORIGIN, 0, 0) for then in (40.0, 80.0, 20.0))
    assert faster < steady < slower < pacing(80.0).wait_ms(ORIGIN, 0, 0)


@pytest.mark.parametrize("tries", [2, 3, 10])
def test_an_answer_to_more_than_one_request_says_nothing(tries: int) -> None:
    """Karn's rule: it may answer the first, which is long ago, or the last, which it cannot have."""
    made = pacing(40.0)
    before = made.wait_ms(ORIGIN, 0, 0)
    for number in range(tries):
        made.wait_ms(ORIGIN, number, number * MS)
    made.answered(ORIGIN, tries, 500 * MS)
    assert made.wait_ms(ORIGIN, 0, 0) == before


def test_origins_are_apart() -> None:
    made = pacing(40.0)
    assert made.wait_ms(OTHER, 0, 0) == FIRST_MS
    made.wait_ms(ORIGIN, 0, 10 * MS)
    made.wait_ms(OTHER, 0, 20 * MS)
    made.answered(OTHER, 1, 320 * MS)
    assert made.wait_ms(ORIGIN, 0, 0) == pacing(40.0).wait_ms(ORIGIN, 0, 0)
    assert made.wait_ms(OTHER, 0, 0) > 300
