"""What a packet passes: overrides, LANs, direct links, paths of least delay."""

import pickle

import pytest

from isthmus.core.errors import InputError, LocalError
from isthmus.core.message import SiteId
from isthmus.topology.delay import Constant
from isthmus.topology.graph import components
from isthmus.topology.model import Channel, Cluster, Override, Topology, TopologySite, WanLink

LAN = Channel(Constant(1))


def wan(ms: float) -> Channel:
    return Channel(Constant(ms))


def network(*links: tuple[int, int, float], overrides: tuple[Override, ...] = ()) -> Topology:
    """Four clusters a, b, c, d of two sites each."""
    clusters = [Cluster(n, (SiteId(2 * k), SiteId(2 * k + 1)), SiteId(2 * k), LAN) for k, n in enumerate("abcd")]
    sites = [TopologySite(f"{name}{k}", number) for number, name in enumerate("abcd") for k in range(2)]
    joined = tuple(WanLink(a, b, wan(ms), wan(ms + 1)) for a, b, ms in links)
    return Topology("net", tuple(sites), tuple(clusters), joined, overrides)


LINE = network((0, 1, 10), (1, 2, 10), (2, 3, 10))


def test_the_lan_inside_the_link_between_and_nothing_to_oneself() -> None:
    assert LINE.channels(SiteId(0), SiteId(1)) == (LAN,)
    assert LINE.channels(SiteId(0), SiteId(2)) == (wan(10),)
    assert LINE.channels(SiteId(3), SiteId(0)) == (wan(11),)
    assert LINE.channels(SiteId(4), SiteId(4)) == ()


def test_a_path_of_several_links_keeps_its_order_and_direction() -> None:
    net = network((0, 1, 10), (2, 1, 20), (2, 3, 30))
    assert net.channels(SiteId(0), SiteId(7)) == (wan(10), wan(21), wan(30))
    assert net.mean_ms(SiteId(7), SiteId(0)) == 31 + 20 + 11


def test_least_delay_wins_and_a_direct_link_is_taken_even_where_slower() -> None:
    net = network((0, 1, 10), (1, 3, 10), (0, 2, 1), (2, 3, 1), (1, 2, 500))
    assert net.route(0, 3) == (0, 2, 3)
    assert net.channels(SiteId(2), SiteId(4)) == (wan(500),)


def test_a_tie_goes_to_fewer_links_then_to_lower_numbers() -> None:
    assert network((0, 1, 5), (0, 2, 5), (1, 3, 5), (2, 3, 5)).route(0, 3) == (0, 1, 3)


def test_a_tie_is_decided_by_links_before_numbers_also_over_links_without_delay() -> None:
    assert network((0, 1, 0), (1, 2, 0), (2, 3, 5), (0, 2, 0)).route(0, 3) == (0, 2, 3)
    assert network((0, 3, 9), (0, 1, 0), (1, 2, 0), (0, 2, 0)).route(3, 2) == (3, 0, 2)


def test_routes_are_computed_only_from_where_they_are_asked() -> None:
    count = 600
    links = tuple(WanLink(k, k + 1, wan(1), wan(1)) for k in range(count - 1))
    clusters = tuple(Cluster(f"c{k}", (SiteId(k),), SiteId(k), LAN) for k in range(count))
    net = Topology("line", tuple(TopologySite(f"s{k}", k) for k in range(count)), clusters, links)
    assert net._trees == {}
    assert net.mean_ms(SiteId(10), SiteId(20)) == 10
    assert len(net.channels(SiteId(10), SiteId(599))) == 589
    assert list(net._trees) == [10]


def test_an_override_wins_in_its_own_direction() -> None:
    net = network((0, 1, 10), (1, 2, 10), (2, 3, 10), overrides=(Override(SiteId(0), SiteId(2), wan(99), wan(88)),))
    assert net.mean_ms(SiteId(0), SiteId(2)) == 99
    assert net.mean_ms(SiteId(2), SiteId(0)) == 88
    assert net.mean_ms(SiteId(0), SiteId(3)) == 10


def test_names_resolve_to_sites() -> None:
    assert LINE.resolve("b") == (2, 3)
    assert LINE.resolve("b1") == (3,)
    assert LINE.site_id("d0") == 6
    with pytest.raises(InputError, match="did you mean b1"):
        LINE.resolve("b12")
    with pytest.raises(InputError):
        LINE.site_id("b")


def test_a_topology_is_a_value_whatever_it_has_cached() -> None:
    one, other = network((0, 1, 1), (1, 2, 1), (2, 3, 1)), network((0, 1, 1), (1, 2, 1), (2, 3, 1))
    one.mean_ms(SiteId(0), SiteId(7))
    assert one == other and hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == other
    with pytest.raises(AttributeError):
        one.name = "x"  # type: ignore[misc]


def test_unreachable_clusters_and_bad_channels_are_refused() -> None:
    with pytest.raises(InputError, match="no path from a to c"):
        network((0, 1, 1), (2, 3, 1))
    with pytest.raises(LocalError):
        Topology("x", (TopologySite("s", 0),), (Cluster("s", (SiteId(0),), SiteId(0), LAN),))
    for key, value in (("loss", 1.0), ("loss", -0.1), ("duplicate", 1.1), ("bandwidth_mbps", 0.0)):
        with pytest.raises(InputError) as caught:
            Channel(Constant(1), **{key: value})
        assert caught.value.key == key


def test_components() -> None:
    assert components(5, [(3, 4), (0, 2), (2, 0)]) == [[0, 2], [1], [3, 4]]
