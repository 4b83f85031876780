"""Links and routes: by hop count, ties by the lowest link, random graphs connected and the same for a seed."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.core.validation import BadValue
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel, Cluster, Topology, TopologySite, WanLink
from isthmus.topology.wiring import DuplexLink, Wiring, gnp, ps_per_byte, random_wiring, topology_wiring


def square() -> Wiring:
    """Nodes 0 to 3 in a ring: two ways from corner to corner."""
    return Wiring(
        4,
        [
            DuplexLink(0, 1, 10, 1000),
            DuplexLink(0, 3, 10, 1000),
            DuplexLink(1, 2, 10, 1000),
            DuplexLink(2, 3, 10, 1000),
        ],
    )


def test_a_duplex_link_is_two_directed_ones() -> None:
    wiring = square()
    assert wiring.links == 8
    for link in range(wiring.links):
        assert (wiring.tails[link], wiring.heads[link]) == (wiring.heads[link ^ 1], wiring.tails[link ^ 1])


def test_of_two_shortest_routes_the_one_over_the_lowest_link_is_taken() -> None:
    wiring = square()
    assert wiring.path(0, 2) == [0, 4]  # over 1
    assert wiring.path(2, 0) == [5, 1]  # over 1 as well: link 5 is below link 6
    assert wiring.path(1, 3) == [1, 2]  # over 0
    assert wiring.path(3, 3) == []
    assert wiring.hop_counts(0) == [0, 1, 2, 1]


def test_times_are_whole_numbers() -> None:
    assert ps_per_byte(10.0) == 800_000  # 800 ns for a byte at 10 Mb/s
    assert ps_per_byte(8000.0) == 1000


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 40), st.integers(0, 10_000))
def test_routes_are_as_short_as_there_are_and_take_the_lowest_link_that_leads_nearer(nodes: int, seed: int) -> None:
    wiring = random_wiring(nodes, min(5.0, nodes), 10.0, (0.0, 1.0), Random(seed))
    counts = {target: hops_by_force(wiring, target) for target in range(0, nodes, 7)}
    for target, hops in counts.items():
        for source in range(nodes):
            path = wiring.path(source, target)
            assert len(path) == hops[source]
            for link in path:
                here = wiring.tails[link]
                nearer = [one for one in range(wiring.links) if wiring.tails[one] == here]
                assert link == min(one for one in nearer if hops[wiring.heads[one]] == hops[here] - 1)


def hops_by_force(wiring: Wiring, target: int) -> list[int]:
    """Distances to a target, relaxed until nothing changes."""
    hops = [0 if node == target else wiring.nodes for node in range(wiring.nodes)]
    for _ in range(wiring.nodes):
        for tail, head in zip(wiring.tails, wiring.heads, strict=True):
            hops[tail] = min(hops[tail], hops[head] + 1)
    return hops


def test_a_random_graph_is_a_function_of_its_seed_and_has_the_degree_asked_for() -> None:
    one, other = (random_wiring(300, 6.0, 10.0, (0.0, 1.0), Random("7")) for _ in range(2))
    assert (one.tails, one.heads, one.propagation_ns) == (other.tails, other.heads, other.propagation_ns)
    assert 5.4 < one.links / 300 < 6.6
    assert min(one.propagation_ns) >= 0 and max(one.propagation_ns) <= 1_000_000
    assert all(a < b for a, b in zip(one.tails[::2], one.heads[::2], strict=True))


def test_every_pair_is_drawn_with_the_same_probability() -> None:
    counts: dict[tuple[int, int], int] = {}
    for seed in range(1000):
        for pair in gnp(6, 0.3, Random(seed)):
            counts[pair] = counts.get(pair, 0) + 1
    assert len(counts) == 15
    assert all(230 < count < 370 for count in counts.values()), counts


def test_a_graph_that_never_is_connected_is_refused() -> None:
    with pytest.raises(BadValue, match="mean_degree"):
        random_wiring(400, 1.0, 10.0, (0.0, 1.0), Random(1))


def test_a_topology_has_its_lans_joined_by_their_agents() -> None:
    lan, wan = Channel(Constant(1.0), bandwidth_mbps=100.0), Channel(Constant(20.0))
    sites = tuple(TopologySite(name, cluster) for name, cluster in (("a", 0), ("b", 0), ("c", 1), ("d", 1)))
    clusters = (Cluster("x", (0, 1), 1, lan), Cluster("y", (2, 3), 2, lan))  # type: ignore[arg-type]
    wiring = topology_wiring(Topology("two", sites, clusters, (WanLink(0, 1, wan, wan),)), 10.0)
    ends = list(zip(wiring.tails[::2], wiring.heads[::2], strict=True))
    assert ends == [(0, 1), (1, 2), (2, 3)]
    assert wiring.propagation_ns[::2] == [1_000_000, 20_000_000, 1_000_000]
    assert wiring.ps_per_byte[::2] == [80_000, 800_000, 80_000]
    assert [wiring.heads[link] for link in wiring.path(0, 3)] == [1, 2, 3]
