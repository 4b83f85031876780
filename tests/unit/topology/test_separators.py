"""Gateways, routes and zones: what follows from a topology, what a view makes of them, what is refused."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from isthmus.core.errors import InputError
from isthmus.core.message import SiteId
from isthmus.core.validation import BadValue
from isthmus.scenario.load import load_scenario
from isthmus.topology.delay import Constant
from isthmus.topology.gateways.hops import GatewayRoutes, check_ways, routes_of
from isthmus.topology.gateways.lans import Lans, lans_of
from isthmus.topology.gateways.separators import LanGraph, Separators, check_zones, mask_of, sites_of, zones_of
from isthmus.topology.load import load_topology, topology_from_tables
from isthmus.topology.model import Channel, Topology
from isthmus.topology.shapes import shape
from isthmus.topology.written import topology_to_toml

ANY = Channel(Constant(1.0))


def sites(*numbers: int) -> tuple[SiteId, ...]:
    return tuple(SiteId(number) for number in numbers)


def everyone(topology: Topology) -> tuple[SiteId, ...]:
    return sites(*range(len(topology.sites)))


def test_the_gateways_of_a_lan_cut_its_hosts_off() -> None:
    ring = shape("lan-ring", 4, 3, ANY, ANY)  # LAN k: hosts 5k to 5k + 2, gateways 5k + 3 and 5k + 4
    _, separators = check_zones(ring)
    assert [sites_of(zone.separator) for zone in separators.zones] == [(3, 4), (8, 9), (13, 14), (18, 19)]
    assert [sites_of(part) for part in separators.zones[0].parts] == [(0, 1, 2), tuple(range(5, 20))]
    tree = shape("lan-tree", 4, 1, ANY, ANY)
    _, separators = check_zones(tree)
    assert len(separators.zones[1].parts) == 3  # its host, the LAN below, the rest above


def test_a_message_takes_the_shorter_way_round_and_of_two_the_clockwise_one() -> None:
    routes = GatewayRoutes(check_zones(shape("lan-ring", 4, 1, ANY, ANY))[0])
    assert routes.route(0, 2) == (0, 1, 2)
    assert routes.route(2, 0) == (2, 3, 0)
    assert routes.route(3, 1) == (3, 0, 1)
    assert routes.route(0, 3) == (0, 3)


def with_routes(*routes: tuple[int, ...]) -> Lans:
    return msgspec.structs.replace(lans_of(shape("lan-ring", 5, 1, ANY, ANY)), routes=routes)


def test_routes_go_on_as_those_of_the_clusters_on_them() -> None:
    check_ways(with_routes((0, 4, 3, 2)))  # 4 - 3 - 2 and 3 - 2 are the shortest ways
    with pytest.raises(BadValue) as caught:
        check_ways(with_routes((0, 4, 3, 2, 1)))
    assert caught.value.found == "c0 - c4 - c3 - c2 - c1, but c4 - c0 - c1"


def test_given_routes_pass_over_a_lan_without_members() -> None:
    clockwise = tuple(tuple((start + step) % 5 for step in range(5)) for start in range(5))
    lans = with_routes(*clockwise)
    check_ways(lans)
    there = tuple(site for site, lan in sorted(lans.lan_of().items()) if lan != 2)
    routes = routes_of(lans, there)
    assert routes.route(1, 0) == (1, 3, 4, 0)
    assert routes.route(4, 3) == (4, 0, 1, 3)


def test_every_site_on_the_way_is_reached_once() -> None:
    for name in ("lan-ring", "lan-tree", "ring", "star", "mesh"):
        topology = shape(name, 5, 3, ANY, ANY)
        graph, _ = check_zones(topology)
        routes = GatewayRoutes(graph)
        for sender in everyone(topology):
            for destinations in (graph.everyone, mask_of((0, 7, 12)), graph.members[3], 1 << sender):
                plan = routes.plan(sender, destinations)
                reached = [
                    *plan.first,
                    *(site for hops in plan.hops.values() for hop in hops for site in hop.receivers),
                ]
                assert len(set(reached)) == len(reached)
                assert mask_of(reached) | 1 << sender == plan.address | 1 << sender
                assert destinations & ~plan.address == 0


def test_a_twin_takes_the_links_of_a_gateway_that_is_gone() -> None:
    lans = lans_of(shape("lan-ring", 3, 2, ANY, ANY))  # LAN 0: hosts 0 and 1, gateways 2 and 3
    graph = LanGraph(lans, sites(0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11))
    assert graph.gateways[0] == (2,)
    assert graph.joints[0, 1] == (2, 6) and graph.joints[0, 2] == (2, 11)
    assert sites_of(zones_of(graph)[0].separator) == (2,)
    alone = LanGraph(lans, sites(0, 1, 4, 5, 6, 7, 8, 9, 10, 11))
    assert alone.gateways[0] == (0,)  # a host serves where no gateway is left
    without = LanGraph(lans, sites(4, 5, 6, 7, 8, 9, 10, 11))
    assert without.neighbours == [[], [2], [1]]
    Separators(zones_of(without)).check()


def test_a_mesh_is_relayed_over_its_tree_of_least_delay() -> None:
    assert lans_of(shape("mesh", 3, 2, ANY, ANY)).pairs() == [(0, 1), (0, 2), (1, 2)]
    assert lans_of(shape("mesh", 4, 2, ANY, ANY)).pairs() == [(0, 1), (0, 2), (0, 3)]


def test_a_region_is_cut_off_by_its_links() -> None:
    text = "\n[[regions]]\nname = 'north'\nclusters = ['c0', 'c1']\n"
    _, separators = check_zones(loaded(text))
    assert sites_of(separators.zones[-1].separator) == (2, 7)  # c0-left and c1-right


def loaded(more: str) -> Topology:
    """A ring of four LANs, with more said about it."""
    tables = tomllib.loads(topology_to_toml(shape("lan-ring", 4, 2, ANY, ANY)))
    for key, added in tomllib.loads(more).items():
        tables[key] = tables.get(key, []) + added
    return topology_from_tables(tables, "net.toml")


WRONG = [
    (
        "\n[[regions]]\nname = 'north'\nclusters = ['c0', 'c1']\nseparator = ['c0-left']\n",
        "net.toml: regions: found a way past the separator of north; expected sites that cut it off",
    ),
    (
        "\n[[routes]]\nclusters = ['c0', 'c1', 'c0', 'c3']\n",
        "net.toml: routes[0].clusters: found a loop, c0 - c1 - c0 - c3; expected each cluster once",
    ),
    (
        "\n[[routes]]\nclusters = ['c0', 'c2']\n",
        "net.toml: routes[0].clusters: found a step from c0 to c2; "
        "expected clusters that a link between gateways joins",
    ),
    (
        "\n[[routes]]\nclusters = ['c0', 'c1', 'c2']\n[[routes]]\nclusters = ['c0', 'c3', 'c2', 'c1']\n",
        "net.toml: routes[0].clusters: found a second way from c0 to c2; "
        "expected routes of one source that part and do not meet again",
    ),
    (
        "\n[[gateway_links]]\nfrom = 'c0-0'\nto = 'c1-left'\n",
        "net.toml: gateway_links[4].from: found 'c0-0'; expected a gateway of c0",
    ),
    (
        "\n[[gateway_links]]\nfrom = 'c0-left'\nto = 'c0-right'\n",
        "net.toml: gateway_links[4].to: found 'c0-right', on the same LAN; expected a gateway of another cluster",
    ),
]


@pytest.mark.parametrize(("more", "sentence"), WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_each_mistake_has_its_sentence(more: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        loaded(more)
    assert str(caught.value) == sentence


LANS = "defaults.lan = { delay = 1.0 }\ndefaults.wan = { delay = 9.0 }\n"


def test_a_gateway_is_a_site_of_its_lan_and_every_lan_is_reached(tmp_path: Path) -> None:
    path = tmp_path / "net.toml"
    path.write_text(f"{LANS}[[clusters]]\nname = 'a'\n[[clusters]]\nname = 'b'\ngateways = ['a-0']\n")
    with pytest.raises(InputError, match=r"clusters\[1\].gateways\[0\]: found 'a-0', which is outside b; expected"):
        load_topology(path)
    three = "".join(f"[[clusters]]\nname = '{name}'\n" for name in "abc")
    path.write_text(f"{LANS}{three}[[gateway_links]]\nfrom = 'a-0'\nto = 'b-0'\n")
    with pytest.raises(InputError, match="gateway_links: found no way from a to c; expected links that reach every"):
        load_topology(path)


def test_links_that_relays_do_not_serve_are_refused(tmp_path: Path) -> None:
    names = "abcd"
    clusters = "".join(f"[[topology.clusters]]\nname = '{name}'\n" for name in names)
    pairs = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]
    links = "".join(f"[[topology.gateway_links]]\nfrom = '{a}-0'\nto = '{b}-0'\n" for a, b in pairs)
    path = tmp_path / "scenario.toml"
    path.write_text(
        f"[stack]\nname = 'causal-separators'\n[topology]\n{LANS}{clusters}{links}"
        "[[workloads]]\nkind = 'poisson'\nrate_per_s = 1\n"
    )
    with pytest.raises(InputError) as caught:
        load_scenario(path)
    assert str(caught.value) == (
        f"{path}: topology.gateway_links: found 4 LANs joined by 4 links, with more than one way round; "
        "expected links that form a tree or one ring, over which messages can be relayed, or `gated = true` in "
        "[stack.causal]"
    )


NODES = """
defaults.lan.delay = 0.3
defaults.wan.delay = 40
clusters = [
    { name = "paris", sites = 3 },
    { name = "tokyo", sites = 3 },
    { name = "osaka", sites = 2 },
    { name = "p1", sites = ["server", "ann", "bob"], node_of = "paris" },
    { name = "p2", sites = 2, node_of = "paris" },
]
regions = [{ name = "japan", clusters = ["tokyo", "osaka"] }, { name = "france", clusters = ["paris"] }]
"""


def test_zones_are_nested_nodes_in_lans_in_regions(tmp_path: Path) -> None:
    path = tmp_path / "nodes.toml"
    path.write_text(NODES)
    topology = load_topology(path)
    graph, separators = check_zones(topology)
    names = [site.name for site in topology.sites]
    zones = {zone.name: zone for zone in separators.zones}
    assert [(zone.name, zone.level) for zone in separators.zones] == [
        *(
            ("p1", "node"),
            ("p2", "node"),
            ("paris", "LAN"),
            ("tokyo", "LAN"),
            ("japan", "region"),
            ("france", "region"),
        ),
    ]
    assert [names[site] for site in sites_of(zones["p1"].separator)] == ["server"]
    assert [names[site] for site in sites_of(zones["p1"].inside)] == ["ann", "bob"]
    assert not zones["p1"].inside & ~zones["paris"].inside & ~zones["france"].inside
    assert [names[site] for site in sites_of(zones["france"].separator)] == ["paris-0", "paris-1"]
    ann = topology.site_id("ann")
    behind = separators.behind(1 << ann)[1 << topology.site_id("osaka-0")]
    assert [far.bit_count() for _, far in behind] == sorted(far.bit_count() for _, far in behind)  # innermost first
    assert GatewayRoutes(graph).route(3, 2) == (3, 0, 2)  # out of the node over its LAN
    assert topology_from_tables(tomllib.loads(topology_to_toml(topology)), str(path)) == topology


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('node_of = "paris" },\n]', 'node_of = "p1" },\n]'), r"clusters\[4\].node_of: found 'p1', a node; expected a"),
        (('node_of = "paris" },\n]', 'node_of = "rome" },\n]'), r"clusters\[4\].node_of: found 'rome'; expected a"),
        (
            ('name = "p2", sites = 2,', 'name = "p2", sites = 2, gateways = ["p2-0", "p2-1"],'),
            "found 2 of a node; expected one at most, its communication server",
        ),
        (
            ("regions =", 'gateway_links = [{ from = "server", to = "tokyo-0" }]\nregions ='),
            "gateway_links: found a link from the node p1 to tokyo; expected none but to its LAN, paris",
        ),
    ],
)
def test_a_wrong_node_is_refused(change: tuple[str, str], words: str, tmp_path: Path) -> None:
    path = tmp_path / "nodes.toml"
    path.write_text(NODES.replace(*change))
    with pytest.raises(InputError, match=words):
        load_topology(path)
