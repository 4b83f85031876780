"""The network alone: delays, order, loss, repetition, bandwidth, paths, faults."""

from __future__ import annotations

from random import Random

import pytest

from isthmus.core.message import ONLY_GROUP, Cast, GroupId, SiteId
from isthmus.scenario.faults import DelayShift, Fault, Heal, Loss, Partition
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Poisson
from isthmus.sim.network.delays import DelayNetwork, Stamp
from isthmus.sim.run import SimRun
from isthmus.sim.scheduler import Scheduler
from isthmus.topology.delay import Constant, Delay, Gamma, Normal, Uniform
from isthmus.topology.model import Channel, Cluster, Override, Topology, TopologySite, WanLink
from isthmus.topology.shapes import mesh, star

MS = 1_000_000
LAN = Channel(Constant(1))
A, B, C, D = (SiteId(number) for number in range(4))


class Bench:
    """A network whose sites note what arrives: time in ms, source, target, number."""

    def __init__(self, topology: Topology, seed: int = 1) -> None:
        self.scheduler = Scheduler()
        self.network = DelayNetwork(topology, self.scheduler, Random(seed))
        self.seen: list[tuple[float, int, int, int]] = []
        for number in range(len(topology.sites)):
            self.attach(SiteId(number))

    def attach(self, site: SiteId) -> None:
        def receive(stamp: Stamp, message: Cast) -> None:
            self.seen.append((self.scheduler.now_ns / MS, stamp[0], site, message.number))

        self.network.attach(site, ONLY_GROUP, receive)

    def send(self, at_ms: float, source: SiteId, targets: tuple[SiteId, ...], number: int = 0, size: int = 100) -> None:
        message = Cast(source, number)
        at_ns, stamp = round(at_ms * MS), (source, 1)
        self.scheduler.at(at_ns, lambda *_: self.network.send(stamp, ONLY_GROUP, targets, message, size))

    def run(self, until_ms: float = 1e6) -> list[tuple[float, int, int, int]]:
        assert self.scheduler.run(round(until_ms * MS), 1_000_000)
        return self.seen

    def numbers(self) -> list[int]:
        return [number for _, _, _, number in self.run()]


def pair(wan: Channel) -> Topology:
    return mesh(2, 1, LAN, wan)


def test_a_constant_delay_is_constant_and_oneself_is_reached_at_once() -> None:
    bench = Bench(mesh(2, 2, LAN, Channel(Constant(10))))
    bench.send(5, A, (A, B, C, D))
    assert bench.run() == [(5, 0, 0, 0), (6, 0, 1, 0), (15, 0, 2, 0), (15, 0, 3, 0)]
    assert bench.network.packet_count == 4 and bench.scheduler.event_count == 1 + 4


VARIOUS: list[Delay] = [Uniform(0, 50), Normal(20, 10), Gamma(20, 100, 5)]


@pytest.mark.parametrize("delay", VARIOUS, ids=lambda delay: type(delay).__name__)
def test_where_order_is_kept_nothing_overtakes(delay: Delay) -> None:
    kept, free = Bench(pair(Channel(delay))), Bench(pair(Channel(delay, fifo=False)))
    for bench in (kept, free):
        for number in range(500):
            bench.send(number, A, (B,), number)
    assert kept.numbers() == list(range(500))
    assert sorted(free.numbers()) == list(range(500)) != free.numbers()


def test_ways_of_different_pairs_do_not_wait_for_each_other() -> None:
    bench = Bench(mesh(3, 1, LAN, Channel(Uniform(0, 100))))
    for number in range(200):
        bench.send(number, A, (B, C), number)
    order = {target: [n for _, _, t, n in bench.run() if t == target] for target in (1, 2)}
    assert order[1] == order[2] == list(range(200))
    arrivals = {target: [time for time, _, t, _ in bench.seen if t == target] for target in (1, 2)}
    assert arrivals[1] != arrivals[2]


def test_loss_and_repetition_come_at_their_rates() -> None:
    bench = Bench(pair(Channel(Constant(1), loss=0.2, duplicate=0.1)))
    for number in range(10_000):
        bench.send(number, A, (B,), number)
    arrived = len(set(bench.numbers()))
    assert arrived == pytest.approx(8000, rel=0.03) and bench.network.dropped_count == 10_000 - arrived
    assert len(bench.seen) - arrived == pytest.approx(800, rel=0.15)


def test_the_seed_decides() -> None:
    def arrivals(seed: int) -> list[tuple[float, int, int, int]]:
        bench = Bench(pair(Channel(Uniform(0, 9), loss=0.3, duplicate=0.1, fifo=False)), seed)
        for number in range(200):
            bench.send(number, A, (B,), number)
        return bench.run()

    assert arrivals(1) == arrivals(1) != arrivals(2)


def test_packets_queue_where_bandwidth_is_limited() -> None:
    bench = Bench(pair(Channel(Constant(10), bandwidth_mbps=8)))  # a byte a microsecond
    for number in range(3):
        bench.send(0, A, (B,), number, size=2000)
    bench.send(100, A, (B,), 3, size=500)
    assert [time for time, *_ in bench.run()] == [12, 14, 16, 110.5]
    assert bench.network.needs_sizes and not Bench(pair(LAN)).network.needs_sizes


def test_all_senders_share_a_wan_link_and_each_has_its_own_port_on_the_lan() -> None:
    limited = Channel(Constant(10), bandwidth_mbps=8)
    wan = Bench(mesh(2, 2, LAN, limited))
    wan.send(0, A, (C,), 1, 1000)
    wan.send(0, B, (D,), 2, 1000)
    wan.send(0, C, (A,), 3, 1000)  # the way back is another
    assert wan.run() == [(11, 0, 2, 1), (11, 2, 0, 3), (12, 1, 3, 2)]
    lan = Bench(mesh(1, 3, limited, LAN))
    lan.send(0, A, (B, C), 1, 1000)
    lan.send(0, B, (C,), 2, 1000)
    assert lan.run() == [(11, 0, 1, 1), (11, 1, 2, 2), (12, 0, 2, 1)]


def test_a_pair_with_a_channel_of_its_own_shares_it_with_nobody() -> None:
    wan, own = Channel(Constant(10), bandwidth_mbps=8), Channel(Constant(10), bandwidth_mbps=80)
    sites = tuple(TopologySite(name, number // 2) for number, name in enumerate("abcd"))
    clusters = (Cluster("x", (A, B), A, wan), Cluster("y", (C, D), C, wan))
    overrides = (Override(A, C, own, own), Override(A, B, own, own))
    topology = Topology("net", sites, clusters, (WanLink(0, 1, wan, wan),), overrides)
    bench = Bench(topology)
    bench.send(0, A, (B, C, D), 1, 1000)
    bench.send(0, B, (C,), 2, 1000)
    assert bench.run() == [(10.1, 0, 1, 1), (10.1, 0, 2, 1), (11, 0, 3, 1), (12, 1, 2, 2)]


def test_delays_and_losses_of_a_path_add_up() -> None:
    bench = Bench(star(3, 1, LAN, Channel(Constant(10))))  # from c1 to c2 over c0
    bench.send(0, B, (C, A))
    assert bench.run() == [(10, 1, 0, 0), (20, 1, 2, 0)]
    lossy = Bench(star(3, 1, LAN, Channel(Constant(10), loss=0.5)))
    for number in range(4000):
        lossy.send(number, B, (C,), number)
    assert len(lossy.run()) == pytest.approx(1000, rel=0.1)


# Faults, struck as a run strikes them


class FaultBench(Bench):
    """A bench whose faults a run carries out."""

    def __init__(self, topology: Topology, *faults: Fault) -> None:
        workloads = (Poisson(rate_per_s=1, count=0),)
        scenario = Scenario(topology=topology, stack=StackSpec(name="fifo"), workloads=workloads, faults=faults)
        self.running = SimRun(scenario)
        self.scheduler, self.network, self.seen = self.running.scheduler, self.running.network, []
        for number in range(len(topology.sites)):
            self.attach(SiteId(number))


CONSTANT = Channel(Constant(10))


def test_a_loss_fault_on_a_constant_link_takes_effect_and_ends() -> None:
    bench = FaultBench(mesh(3, 1, LAN, CONSTANT), Loss(at_ms=100, until_ms=200, probability=1, target=("c1-0",)))
    for number in range(300):
        bench.send(number + 0.5, A, (B, C), number)
    bench.run()
    assert [n for _, _, target, n in bench.seen if target == B] == [*range(100), *range(200, 300)]
    assert [n for _, _, target, n in bench.seen if target == C] == list(range(300))
    assert all(time == n + 10.5 for time, _, _, n in bench.seen)


def test_a_loss_fault_loses_its_share_on_top_of_the_link() -> None:
    bench = FaultBench(
        pair(Channel(Constant(10), loss=0.5)), Loss(at_ms=0, until_ms=5000, probability=0.5, source=("c0",))
    )
    for number in range(5000):
        bench.send(number + 0.5, A, (B,), number)
        bench.send(number + 0.5, B, (A,), number)
    bench.run()
    assert sum(target == B for _, _, target, _ in bench.seen) == pytest.approx(1250, rel=0.1)
    assert sum(target == A for _, _, target, _ in bench.seen) == pytest.approx(2500, rel=0.1)


@pytest.mark.parametrize("factor", [0.0, 0.1, 3.0, 20.0])
@pytest.mark.parametrize("delay", [Constant(10), Uniform(5, 15)], ids=["constant", "uniform"])
def test_a_delay_shift_never_reorders_a_link_that_keeps_order(factor: float, delay: Delay) -> None:
    shifts = [DelayShift(at_ms=50, until_ms=100, factor=factor), DelayShift(at_ms=70, until_ms=130, factor=0.5)]
    bench = FaultBench(mesh(3, 1, LAN, Channel(delay)), *shifts)
    for number in range(400):
        bench.send(number + 0.5, A, (B, C), number)
    bench.run()
    for target in (B, C):
        assert [n for _, _, t, n in bench.seen if t == target] == list(range(400))
    if delay == Constant(10):
        late = [time - n - 0.5 for time, _, _, n in bench.seen]
        assert set(late[:98]) == {10} and set(late[-100:]) == {10}, "before and long after, the delay is its own"
        assert len(set(late)) > 1


def test_a_delay_shift_adds_and_multiplies_while_it_lasts() -> None:
    bench = FaultBench(pair(CONSTANT), DelayShift(at_ms=50, until_ms=100, factor=2, add_ms=5))
    for at_ms in (40, 60, 120, 150):
        bench.send(at_ms, A, (B,), at_ms)
    assert [time for time, *_ in bench.run()] == [50, 85, 130, 160]


def test_after_a_shift_multicasts_share_their_entries_again() -> None:
    bench = FaultBench(mesh(3, 1, LAN, CONSTANT), DelayShift(at_ms=50, until_ms=100, factor=9))
    plans = []
    for at_ms in (10, 60, 120, 500):
        bench.send(at_ms, A, (B, C), at_ms)
        bench.scheduler.at(round(at_ms * MS), lambda *_: plans.append(bench.network.plans[A, ONLY_GROUP, (B, C)]))
    bench.run()
    assert [steps is None for _, steps in plans] == [False, True, True, False]


def test_a_partition_cuts_between_the_groups_and_heals() -> None:
    faults = (Partition(at_ms=100, groups=(("c0",), ("c1-0", "c2-0"))), Heal(at_ms=200))
    bench = FaultBench(mesh(4, 1, LAN, CONSTANT), *faults)
    for at_ms in (99, 150, 250):
        for source in range(4):
            bench.send(at_ms, SiteId(source), tuple(SiteId(t) for t in range(4) if t != source), at_ms)
    bench.run()
    through = {at: {(s, t) for _, s, t, n in bench.seen if n == at} for at in (99, 150, 250)}
    assert len(through[99]) == len(through[250]) == 12  # what was under way at the cut arrives
    assert through[150] == {(1, 2), (2, 1)}, "c3-0, not named, is on its own"
    assert bench.network.dropped_count == 10


def test_partitions_add_up_until_the_heal() -> None:
    cuts = (Partition(at_ms=10, groups=(("c0",),)), Partition(at_ms=20, groups=(("c1",),)), Heal(at_ms=30))
    bench = FaultBench(mesh(3, 1, LAN, CONSTANT), *cuts)
    for at_ms in (15, 25, 35):
        bench.send(at_ms, B, (A, C), at_ms)
    assert [(t, n) for _, _, t, n in bench.run()] == [(2, 15), (0, 35), (2, 35)]


def test_who_is_attached_anew_gets_what_is_sent_from_then_on() -> None:
    bench = Bench(mesh(2, 1, LAN, CONSTANT))
    late: list[int] = []
    bench.send(0, A, (B,), 1)
    bench.send(5, A, (B,), 2)
    again = lambda stamp, message: late.append(message.number)  # noqa: E731
    bench.scheduler.at(4 * MS, lambda *_: bench.network.attach(B, ONLY_GROUP, again))
    assert bench.numbers() == [1] and late == [2]


def test_a_stamp_travels_with_its_packet_and_groups_are_apart() -> None:
    bench = Bench(mesh(3, 1, LAN, CONSTANT))
    other, got = GroupId(1), []
    for site in (B, C):
        receive = lambda stamp, message, site=site: got.append((site, stamp, message.number))  # noqa: E731
        bench.network.attach(site, other, receive)
    bench.network.send((A, 7), other, (B, C), Cast(A, 1), 10)
    bench.network.send((A, 8), other, (A, B), Cast(A, 2), 10)  # where A is not in the group
    assert bench.run() == [], "nobody of the first group hears of it"
    assert got == [(B, (A, 7), 1), (C, (A, 7), 1), (B, (A, 8), 2)]


def test_links_are_made_when_they_are_first_used() -> None:
    bench = Bench(mesh(50, 2, LAN, CONSTANT))
    assert not bench.network.links
    bench.send(0, A, (A, B, C), 1)
    bench.run()
    assert sorted(bench.network.links) == [(A, B), (A, C)]


def test_the_latest_arrival_is_known() -> None:
    bench = Bench(mesh(3, 1, LAN, Channel(Uniform(5, 50))))
    bench.send(0, A, (B, C), 1)
    bench.run(0)
    assert bench.network.latest_ns == max(round(time * MS) for time, *_ in bench.run())
