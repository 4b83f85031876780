"""Quorums, weights, cuts and the choice of members, by tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.core.layer import Life, View
from isthmus.core.message import SiteId
from isthmus.protocols.membership import succession
from isthmus.protocols.membership.cut import Holding, cut_of, numbers_of, runs_of
from isthmus.protocols.membership.quorum import assigned_weights, quorum
from isthmus.protocols.membership.succession import Joiner, Reporter, admitted, next_view, reconciled, staying
from isthmus.protocols.membership.transfer import assign_givers
from isthmus.protocols.membership.wire import StateTask, TransferReport

A, B, C, D, E = ((SiteId(number), 0) for number in range(5))
S = SiteId


def view_of(*lives: Life, weights: tuple[int, ...] = ()) -> View:
    return View(3, tuple(site for site, _ in lives), tuple(inc for _, inc in lives), weights)


@pytest.mark.parametrize(
    ("view", "lives", "expected"),
    [
        (view_of(A), [A], True),
        (view_of(A), [], False),
        (view_of(A, B), [A], True),  # the senior of two
        (view_of(A, B), [B], False),
        (view_of(A, B, C), [B, C], True),
        (view_of(A, B, C), [A], False),
        (view_of(A, B, C, D), [A, D], True),  # half, with the tie-break
        (view_of(A, B, C, D), [B, C], False),
        (view_of(A, B, C, D, weights=(0, 1, 1, 2)), [B, C], True),  # the first with any weight breaks the tie
        (view_of(A, B, C, D, weights=(0, 1, 1, 2)), [A, D], False),
        (view_of(A, B, C, weights=(3, 1, 1)), [B, C], False),
        (view_of(A, B, weights=(0, 0)), [A, B], False),  # without weight there is no quorum
        (view_of(A, B, C), [(S(1), 1), (S(2), 1)], False),  # later lives are others
        (view_of(A, B, C), [B, C, (S(7), 0)], True),
    ],
)
def test_quorum(view: View, lives: list[Life], expected: bool) -> None:
    assert quorum(view, lives) is expected


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=6),
    st.lists(st.booleans(), min_size=6, max_size=6),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_two_quorums_share_a_member(weights: list[int], one: list[bool], other: list[bool]) -> None:
    lives = [(S(number), 0) for number in range(len(weights))]
    view = view_of(*lives, weights=tuple(weights))
    first = {life for life, chosen in zip(lives, one, strict=False) if chosen}
    second = {life for life, chosen in zip(lives, other, strict=False) if chosen}
    if quorum(view, first) and quorum(view, second):
        assert first & second


@pytest.mark.parametrize(
    ("members", "stateful", "expected"),
    [
        ([A, B, C], [A, B, C], (1, 1, 1)),
        ([A, B], [A], (1, 1)),  # the tie-break keeps A a quorum
        ([A, B, C], [A], (1, 1, 0)),
        ([A, B, C, D], [A, B], (1, 1, 1, 1)),
        ([B, A], [A], (0, 1)),  # with B first, A alone would be no quorum
    ],
)
def test_members_without_the_state_get_weight_as_long_as_the_others_decide(
    members: list[Life], stateful: list[Life], expected: tuple[int, ...]
) -> None:
    assert assigned_weights(members, stateful, {}) == expected


# Cuts


def test_runs_are_numbers() -> None:
    assert runs_of([5, 1, 2, 3, 9, 8]) == ((1, 3), (5, 5), (8, 9))
    assert list(numbers_of(((1, 3), (5, 5)))) == [1, 2, 3, 5]


@pytest.mark.parametrize(
    ("holdings", "floor", "expected"),
    [
        ([(0, [1, 2], [])], 0, [1, 2]),
        ([(0, [1, 2], []), (0, [1], [])], 0, [1, 2]),  # what any handed up
        ([(2, [3], []), (0, [1, 2], [])], 2, [3]),  # what is stable is everywhere
        ([(0, [1], [3])], 0, [1]),  # 2 is nowhere: 3 is nobody's to hand up
        ([(0, [1], [3]), (0, [1, 2], [])], 0, [1, 2, 3]),
        ([(0, [1], [3]), (0, [2], [])], 0, [1, 2, 3]),
        ([(0, [2, 5], [])], 0, [2, 5]),  # multicasts to others between them
        ([(0, [], [])], 0, []),
    ],
)
def test_cut(holdings: list[tuple[int, list[int], list[int]]], floor: int, expected: list[int]) -> None:
    reports = [
        (S(place), (Holding(S(9), low, runs_of(up), runs_of(held)),)) for place, (low, up, held) in enumerate(holdings)
    ]
    (made,) = cut_of((S(9),), reports)
    assert (made.floor, list(numbers_of(made.numbers))) == (floor, expected)


def test_the_holder_of_most_is_asked_first() -> None:
    reports = [(S(0), (Holding(S(9), 0, ((1, 1),), ()),)), (S(1), (Holding(S(9), 0, ((1, 3),), ()),))]
    assert cut_of((S(9),), reports)[0].holders == (S(1), S(0))


# Members


def reporter(life: Life, *suspects: int, stateful: bool = True, leaving: bool = False) -> Reporter:
    return Reporter(life, tuple(map(S, suspects)), stateful, leaving)


@pytest.mark.parametrize(
    ("members", "me", "expected"),
    [
        ([reporter(A), reporter(B), reporter(C)], A, [A, B, C]),
        ([reporter(A), reporter(B, 2), reporter(C)], A, [A, B]),  # two suspect: the junior goes
        ([reporter(A), reporter(B), reporter(C, 1)], A, [A, B]),  # either way
        ([reporter(A), reporter(B, 0), reporter(C)], A, [A, C]),  # never the coordinator
        ([reporter(A), reporter(B, 2, 3), reporter(C), reporter(D)], A, [A, C, D]),  # the one with most conflicts
    ],
)
def test_who_suspect_each_other_part(members: list[Reporter], me: Life, expected: list[Life]) -> None:
    assert [one.life for one in reconciled(members, me)] == expected


def goes_on(view: View, reporters: list[Reporter], voters: list[Life], suspected: list[Life]) -> list[Life] | None:
    stay, leavers = staying(reporters, suspected, A)
    return [one.life for one in stay] if succession.may_go_on(view, stay, leavers, voters, {}, []) else None


def test_those_go_on_that_are_a_quorum_and_have_the_state() -> None:
    view = view_of(A, B, C)
    both = [reporter(A), reporter(B)]
    assert goes_on(view, both, [], [C]) == [A, B]
    assert goes_on(view, [reporter(A)], [], [B, C]) is None
    assert goes_on(view, [reporter(A)], [B], [C]) is not None  # a voter by its file counts
    assert goes_on(view, [reporter(A, stateful=False), reporter(B, stateful=False)], [], []) is None


def test_leavers_count_but_stay_only_where_nobody_else_has_the_state() -> None:
    view = view_of(A, B, C)
    leaving = reporter(B, leaving=True)
    assert goes_on(view, [reporter(A), leaving], [], []) == [A]
    stateless = [reporter(A, stateful=False), leaving]
    assert goes_on(view, stateless, [], []) == [A, B]


def test_the_seat_of_a_life_that_ended_counts_where_the_life_after_it_joins() -> None:
    view, after = view_of(A, B, C), (B[0], B[1] + 1)
    stay, leavers = staying([reporter(A)], [B, C], A)
    assert not succession.may_go_on(view, stay, leavers, [], {B: after}, [])
    assert succession.may_go_on(view, stay, leavers, [], {B: after}, [after])


def test_joiners_need_answers_of_all_and_an_unused_life() -> None:
    old, new, other = (S(3), 0), (S(3), 1), (S(4), 1)
    last = {S(3): 0}
    assert admitted([Joiner(new, (A, B))], [A, B], last) == [new]
    assert admitted([Joiner(new, (A,))], [A, B], last) == []
    assert admitted([Joiner(old, (A, B))], [A, B], last) == []
    assert admitted([Joiner(new, (A, B)), Joiner(other, (A, B))], [A, B], last) == [new]  # they have not met
    assert admitted([Joiner(new, (A, B)), Joiner(other, (A, B, new))], [A, B], last) == [new, other]


def test_a_view_remembers_the_last_life_of_each_site() -> None:
    made = next_view(View(3, (S(0), S(1)), (0, 2), (), ((S(5), 4),)), [A], [(S(5), 5)], [A], {})
    assert made.members == (S(0), S(5))
    assert made.last == ((S(0), 0), (S(1), 2), (S(5), 5))
    assert made.view_id == 4


def test_a_state_at_sites_of_weight_0_alone_has_one_vote() -> None:
    """No view could be decided by no votes; the others get theirs once they have the state."""
    assert assigned_weights((A, B, C), (A, B), {S(0): 0, S(1): 0}) == (1, 0, 1)
    assert assigned_weights((A, B, C), (B,), {S(0): 0, S(1): 0}) == (0, 1, 1)
    assert assigned_weights((A, B, C), (A, C), {S(0): 0, S(1): 0}) == (0, 0, 1)


KEEPING = TransferReport(has_layers=True, kept=(2,), gives=True)
GIVING = TransferReport(has_layers=True, gives=True)
FETCHING = TransferReport(has_layers=True, base=2)


@pytest.mark.parametrize(
    ("stateful", "reports", "couriers", "expected"),
    [
        ((0, 1, 2), {0: GIVING, 1: GIVING, 2: GIVING}, (), StateTask(S(3), 4, S(1))),  # the most junior of its cluster
        ((0, 2), {0: GIVING, 2: GIVING}, (), StateTask(S(3), 4, S(2))),  # of all, where none of its cluster has it
        ((0, 1), {0: GIVING, 1: GIVING}, (1,), StateTask(S(3), 4, S(0))),  # couriers last
        ((0, 1), {0: GIVING, 1: TransferReport()}, (), StateTask(S(3), 4, S(0))),  # so are those that cannot
        ((0, 1), {0: GIVING, 1: GIVING, 3: TransferReport(True, avoided=(S(1),))}, (), StateTask(S(3), 4, S(0))),
        ((0, 1), {0: KEEPING, 1: GIVING, 3: FETCHING}, (), StateTask(S(3), 2, S(0))),  # the base is kept
        ((0, 1), {0: GIVING, 1: GIVING, 3: FETCHING}, (), StateTask(S(3), 4, S(1))),  # or nobody has it any more
    ],
)
def test_who_gives_the_state(
    stateful: tuple[SiteId, ...], reports: dict[SiteId, TransferReport], couriers: tuple[SiteId, ...], expected: object
) -> None:
    view = View(4, tuple([SiteId(site) for site in (*stateful, 3)]))
    assert assign_givers(view, stateful, reports, couriers, lambda one, other: one % 2 == other % 2) == (expected,)
