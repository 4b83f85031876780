"""Gateways that fail, links that change, and views in between: nothing is lost, nothing is out of order."""

from __future__ import annotations

import pytest

from isthmus.core.errors import InputError
from isthmus.core.layer import Host, Stack
from isthmus.fuzz.judge import judge
from isthmus.fuzz.scenarios import random_scenario
from isthmus.protocols.application import Application
from isthmus.protocols.causal.histories.relayed_order import RelayedOrder
from isthmus.protocols.transport.credit import Credit
from isthmus.scenario.faults import Crash, Fault, Recover, Relink
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.workload import Poisson, Reply
from isthmus.stacks.registry import StackOptions, bottom
from isthmus.topology.delay import Gamma
from isthmus.topology.gateways.lans import Lans
from isthmus.topology.model import Channel
from isthmus.topology.shapes import shape

LAN = Channel(Gamma(1.5, 1.0, 0.5), fifo=False)
WAN = Channel(Gamma(60.0, 50.0**2, 20.0), fifo=False)
ROW = (("c2-right", "c0-left"), ("c0-right", "c3-left"), ("c3-right", "c1-left"))


def scenario(*faults: Fault, transport: str = "direct", stagger_ms: float = 0.0) -> Scenario:
    """A ring of four LANs with two hosts each, which write to any three and answer each other."""
    return Scenario(
        name="views",
        topology=shape("lan-ring", 4, 2, LAN, WAN),
        stack=StackSpec(name="causal-separators", transport=transport),  # type: ignore[arg-type]
        workloads=(Poisson(rate_per_s=10, to=3), Reply(probability=0.3, depth=3, to=2)),
        faults=faults,
        membership=Membership(detection_ms=20, stagger_ms=stagger_ms),
        duration_ms=2_000,
    )


@pytest.mark.parametrize("transport", ["direct", "reliable"])
@pytest.mark.parametrize("stagger_ms", [0.0, 80.0])
def test_a_twin_takes_over_and_hands_back(transport: str, stagger_ms: float) -> None:
    faults = (Crash(at_ms=700, site="c1-right"), Recover(at_ms=1_300, site="c1-right"))
    assert judge(scenario(*faults, transport=transport, stagger_ms=stagger_ms)).failures() == []


def test_all_gateways_of_a_lan_fail_and_a_host_serves() -> None:
    faults = (Crash(at_ms=600, site="c1-right"), Crash(at_ms=900, site="c1-left"))
    assert judge(scenario(*faults)).failures() == []


@pytest.mark.parametrize("transport", ["direct", "reliable"])
@pytest.mark.parametrize("stagger_ms", [0.0, 80.0])
def test_links_change_under_way(transport: str, stagger_ms: float) -> None:
    faults = (Relink(at_ms=600, links=ROW), Crash(at_ms=610, site="c0-left"), Relink(at_ms=1_200, links=ROW[::-1]))
    assert judge(scenario(*faults, transport=transport, stagger_ms=stagger_ms)).failures() == []


class Deaf(RelayedOrder):
    """Does not hear that links have changed."""

    __slots__ = ()

    def relink(self, view_id: int, lans: Lans) -> None:
        pass


def test_a_site_that_keeps_the_old_links_is_found() -> None:
    def deaf(host: Host, application: Application, options: StackOptions) -> Stack:
        order = (Deaf if host.site == 0 else RelayedOrder)(options.causal)
        return Stack(host, application, Credit(options.credit), order, *bottom(options, fifo=False))

    assert judge(scenario(Relink(at_ms=600, links=ROW)), deaf).failures()


def test_links_that_relays_do_not_serve_are_refused() -> None:
    both = (*ROW, ("c1-right", "c2-left"), ("c0-left", "c1-left"))
    with pytest.raises(InputError, match="4 LANs joined by 5 links, with more than one way round"):
        scenario(Relink(at_ms=1, links=both))
    with pytest.raises(InputError, match=r"faults\[0\].links\[0\]: found 'nowhere'"):
        scenario(Relink(at_ms=1, links=(("nowhere", "c0-left"),)))


def test_random_scenarios_have_gateways_fail_and_links_change() -> None:
    made = [random_scenario("causal-separators", seed) for seed in range(150)]
    kinds = [{type(fault) for fault in scenario.faults} for scenario in made]
    assert sum(Relink in found for found in kinds) > 20
    assert sum({Relink, Crash} <= found for found in kinds) > 5
