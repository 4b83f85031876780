"""A path that is full slows down what goes over it, and nothing else; every run comes to rest."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from bench.congestion import CASES, SLOW, measure, scenario
from bench.simulator import scenario as uncongested

from isthmus.core.layer import Kind
from isthmus.core.message import SiteId
from isthmus.fuzz.judge import judge
from isthmus.fuzz.scenarios import hard_scenario, random_scenario
from isthmus.judge.oracle import Oracle
from isthmus.protocols.transport.base import Transport
from isthmus.protocols.transport.credit import LIST_BYTES
from isthmus.protocols.transport.reliable.frames import ReliableOptions
from isthmus.protocols.transport.reliable.reliable import Reliable
from isthmus.scenario.faults import Crash, DelayShift
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.workload import Poisson
from isthmus.sim.run import SimRun
from isthmus.stacks.registry import STACKS
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import KIND, NUMBER, SENDER, TIME_NS, Row

CONGESTED = Path(__file__).parent / "congested.json"
REST_S, PACKETS_MOST = 60, 120_000  # 23 s and 54,000 packets when this was written
SHORT_MS = 6_000.0
replace = msgspec.structs.replace


def load(path: Path) -> Scenario:
    """A scenario as it was written out, whatever generators make of its seed today."""
    return msgspec.json.decode(path.read_bytes(), type=Scenario)


def everywhere(given: Scenario, mbps: float) -> Scenario:
    """The same with every channel of the same small bandwidth."""
    topology = given.topology
    clusters = tuple(replace(c, lan=replace(c.lan, bandwidth_mbps=mbps)) for c in topology.clusters)
    links = tuple(
        replace(link, forward=replace(link.forward, bandwidth_mbps=mbps), back=replace(link.back, bandwidth_mbps=mbps))
        for link in topology.links
    )
    return replace(given, topology=replace(topology, clusters=clusters, links=links))


def test_a_full_link_that_reorders_comes_to_rest() -> None:
    """Six sites ordered by tickets over a link of 1 Mbit/s that loses 4 %, repeats 16 % and reorders, with room for
    four frames ahead of a gap. Each site once asked for all that it lacked at every progress, and was sent up to 64
    frames for each request, most of which it had no room for: 2.1 million packets, and a queue of 560 s that grew."""
    rows: list[Row] = []
    run = SimRun(load(CONGESTED), rows)
    run.execute()
    assert run.at_rest()
    assert run.scheduler.now_ns < REST_S * 1e9
    assert run.network.packet_count < PACKETS_MOST
    verdicts = Oracle(rows).verdicts(STACKS["hybrid"].properties)
    assert {verdict.status for verdict in verdicts} == {"valid"}


@pytest.mark.parametrize("case", CASES)
def test_a_slow_link_is_used_and_the_others_do_not_notice(case: str) -> None:
    alone = measure(scenario(CASES[case], overload=0, duration_ms=SHORT_MS))
    found = measure(scenario(CASES[case], duration_ms=SHORT_MS))
    assert found.goodput >= 0.7
    assert found.packets <= 1.5
    assert found.backlog_ms <= 500
    assert found.side >= 0.9 * alone.side
    assert found.side_ms == alone.side_ms


def test_what_is_deferred_is_delivered_in_the_end() -> None:
    given = replace(scenario(CASES["both"], senders=4, duration_ms=2_000), drain_ms=60_000)
    run = SimRun(given)
    run.start()
    for _ in run.advance(run.end_ns):
        pass
    path = reliable_of(run, 0).paths.of[SLOW]
    assert len(path.deferred) > 10
    assert not reliable_of(run, 0).settled()
    for _ in run.advance(run.end_ns + 30_000_000_000):
        pass
    assert run.at_rest()
    assert not path.deferred
    assert reliable_of(run, SLOW).streams[SiteId(0)].arrived == reliable_of(run, 0).paths.sent(path)


def test_what_is_deferred_is_unstable_and_a_flush_gives_it_to_everybody() -> None:
    """The sender of an overload crashes, or another member does, while frames are deferred."""
    for crashed in (0, 1):
        given = scenario(CASES["both"], duration_ms=3_000)
        given = replace(
            given,
            faults=(Crash(at_ms=2_000, site=given.topology.sites[crashed].name),),
            membership=Membership(detection_ms=50, stagger_ms=20),
            drain_ms=60_000,
        )
        rows: list[Row] = []
        run = SimRun(given, rows)
        run.start()
        for _ in run.advance(1_990_000_000):
            pass
        sender = reliable_of(run, 0)
        deferred = list(sender.paths.of[SLOW].deferred)
        assert len(deferred) > 10
        assert set(deferred) <= set(sender.unstable(SiteId(0)))
        for _ in run.advance(60_000_000_000):
            pass
        assert run.at_rest()
        assert not reliable_of(run, SLOW).paths.limited()
        verdicts = {verdict.property: verdict.status for verdict in Oracle(rows).verdicts(STACKS["fifo"].properties)}
        assert verdicts["agreement"] == verdicts["fifo"] == "valid"
        assert "violated" not in verdicts.values()


def test_a_small_buffer_in_bytes_binds_and_lets_go() -> None:
    given = scenario(CASES["plain"], duration_ms=3_000)
    reliable = ReliableOptions(keep_max_bytes=50_000, ack_every_bytes=10_000)
    given = replace(given, stack=StackSpec(name="fifo", reliable=reliable), drain_ms=60_000)
    run, worst = SimRun(given), 0
    run.start()
    for until_ms in range(0, 3_000, 10):
        for _ in run.advance(until_ms * 1_000_000):
            pass
        worst = max(worst, *(reliable_of(run, site).kept_bytes for site in range(5)))
    assert 45_000 < worst <= 50_000 + LIST_BYTES + 2_100  # one list over, which may end with a whole frame
    for _ in run.advance(60_000_000_000):
        pass
    assert run.at_rest()
    assert run.summary.undelivered_count() == 0


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("seed", range(4))
def test_every_stack_bears_narrow_channels(stack: str, seed: int) -> None:
    """All channels of 1 Mbit/s, views that members install at times of their own."""
    given = everywhere((hard_scenario if seed % 2 else random_scenario)(stack, seed), 1.0)
    given = replace(given, membership=replace(given.membership, stagger_ms=50.0))
    judged = judge(given)
    assert judged.violations() == []
    assert judged.summary.undelivered_count() == 0


def test_nothing_is_held_back_where_nothing_is_full() -> None:
    run = SimRun(replace(uncongested("reliable"), duration_ms=2_000))
    deferrals = 0
    run.start()
    for until_ms in range(0, 2_000, 50):
        for _ in run.advance(until_ms * 1_000_000):
            pass
        deferrals += sum(len(reliable_of(run, site).paths.limited()) for site in range(10))
    assert deferrals == 0


def reliable_of(run: SimRun, site: int) -> Reliable:
    transport = run.sites[site].ports[run.groups[0].id].stack.find(Transport)
    assert isinstance(transport, Reliable)
    return transport


@pytest.mark.parametrize("per_s", [30.0, 100.0])
@pytest.mark.parametrize("fast_ms", [20.0, 50.0])
def test_a_path_that_becomes_longer_is_not_taken_for_a_full_one(fast_ms: float, per_s: float) -> None:
    """As where a link fails and routes go round. The window of such a path was once cut to four frames of 64 bytes, and
    stayed there for eight judgements: messages of a few bytes a second took up to ten seconds."""
    shift = {"at_ms": 8_000.0, "until_ms": 60_000.0, "add_ms": 200.0}
    names = ("c0-0",), ("c1-0",)
    made = Scenario(
        topology=mesh(2, 1, Channel(Constant(1.0)), Channel(Constant(fast_ms))),
        stack=StackSpec(name="fifo"),
        workloads=(Poisson(rate_per_s=per_s),),
        faults=(
            DelayShift(source=names[0], target=names[1], **shift),
            DelayShift(source=names[1], target=names[0], **shift),
        ),
        duration_ms=60_000.0,
    )
    rows: list[Row] = []
    SimRun(made, rows).execute()
    submitted = {(row[SENDER], row[NUMBER]): row[TIME_NS] for row in rows if row[KIND] == Kind.SUBMIT}
    took = [row[TIME_NS] - submitted[row[SENDER], row[NUMBER]] for row in rows if row[KIND] == Kind.DELIVER]
    assert max(took) <= 4 * (fast_ms + 200) * 1e6
