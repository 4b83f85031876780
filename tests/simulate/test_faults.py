"""Each fault in a small run whose outcome can be told in advance; every stack through a scenario with all of them."""

from __future__ import annotations

import pytest

from isthmus.core.layer import Kind
from isthmus.fuzz.judge import judge
from isthmus.protocols.transport.credit import CreditOptions
from isthmus.scenario.faults import ClockJump, Crash, DelayShift, Fault, Heal, Loss, Partition, Recover
from isthmus.scenario.model import Clocks, Scenario, StackSpec
from isthmus.scenario.workload import Periodic, Reply
from isthmus.sim.run import SimRun
from isthmus.stacks.registry import STACKS
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import ring
from isthmus.trace.schema import KIND, PROCESS, SENDER, TIME_NS, Row

MS = 1_000_000
ALL: tuple[Fault, ...] = (
    DelayShift(at_ms=200, until_ms=900, factor=4, add_ms=5, source=("c1",)),
    Loss(at_ms=300, until_ms=1200, probability=0.4),
    Partition(at_ms=500, groups=(("c0", "c1-0"), ("c2",))),
    ClockJump(at_ms=600, site="c0-1", by_ms=-700),
    Crash(at_ms=700, site="c0-0"),
    Crash(at_ms=720, site="c2-1"),
    Heal(at_ms=1500),
    DelayShift(at_ms=1600, until_ms=1800, factor=0.1),
    Recover(at_ms=1700, site="c0-0"),
    Partition(at_ms=1900, groups=(("c1",),)),
    Crash(at_ms=2000, site="c1-1"),
    Heal(at_ms=2400),
)


def scenario(*faults: Fault, stack: str = "token-site", **more) -> Scenario:
    given = {"workloads": (Periodic(rate_per_s=20),), "duration_ms": 3000, "drain_ms": 60_000} | more
    topology = ring(4, 2, Channel(Constant(1)), Channel(Constant(10)))
    return Scenario(topology=topology, stack=StackSpec(name=stack), faults=faults, **given)


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("seed", range(5))
def test_every_promise_is_kept_through_all_faults(stack: str, seed: int) -> None:
    workloads = (Periodic(rate_per_s=20), Reply(probability=0.05, to=3, depth=2))
    made = scenario(*ALL, stack=stack, workloads=workloads, seed=seed, clocks=Clocks(offset_ms=50, drift_ppm=500))
    judged = judge(made)
    assert judged.failures() == []
    assert judged.summary.undelivered_count() == 0 and judged.summary.crash_count == 3
    assert judged.summary.rejected_count == 0, "no site takes another for wrong"


@pytest.mark.parametrize("stack", STACKS)
def test_a_partition_holds_back_and_the_heal_catches_up(stack: str) -> None:
    rows: list[Row] = []
    cut = (Partition(at_ms=1000, groups=(("c0", "c1"),)), Heal(at_ms=2000))
    summary = SimRun(scenario(*cut, stack=stack), rows).execute()
    assert summary.undelivered_count() == 0
    across = [
        row[TIME_NS] // MS
        for row in rows
        if row[KIND] == Kind.DELIVER and row[PROCESS] < 4 <= row[SENDER]  # from c2 and c3 to c0 and c1
    ]
    assert not [time for time in across if 1025 <= time < 2000], "what was under way took at most 20 ms"
    assert [time for time in across if 2000 <= time < 2500]
    assert summary.per_message.maximum >= 1000 * MS


def test_a_partition_around_the_sequencer_stops_the_order_on_the_other_side() -> None:
    rows: list[Row] = []
    cut = (Partition(at_ms=1000, groups=(("c0",),)), Heal(at_ms=2000))
    SimRun(scenario(*cut), rows).execute()
    others = [row[TIME_NS] // MS for row in rows if row[KIND] == Kind.DELIVER and row[PROCESS] > 1]
    assert not [time for time in others if 1025 <= time < 2000]


def test_loss_delays_and_costs_packets_only_while_it_lasts() -> None:
    calm = SimRun(scenario(stack="fifo"))
    calm.execute()
    lossy = SimRun(scenario(Loss(at_ms=1000, until_ms=1500, probability=0.5), stack="fifo"))
    lossy.execute()
    assert calm.network.dropped_count == 0 < lossy.network.dropped_count
    assert calm.summary.per_message.maximum == 20 * MS < lossy.summary.per_message.maximum
    assert lossy.summary.per_message.percentile(50) <= 20 * MS
    assert lossy.summary.undelivered_count() == 0


def test_a_delay_shift_shows_in_the_latencies_of_its_source() -> None:
    rows: list[Row] = []
    shift = DelayShift(at_ms=1000, until_ms=2000, factor=10, source=("c2-0",))
    summary = SimRun(scenario(shift, stack="fifo"), rows).execute()
    assert summary.per_message.maximum == 200 * MS
    assert summary.undelivered_count() == 0


def test_a_clock_jump_changes_no_order_and_no_delivery() -> None:
    def told(*faults: Fault) -> list[tuple[int, int, int]]:
        rows: list[Row] = []
        SimRun(scenario(*faults), rows).execute()
        return [(row[PROCESS], row[TIME_NS], row[SENDER]) for row in rows if row[KIND] == Kind.DELIVER]

    jumps = [ClockJump(at_ms=500.0 * n, site=f"c{n % 4}-0", by_ms=(-1) ** n * 5000.0) for n in range(1, 6)]
    assert told(*jumps) == told()


def test_the_sequencer_crashes_and_the_next_one_orders() -> None:
    made = scenario(Crash(at_ms=1000, site="c0-0"))
    judged = judge(made)
    assert judged.failures() == [] and judged.summary.undelivered_count() == 0


@pytest.mark.parametrize("stack", [name for name, known in STACKS.items() if "transport" in known.options])
def test_direct_bears_crashes_and_slow_links(stack: str) -> None:
    spec = StackSpec(name=stack, transport="direct", credit=CreditOptions(window=8))
    faults = (
        DelayShift(at_ms=200, until_ms=1800, factor=0.1, source=("c0",)),
        DelayShift(at_ms=700, until_ms=900, factor=9),
        Crash(at_ms=1000, site="c0-0"),
        Recover(at_ms=1700, site="c0-0"),
    )
    topology = ring(4, 2, Channel(Constant(1)), Channel(Constant(10)))
    workloads = (Periodic(rate_per_s=20),)
    made = Scenario(topology=topology, stack=spec, workloads=workloads, faults=faults, duration_ms=3000)
    judged = judge(made)
    assert judged.failures() == []
    assert judged.summary.undelivered_count() == 0
