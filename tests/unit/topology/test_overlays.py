"""Overlays: degree, connectivity and diameter as claimed for every size, the same neighbours at every site, ids."""

from __future__ import annotations

from math import ceil, floor, log2

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.core.message import SiteId
from isthmus.core.validation import BadValue
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.overlay.ids import near_ids, topology_ids, total_length
from isthmus.topology.overlay.links import (
    Adjacency,
    Overlay,
    clique,
    hypercube,
    hypercube_neighbours,
    incomplete_cube,
    neighbours_in,
    random_regular,
    ring,
)
from isthmus.topology.overlay.measures import connectivity, hop_counts, measure
from isthmus.topology.shapes import shape

KINDS = ("hypercube", "incomplete", "clique", "ring", "random")


def graph_of(near: Adjacency) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(len(near)))
    graph.add_edges_from((a, b) for a, others in enumerate(near) for b in others)
    return graph


def claimed_connectivity(count: int) -> int:
    bits = ceil(log2(count))
    half = 2 ** (bits - 1)
    return bits if count - half >= half / 2 else bits - 1


@pytest.mark.parametrize("count", range(2, 301))
def test_the_cube_has_its_degree_connectivity_and_diameter(count: int) -> None:
    near = hypercube(count)
    bits, whole = ceil(log2(count)), floor(log2(count))
    assert max(map(len, near)) <= max(1, 2 * whole)
    assert np.max(hop_counts(near)) <= bits
    found = connectivity(near)
    assert found == claimed_connectivity(count)
    assert found >= whole
    assert all(near[b].count(a) == 1 and a != b for a, others in enumerate(near) for b in others)


@pytest.mark.parametrize("count", [2, 3, 5, 9, 12, 17, 24, 33])
@pytest.mark.parametrize("kind", KINDS)
def test_measures_agree_with_networkx(kind: str, count: int) -> None:
    near = Overlay(kind).adjacency(count)  # type: ignore[arg-type]
    graph, measures = graph_of(near), measure(near)
    assert measures.connectivity == nx.node_connectivity(graph)
    assert measures.diameter == nx.diameter(graph)
    assert measures.links == graph.number_of_edges()
    assert measures.mean_hops == pytest.approx(nx.average_shortest_path_length(graph))
    assert measures.sends == 2 * measures.links - (count - 1)


def test_small_cubes_by_hand() -> None:
    assert hypercube(1) == ((),)
    assert hypercube(2) == ((1,), (0,))
    assert hypercube(3) == ((1, 2), (0, 2), (0, 1))  # 1 stands in for 3, the neighbour of 2
    assert hypercube(5)[4] == (0, 1, 2)  # 5 and 6 are missing: 1 and 2 stand in for them
    assert hypercube(8)[5] == (1, 4, 7)


def test_the_incomplete_cube_leaves_one_with_a_single_neighbour() -> None:
    for bits in range(1, 9):
        assert incomplete_cube(2**bits + 1)[2**bits] == (0,)
        assert connectivity(incomplete_cube(2**bits + 1)) == 1


def test_clique_ring_and_random() -> None:
    assert clique(4) == ((1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2))
    assert ring(1) == ((),) and ring(2) == ((1,), (0,)) and ring(4)[0] == (1, 3)
    for count in (5, 9, 16, 33, 100):
        drawn = random_regular(count)
        assert len({len(others) for others in drawn}) == 1
        assert drawn == random_regular.__wrapped__(count)
        assert nx.is_connected(graph_of(drawn))
    assert random_regular(20, 3, seed=1) != random_regular(20, 3, seed=2)
    assert random_regular(3, 7) == clique(3)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n))))
def test_one_id_is_computed_without_the_others(pair: tuple[int, int]) -> None:
    number, count = pair
    assert hypercube_neighbours(number, count) == hypercube(count)[number]


@given(st.integers(2, 300))
def test_growth_by_one_moves_few_links(count: int) -> None:
    """The new id brings its own links; of the others at most as many go, those that it was impersonated by."""
    before, after = hypercube(count), hypercube(count + 1)
    old = {(a, b) for a, others in enumerate(before) for b in others}
    new = {(a, b) for a, others in enumerate(after) for b in others}
    bits = max(1, count.bit_length())
    assert len(old - new) <= 2 * bits
    assert len({link for link in new - old if count not in link}) <= 2 * bits


@given(st.permutations(range(20)), st.sampled_from(KINDS))
def test_neighbours_follow_from_the_members_alone(members: list[int], kind: str) -> None:
    overlay = Overlay(kind)  # type: ignore[arg-type]
    table = neighbours_in(overlay, tuple(SiteId(site) for site in members))
    assert table == neighbours_in(overlay, tuple(SiteId(site) for site in range(20)))
    assert all(here in table[there] for here, near in table.items() for there in near)


def test_an_order_gives_the_ids() -> None:
    overlay = Overlay("ring", order=(SiteId(3), SiteId(1), SiteId(2)))
    assert overlay.ids((SiteId(0), SiteId(1), SiteId(2), SiteId(3))) == (3, 1, 2, 0)
    assert neighbours_in(overlay, (SiteId(0), SiteId(1), SiteId(2), SiteId(3)))[SiteId(3)] == (1, 0)


def test_what_an_overlay_cannot_have_is_refused() -> None:
    with pytest.raises(BadValue):
        Overlay("ring", degree=3)
    with pytest.raises(BadValue):
        Overlay("random", degree=1)


def test_ids_by_topology_shorten_the_links() -> None:
    """Four regions of eight: almost all links stay inside one."""
    random = np.random.default_rng(1)
    region = random.permutation(np.repeat(np.arange(4), 8))
    lengths = np.where(region[:, None] == region[None, :], 1.0, 50.0)
    np.fill_diagonal(lengths, 0.0)
    near = hypercube(32)
    order = near_ids(lengths, near)
    assert sorted(order) == list(range(32))
    assert total_length(lengths, near, order) == 32 * (3 * 1 + 2 * 50)  # three bits inside a region, two outside
    assert total_length(lengths, near, range(32)) > 1.5 * total_length(lengths, near, order)


def test_an_exchange_is_worth_what_it_says() -> None:
    """No exchange of two ids improves what was found, on random distances."""
    random = np.random.default_rng(2)
    points = random.random((21, 2))
    lengths = np.hypot(*(points[:, None] - points[None, :]).transpose(2, 0, 1))
    near = hypercube(21)
    order = list(near_ids(lengths, near))
    least = total_length(lengths, near, order)
    for a in range(21):
        for b in range(a):
            order[a], order[b] = order[b], order[a]
            assert total_length(lengths, near, order) >= least - 1e-9
            order[a], order[b] = order[b], order[a]


@pytest.mark.parametrize("kind", KINDS)
def test_ids_by_topology_are_never_worse(kind: str) -> None:
    """A ring of LANs in the order of its LANs is as good as it gets."""
    lengths = np.abs(np.subtract.outer(np.arange(16) // 4, np.arange(16) // 4)).astype(float)
    near = Overlay(kind).adjacency(16)  # type: ignore[arg-type]
    assert total_length(lengths, near, near_ids(lengths, near)) <= total_length(lengths, near, range(16))


def test_sites_of_a_topology_are_ordered_by_delay() -> None:
    lan, wan = Channel(Constant(1.0)), Channel(Constant(40.0))
    topology = shape("ring", 4, 4, lan, wan)
    near = hypercube(16)
    order = topology_ids(topology, [SiteId(site) for site in reversed(range(16))], near)
    assert sorted(order) == list(range(16))
    length = sum(topology.mean_ms(order[a], order[b]) for a, others in enumerate(near) for b in others)
    assert length == 16 * (2 * 1 + 2 * 40)  # two bits inside a LAN, two between LANs that are joined
