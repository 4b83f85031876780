"""Causal stacks whose members agree on views: gateways fail, LANs are cut off, sites leave; wrong flushes are found."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from isthmus.core.layer import Host, Stack
from isthmus.core.message import SiteId
from isthmus.fuzz.agreed import agreed_scenario
from isthmus.fuzz.judge import judge
from isthmus.protocols.application import Application
from isthmus.protocols.causal.histories.relayed_order import DeliveredUpTo, RelayedOrder
from isthmus.protocols.causal.order import CausalArrival, CausalMessage
from isthmus.protocols.transport.credit import Credit
from isthmus.scenario.faults import Crash, Fault, Heal, Leave, Partition, Recover
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.workload import Poisson, Reply
from isthmus.stacks.registry import STACKS, StackOptions, bottom
from isthmus.topology.delay import Gamma
from isthmus.topology.model import Channel
from isthmus.topology.shapes import shape

LAN = Channel(Gamma(1.5, 1.0, 0.5), loss=0.02, fifo=False)
WAN = Channel(Gamma(60.0, 50.0**2, 20.0), loss=0.02, fifo=False)
CAUSAL = [name for name, stack in STACKS.items() if "causal" in stack.properties and not stack.steady]
TROUBLES: dict[str, tuple[Fault, ...]] = {
    "a gateway fails": (Crash(at_ms=700, site="c1-right"),),
    "a gateway fails and comes back": (Crash(at_ms=700, site="c1-right"), Recover(at_ms=1_900, site="c1-right")),
    "both gateways of a LAN fail": (Crash(at_ms=600, site="c1-right"), Crash(at_ms=900, site="c1-left")),
    "gateways of two LANs fail": (Crash(at_ms=600, site="c1-right"), Crash(at_ms=650, site="c2-left")),
    "a gateway leaves": (Leave(at_ms=700, site="c2-left"),),
    "a LAN is cut off": (Partition(at_ms=600, groups=(("c1",),)), Heal(at_ms=2_000)),
}
TELLING = (15, 6, 4, 2, 18)  # seeds of which one at least must show a planted bug


def scenario(stack: str, faults: tuple[Fault, ...]) -> Scenario:
    """A ring of three LANs with two hosts each, which write to any three and answer each other."""
    return Scenario(
        name="agreed",
        topology=shape("lan-ring", 3, 2, LAN, WAN),
        stack=StackSpec(name=stack),
        workloads=(Poisson(rate_per_s=10, to=3), Reply(probability=0.3, depth=3, to=2)),
        faults=faults,
        membership=Membership(kind="agreed"),
        duration_ms=3_000,
        drain_ms=60_000,
    )


@pytest.mark.parametrize("stack", CAUSAL)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_nothing_is_lost_or_out_of_order(stack: str, trouble: str) -> None:
    assert judge(scenario(stack, TROUBLES[trouble])).failures() == []


SAFE = ("causal-history", "causal-separators")


def safely(made: Scenario, gated: bool = False) -> Scenario:
    """The same with safe delivery, and gateways that pass on early."""
    causal = msgspec.structs.replace(made.stack.causal, gated=gated)
    stack = msgspec.structs.replace(made.stack, safe=True, causal=causal)
    return msgspec.structs.replace(made, stack=stack)


@pytest.mark.parametrize("stack", SAFE)
@pytest.mark.parametrize("trouble", ["a gateway fails and comes back", "a LAN is cut off"])
def test_what_is_delivered_safely_all_who_go_on_have(stack: str, trouble: str) -> None:
    judged = judge(safely(scenario(stack, TROUBLES[trouble])))
    assert judged.failures() == []
    assert {"uniform-agreement", "sending-view"} <= {verdict.property for verdict in judged.verdicts}


def test_safe_delivery_with_gateways_that_pass_on_early() -> None:
    made = safely(scenario("causal-separators", TROUBLES["a gateway fails"]), gated=True)
    assert judge(made).failures() == []


class DeliversAtOnce(RelayedOrder):
    """Delivers what may be lost."""

    __slots__ = ()

    def is_safe(self, message: CausalMessage[Any]) -> bool:
        return True


class CountsNobody(RelayedOrder):
    """Tells that a message is safe once anybody has it."""

    __slots__ = ()

    def has_quorum(self, destinations: int, lacking: int) -> bool:
        return True


class LetsPass(RelayedOrder):
    """Lets what is safe pass what is not."""

    __slots__ = ()

    def deliver_safe(self) -> None:
        assert self.pending is not None
        for item in [item for item in self.pending if self.is_safe(item.message)]:
            self.pending.remove(item)
            self.above.deliver(self.as_submitted(item.message))


@pytest.mark.parametrize(
    ("kind", "seeds"),
    [
        (DeliversAtOnce, (7, 12, 23)),
        pytest.param(CountsNobody, (7, 23, 24), marks=pytest.mark.full),
        pytest.param(LetsPass, (5, 12, 13), marks=pytest.mark.full),
    ],
)
def test_a_wrong_reading_of_safe_delivery_is_found(kind: type[RelayedOrder], seeds: tuple[int, ...]) -> None:
    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        hops = msgspec.structs.replace(options, safe=False)
        return Stack(
            host, application, Credit(options.credit), kind(options.causal, safe=True), *bottom(hops, fifo=False)
        )

    for seed in seeds:
        made = safely(agreed_scenario("causal-separators", seed))
        if judge(made, build).violations() and not judge(made).violations():
            return
    pytest.fail(f"{kind.__name__} was not found")


class ReportsItsOwn(RelayedOrder):
    """Reports what it has sent, and not what others have sent."""

    __slots__ = ()

    def holding(self, origin: SiteId) -> tuple[int, list[int], list[int]]:
        floor, kept, held = super().holding(origin)
        return floor, kept if origin == self.host.site else [], held


class AcknowledgesArrival(RelayedOrder):
    """Acknowledges what has come, although it waits for others."""

    __slots__ = ()

    def read(self, source: SiteId, message: CausalMessage[Any]) -> CausalArrival | None:
        item = super().read(source, message)
        if item is not None and item.message.cast.number and item.destinations >> self.host.site & 1:
            self.send((item.message.origin,), DeliveredUpTo(item.message.count))
        return item


class DropsTheRest(RelayedOrder):
    """Opens a view without delivering what the flush has left."""

    __slots__ = ()

    def left_over(self) -> list[CausalArrival]:
        return []


@pytest.mark.parametrize("wrong", [ReportsItsOwn, AcknowledgesArrival, DropsTheRest])
def test_a_wrong_flush_is_found(wrong: type[RelayedOrder]) -> None:
    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        order = wrong(options.causal)
        return Stack(host, application, Credit(options.credit), order, *bottom(options, fifo=False))

    assert any(judge(agreed_scenario("causal-separators", seed), build).violations() for seed in TELLING)
