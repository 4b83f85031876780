"""Hosts that take time: CPUs, wires, tokens, own copies, bounds; and that orders hold over them as over any network."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from isthmus.core.layer import Kind
from isthmus.core.message import Cast, GroupId, Message, SiteId, Targets
from isthmus.core.validation import BadValue
from isthmus.fuzz.judge import judge
from isthmus.fuzz.scenarios import random_scenario
from isthmus.measure.summary import RunSummary
from isthmus.protocols.total.ring.ring import Token, TokenRequest
from isthmus.scenario.costs import CostSpec
from isthmus.scenario.model import GroupOfRun, GroupSpec, Scenario, StackSpec
from isthmus.scenario.packets import NetworkSpec
from isthmus.scenario.workload import Poisson
from isthmus.sim.network.costs import CostedNetwork
from isthmus.sim.network.delays import Stamp
from isthmus.sim.run import SimRun
from isthmus.sim.scheduler import Scheduler
from isthmus.stacks.registry import StackOptions
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import KIND, NUMBER, PROCESS, SENDER, TIME_NS, Row

US = 1000
A, B, C, D = (SiteId(number) for number in range(4))
SITES = (A, B, C, D)
ONE, TWO = GroupId(0), GroupId(1)
LAN = Channel(Constant(0.005))


class Bench:
    """Four sites in two groups that note what arrives: time in us, target, group, what."""

    def __init__(self, stack_name: str = "ring", **costs: object) -> None:
        spec = CostSpec(**costs)  # type: ignore[arg-type]
        stack = StackSpec(name=stack_name)
        groups = [
            GroupOfRun(number, name, SITES, stack, StackOptions(), SITES) for number, name in ((ONE, "x"), (TWO, "y"))
        ]
        self.scheduler = Scheduler()
        self.network = CostedNetwork(mesh(1, 4, LAN, LAN), self.scheduler, Random(1), spec, groups)
        self.seen: list[tuple[float, int, int, object]] = []
        for site in SITES:
            for group in (ONE, TWO):
                self.network.attach(site, group, self.receiver(site, group))

    def receiver(self, site: SiteId, group: GroupId):
        def receive(_stamp: Stamp, message: Message) -> None:
            what = message.number if isinstance(message, Cast) else type(message).__name__
            self.seen.append((self.scheduler.now_ns / US, site, group, what))

        return receive

    def send(
        self, at_us: float, source: SiteId, targets: Targets, message: Message | int, group: GroupId = ONE
    ) -> None:
        sent = Cast(source, message) if isinstance(message, int) else message
        go = lambda *_: self.network.send((source, 1), group, targets, sent, 10)  # noqa: E731
        self.scheduler.at(round(at_us * US), go)

    def run(self) -> list[tuple[float, int, int, object]]:
        assert self.scheduler.run(10**12, 100_000)
        return self.seen

    def at(self, site: SiteId, group: GroupId = ONE) -> list[tuple[float, object]]:
        return [(time, what) for time, target, where, what in self.run() if (target, where) == (site, group)]


def test_a_broadcast_takes_one_send_one_transmission_and_a_receive_at_each_target() -> None:
    bench = Bench()
    bench.send(0, A, SITES, 1)
    assert bench.run() == [(580.0, A, ONE, 1), *((585.0, site, ONE, 1) for site in (B, C, D))]
    assert bench.network.figures(RunSummary(1))["transmissions"] == 1


def test_a_batch_is_sent_carried_and_received_at_the_same_time() -> None:
    """Ten messages are through after 0.285 ms and ten receives, which is what a visit of the ring's token takes."""
    bench = Bench()
    for number in range(10):
        bench.send(0, A, (A, B), number)
    assert bench.at(B) == [(585.0 + 300 * number, number) for number in range(10)]
    assert bench.at(A) == [(580.0 + 300 * number, number) for number in range(10)], "as long over its own as anyone"


def test_except_on_a_ring_the_own_copy_is_there_at_once() -> None:
    """Other orders take it for granted: an answer that comes before what it answers would break causal order."""
    bench = Bench("causal-vector")
    bench.send(10, A, (A, B), 1)
    assert bench.at(A) == [(10.0, 1)] and bench.at(B) == [(595.0, 1)]


def test_the_wire_of_a_lan_carries_one_transmission_at_a_time() -> None:
    bench = Bench(receive_us=0.0)
    bench.send(0, A, (C,), 1)
    bench.send(0, B, (C,), 2)
    assert bench.at(C) == [(285.0, 1), (365.0, 2)]


@pytest.mark.parametrize(("lans", "second"), [((), 285.0), ((("x", "y"),), 365.0)])
def test_groups_share_a_wire_only_where_they_share_a_lan(lans: tuple[tuple[str, ...], ...], second: float) -> None:
    bench = Bench(receive_us=0.0, lans=lans)
    bench.send(0, A, (C,), 1)
    bench.send(0, B, (D,), 2, TWO)
    assert bench.at(C) == [(285.0, 1)] and bench.at(D, TWO) == [(second, 2)]


@pytest.mark.parametrize(("lans", "second"), [((), 585.0), ((("x", "y"),), 885.0)])
def test_a_site_has_a_cpu_for_each_lan(lans: tuple[tuple[str, ...], ...], second: float) -> None:
    bench = Bench(lans=lans)
    bench.send(0, A, (C,), 1)
    bench.send(0, B, (C,), 2, TWO)
    assert bench.at(C) == [(585.0, 1)] and bench.at(C, TWO) == [(second, 2)]


def test_sending_and_receiving_use_the_same_cpu() -> None:
    bench = Bench()
    bench.send(0, A, (B,), 1)
    bench.send(300, B, (C,), 2)
    assert bench.at(B) == [(585.0, 1)]
    assert bench.at(C) == [(585.0 + 200 + 85 + 300, 2)]


def test_a_token_takes_its_hop_and_nothing_else_but_waits_for_what_came_before() -> None:
    bench = Bench()
    bench.send(0, A, (B,), Token(1, 0, 0))
    assert bench.at(B) == [(1005.0, "Token")]
    bench = Bench(token_us=100.0)
    bench.send(0, A, (B,), 1)
    bench.send(0, A, (B,), Token(1, 0, 0))
    assert bench.at(B) == [(585.0, 1), (585.0, "Token")], "behind the message at the CPU of both"


@pytest.mark.parametrize(("control_free", "time"), [(False, 585.0), (True, 5.0)])
def test_control_messages_cost_as_much_unless_they_are_free(control_free: bool, time: float) -> None:
    bench = Bench(control_free=control_free)
    bench.send(0, A, (B,), TokenRequest())
    assert bench.at(B) == [(time, "TokenRequest")]


def test_what_is_for_oneself_alone_costs_nothing_and_comes_back_behind_the_rest() -> None:
    bench = Bench()
    bench.send(0, A, (A, B), 1)
    bench.send(0, A, (A,), TokenRequest())
    assert bench.at(A) == [(580.0, 1), (580.0, "TokenRequest")]


def test_a_full_queue_drops_the_next_packet_and_counts_it() -> None:
    bench = Bench(queue_max=3)
    for number in range(5):
        bench.send(0, A, (B,), number)
    assert [what for _, what in bench.at(B)] == [0, 1, 2] and bench.network.dropped_count == 2
    bench = Bench(queue_max=3)
    for number in range(12):
        bench.send(0, (A, B)[number % 2], (C,), number)  # arrives twice as fast as it is received
    assert bench.network.dropped_count == 0
    received = len(bench.at(C))
    assert received == 12 - bench.network.dropped_count and bench.network.dropped_count > 0


def test_what_waits_for_arrivals_is_called_when_the_last_receiver_is_done() -> None:
    bench, called = Bench(), []
    bench.send(0, A, SITES, 1)

    def ask(*_: object) -> None:
        bench.network.after_arrivals(lambda *_: called.append(bench.scheduler.now_ns / US))

    bench.scheduler.at(10 * US, ask)
    bench.send(400, B, SITES, 2)
    bench.run()
    assert called and 585.0 <= called[0] < 685.0, "after the first, not after what was sent later"
    bench.network.after_arrivals(lambda *_: called.append(0.0))
    bench.run()
    assert len(called) == 2


def test_costs_of_nothing_leave_every_delivery_at_others_where_it_was() -> None:
    plain = Scenario(
        topology=mesh(1, 3, LAN, LAN),
        stack=StackSpec(name="fifo", transport="direct"),
        workloads=(Poisson(rate_per_s=50),),
        duration_ms=500,
    )
    free = CostSpec(send_us=0, wire_us=0, receive_us=0, token_us=0)

    def deliveries(scenario: Scenario) -> list[tuple[int, ...]]:
        rows: list[Row] = []
        SimRun(scenario, rows).execute()
        found = [row for row in rows if row[KIND] == Kind.DELIVER and row[PROCESS] != row[SENDER]]
        return sorted((row[TIME_NS], row[PROCESS], row[SENDER], row[NUMBER]) for row in found)

    found = deliveries(plain)
    assert found and found == deliveries(msgspec.structs.replace(plain, network=NetworkSpec(costs=free)))


@pytest.mark.parametrize(
    ("lans", "key"),
    [((("x", "z"),), r"network.costs.lans\[0\]\[1\]"), ((("x",), ("x",)), r"network.costs.lans\[1\]\[0\]")],
)
def test_lans_name_groups_each_once(lans: tuple[tuple[str, ...], ...], key: str) -> None:
    with pytest.raises(BadValue, match=key):
        Scenario(
            topology=mesh(1, 2, LAN, LAN),
            stack=StackSpec(name="fifo"),
            workloads=(Poisson(rate_per_s=1),),
            groups=(GroupSpec(name="x"), GroupSpec(name="y")),
            network=NetworkSpec(costs=CostSpec(lans=lans)),
        )


@pytest.mark.parametrize(("field", "value"), [("send_us", -1.0), ("wire_us", float("nan")), ("queue_max", 0)])
def test_costs_that_make_no_sense_are_refused(field: str, value: float) -> None:
    with pytest.raises(BadValue, match=field):
        CostSpec(**{field: value})  # type: ignore[arg-type]


def test_a_packet_network_has_no_such_costs() -> None:
    with pytest.raises(BadValue, match="costs"):
        NetworkSpec(kind="packets", costs=CostSpec())


@pytest.mark.parametrize("stack", ["ring", "token-site", "symmetric", "causal-vector", "fifo"])
@pytest.mark.parametrize("seed", range(4))
def test_orders_hold_with_faults_between_hosts_that_take_time(stack: str, seed: int) -> None:
    scenario = random_scenario(stack, seed)
    costs = CostSpec(send_us=40, wire_us=20, receive_us=60, token_us=200, control_free=seed % 2 == 1)
    scenario = msgspec.structs.replace(scenario, network=NetworkSpec(costs=costs))
    assert judge(scenario).violations() == []
