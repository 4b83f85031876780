"""The ring keeps its bound on latency while its assumptions hold, and its token never outlives its view."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from tests.harness.ring_runs import judge_ring, random_ring_run
from tests.planted.ring import GoesBack, TokenOutlivesView, over

from isthmus.core.layer import Kind
from isthmus.core.validation import BadValue
from isthmus.fuzz.agreed import agreed_scenario
from isthmus.fuzz.judge import judge
from isthmus.fuzz.scenarios import hard_scenario
from isthmus.judge.judgement import latency_bound
from isthmus.protocols.total.ring.ring import RingOptions
from isthmus.scenario.costs import CostSpec
from isthmus.scenario.model import GroupSpec, Scenario, StackSpec
from isthmus.scenario.packets import NetworkSpec
from isthmus.scenario.workload import Closed, Periodic
from isthmus.sim.run import SimRun
from isthmus.stacks.ring_bound import RingCosts
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import KIND, NUMBER, SENDER, TIME_NS, Row

HOP_MS = 5.0


def scenario(members: int, batch: int, seed: int) -> tuple[Scenario, RingCosts]:
    """Members that submit at most a batch in the longest rotation, so that no more than a batch waits anywhere."""
    costs = RingCosts(members=members, batch=batch, hop_ms=HOP_MS)
    random = Random(f"ring bound {seed}")
    channel = Channel(Constant(HOP_MS))
    topology = mesh(1, members, channel, channel)
    rates = {}
    for site in random.sample(topology.sites, random.randint(1, members)):
        rates[site.name] = batch / (costs.rotation_ms() + 3 * HOP_MS) / random.choice([1, 1, 3, 20]) * 1e3
    loads = tuple(
        Periodic(sites=(name,), rate_per_s=rate, start_ms=random.uniform(0, 50), jitter=0, payload_bytes=16)
        for name, rate in rates.items()
    )
    stack = StackSpec(name="ring", transport="direct", ring=RingOptions(batch=batch))
    return Scenario(topology=topology, stack=stack, workloads=loads, duration_ms=3_000.0, seed=seed), costs


def latencies_ms(made: Scenario) -> list[float]:
    rows: list[Row] = []
    summary = SimRun(made, rows).execute()
    assert summary.undelivered_count() == 0 and summary.refused_count == 0
    submitted = {(row[SENDER], row[NUMBER]): row[TIME_NS] for row in rows if row[KIND] == Kind.SUBMIT}
    delivered = [row for row in rows if row[KIND] == Kind.DELIVER]
    return [(row[TIME_NS] - submitted[row[SENDER], row[NUMBER]]) / 1e6 for row in delivered]


@pytest.mark.parametrize("seed", range(60))
def test_no_message_takes_longer_than_the_bound(seed: int) -> None:
    random = Random(f"ring {seed}")
    made, costs = scenario(random.randint(2, 9), random.choice([1, 3, 10]), seed)
    assert max(latencies_ms(made)) <= costs.latency_ms()


def costed(members: int, batch: int, seed: int) -> tuple[Scenario, RingCosts]:
    """The same on a LAN of hosts that take time."""
    random = Random(f"ring costs {seed}")
    channel = Channel(Constant(0.005))
    spec = CostSpec(
        send_us=random.choice([50.0, 200.0, 400.0]), receive_us=random.choice([20.0, 300.0]), control_free=True
    )
    stack = StackSpec(name="ring", transport="direct", ring=RingOptions(batch=batch))
    made, _ = scenario(members, batch, seed)
    made = msgspec.structs.replace(
        made, topology=mesh(1, members, channel, channel), stack=stack, network=NetworkSpec(costs=spec)
    )
    bound = latency_bound(made, made.groups_of_run()[0])
    assert bound is not None
    per_s = 1e3 * batch / (bound.rotation_ms() + 3 * bound.visit_ms())
    loads = tuple(
        msgspec.structs.replace(load, rate_per_s=per_s / random.choice([1, 1, 3, 20])) for load in made.workloads
    )
    return msgspec.structs.replace(made, workloads=loads), bound


@pytest.mark.parametrize("seed", range(40))
def test_no_message_takes_longer_than_the_bound_of_hosts_that_take_time(seed: int) -> None:
    random = Random(f"ring costed {seed}")
    made, bound = costed(random.randint(2, 9), random.choice([1, 3, 10]), seed)
    assert max(latencies_ms(made)) <= bound.latency_ms()


def test_the_bound_of_hosts_that_take_time_is_nearly_reached() -> None:
    """Every member sends a batch at every visit, and submits the next when the token has just left."""
    channel = Channel(Constant(0.005))
    made = Scenario(
        topology=mesh(1, 8, channel, channel),
        stack=StackSpec(name="ring", transport="direct", ring=RingOptions(batch=10)),
        workloads=(Closed(burst_count=10, rounds=8),),
        network=NetworkSpec(costs=CostSpec(control_free=True)),
        duration_ms=2_000.0,
    )
    bound = latency_bound(made, made.groups_of_run()[0])
    assert bound is not None and bound.rotation_ms() == pytest.approx(8 * 4.29)
    assert 0.8 * bound.latency_ms() < max(latencies_ms(made)) <= bound.latency_ms()


def test_no_bound_is_promised_where_control_messages_take_time_or_lans_are_shared() -> None:
    made, _ = scenario(3, 1, 1)
    group = made.groups_of_run()[0]
    for costs in (CostSpec(), CostSpec(control_free=True, lans=(("x", "y"),))):
        named = msgspec.structs.replace(
            made, network=NetworkSpec(costs=costs), groups=(GroupSpec(name="x"), GroupSpec(name="y"))
        )
        assert latency_bound(named, named.groups_of_run()[0]) is None
    assert latency_bound(made, group) is not None


def test_the_bound_is_nearly_reached() -> None:
    """A bound that nothing comes near would tell nobody anything."""
    nearest = 0.0
    for seed in range(20):
        made, costs = scenario(6, 3, seed)
        nearest = max(nearest, max(latencies_ms(made)) / costs.latency_ms())
    assert nearest > 0.6


def test_more_than_a_batch_waits_for_more_rotations() -> None:
    costs = RingCosts(members=4, batch=10, hop_ms=1.0, message_ms=0.5, token_ms=1.0)
    assert costs.rotation_ms() == 4 * (1 + 1 + 5)
    assert costs.latency_ms(ahead=25) - costs.latency_ms() == 2 * costs.rotation_ms()


@pytest.mark.parametrize(
    ("field", "value"), [("members", 0), ("batch", 0), ("hop_ms", -1.0), ("message_ms", float("nan"))]
)
def test_costs_that_make_no_sense_are_refused(field: str, value: float) -> None:
    with pytest.raises(BadValue, match=field):
        RingCosts(**{"members": 3, "batch": 1, "hop_ms": 1.0, field: value})


def test_a_token_that_outlives_its_view_is_found() -> None:
    """What a flush hands up can end a batch; the token that then left was stamped with the next view."""
    for seed in range(60):
        if judge(agreed_scenario("ring", seed), over(TokenOutlivesView)).violations():
            return
    pytest.fail("not found")


def broken_runs(seeds: range) -> list[str]:
    """What is wrong with runs that lose tokens and members; some come near the bound."""
    judged = {seed: judge_ring(random_ring_run(seed)) for seed in seeds}
    found = [
        f"judge_ring(random_ring_run({seed})): {fault}" for seed, one in judged.items() for fault in one.faults[:1]
    ]
    assert sum(one.message_count for one in judged.values()) > 100 * len(seeds)
    assert max(one.nearest for one in judged.values()) > 0.6
    return found


def test_the_order_and_in_calm_the_bound_outlive_lost_tokens_and_crashes() -> None:
    assert broken_runs(range(15)) == []


@pytest.mark.full
@pytest.mark.parametrize("start", range(1_000, 2_000, 100))
def test_the_order_and_in_calm_the_bound_outlive_a_thousand_runs(start: int) -> None:
    assert broken_runs(range(start, start + 100)) == []


@pytest.mark.parametrize("seed", [0, 1, 8])
def test_a_token_that_goes_back_breaks_the_bound_and_no_order(seed: int) -> None:
    (fault,) = judge_ring(random_ring_run(seed), over(GoesBack)).faults
    assert "more than the bound of" in fault


def test_a_group_that_has_lost_everybody_comes_to_rest() -> None:
    """The ideal membership looked for survivors for ever where all members of one of two groups had crashed."""
    assert judge(hard_scenario("ring", 13)).violations() == []
