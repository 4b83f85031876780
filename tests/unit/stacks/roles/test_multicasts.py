"""How many multicasts roles are expected to take, beside a simulation."""

from __future__ import annotations

import msgspec
import pytest

from isthmus.advise.order.total import hybrid_stack
from isthmus.protocols.total.hybrid.planned import RoleSituation
from isthmus.scenario.model import HybridSpec, Scenario
from isthmus.sim.run import SimRun
from isthmus.stacks.roles.advice import SLACK, advise
from isthmus.stacks.roles.assignment import plan
from isthmus.stacks.roles.multicasts import multicast_rate
from isthmus.stacks.roles.prediction import RoleAssignment, Setting, predict
from isthmus.stacks.roles.rests import MessageStream
from isthmus.studies.tickets.instances import StreamKind, as_topology, as_workloads, drawn_setting, nine_setting

NULL_MS = HybridSpec().null_ms
RUN_MS = 8_000.0


@pytest.mark.parametrize("kind", ["periodic", "poisson"])
@pytest.mark.parametrize("sequencer", [(0, 0, 0, 0, 0), (0, 1, 0, 0, 0), (0, 1, 2, 3, 4), (0, 0, 0, 3, 3)])
def test_a_simulation_takes_about_as_many(kind: StreamKind, sequencer: tuple[int, ...]) -> None:
    setting = nine_setting("HHLHL", kind, null_ms=NULL_MS)
    topology = as_topology(setting)
    stack = hybrid_stack(topology, RoleAssignment(sequencer), HybridSpec())
    stack = msgspec.structs.replace(stack, transport="direct")
    workloads = as_workloads(setting)
    scenario = Scenario(
        name="count",
        topology=topology,
        stack=stack,
        workloads=workloads,
        duration_ms=RUN_MS,
        drain_ms=2_000.0,
        wire="reference",
    )
    run = SimRun(scenario)
    run.execute()
    found = run.network.packet_count / len(sequencer) / RUN_MS
    assert found == pytest.approx(multicast_rate(setting, RoleAssignment(sequencer)), rel=0.1)


def test_of_two_equally_fast_plans_the_one_with_fewer_multicasts_is_chosen() -> None:
    """B next to A: passive, each of its messages would take a packet of tickets more."""
    setting = nine_setting("HHLLL", "periodic", null_ms=NULL_MS)
    fastest, thrifty = plan(setting), plan(setting, SLACK)
    assert thrifty.mean_ms <= (1 + SLACK) * fastest.mean_ms
    assert multicast_rate(setting, thrifty.roles) <= multicast_rate(setting, fastest.roles)
    assert thrifty.roles.active == (0, 1)


@pytest.mark.parametrize("load", ["HLLLL", "HHLHL", "LLLHH", "HHHHH"])
@pytest.mark.parametrize("regular", [True, False])
def test_no_plan_leads_away_from_a_plan(load: str, regular: bool) -> None:
    setting = nine_setting(load, "periodic" if regular else "poisson", null_ms=NULL_MS)
    everybody = tuple(range(setting.count))
    now = RoleSituation(setting.delays_ms, setting.periods_ms, (regular,) * setting.count, everybody, NULL_MS, True)
    first = advise(now)
    assert advise(now._replace(sequencers=first or everybody)) is None


@pytest.mark.parametrize("seed", range(12))
def test_no_plan_leads_away_from_a_plan_on_any_network(seed: int) -> None:
    setting = drawn_setting(seed, "poisson", null_ms=NULL_MS)
    count = setting.count
    now = RoleSituation(setting.delays_ms, setting.periods_ms, (False,) * count, tuple(range(count)), NULL_MS, True)
    first = advise(now)
    assert advise(now._replace(sequencers=first or now.sequencers)) is None


def test_twice_the_multicasts_are_not_kept_for_a_hair_less_latency() -> None:
    """Regions of a cloud: everybody active is the fastest by 2.6 %, and where a group begins."""
    rows = (
        (0, 63, 104, 126, 61, 102),
        (63, 0, 101, 77, 101, 102),
        (104, 101, 0, 39, 50, 12),
        (126, 77, 39, 0, 73, 25),
        (61, 101, 50, 73, 0, 48),
        (102, 102, 12, 25, 48, 0),
    )
    delays = tuple(tuple(map(float, row)) for row in rows)
    periods = tuple(1000 / rate for rate in (16.3, 3.7, 1.5, 79.1, 4.0, 1.5))
    setting = Setting(delays, tuple((MessageStream("periodic", period),) for period in periods), True, NULL_MS)
    everybody = tuple(range(6))
    found = advise(RoleSituation(delays, periods, (True,) * 6, everybody, NULL_MS, True))
    assert found is not None
    assert plan(setting).roles.sequencer == everybody
    assert multicast_rate(setting, RoleAssignment(found)) < 0.6 * multicast_rate(setting, RoleAssignment(everybody))
    assert predict(setting, RoleAssignment(found)).mean_ms <= (1 + SLACK) * plan(setting).mean_ms
