"""Tightness out of the tables of rounds."""

from __future__ import annotations

from random import Random

from isthmus.protocols.clocks.agreement import Reception, Table
from isthmus.protocols.clocks.tightness import ROUNDS_KEPT, ROUNDS_LEAST, Tightness, spread_ns


def table(*stamps: int | None, attempt: int = 0) -> Table:
    return tuple(None if stamp is None else Reception(attempt, stamp, 0) for stamp in stamps)


def test_offsets_of_clocks_do_not_count_and_late_receptions_do() -> None:
    assert spread_ns([table(10, 20, 30), table(1_010, 1_020, 1_030)]) == 0
    assert spread_ns([table(10, 20, 30), table(1_010, 1_027, 1_030)]) == 7


def test_one_candidate_in_common_tells_nothing() -> None:
    assert spread_ns([table(10, None), table(None, 20)]) is None
    assert spread_ns([table(10, 5), table(20, None)]) is None
    assert spread_ns([(*table(10), *table(20, attempt=1)), table(10, 25)]) is None, "of another attempt"


def test_the_range_is_at_least_the_spread_that_shows_and_at_most_twice_the_truth() -> None:
    random = Random(1)
    for _ in range(200):
        gamma, members = random.randint(1, 1_000), random.randint(2, 6)
        offsets = [random.randint(-(10**9), 10**9) for _ in range(members)]
        late = [[random.randint(0, gamma) for _ in range(members)] for _ in range(members)]
        tables = [table(*(c * 10**6 + offsets[m] + late[m][c] for c in range(members))) for m in range(members)]
        found = spread_ns(tables)
        assert found is not None and found <= 2 * gamma


def test_the_largest_of_the_last_rounds_is_published_once_there_are_some() -> None:
    kept = Tightness()
    for number in range(ROUNDS_LEAST):
        assert kept.published_ns() is None
        kept.add([table(0, 0), table(0, 50 if number == 1 else 5)])
    assert kept.published_ns() == 50
    for _ in range(ROUNDS_KEPT):
        kept.add([table(0, 0), table(0, 5)])
    assert kept.published_ns() == 5


def test_a_site_alone_on_its_lan_has_nothing_to_be_apart_from() -> None:
    kept = Tightness()
    for _ in range(ROUNDS_LEAST):
        kept.add([table(7)])
    assert kept.published_ns() == 0
