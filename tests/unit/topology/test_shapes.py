"""Shapes: the right links, connected, fixed by their seed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.core.errors import InputError
from isthmus.topology.delay import Constant
from isthmus.topology.graph import components
from isthmus.topology.model import Channel
from isthmus.topology.shapes import SHAPES, random_graph, shape, unique_names

LAN, WAN = Channel(Constant(1)), Channel(Constant(50))


@pytest.mark.parametrize(
    ("name", "count", "links"),
    [
        ("star", 5, 4),
        ("ring", 5, 5),
        ("ring", 2, 1),
        ("ring", 1, 0),
        ("mesh", 5, 10),
        ("random", 10, 15),
        ("star", 1, 0),
    ],
)
def test_each_shape_has_its_links(name: str, count: int, links: int) -> None:
    net = shape(name, count, 3, LAN, WAN)
    assert (len(net.clusters), len(net.sites), len(net.links)) == (count, 3 * count, links)
    assert net.sites[0].name == "c0-0"


@given(st.sampled_from(SHAPES), st.integers(1, 20), st.integers(0, 1000))
def test_every_shape_is_connected(name: str, count: int, seed: int) -> None:
    net = shape(name, count, 1, LAN, WAN, seed)
    pairs = [(link.a, link.b) for link in net.links]
    assert len(components(count, pairs)) == 1
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)


def test_the_seed_fixes_the_random_shape() -> None:
    assert random_graph(12, 2, LAN, WAN, seed=4) == random_graph(12, 2, LAN, WAN, seed=4)
    assert random_graph(12, 2, LAN, WAN, seed=4) != random_graph(12, 2, LAN, WAN, seed=5)


def test_no_clusters_or_sites_are_refused() -> None:
    with pytest.raises(InputError):
        shape("ring", 0, 3, LAN, WAN)
    with pytest.raises(InputError):
        shape("ring", 3, 0, LAN, WAN)


def test_names_become_unique_even_among_sites() -> None:
    assert unique_names(["x", "x", "x-0", "y"], 2) == ["x", "x 2", "x-0 2", "y"]
