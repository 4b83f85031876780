"""The order of a ring's visits, and that the ring keeps its promises where some members are visited twice."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from isthmus.core.layer import Host, Stack
from isthmus.core.message import SiteId
from isthmus.protocols.application import Application
from isthmus.protocols.total.visits import distance, order_of_visits, place_after
from isthmus.stacks import StackOptions, ring
from isthmus.testing.judge import judge
from isthmus.testing.random_scenarios import random_scenario

A, B, C, D = (SiteId(number) for number in range(4))


def test_without_members_that_are_visited_twice_it_is_the_order_of_the_view() -> None:
    assert order_of_visits((B, A, C)) == (B, A, C)
    assert order_of_visits((B, A, C), (D,)) == (B, A, C)


@pytest.mark.parametrize("members", range(3, 12))
def test_visits_of_one_member_are_half_a_rotation_apart(members: int) -> None:
    sites = tuple(SiteId(number) for number in range(members))
    for twice in sites:
        order = order_of_visits(sites, (twice,))
        first, second = (at for at, site in enumerate(order) if site == twice)
        assert len(order) == members + 1 and tuple(dict.fromkeys(sorted(order))) == sites
        assert abs(2 * (second - first) - len(order)) <= 2


def test_two_members_have_no_use_for_it() -> None:
    assert order_of_visits((A, B), (A,)) == (A, B)


def test_nobody_follows_itself() -> None:
    for members in range(3, 9):
        sites = tuple(SiteId(number) for number in range(members))
        for count in range(members + 1):
            order = order_of_visits(sites, sites[:count])
            assert all(one != other for one, other in zip(order, order[1:] + order[:1], strict=True))


def test_a_token_is_at_the_place_that_comes_first_after_its_source() -> None:
    order = (A, D, B, C, D)
    assert place_after(order, A, D) == 1 and place_after(order, C, D) == 4
    assert place_after(order, B, D) == 4 and place_after(order, D, A) == 0
    assert distance(order, 1, D) == 3 and distance(order, 4, D) == 2 and distance(order, 0, A) == 5


def visiting_twice(sites: tuple[SiteId, ...], host: Host, application: Application, options: StackOptions) -> Stack:
    return ring(host, application, msgspec.structs.replace(options, twice=sites))


@pytest.mark.parametrize("seed", range(12))
def test_the_ring_keeps_its_promises_where_some_are_visited_twice(seed: int) -> None:
    scenario = random_scenario("ring", 7_000 + seed)
    found = judge(scenario, partial(visiting_twice, (SiteId(seed % 3), SiteId(1))))
    assert found.violations() == []
