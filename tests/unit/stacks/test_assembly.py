"""Options given in part are laid over what the stack's name means in the topology."""

from __future__ import annotations

import msgspec
import pytest

from isthmus.core.message import SiteId
from isthmus.protocols.causal.options import CausalOptions
from isthmus.protocols.total.hybrid.wire import HybridOptions
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Poisson
from isthmus.stacks.assembly import resolve_options
from isthmus.stacks.registry import STACKS, StackOptions
from isthmus.topology.delay import Constant
from isthmus.topology.gateways.lans import one_lan
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

NETWORK = mesh(2, 3, Channel(Constant(1.0)), Channel(Constant(20.0)))
EVERYONE = tuple(SiteId(number) for number in range(len(NETWORK.sites)))


@pytest.mark.parametrize("stack", STACKS)
def test_without_options_a_name_means_the_same_as_in_a_scenario(stack: str) -> None:
    scenario = Scenario(topology=NETWORK, stack=StackSpec(name=stack), workloads=(Poisson(rate_per_s=5),))
    assert resolve_options(stack, NETWORK) == scenario.stack_options()


@pytest.mark.parametrize("stack", STACKS)
def test_one_option_changes_nothing_else(stack: str) -> None:
    plain, safe = resolve_options(stack, NETWORK), resolve_options(stack, NETWORK, StackOptions(safe=True))
    assert safe == msgspec.structs.replace(plain, safe=True)
    assert resolve_options(stack, NETWORK, safe) == safe


def test_a_rule_stays_the_stacks_own_unless_it_is_given() -> None:
    for given, rule in ((HybridOptions(null_ms=50), "planned"), (HybridOptions(rule="fixed"), "fixed")):
        assert resolve_options("dynamic-hybrid", NETWORK, StackOptions(hybrid=given)).hybrid.rule == rule


def test_active_sites_are_the_agents_or_as_given() -> None:
    agents = tuple(cluster.agent for cluster in NETWORK.clusters)
    assert resolve_options("hybrid", NETWORK).hybrid.active == agents
    given = StackOptions(hybrid=HybridOptions(active=EVERYONE, distances=((0.0,),)))
    assert resolve_options("hybrid", NETWORK, given).hybrid == msgspec.structs.replace(given.hybrid, rule="fixed")
    assert resolve_options("symmetric", NETWORK).hybrid.active is None


def test_lans_are_the_topologys_or_as_given() -> None:
    ungated = resolve_options("causal-separators", NETWORK, StackOptions(causal=CausalOptions(hold_max=16)))
    assert ungated.causal.lans is not None and ungated.causal.hold_max == 16
    own = StackOptions(causal=CausalOptions(lans=one_lan(EVERYONE)))
    assert resolve_options("causal-separators", NETWORK, own).causal == own.causal
    assert resolve_options("causal-vector", NETWORK).causal.lans is None
