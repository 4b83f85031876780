"""The receiver's filter and what is kept, by tables."""

from __future__ import annotations

import pytest

from isthmus.core.message import GroupId, SiteId
from isthmus.protocols.routing.filter import AHEAD_MAX, AuthorStream, Fate, Filter, stream_of
from isthmus.protocols.routing.keeping import KeptCopy, KeptTable, SettledTable
from isthmus.protocols.routing.wire import Routed, StreamKey
from isthmus.protocols.total.ring.ring import round_of

KEY: StreamKey = (0, 3, 0, 0)


def routed(number: int, to: tuple[int, ...] = (1,), copy: int = 0) -> Routed:
    return Routed(GroupId(0), SiteId(3), number, to, copy, (0,) * len(to))


@pytest.mark.parametrize(
    ("in_order", "arrivals", "fates", "last"),
    [
        (False, [(1, 0), (3, 1), (3, 1)], "TAKEN TAKEN KNOWN", 3),
        (False, [(3, 1), (3, 1), (1, 0), (1, 0)], "TAKEN KNOWN TAKEN KNOWN", 3),
        (True, [(3, 1), (1, 0), (3, 1)], "EARLY TAKEN TAKEN", 3),
        (True, [(1, 0), (2, 1), (1, 0), (2, 1), (9, 2)], "TAKEN TAKEN KNOWN KNOWN TAKEN", 9),
    ],
)
def test_each_message_is_taken_once(in_order: bool, arrivals: list[tuple[int, int]], fates: str, last: int) -> None:
    stream = AuthorStream()
    found = [stream.take(number, before, in_order) for number, before in arrivals]
    assert " ".join(fate.name for fate in found) == fates
    assert stream.last == last


def test_what_is_forgotten_is_not_waited_for() -> None:
    stream = AuthorStream()
    assert stream.take(7, 5, in_order=True) is Fate.EARLY
    stream.skip(5)
    assert stream.take(7, 5, in_order=True) is Fate.TAKEN


def test_gaps_are_bounded() -> None:
    stream = AuthorStream()
    for number in range(2, 4 * AHEAD_MAX, 2):  # the odd ones are lost
        stream.take(number, number - 1)
        assert len(stream.ahead) <= AHEAD_MAX


def test_one_that_joins_takes_nothing_twice() -> None:
    filter_, other = Filter(), Filter()
    filter_.of(KEY).take(1, 0)
    filter_.of(KEY).take(5, 4)
    other.restore(filter_.states())
    assert [other.of(KEY).take(*given) for given in ((1, 0), (5, 4), (4, 1))] == [Fate.KNOWN, Fate.KNOWN, Fate.TAKEN]
    assert other.last(KEY) == 5


def test_lives_of_an_author_are_streams_of_their_own() -> None:
    assert stream_of(routed(1), 0) != stream_of(routed((1 << 32) + 1), 0)


def test_a_message_is_kept_until_all_groups_that_it_must_reach_are_done_with_it() -> None:
    kept, settled = KeptTable(), SettledTable()
    for number, to in ((1, (1,)), (2, (1, 2)), (3, (1,))):
        assert kept.add(KeptCopy(routed(number, to), 0, to))
        assert not kept.add(KeptCopy(routed(number, to), 0, to))
    assert settled.note(1, KEY, 2) and not settled.note(1, KEY, 1)
    kept.trim(settled)
    assert [one.copy.number for one in kept.copies.values()] == [2, 3]
    assert settled.note(2, KEY, 2) and settled.note(1, KEY, 3)
    kept.trim(settled)
    assert not kept.copies and kept.first_pending() is None


def test_a_round_visits_some_members_twice() -> None:
    members = tuple(map(SiteId, range(6)))
    assert round_of(members, ()) == members
    made = round_of(members, (SiteId(5),))
    assert made[0] == members[0] and made.count(SiteId(5)) == 2 and len(made) == 7
    assert round_of(members[:2], members[:2]) == members[:2]
