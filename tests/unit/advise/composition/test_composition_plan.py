"""The price of compositions against the figures of the study, and the plans that follow from it."""

from __future__ import annotations

from math import inf

import pytest
from tests.harness.compositions import star

from isthmus.advise.composition.cost import (
    LoadedMember,
    composition_cost,
    direct_cost,
    node_cost,
    ring_cost,
    token_site_cost,
)
from isthmus.advise.composition.plan import PlannedComposition, SiteFlow, gathered, plan_composition
from isthmus.advise.order.delays import delays_of
from isthmus.core.validation import BadValue
from isthmus.protocols.routing.calculus.semantics import decide_wanted
from isthmus.protocols.routing.calculus.walks import network_of
from isthmus.topology.load import topology_from_tables
from isthmus.topology.model import Topology

LAN_MS = 0.005


def lan(count: int) -> list[list[float]]:
    return [[0.0 if a == b else LAN_MS for b in range(count)] for a in range(count)]


@pytest.mark.parametrize(("count", "batch", "rotation_ms"), [(36, 10, 154), (12, 10, 51), (36, 30, 370), (12, 30, 123)])
def test_a_rotation_takes_what_the_study_says(count: int, batch: int, rotation_ms: float) -> None:
    """n visits of 1.285 ms and 0.3 ms per message."""
    rate = batch / (count * (1.285 + 0.3 * batch))
    cost = ring_cost([LoadedMember(site, rate * 0.999, False) for site in range(count)], lan(count))
    assert cost.worst_ms - 0.3 * batch - 0.285 == pytest.approx(rotation_ms, rel=0.02)


def test_one_ring_takes_2917_messages_per_s() -> None:
    cost = ring_cost([LoadedMember(site, 0.01, False) for site in range(36)], lan(36))
    assert 1000 * 36 * 0.01 * cost.headroom == pytest.approx(2917, rel=0.01)


@pytest.mark.parametrize(("groups", "times"), [(2, 1.83), (4, 3.34)])
def test_throughput_grows_with_the_number_of_groups(groups: int, times: float) -> None:
    """10 % between groups, half of it to all and half to one other; plain forwarding."""
    names = "ABCD"[:groups]
    flows = [f"{one}>{names}" for one in names] + [f"{one}>{other}" for one in names for other in names if one != other]
    igp = "fifo" if groups == 2 else "fifo-total"
    composition = star(dict.fromkeys(names, "fifo-total"), igp, flows=", ".join(flows))  # type: ignore[arg-type]
    network = network_of(composition, composition.domains, "all")
    whole = times * 2.917 * 0.95 / groups  # per group and ms, close to the highest load, where rings are the faster
    rates = {}
    for number, walk in enumerate(network.walks):
        share = 0.9 if walk.is_intra else 0.05 if len(walk.to) == groups else 0.05 / (groups - 1)
        rates[number] = share * whole
    size = 36 // groups
    homes = [list(range(place * size, (place + 1) * size)) for place in range(groups)] + [[]]
    cost = composition_cost(network, rates, homes, [place * size for place in range(groups)], lan(36))
    assert cost.kinds[:groups] == ("ring",) * groups
    assert cost.throughput_per_s / 2917 == pytest.approx(times, rel=0.03)


def test_the_faster_total_order_is_taken() -> None:
    delays = [[0.0, 30.0, 60.0], [30.0, 0.0, 30.0], [60.0, 30.0, 0.0]]
    members = [LoadedMember(site, 0.01, False) for site in range(3)]
    assert node_cost(True, members, delays) == token_site_cost(members, delays)
    assert node_cost(False, members, delays) == direct_cost(members, delays)
    busy = [LoadedMember(site, 0.06, False) for site in range(36)]
    assert node_cost(True, busy, lan(36)).kind == "ring"
    full = [LoadedMember(site, 1.0, False) for site in range(36)]
    assert node_cost(True, full, lan(36)).mean_ms == inf and node_cost(False, full, lan(36)).headroom < 1


def four_lans(sites: int, wan_ms: float) -> Topology:
    clusters = [{"name": name, "sites": sites} for name in ("a", "b", "c", "d")]
    near = [("a", "b"), ("c", "d")]
    links = [{"from": a, "to": b, "delay": wan_ms / 10} for a, b in near]
    tables = {"name": "four", "defaults": {"lan": {"delay": LAN_MS}, "wan": {"delay": wan_ms}}, "clusters": clusters}
    return topology_from_tables(tables | {"links": links}, "four.toml")


def local_traffic(topology: Topology, rate: float, share: float) -> list[SiteFlow]:
    """Each site sends to its own cluster, and a share to all."""
    everyone = tuple(range(len(topology.sites)))
    found = []
    for site in everyone:
        own = tuple(map(int, topology.clusters[topology.sites[site].cluster].sites))
        found += [SiteFlow(site, own, rate * (1 - share)), SiteFlow(site, everyone, rate * share)]
    return found


def planned(topology: Topology, wants: str, scope: str, share: float = 0.1) -> list[PlannedComposition]:
    return plan_composition(topology, delays_of(topology), local_traffic(topology, 0.05, share), wants, scope)  # type: ignore[arg-type]


@pytest.mark.parametrize("wants", ["fifo", "causal", "total", "causal-total"])
@pytest.mark.parametrize("scope", ["inter", "all"])
def test_every_plan_gives_what_is_wanted(wants: str, scope: str) -> None:
    single, *rest = planned(four_lans(4, 20.0), wants, scope)
    assert single.composition is None and rest
    for option in rest:
        assert option.composition is not None
        assert decide_wanted(option.composition, option.composition.domains[0]).gives(wants)  # type: ignore[arg-type]
    assert [option.cost.mean_ms for option in rest] == sorted(option.cost.mean_ms for option in rest)


def test_groups_follow_clusters_and_beat_one_group_where_traffic_is_local() -> None:
    single, first, *_ = planned(four_lans(9, LAN_MS), "total", "inter")
    assert first.name.startswith("one group per cluster") and first.composition is not None
    assert [len(group.members) for group in first.composition.groups] == [9] * 4
    assert first.cost.mean_ms < single.cost.mean_ms and first.cost.throughput_per_s > single.cost.throughput_per_s


def test_near_groups_are_near_in_the_tree() -> None:
    options = planned(four_lans(4, 20.0), "causal", "inter")
    tree = next(option for option in options if option.name == "one group per cluster, 2 regions")
    assert tree.composition is not None
    below = {router.joins[1]: [] for router in tree.composition.routers}  # type: ignore[var-annotated]
    for router in tree.composition.routers:
        below[router.joins[1]].append(router.joins[0])
    assert below["region-0"] == ["group-0", "group-1"] and below["region-1"] == ["group-2", "group-3"]


def test_parts_are_gathered_nearest_first_and_balanced() -> None:
    places = [(0,), (1,), (2,), (10,), (11,), (12,)]
    assert gathered(places, 2, lambda a, b: abs(a[0] - b[0]), 3) == ((0, 1, 2), (3, 4, 5))
    assert gathered(places, 3, lambda a, b: abs(a[0] - b[0]), 2) == ((0, 1), (2, 5), (3, 4))


def test_nothing_to_send_is_refused() -> None:
    topology = four_lans(2, 20.0)
    with pytest.raises(BadValue, match="no messages"):
        plan_composition(topology, delays_of(topology), [], "fifo", "inter")
