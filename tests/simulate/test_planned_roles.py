"""Roles by plan: no order breaks however plans change, all adopt one at the same place, and only the eldest's."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest

from isthmus.core.layer import Host, Stack
from isthmus.core.message import SiteId, Targets
from isthmus.fuzz.agreed import agreed_scenario
from isthmus.fuzz.judge import judge
from isthmus.fuzz.scenarios import random_scenario
from isthmus.protocols.application import Application
from isthmus.protocols.estimator import Estimator
from isthmus.protocols.total.hybrid import hybrid, planned
from isthmus.protocols.total.hybrid.hybrid import Hybrid
from isthmus.protocols.total.hybrid.planned import Planner, RoleSituation
from isthmus.protocols.total.hybrid.roles import SENDING, PlannedRoles
from isthmus.protocols.total.hybrid.wire import RolePlan, TicketPacket
from isthmus.protocols.transport.credit import Credit
from isthmus.scenario.model import HybridSpec, Scenario
from isthmus.stacks.registry import Build, StackOptions, bottom

SEEDS = range(40)


def whims(situation: RoleSituation) -> tuple[int, ...]:
    """Roles at random, others with every look."""
    random = Random(repr(situation))
    members = range(len(situation.periods_ms))
    active = random.sample(members, random.randint(1, len(members)))
    return tuple(site if site in active else random.choice(active) for site in members)


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Plans as often as there is a look, and looks whether anything has moved or not."""
    monkeypatch.setattr(planned, "REST_NS", 0)
    monkeypatch.setattr(planned, "HASTE_NS", 0)
    monkeypatch.setattr(planned, "FIRST_NS", 0)
    monkeypatch.setattr(planned, "MOVED", 1.0)
    yield


def over(order: type[Hybrid], planner: type[Planner] = Planner) -> Build:
    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        estimator = Estimator(options.hybrid.estimator)
        layer = order(options.hybrid, estimator)
        whim = planner(layer, estimator, whims)
        return Stack(host, application, estimator, Credit(options.credit), whim, layer, *bottom(options))

    return build


def alone(seeds: range) -> list[int]:
    """Seeds of scenarios with one group: a build replaces the stacks of all."""
    return [seed for seed in seeds if not random_scenario("dynamic-hybrid", seed).groups]


def by_plan(scenario: Scenario) -> Scenario:
    spec = msgspec.structs.asdict(scenario.stack.hybrid) | {"rule": "planned"}
    stack = msgspec.structs.replace(scenario.stack, hybrid=HybridSpec(**spec))
    return msgspec.structs.replace(scenario, stack=stack)


class AdoptedOnReceipt(Hybrid):
    """Goes by a plan as soon as it has come, wherever its place in the order is."""

    __slots__ = ()

    def take(self, source: SiteId, packet: TicketPacket[Any]) -> None:
        for body in packet.bodies:
            if type(body) is RolePlan:
                self.outlook.rule.adopt(source, body, self.view.members)
        super().take(source, packet)

    def on_plan(self, sender: SiteId, plan: RolePlan) -> None:
        pass


class OutlivesItsPlanner(PlannedRoles):
    """Goes on by the plan of a view that has closed, a proposal that was under way included."""

    __slots__ = ()

    def open(self, members: Targets) -> None:
        kept = self.plan
        super().open(members)
        if kept is not None:
            active = [site for site in members if kept.get(site) == site] or [max(members)]
            self.plan = {site: kept[site] if kept.get(site) in active else active[0] for site in members}


class EverybodyPlans(Planner):
    """Proposes whether it is the eldest or not."""

    __slots__ = ()

    def timer(self, key: int) -> None:
        super().timer(key)
        if self.order.phase in SENDING and self.order.below.writable():
            self.order.send_entries((RolePlan((self.host.site,) * len(self.view.members)),))


def plans_adopted(scenario: Scenario, build: Build) -> int:
    """How many plans were adopted, at all members; fails where a member went by one that was not proposed to it."""
    count = 0
    adopt = PlannedRoles.adopt

    def counted(self: PlannedRoles, *given: Any) -> bool:
        nonlocal count
        adopted = adopt(self, *given)
        count += adopted
        return adopted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlannedRoles, "adopt", counted)
        assert judge(scenario, build).violations() == []
    return count


@pytest.mark.parametrize("first", range(0, SEEDS.stop, 10))
def test_no_order_breaks_however_plans_change(first: int) -> None:
    adopted = 0
    for seed in alone(range(first, first + 10)):
        adopted += plans_adopted(by_plan(random_scenario("dynamic-hybrid", seed)), over(Hybrid))
    assert adopted > 0, "otherwise nothing was tested"


def test_no_order_breaks_where_members_agree_on_views() -> None:
    made = [agreed_scenario("dynamic-hybrid", seed) for seed in range(6)]
    assert sum(plans_adopted(by_plan(scenario), over(Hybrid)) for scenario in made if not scenario.groups) > 0


@pytest.mark.full
@pytest.mark.parametrize("first", range(SEEDS.stop, 5_000, 20))
def test_thousands_of_plans(first: int) -> None:
    for seed in alone(range(first, first + 20)):
        assert plans_adopted(by_plan(random_scenario("dynamic-hybrid", seed)), over(Hybrid)) >= 0, f"seed {seed}"


def test_a_plan_adopted_at_different_places_is_found() -> None:
    for seed in alone(range(200)):
        scenario = msgspec.structs.replace(by_plan(random_scenario("dynamic-hybrid", seed)), drain_ms=20_000.0)
        if judge(scenario, over(AdoptedOnReceipt)).violations():
            return
    pytest.fail("not found")


def test_two_planners_at_once_are_found() -> None:
    """What another than the eldest proposes is refused by all, and the refusal shows."""
    for seed in alone(range(20)):
        if judge(by_plan(random_scenario("dynamic-hybrid", seed)), over(Hybrid, EverybodyPlans)).violations():
            return
    pytest.fail("not found")


def test_a_plan_that_outlives_its_planner_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who joins knows nothing of it, so that a request stands at some members and not at others."""
    monkeypatch.setattr(hybrid, "rule_of", lambda options, random: OutlivesItsPlanner(options.threshold))
    for seed in alone(range(200)):
        if judge(by_plan(random_scenario("dynamic-hybrid", seed)), over(Hybrid)).violations():
            return
    pytest.fail("not found")


def test_a_proposal_of_a_dead_planner_is_applied_by_nobody() -> None:
    """Members that opened a view go by no plan until one of this view, by its eldest, has been delivered."""
    opened = 0
    open_view = PlannedRoles.open

    def checked(self: PlannedRoles, members: Targets) -> None:
        nonlocal opened
        open_view(self, members)
        opened += 1
        assert self.plan is None, "a plan of an earlier view"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlannedRoles, "open", checked)
        for seed in alone(range(10)):
            assert judge(by_plan(random_scenario("dynamic-hybrid", seed)), over(Hybrid)).violations() == []
    assert opened > 0
