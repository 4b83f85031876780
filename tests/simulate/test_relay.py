"""One copy per remote LAN, hardly later; an agent that dies, or a link that breaks, loses nothing."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from isthmus.core.layer import Layer, View
from isthmus.core.message import Cast, Message, SiteId, Targets
from isthmus.fuzz.judge import judge
from isthmus.protocols.transport.relay import PACK, Relay, Relayed, RelayOptions, merged
from isthmus.protocols.transport.reliable.frames import Ack, Data
from isthmus.scenario.faults import Crash
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.workload import Periodic
from isthmus.sim.run import SimRun
from isthmus.sim.site import SimPort
from isthmus.stacks.registry import STACKS
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

LAN_MS, WAN_MS = 0.5, 40.0
LAN, WAN = Channel(Constant(LAN_MS)), Channel(Constant(WAN_MS))


def scenario(lans: int, sites: int, relay: bool, stack: str = "fifo", faults: tuple[Crash, ...] = ()) -> Scenario:
    return Scenario(
        topology=mesh(lans, sites, LAN, WAN),
        stack=StackSpec(name=stack, relay=RelayOptions() if relay else None),
        workloads=(Periodic(rate_per_s=5, sites=("c1-2", "c2-0")),),
        duration_ms=1_000,
        drain_ms=60_000,
        faults=faults,
        membership=Membership(detection_ms=300),
    )


def count_copies(given: Scenario) -> tuple[Counter[tuple[SiteId, int]], list[float]]:
    """Run a scenario: how often each message leaves a LAN, and the median and the longest latency."""
    crossed: Counter[tuple[SiteId, int]] = Counter()
    send, sites = SimPort.send, given.topology.sites

    def counting(port: SimPort, targets: Targets, message: Message) -> None:
        packet = message.packet if isinstance(message, Relayed) else message
        if isinstance(packet, Data):
            wan = sum(sites[target].cluster != sites[port.site].cluster for target in targets)
            for cast in packet.subjects():
                crossed[cast.sender, cast.number] += wan
        send(port, targets, message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimPort, "send", counting)
        summary = SimRun(given).execute()
    return crossed, [summary.delivered.percentile(0.5) / 1e6, summary.delivered.maximum / 1e6]


@pytest.mark.parametrize(("lans", "sites"), [(3, 8), (12, 16)])
def test_one_copy_per_remote_lan(lans: int, sites: int) -> None:
    copies, latency = count_copies(scenario(lans, sites, relay=True))
    assert len(copies) == 10
    assert set(copies.values()) == {lans - 1}
    straight, before = count_copies(scenario(lans, sites, relay=False))
    assert set(straight.values()) == {(lans - 1) * sites}
    assert all(now <= then + LAN_MS + 0.01 for now, then in zip(latency, before, strict=True))


def test_acknowledgements_cross_once_per_lan() -> None:
    """Ten messages and their acknowledgements: each site's Ack crosses with those of its neighbours."""
    runs = {relay: SimRun(scenario(3, 8, relay)) for relay in (True, False)}
    for run in runs.values():
        run.execute()
    assert runs[True].network.wan_count * 10 < runs[False].network.wan_count


def test_what_several_acknowledge_alike_crosses_once() -> None:
    words = [Relayed(SiteId(site), sites(5), Ack((1, 2), stable)) for site, stable in ((0, 0), (1, 3), (2, 0))]
    assert merged(words) == [
        Relayed(SiteId(0), sites(5), Ack((1, 2), 0), sites(2)),
        Relayed(SiteId(1), sites(5), Ack((1, 2), 3)),
    ]


@pytest.mark.parametrize("stack", [name for name, known in STACKS.items() if "relay" in known.options])
def test_an_agent_that_dies_loses_nothing(stack: str) -> None:
    judged = judge(scenario(3, 3, relay=True, stack=stack, faults=(Crash(at_ms=430, site="c0-0"),)))
    assert judged.failures() == []


def plan_of(relay: Relay, targets: Targets) -> tuple[Targets, dict[SiteId, Targets], dict[SiteId, Targets]]:
    plan = relay.plan(targets)
    return plan.straight, dict(plan.through), dict(plan.around)


def sites(*numbers: int) -> Targets:
    return tuple(SiteId(number) for number in numbers)


class Nowhere:
    """As much of a host as a plan needs."""

    site: SiteId
    frame_bytes = 1000

    def cancel_timer(self, *_: object) -> None: ...

    def set_timer(self, *_: object) -> None: ...


class Listener(Layer):
    """The layer above, which need not know."""

    def suspect(self, site: SiteId, suspected: bool) -> None:
        pass


def relay_of(*members: int, here: int = 0) -> Relay:
    relay = Relay((0, 0, 1, 1, 1, 2))
    relay.host = Nowhere()  # type: ignore[assignment]
    relay.host.site = SiteId(here)
    relay.above = Listener()
    relay.install(View(1, sites(*members)))
    return relay


@pytest.mark.parametrize(
    ("suspected", "cut", "straight", "through", "around"),
    [
        ((), (), (0, 1, 5), {2: (2, 3, 4)}, {}),
        ((2,), (), (0, 1, 5), {3: (3, 4)}, {3: (2,)}),  # the next agent; it reaches the one that we do not
        ((2,), ((3, 2), (4, 2)), (0, 1, 5), {3: (3, 4)}, {1: (2,)}),  # no neighbour reaches it: through another LAN
        ((5,), (), (0, 1), {2: (2, 3, 4)}, {1: (5,)}),
        ((5,), ((1, 5),), (0, 1), {2: (2, 3, 4)}, {2: (5,)}),
        ((1,), (), (0, 5), {2: (2, 3, 4)}, {2: (1,)}),  # a neighbour that only others reach
        ((2, 3, 4), (), (0, 1, 5), {}, {1: (2, 3, 4)}),  # a whole LAN that is cut off from us
        ((5,), ((1, 5), (2, 5), (3, 5), (4, 5)), (0, 1, 5), {2: (2, 3, 4)}, {}),  # nobody reaches it: hope
    ],
)
def test_plans(
    suspected: tuple[int, ...],
    cut: tuple[tuple[int, int], ...],
    straight: tuple[int, ...],
    through: dict[int, tuple[int, ...]],
    around: dict[int, tuple[int, ...]],
) -> None:
    relay = relay_of(0, 1, 2, 3, 4, 5)
    relay.reaches = lambda site, other: (site, other) not in cut
    for site in suspected:
        relay.suspect(SiteId(site), True)
    found = plan_of(relay, sites(0, 1, 2, 3, 4, 5))
    assert found == (
        sites(*straight),
        {SiteId(to): sites(*rest) for to, rest in through.items()},
        {SiteId(to): sites(*rest) for to, rest in around.items()},
    )


def sent_by(relay: Relay) -> list[tuple[Targets, Message]]:
    """What a relay sends from now on."""
    found: list[tuple[Targets, Message]] = []
    relay.send = lambda targets, message: found.append((targets, message))
    return found


@pytest.mark.parametrize("neighbours", [(3,), (3, 4)])
def test_an_agent_passes_a_packet_on_to_its_neighbours(neighbours: tuple[int, ...]) -> None:
    relay = relay_of(0, 1, 2, 3, 4, 5, here=2)
    relay.stack = SimpleNamespace(routes={Data: lambda *_: None})  # type: ignore[assignment]
    sent, packet = sent_by(relay), Data(1, Cast(SiteId(0), 1))
    relay.on_relayed(SiteId(0), Relayed(SiteId(0), sites(2, *neighbours), packet))
    assert sent == [(sites(*neighbours), Relayed(SiteId(0), (), packet))]


def test_of_the_acknowledgements_that_wait_the_last_is_sent() -> None:
    relay = relay_of(0, 1, 2, 3, 4, 5)
    sent = sent_by(relay)
    for number in (1, 2, 3):
        relay.carry(sites(2, 3), Ack((number, 0, 0, 0, 0, 0)))
    assert sent == []
    relay.timer(PACK)
    assert sent == [(sites(2), Relayed(SiteId(0), sites(2, 3), Ack((3, 0, 0, 0, 0, 0))))]


def test_a_lan_that_left_the_view_is_sent_nothing() -> None:
    relay = relay_of(0, 1, 5)
    assert plan_of(relay, sites(1, 5)) == (sites(1, 5), {}, {})


def test_a_packet_in_a_packet_does_not_decode() -> None:
    run = SimRun(scenario(3, 3, relay=True))
    run.start()
    codec = run.sites[0].ports[run.groups[0].id].stack.codec
    once = Relayed(SiteId(1), sites(2), Data(1, Cast(SiteId(1), 1)))
    assert codec.decode(codec.encode(once)) == once
    with pytest.raises(Exception, match="does not decode"):
        codec.decode(codec.encode(Relayed(SiteId(1), sites(2), once)))
