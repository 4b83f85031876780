"""Causal stacks whose members agree on views: gateways fail, LANs are cut off, sites leave; wrong flushes are found."""

from __future__ import annotations

from typing import Any

import pytest

from isthmus.core.layer import Host, Stack
from isthmus.core.message import SiteId
from isthmus.protocols.application import Application
from isthmus.protocols.causal.order import Item, Stamped
from isthmus.protocols.causal.relay import Received, RelayedOrder
from isthmus.protocols.transport.credit import Credit
from isthmus.scenario.faults import Crash, Fault, Heal, Leave, Partition, Recover
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.workload import Poisson, Reply
from isthmus.stacks import STACKS, StackOptions, bottom
from isthmus.testing.agreed_scenarios import agreed_scenario
from isthmus.testing.judge import judge
from isthmus.topology.delay import Gamma
from isthmus.topology.model import Channel
from isthmus.topology.shapes import shape

LAN = Channel(Gamma(1.5, 1.0, 0.5), loss=0.02, fifo=False)
WAN = Channel(Gamma(60.0, 50.0**2, 20.0), loss=0.02, fifo=False)
CAUSAL = [name for name, stack in STACKS.items() if "causal" in stack.properties and stack.agrees]
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


class ReportsItsOwn(RelayedOrder):
    """Reports what it has sent, and not what others have sent."""

    __slots__ = ()

    def holding(self, origin: SiteId) -> tuple[int, list[int], list[int]]:
        floor, kept, held = super().holding(origin)
        return floor, kept if origin == self.host.site else [], held


class AcknowledgesArrival(RelayedOrder):
    """Acknowledges what has come, although it waits for others."""

    __slots__ = ()

    def read(self, source: SiteId, message: Stamped[Any]) -> Item | None:
        item = super().read(source, message)
        if item is not None and item.message.cast.number and item.destinations >> self.host.site & 1:
            self.send((item.message.origin,), Received(item.message.count))
        return item


class DropsTheRest(RelayedOrder):
    """Opens a view without delivering what the flush has left."""

    __slots__ = ()

    def left_over(self) -> list[Item]:
        return []


@pytest.mark.parametrize("wrong", [ReportsItsOwn, AcknowledgesArrival, DropsTheRest])
def test_a_wrong_flush_is_found(wrong: type[RelayedOrder]) -> None:
    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        order = wrong(options.causal)
        return Stack(host, application, Credit(options.credit), order, *bottom(options, fifo=False))

    assert any(judge(agreed_scenario("causal-separators", seed), build).violations() for seed in TELLING)
