"""Who should be active: the paper's rule, and the planner's search."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.core.validation import BadValue
from isthmus.stacks.roles.assignment import (
    best,
    best_token_site,
    evaluate,
    paper_rule,
    plan,
    symmetric_roles,
    token_site_roles,
)
from isthmus.stacks.roles.prediction import Setting
from isthmus.stacks.roles.rests import MessageStream
from isthmus.studies.tickets.instances import KINDS, drawn_setting, nine_setting
from isthmus.studies.tickets.labels import NINE

PAPER = {  # heavily loaded processes are active, and the sequencers of the others near them
    "HLLLL": (0, 0, 0, 0, 0),
    "HHLLL": (0, 1, 0, 0, 0),
    "HHHLL": (0, 1, 2, 0, 0),
    "HHHHL": (0, 1, 2, 3, 3),
    "HHLHL": (0, 1, 0, 3, 3),
    "HLLHL": (0, 0, 0, 3, 3),
    "LLLHL": (3, 3, 3, 3, 3),
    "LLLHH": (3, 3, 3, 3, 4),
    "HHHHH": (0, 1, 2, 3, 4),
}


@pytest.mark.parametrize("load", NINE)
def test_the_papers_rule_on_its_own_scenarios(load: str) -> None:
    setting = nine_setting(load)
    assert paper_rule(setting.delays_ms, setting.periods_ms).sequencer == PAPER[load]


def test_the_papers_rule_takes_the_fastest_and_then_all_that_send_before_a_ticket_could_come() -> None:
    """By 1 at first; 0 is 100 ms away and sends every 99; 2 is 10 ms from 0 then, and too slow for that."""
    delays = ((0.0, 100.0, 10.0), (100.0, 0.0, 90.0), (10.0, 90.0, 0.0))
    assert paper_rule(delays, (99.0, 5.0, 91.0)).sequencer == (0, 1, 0)
    assert paper_rule(delays, (100.0, 5.0, 91.0)).sequencer == (1, 1, 1)  # D + t < 2 D fails by nothing
    assert paper_rule(delays, (100.0, 5.0, 89.0)).sequencer == (2, 1, 2)


def test_ties_go_to_the_rate_and_then_to_the_id() -> None:
    delays = ((0.0, 50.0, 50.0), (50.0, 0.0, 50.0), (50.0, 50.0, 0.0))
    assert paper_rule(delays, (inf, 20.0, 10.0)).sequencer == (2, 1, 2)
    assert paper_rule(delays, (inf, 10.0, 10.0)).sequencer == (1, 1, 2)
    assert paper_rule(delays, (inf, inf, inf)).sequencer == (0, 0, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("load", NINE)
def test_the_plan_is_the_best_of_all_on_the_nine_scenarios(load: str, kind) -> None:
    setting = nine_setting(load, kind)
    assert plan(setting).mean_ms == pytest.approx(best(setting).mean_ms, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("null_ms", [0.0, 25.0])
@pytest.mark.parametrize("eager", [True, False])
def test_the_plan_is_close_to_the_best_of_all(eager: bool, null_ms: float, kind) -> None:
    for seed in range(8):
        setting = drawn_setting(seed, kind, eager=eager, null_ms=null_ms)
        assert plan(setting).mean_ms <= 1.01 * best(setting).mean_ms


@pytest.mark.parametrize("kind", KINDS)
def test_of_eight_sites_the_plan_is_close_to_the_best_of_all(kind) -> None:
    setting = drawn_setting(1, kind, count=8, eager=False)
    assert plan(setting).mean_ms <= 1.01 * best(setting).mean_ms


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(KINDS), st.integers(1, 14), st.booleans())
def test_the_plan_is_never_worse_than_what_it_is_set_beside(seed: int, kind, count: int, eager: bool) -> None:
    setting = drawn_setting(seed, kind, count=max(count, 3), eager=eager)
    found = plan(setting)
    rivals = [
        best_token_site(setting),
        evaluate(setting, symmetric_roles(setting.count)),
        evaluate(setting, paper_rule(setting.delays_ms, setting.periods_ms)),
    ]
    assert all(found.mean_ms <= rival.mean_ms * (1 + 1e-9) for rival in rivals)
    assert found == plan(setting)
    assert found == evaluate(setting, found.roles)


def test_the_token_goes_where_the_traffic_is() -> None:
    assert best_token_site(nine_setting("LLLHL")).roles == token_site_roles(5, 3)
    assert plan(nine_setting("LLLHL")).roles == token_site_roles(5, 3)


def test_fifty_sites_are_planned_for() -> None:
    setting = drawn_setting(3, "poisson", count=50)
    found = plan(setting)
    assert found.mean_ms < best_token_site(setting).mean_ms


def test_one_site_orders_alone_and_silence_is_no_obstacle() -> None:
    alone = plan(Setting(((0.0,),), ((MessageStream("poisson", 10.0),),)))
    assert alone.roles.sequencer == (0,) and alone.mean_ms == 0
    silent = plan(Setting(((0.0, 5.0), (5.0, 0.0)), ((), ())))
    assert len(silent.roles.active) == 1


def test_all_assignments_of_many_sites_are_too_many() -> None:
    with pytest.raises(BadValue):
        best(drawn_setting(1, "poisson", count=11))
