"""The order of a ring's visits, and that the ring keeps its promises where some members are visited twice."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from isthmus.core.layer import Host, Stack
from isthmus.core.message import SiteId
from isthmus.fuzz.judge import judge
from isthmus.fuzz.scenarios import random_scenario
from isthmus.protocols.application import Application
from isthmus.protocols.total.ring.visits import round_of
from isthmus.stacks.registry import STACKS, StackOptions

A, B, C, D = (SiteId(number) for number in range(4))


def test_without_members_that_are_visited_twice_it_is_the_order_of_the_view() -> None:
    assert round_of((B, A, C), ()) == (B, A, C)
    assert round_of((B, A, C), (D,)) == (B, A, C)


@pytest.mark.parametrize("members", range(3, 12))
def test_visits_of_one_member_are_half_a_rotation_apart(members: int) -> None:
    sites = tuple(SiteId(number) for number in range(members))
    for twice in sites:
        order = round_of(sites, (twice,))
        first, second = (at for at, site in enumerate(order) if site == twice)
        assert len(order) == members + 1 and order[0] == sites[0]
        assert tuple(dict.fromkeys(sorted(order))) == sites
        assert abs(2 * (second - first) - len(order)) <= 2


def test_two_members_have_no_use_for_it() -> None:
    assert round_of((A, B), (A,)) == (A, B)


def test_everybody_is_visited_and_those_twice_twice() -> None:
    for members in range(3, 9):
        sites = tuple(SiteId(number) for number in range(members))
        for count in range(members + 1):
            order = round_of(sites, sites[-count:] if count else ())
            assert sorted(order) == sorted((*sites, *(sites[-count:] if count else ())))


def visiting_twice(sites: tuple[SiteId, ...], host: Host, application: Application, options: StackOptions) -> Stack:
    return STACKS["ring"].build(host, application, msgspec.structs.replace(options, twice=sites))


@pytest.mark.parametrize("seed", range(12))
def test_the_ring_keeps_its_promises_where_some_are_visited_twice(seed: int) -> None:
    scenario = random_scenario("ring", 7_000 + seed)
    found = judge(scenario, partial(visiting_twice, (SiteId(seed % 3), SiteId(1))))
    assert found.violations() == []
