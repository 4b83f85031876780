"""A scenario as a value: what it checks, what it derives from its seed, and that it travels."""

from __future__ import annotations

import pickle

import msgspec
import pytest

from isthmus.core.validation import BadValue
from isthmus.protocols.transport.credit import CreditOptions
from isthmus.protocols.transport.reliable.frames import ReliableOptions
from isthmus.scenario.faults import Crash, DelayShift, Heal, Loss, Partition, RandomFaults
from isthmus.scenario.model import Clocks, HybridSpec, Membership, Reader, Scenario, StackSpec
from isthmus.scenario.workload import Poisson, Reply
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

GOOD = Channel(Constant(10))


def scenario(wan: Channel = GOOD, **more) -> Scenario:
    given = {"stack": StackSpec(name="fifo"), "workloads": (Poisson(rate_per_s=5),)} | more
    return Scenario(topology=mesh(2, 2, Channel(Constant(1)), wan), **given)


def direct(wan: Channel = GOOD, **more) -> Scenario:
    return scenario(wan, stack=StackSpec(name="fifo", transport="direct"), **more)


def test_a_scenario_is_picklable_and_equal_after_it() -> None:
    made = scenario(random_faults=RandomFaults(crashes=1, partitions=1), seed=4)
    again = pickle.loads(pickle.dumps(made))
    assert again == made and again.faults_of_run() == made.faults_of_run()


def test_each_purpose_has_a_random_source_of_its_own() -> None:
    made = scenario(seed=3)
    draws = [made.random(*purpose).random() for purpose in (("network",), ("site", 1, 0), ("site", 1, 1), ("site", 11))]
    assert len(set(draws)) == 4
    assert made.random("network").random() == scenario(seed=3).random("network").random()
    assert made.random("network").random() != scenario(seed=4).random("network").random()


def test_given_and_drawn_faults_come_in_order_of_time() -> None:
    given = (Crash(at_ms=9000, site="c0-0"), Heal(at_ms=1))
    faults = scenario(faults=given, random_faults=RandomFaults(losses=5)).faults_of_run()
    assert len(faults) == 7 and [f.at_ms for f in faults] == sorted(f.at_ms for f in faults)


def test_stack_options_know_the_sequencer_by_its_id() -> None:
    spec = StackSpec(name="token-site", sequencer="c1-0", batch_ms=2.0)
    options = scenario(stack=spec).stack_options()
    assert options.sequencer == 2 and options.batch_ms == 2.0 and not options.direct
    assert direct().stack_options().direct


def test_direct_stands_on_channels_that_lose_nothing() -> None:
    direct()
    direct(faults=(DelayShift(at_ms=1, until_ms=2, factor=3), Crash(at_ms=3, site="c0-0")))
    for wan in (Channel(Constant(1), loss=0.1), Channel(Constant(1), duplicate=0.1), Channel(Constant(1), fifo=False)):
        with pytest.raises(BadValue, match=r"stack\.transport"):
            direct(wan)
    for fault in (
        Loss(at_ms=1, until_ms=2, probability=0.1),
        Partition(at_ms=1, groups=(("c0",),)),
    ):
        with pytest.raises(BadValue, match=r"stack\.transport"):
            direct(faults=(fault,))
    for drawn in (RandomFaults(losses=1), RandomFaults(partitions=1)):
        with pytest.raises(BadValue, match=r"stack\.transport"):
            direct(random_faults=drawn)


def hybrid(name: str = "hybrid", **more) -> StackSpec:
    return StackSpec(name=name, hybrid=HybridSpec(**more))


WRONG = [
    ({"duration_ms": 0}, "duration_ms"),
    ({"duration_ms": float("nan")}, "duration_ms"),
    ({"duration_ms": 1e300}, "duration_ms"),  # no trace could hold its times
    ({"drain_ms": -1}, "drain_ms"),
    ({"drain_ms": float("inf")}, "drain_ms"),
    ({"name": ""}, "name"),
    ({"name": "../../etc"}, "name"),
    ({"name": "a\0b"}, "name"),
    ({"name": "x" * 300}, "name"),
    ({"workloads": ()}, "workloads"),
    ({"workloads": (Reply(), Poisson(rate_per_s=1, sites=("c0", "x")))}, "workloads[1].sites[1]"),
    ({"workloads": (Poisson(rate_per_s=1, to=("x",)),)}, "workloads[0].to[0]"),
    ({"workloads": (Poisson(rate_per_s=1, to=5),)}, "workloads[0].to"),
    ({"faults": (Heal(at_ms=1), Crash(at_ms=1, site="x"))}, "faults[1].site"),
    ({"faults": (Heal(at_ms=10_001),)}, "faults[0].at_ms"),
    ({"readers": (Reader(sites=("x",), consume_ms=1),)}, "readers[0].sites[0]"),
    ({"stack": StackSpec(name="token-site", sequencer="c1")}, "stack.sequencer"),
    ({"stack": hybrid(active=("c0", "x"))}, "stack.hybrid.active[1]"),
    ({"stack": hybrid("symmetric", active=("x",))}, "stack.hybrid.active[0]"),  # though it is of no use there
    ({"stack": hybrid(sequencer_of={"x": "c0-0"})}, "stack.hybrid.sequencer_of"),
    ({"stack": hybrid(sequencer_of={"c0-1": "x"})}, "stack.hybrid.sequencer_of.c0-1"),
    ({"stack": hybrid(sequencer_of={"c0-1": "c1-1"})}, "stack.hybrid.sequencer_of.c0-1"),  # a passive one
]


@pytest.mark.parametrize(("given", "key"), WRONG)
def test_what_a_scenario_cannot_mean_is_refused_at_its_key(given, key: str) -> None:
    with pytest.raises(BadValue) as refused:
        scenario(**given)
    assert refused.value.key == key


PARTS = [
    (lambda: StackSpec(name="tokensite"), "name"),
    (lambda: StackSpec(name="fifo", batch_ms=-1), "batch_ms"),
    (lambda: StackSpec(name="fifo", batch_ms=float("nan")), "batch_ms"),
    (lambda: Clocks(offset_ms=-1), "offset_ms"),
    (lambda: Clocks(drift_ppm=100_000), "drift_ppm"),
    (lambda: Clocks(drift_ppm=float("nan")), "drift_ppm"),
    (lambda: Reader(sites=("c0",), consume_ms=0), "consume_ms"),
    (lambda: Reader(sites=(), consume_ms=1), "sites"),
    (lambda: Membership(detection_ms=-1), "detection_ms"),
    (lambda: CreditOptions(window=0), "window"),
    (lambda: CreditOptions(window=-1), "window"),
    (lambda: CreditOptions(queue_max=0), "queue_max"),
    (lambda: CreditOptions(probe_period_ms=0), "probe_period_ms"),
    (lambda: CreditOptions(probe_period_ms=1e-9), "probe_period_ms"),  # a timer that never lets time pass
    (lambda: ReliableOptions(nak_delay_ms=-1), "nak_delay_ms"),
    (lambda: ReliableOptions(nak_retry_ms=0), "nak_retry_ms"),
    (lambda: ReliableOptions(ack_period_ms=-5), "ack_period_ms"),
    (lambda: ReliableOptions(status_period_ms=float("nan")), "status_period_ms"),
    (lambda: ReliableOptions(ack_every=0), "ack_every"),
    (lambda: ReliableOptions(keep_max=0), "keep_max"),
    (lambda: ReliableOptions(hold_max=-1), "hold_max"),
    (lambda: ReliableOptions(repair_max=0), "repair_max"),
]


@pytest.mark.parametrize(("make", "key"), PARTS)
def test_what_its_parts_cannot_mean_is_refused(make, key: str) -> None:
    with pytest.raises(BadValue) as refused:
        make()
    assert refused.value.key == key


def test_the_least_values_are_good() -> None:
    CreditOptions(window=1, queue_max=1, probe_period_ms=0.001)
    ReliableOptions(nak_delay_ms=0, ack_every=1, keep_max=1, hold_max=1, repair_max=1)
    assert msgspec.structs.replace(scenario(), seed=-(2**80)).random("x").random() < 1
