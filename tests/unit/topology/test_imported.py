"""Measurements and maps into topologies: on small files, and on the public data where it is at hand."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from isthmus.core.errors import InputError
from isthmus.core.message import SiteId
from isthmus.topology.delay import Constant, Empirical, Gamma
from isthmus.topology.inputs.grouping import find_threshold, group_hosts
from isthmus.topology.inputs.maps import fibre_ms, load_map
from isthmus.topology.inputs.round_trips import load_measured
from isthmus.topology.load import load_topology
from isthmus.topology.written import topology_to_toml

DATA = Path(__file__).parents[3] / "../shared/data"
public = pytest.mark.skipif(not DATA.exists(), reason="the public measurements are not beside the repository")

MATRIX = """,p,q,x,y
p,0,0.4,80,90
q,0.6,0,84,86
x,80,84,0,1
y,90,86,1,0
"""
TABLE = """src,dst,min_ms,avg_ms,max_ms,mdev_ms
east,east,0.1,0.2,1,0.02
east,west,60,64,90,2
west,east,60,66,90,2
west,west,0.3,0.4,1,0.04
"""


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_matrix_becomes_clusters_lans_and_links(tmp_path: Path) -> None:
    net, notes = load_measured(written(tmp_path / "m.csv", MATRIX))
    assert [[net.sites[s].name for s in cluster.sites] for cluster in net.clusters] == [["p", "q"], ["x", "y"]]
    assert [cluster.lan.delay for cluster in net.clusters] == [Constant(0.25), Constant(0.5)]
    assert net.links[0].forward.delay == Constant(42.5)
    assert net.sites[net.clusters[1].agent].name == "x"
    assert "4 hosts in 2 clusters" in notes[0]
    assert not net.overrides


def test_per_pair_keeps_every_delay(tmp_path: Path) -> None:
    net, _ = load_measured(written(tmp_path / "m.csv", MATRIX), per_pair=True)
    assert len(net.overrides) == 6
    assert net.mean_ms(SiteId(0), SiteId(3)) == 45


def test_a_threshold_overrides_what_the_data_say(tmp_path: Path) -> None:
    path = written(tmp_path / "m.csv", MATRIX)
    assert [len(load_measured(path, threshold_ms=ms)[0].clusters) for ms in (0.1, 0.7, 200)] == [4, 3, 1]


def test_a_measured_diagonal_makes_regions(tmp_path: Path) -> None:
    net, _ = load_measured(written(tmp_path / "t.csv", TABLE), sites=2)
    assert [site.name for site in net.sites] == ["east-0", "east-1", "west-0", "west-1"]
    assert [cluster.lan.delay for cluster in net.clusters] == [Constant(0.1), Constant(0.2)]
    assert net.links[0].forward.delay == Constant(32) and net.links[0].back.delay == Constant(33)


def test_the_models_gamma_and_empirical(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", TABLE)
    assert load_measured(path, model="gamma")[0].links[0].back.delay == Gamma(33, 1.0, 30)
    assert load_measured(path, model="empirical")[0].links[0].back.delay == Empirical((33,))


def test_hosts_called_a_b_c_make_a_matrix(tmp_path: Path) -> None:
    net, _ = load_measured(written(tmp_path / "m.csv", ",a,b,c\na,0,40,50\nb,40,0,60\nc,50,60,0\n"))
    assert [site.name for site in net.sites] == ["a", "b", "c"]
    table, _ = load_measured(written(tmp_path / "t.csv", "a,b,rtt_ms\na,b,40\nb,c,60\na,c,50\n"))
    assert [site.name for site in table.sites] == ["a", "b", "c"]


@pytest.mark.parametrize("mark", [";", "\t"])
def test_semicolons_and_tabs_separate_too(mark: str, tmp_path: Path) -> None:
    path = written(tmp_path / "m.csv", MATRIX.replace(",", mark))
    assert load_measured(path)[0].links == load_measured(written(tmp_path / "n.csv", MATRIX))[0].links
    decimal = written(tmp_path / "d.csv", "src;dst;rtt_ms\np;q;80,5\n")
    assert load_measured(decimal)[0].links[0].forward.delay == Constant(40.25)


def test_the_two_directions_of_a_pair_keep_their_delays(tmp_path: Path) -> None:
    text = MATRIX.replace("x,80,84", "x,100,84")
    net, notes = load_measured(written(tmp_path / "m.csv", text), per_pair=True)
    p, x = net.site_id("p"), net.site_id("x")
    assert (net.mean_ms(p, x), net.mean_ms(x, p)) == (40, 50)
    assert "2 pairs differ by direction, by up to 20 ms (p and x): kept as asymmetric delays" in notes
    link = net.links[0]
    assert (link.forward.delay, link.back.delay) == (Constant(42.5), Constant(44))
    path = written(tmp_path / "net.toml", topology_to_toml(net))
    assert load_topology(path) == msgspec.structs.replace(net, name="m")


def test_half_a_matrix_stands_for_both_directions(tmp_path: Path) -> None:
    net, notes = load_measured(written(tmp_path / "m.csv", ",p,q\np,0,80\nq,,0\n"))
    assert net.links[0].forward == net.links[0].back and len(notes) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "0 rows"),
        ("x,y\n1,2\n", "line 1: found the columns x, y"),
        ("src,dst,color\na,b,red\n", "line 1: found the columns src, dst, color; expected a column of round trips"),
        ("a,b,rtt_ms\np,q,-3\n", "line 2: found -3.0; expected a finite number"),
        ("a,b,rtt_ms\np,q,fast\n", "line 2: found 'fast'; expected a number of milliseconds"),
        ("a,b,rtt_ms\np,q,1\np,,1\n", "line 3: found an empty name"),
        ("a,b,rtt_ms\np,q\n", "line 2: found 2 cells; expected 3"),
        ("a,b,rtt_ms\np,q,1\nq,r,1\n", "found no round trip between p and r"),
        ("a,b,rtt_ms\np,q,nan\n", "found no round trip between p and q"),
        (",p,q\np,0,1\nq,1\n", "line 3: found 2 cells; expected 3"),
        (",p,q\np,0,1\np,0,1\n", "line 3: found the row 'p' again"),
        (",p,q\np,0,1\n", "found no row for q"),
        (",p,p\np,0,1\n", "line 1: found an empty or repeated name"),
    ],
)
def test_a_bad_file_is_told_with_its_line(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_measured(written(tmp_path / "bad.csv", text))
    assert sentence in str(caught.value)


def test_gamma_and_per_pair_say_what_they_need(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="min_ms and mdev_ms"):
        load_measured(written(tmp_path / "m.csv", MATRIX), model="gamma")
    with pytest.raises(InputError, match="regions"):
        load_measured(written(tmp_path / "t.csv", TABLE), per_pair=True)


@pytest.mark.parametrize(
    ("heights", "low", "high"),
    [
        ([0.2, 0.4, 60, 80], 0.4, 60),  # a wide gap between LAN and WAN
        ([0.2, 6, 20], 0.2, 6),  # cities near each other
        ([2, 4, 7, 9.5, 11, 16], 9.5, 11),  # no gap: the widest LAN
        ([0.1, 0.2, 3], 0.2, 3),  # all within 10 ms: the widest gap
        ([1, 1.5, 2], 2, 100),  # all alike: one cluster
        ([50, 90], 0, 50),  # no LAN at all
    ],
)
def test_the_threshold_falls_into_the_gap(heights: list[float], low: float, high: float) -> None:
    assert low <= find_threshold(heights) <= high


def test_grouping_does_not_depend_on_the_order_of_hosts() -> None:
    random = np.random.default_rng(1)
    home = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
    rtt = np.where(home[:, None] == home[None, :], 0.5, 40.0) * random.uniform(0.9, 1.1, (9, 9))
    rtt = np.triu(rtt, 1) + np.triu(rtt, 1).T
    for _ in range(5):
        order = random.permutation(9)
        groups, _ = group_hosts(rtt[np.ix_(order, order)])
        assert sorted(sorted(int(order[h]) for h in group) for group in groups) == [[0, 1, 2], [3, 4], [5, 6, 7, 8]]


MAP = """<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key attr.name="label" for="node" id="l"/><key attr.name="Latitude" for="node" id="y"/>
<key attr.name="Longitude" for="node" id="x"/><graph edgedefault="undirected">
<node id="0"><data key="l">A</data><data key="y">0</data><data key="x">0</data></node>
<node id="1"><data key="l">A</data><data key="y">0</data><data key="x">10</data></node>
<node id="2"><data key="l">C</data></node>
<node id="3"><data key="l">far</data><data key="y">50</data><data key="x">50</data></node>
<node id="4"><data key="l">lost</data></node>
<edge source="0" target="1"/><edge source="1" target="0"/><edge source="0" target="2"/><edge source="1" target="2"/>
<edge source="0" target="0"/></graph></graphml>"""


def test_a_map_is_repaired_and_says_so(tmp_path: Path) -> None:
    net, notes = load_map(written(tmp_path / "m.graphml", MAP), sites=2)
    assert [cluster.name for cluster in net.clusters] == ["A", "A 2", "C"]
    assert (net.clusters[2].latitude, net.clusters[2].longitude) == (0, 5)
    assert len(net.links) == 3
    assert [any(word in note for note in notes) for word in ("placed", "dropped", "pieces", "second")] == [True] * 4
    assert net.path(0, 1)[0].delay.mean_ms == pytest.approx(1111.95 / 200, rel=1e-3)
    assert fibre_ms((0, 0), (0, 0)) == 0.1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("<graphml>", "a syntax error"),
        ("<svg/>", "the element <svg>"),
        ("<graphml/>", "no node with Latitude and Longitude"),
        (MAP.replace('target="2"', 'target="9"'), "edge 0 to 9: found the end '9'"),
        (MAP.replace('"y">50<', '"y">95<'), "node 3: found the coordinates 95, 50"),
        (MAP.replace('"y">50<', '"y">fifty<'), "node 3: found the coordinates fifty, 50; expected degrees"),
        (MAP.replace('<node id="4">', '<node id="3">'), "node 3: found a second node of this id; expected unique ids"),
        (MAP.replace('key="y">50', 'key="z">50'), "found an unsupported map (Bad GraphML data: no key z)"),
        (MAP.replace("<edge", "<hyperedge/><edge", 1), "doesn't support hyperedges"),
    ],
)
def test_a_bad_map_is_refused_with_the_reason(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_map(written(tmp_path / "m.graphml", text))
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "head",
    ["<graphml>", '<graphml xmlns="http://graphml.graphdrawing.org/xmlns/graphml">', '<graphml xmlns:y="urn:y">'],
)
def test_a_map_is_read_whatever_its_namespace(head: str, tmp_path: Path) -> None:
    usual = load_map(written(tmp_path / "m.graphml", MAP))
    other = MAP.replace('<graphml xmlns="http://graphml.graphdrawing.org/xmlns">', head)
    assert load_map(written(tmp_path / "m.graphml", other)) == usual


def test_a_folder_is_no_map(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the path of a GraphML file"):
        load_map(tmp_path)


@public
@pytest.mark.parametrize("name", ["subsetA_40_median_ms.csv", "subsetA_40_slices.csv"])
def test_planetlab_yields_its_true_clusters(name: str) -> None:
    net, _ = load_measured(DATA / "planetlab" / name)
    found = [{net.sites[site].name[:2] for site in cluster.sites} for cluster in net.clusters]
    assert found == [{f"c{k}"} for k in range(8)]
    assert [len(cluster.sites) for cluster in net.clusters] == [5] * 8


@public
@pytest.mark.parametrize(("name", "count"), [("aws_2020_06.csv", 19), ("gcp_2019_09.csv", 20)])
def test_clouds_have_a_cluster_a_region(name: str, count: int) -> None:
    net, notes = load_measured(DATA / "cloud" / name, model="gamma")
    assert (len(net.clusters), len(net.sites), len(net.links)) == (count, 3 * count, count * (count - 1) // 2)
    assert not notes


@public
@pytest.mark.parametrize(
    ("name", "clusters"), [("Abilene", 11), ("AttMpls", 25), ("Geant2012", 40), ("Nsfnet", 13), ("Sprint", 11)]
)
def test_backbone_maps_load(name: str, clusters: int) -> None:
    net, _ = load_map(DATA / "zoo" / f"{name}.graphml")
    assert len(net.clusters) == clusters
