"""Gateways on graphs with more than one way round: the relay rule blocks there, stability-gated stripping does not."""

from __future__ import annotations

from random import Random
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from isthmus.core.errors import InputError
from isthmus.core.layer import Host, Stack
from isthmus.core.message import SiteId, Targets
from isthmus.fuzz.judge import judge
from isthmus.fuzz.networks import randomly_linked
from isthmus.protocols.application import Application
from isthmus.protocols.causal.histories.history import SENDER, SENDER_BITS, Timestamp
from isthmus.protocols.causal.histories.relayed_order import RelayedOrder
from isthmus.protocols.causal.options import CausalPolicy
from isthmus.protocols.causal.order import CausalArrival, CausalMessage
from isthmus.protocols.transport.credit import Credit
from isthmus.scenario.faults import Crash, Fault, Recover
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.workload import Poisson, Reply
from isthmus.stacks.registry import StackOptions, bottom
from isthmus.topology.delay import Empirical
from isthmus.topology.gateways.separators import sites_of
from isthmus.topology.model import Channel
from isthmus.topology.shapes import shape

LAN = Channel(Empirical((0.2, 0.5, 1.0, 40.0)), fifo=False)
WAN = Channel(Empirical((5.0, 10.0, 20.0, 400.0)), fifo=False)
CHUNK = 10
QUICK = range(0, 10, CHUNK)
FULL = range(10, 1000, CHUNK)
BLOCKING = range(200)  # seeds, of which some must show that relays block


def scenario(seed: int, gated: bool = True, faults: tuple[Fault, ...] = ()) -> Scenario:
    """Four to six LANs joined by any connected graph; heavy-tailed delays; answers that go to any two."""
    random = Random(f"gated/{seed}")
    topology = randomly_linked(random, shape("lan-ring", random.randint(4, 6), random.randint(1, 3), LAN, WAN))
    policy = CausalPolicy(gated=gated, extended=random.random() < 0.5, entries_max=random.choice([4, 1024]))
    return Scenario(
        name="gated",
        seed=seed,
        topology=topology,
        stack=StackSpec(name="causal-separators", transport="direct", causal=policy),
        workloads=(Poisson(rate_per_s=20, to=random.choice([1, 2, 4])), Reply(probability=0.4, depth=3, to=2)),
        faults=faults,
        membership=Membership(detection_ms=20),
        duration_ms=600,
    )


def broken(first: int) -> list[str]:
    found = {seed: judge(scenario(seed)).failures() for seed in range(first, first + CHUNK)}
    return [f"{seed}: {failures[0]}" for seed, failures in found.items() if failures]


@pytest.mark.parametrize("first", QUICK)
def test_some_graphs(first: int) -> None:
    assert broken(first) == []


@pytest.mark.full
@pytest.mark.parametrize("first", FULL)
def test_all_graphs(first: int) -> None:
    assert broken(first) == []


def test_gateways_fail() -> None:
    for seed in range(5):
        faults = (
            Crash(at_ms=200, site="c1-right"),
            Crash(at_ms=250, site="c2-left"),
            Recover(at_ms=400, site="c1-right"),
        )
        assert judge(scenario(seed, faults=faults)).failures() == []


def test_members_agree_on_views() -> None:
    plain = scenario(3, faults=(Crash(at_ms=200, site="c1-right"),))
    stack = msgspec.structs.replace(plain.stack, transport="reliable")
    agreed = msgspec.structs.replace(plain, stack=stack, membership=Membership(kind="agreed"), drain_ms=60_000)
    assert judge(agreed).failures() == []


def test_without_the_gate_such_graphs_are_refused() -> None:
    with pytest.raises(InputError, match=r"with more than one way round; expected .* or `gated = true`"):
        for seed in range(10):
            scenario(seed, gated=False)


def test_relays_that_tell_again_block_there() -> None:
    with patch("isthmus.stacks.assembly.check_served"):
        assert any(judge(scenario(seed, gated=False)).failures() for seed in BLOCKING)


class OpenGate(RelayedOrder):
    """Leaves entries of its LAN out, and waits for nobody."""

    __slots__ = ()

    def leave(self, message: CausalMessage[Any], targets: Targets, timestamp: Timestamp) -> None:
        assert self.gate is not None
        here = self.here()
        for key, address, _, _ in timestamp:
            for site in sites_of(address & here):
                self.gate.known[site, key & SENDER] = key >> SENDER_BITS
        super().leave(message, targets, timestamp)


class RelaysReadyOnly(RelayedOrder):
    """Relays what is new to it alone."""

    __slots__ = ()

    def read(self, source: SiteId, message: CausalMessage[Any]) -> CausalArrival | None:
        if message.count <= self.delivered.get(message.origin, 0):
            return None
        return super().read(source, message)


@pytest.mark.parametrize("wrong", [OpenGate, RelaysReadyOnly])
def test_a_wrong_gate_is_found(wrong: type[RelayedOrder]) -> None:
    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        order = wrong(options.causal)
        return Stack(host, application, Credit(options.credit), order, *bottom(options, fifo=False))

    assert any(judge(scenario(seed), build).failures() for seed in range(20))
