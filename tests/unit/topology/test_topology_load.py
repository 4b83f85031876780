"""The TOML form: what it means, that it round-trips, and the sentence for each mistake."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.core.errors import InputError
from isthmus.core.message import SiteId
from isthmus.topology.delay import Constant, Empirical, Gamma, Normal, Uniform
from isthmus.topology.load import load_topology, topology_from_tables
from isthmus.topology.model import Channel, Cluster, Override, Topology, TopologySite, WanLink
from isthmus.topology.written import topology_to_toml

GOOD = """
name = "three"
[defaults]
lan = { delay = 1 }
wan = { delay = { kind = "gamma", mean_ms = 50, variance_ms2 = 0.5, shift_ms = 45 } }
[[clusters]]
name = "paris"
sites = 3
lan = { delay = { kind = "uniform", low_ms = 0.5, high_ms = 1 }, loss = 0.001 }
latitude = 48.9
longitude = 2.4
[[clusters]]
name = "tokyo"
sites = ["t1", "t2"]
agent = "t2"
[[clusters]]
name = "lima"
[[links]]
from = "paris"
to = "tokyo"
delay = 120
loss = 0.01
back = { delay = 140 }
[[links]]
from = "t1"
to = "t2"
fifo = false
"""


def test_the_file_means_what_it_says() -> None:
    net = topology_from_tables(tomllib.loads(GOOD), "three.toml")
    assert [site.name for site in net.sites] == ["paris-0", "paris-1", "paris-2", "t1", "t2", "lima-0"]
    assert [cluster.agent for cluster in net.clusters] == [0, 4, 5]
    assert net.path(0, 1) == (Channel(Constant(120), loss=0.01),)
    assert net.path(1, 0) == (Channel(Constant(140), loss=0.01),)
    assert net.path(0, 2) == (Channel(Gamma(50, 0.5, 45)),)
    assert [(link.a, link.b) for link in net.links] == [(0, 1), (0, 2), (1, 2)]
    assert net.channels(SiteId(3), SiteId(4)) == (Channel(Constant(1), fifo=False),)
    assert net.channels(SiteId(0), SiteId(1)) == (Channel(Uniform(0.5, 1), loss=0.001),)


def test_a_default_wan_alone_is_a_full_mesh_and_the_file_names_the_topology(tmp_path: Path) -> None:
    path = tmp_path / "mesh.toml"
    path.write_text(
        "[defaults]\nlan = {delay = 1}\nwan = {delay = 9}\n" + "".join(f"[[clusters]]\nname = '{n}'\n" for n in "abcd")
    )
    net = load_topology(path)
    assert (net.name, len(net.links)) == ("mesh", 6)


CLUSTERS = "[defaults]\nlan = {delay = 1}\nwan = {delay = 9}\n[[clusters]]\nname = 'a'\n[[clusters]]\nname = 'b'\n"
LINK = CLUSTERS + "[[links]]\nfrom = 'a'\nto = 'b'\n"
ONE = "[[clusters]]\nname = 'a'\n"
WRONG = [
    ("", "clusters: found nothing; expected at least one cluster"),
    ("name = ", "found a syntax error"),
    (
        "nam = 'x'\n" + ONE,
        "nam: found an unknown key; expected one of name, defaults, clusters, links, "
        "gateway_links, routes, regions (did you mean name?)",
    ),
    (ONE, "clusters[0].lan.delay: found nothing; expected a delay here or in defaults.lan"),
    (CLUSTERS + "[[clusters]]\nname = 'a'", "clusters[2].name: found 'a', already the name of a cluster"),
    (CLUSTERS + "[[clusters]]\nname = 'a-0'", "clusters[2].name: found 'a-0', already the name of a site"),
    (
        CLUSTERS + "[[clusters]]\nname = 'c'\nsites = ['x', 'x']",
        "clusters[2].sites[1]: found 'x', already the name of a site",
    ),
    (CLUSTERS + "[[clusters]]\nname = ''", "clusters[2].name: found ''; expected a name"),
    (CLUSTERS + "[[clusters]]\nname = 'c'\nsites = 0", "clusters[2].sites: found 0; expected from 1 to"),
    (
        CLUSTERS + "[[clusters]]\nname = 'c'\nsites = []",
        "clusters[2].sites: found an empty list; expected at least one site",
    ),
    (
        CLUSTERS + "[[clusters]]\nname = 'c'\nsites = 2.5",
        "clusters[2].sites: found 2.5; expected a whole number or a list",
    ),
    (
        CLUSTERS + "[[clusters]]\nname = 'c'\nagent = 'a-0'",
        "clusters[2].agent: found 'a-0'; expected a site of c: one of c-0",
    ),
    (
        CLUSTERS + "[[clusters]]\nname = 'c'\nlatitude = 91\nlongitude = 0",
        "clusters[2].latitude: found 91.0; expected degrees from -90 to 90",
    ),
    (CLUSTERS + "[[clusters]]\nname = 'c'\nlongitude = 0", "clusters[2].latitude: found nothing; expected both"),
    (CLUSTERS + "[[clusters]]\nsites = 2", "clusters[2].name: found nothing; expected this key, which is required"),
    (
        CLUSTERS + "[[links]]\nfrom = 'a'\nto = 'bb'",
        "links[0].to: found 'bb'; expected one of a, b, a-0, b-0 (did you mean b",
    ),
    (
        CLUSTERS + "[[links]]\nfrom = 'a'\nto = 'a'",
        "links[0].to: found 'a', the same as from; expected two different ends",
    ),
    (
        CLUSTERS + "[[links]]\nfrom = 'a'\nto = 'b-0'",
        "links[0].to: found 'b-0', a site; expected a cluster, as 'a' is one",
    ),
    (LINK + "[[links]]\nfrom = 'b'\nto = 'a'", "links[1]: found a second link between b and a; expected only links[0]"),
    (LINK + "delay = -1", "links[0].delay: found -1.0; expected a finite number of at least 0"),
    (
        LINK + "delay = {kind = 'constant', ms = -1}",
        "links[0].delay.ms: found -1.0; expected a finite number of at least 0",
    ),
    (LINK + "delay = {kind = 'constant', ms = inf}", "links[0].delay.ms: found inf; expected a finite number"),
    (
        LINK + "delay = {kind = 'gama'}",
        "links[0].delay.kind: found 'gama'; expected one of constant, uniform, normal, gamma, empirical (did you mean",
    ),
    (
        LINK + "delay = {kind = 'uniform', low_ms = 3, high_ms = 1}",
        "links[0].delay.high_ms: found 1.0; expected a finite number of at least low_ms (3)",
    ),
    (
        LINK + "delay = {kind = 'normal', mean = 3}",
        "links[0].delay.mean: found an unknown key; expected one of kind, mean_ms, sd_ms (did you mean mean_ms?)",
    ),
    (LINK + "delay = 'fast'", "links[0].delay: found 'fast'; expected a number or a table"),
    (LINK + "loss = 1", "links[0].loss: found 1.0; expected a probability from 0 to below 1"),
    (LINK + "back = {duplicate = 2}", "links[0].back.duplicate: found 2.0; expected a probability from 0 to 1"),
    (LINK + "bandwidth_mbps = 0", "links[0].bandwidth_mbps: found 0.0; expected a finite number above 0"),
    (LINK + "fifo = 1", "links[0].fifo: found 1; expected true or false"),
    (LINK + "lossy = 0.1", "links[0].lossy: found an unknown key; expected one of"),
    (
        CLUSTERS.replace("wan = {delay = 9}\n", ""),
        "links: found no path from a to b; expected links (or defaults.wan) that join all clusters",
    ),
    ("[defaults]\nlan = {loss = 0.1}\n" + ONE, "defaults.lan.delay: found nothing; expected a delay"),
    ("clusters = 3", "clusters: found 3; expected a list"),
]


@pytest.mark.parametrize(("text", "sentence"), WRONG, ids=[str(k) for k in range(len(WRONG))])
def test_each_mistake_has_its_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "net.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_topology(path)
    assert str(caught.value).startswith(f"{path}: {sentence}")


def test_inside_another_file_keys_carry_their_prefix() -> None:
    with pytest.raises(InputError, match=r"^run.toml: topology.links\[0\].loss: found 3.0"):
        topology_from_tables(tomllib.loads(LINK + "loss = 3"), "run.toml", "topology")


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_topology(tmp_path / "none.toml")
    with pytest.raises(InputError, match="a folder"):
        load_topology(tmp_path)


numbers = st.floats(0, 1e4, allow_nan=False).map(lambda x: round(x, 6))
positive = st.floats(0.001, 1e4).map(lambda x: round(x, 6))
delays = st.one_of(
    numbers.map(Constant),
    st.builds(lambda low, more: Uniform(low, low + more), numbers, numbers),
    st.builds(Normal, numbers, numbers),
    st.builds(lambda shift, more, variance: Gamma(shift + more, variance, shift), numbers, positive, positive),
    st.lists(numbers, min_size=1, max_size=4).map(lambda samples: Empirical(tuple(samples))),
)
channels = st.builds(Channel, delays, st.floats(0, 0.9), st.floats(0, 1), st.one_of(st.none(), positive), st.booleans())
names = st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=6)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    unique = draw(st.lists(names, min_size=len(sizes) + sum(sizes), max_size=len(sizes) + sum(sizes), unique=True))
    sites: list[TopologySite] = []
    clusters: list[Cluster] = []
    for number, size in enumerate(sizes):
        ids = tuple(SiteId(len(sites) + k) for k in range(size))
        sites += [TopologySite(unique.pop(), number) for _ in ids]
        spot = draw(st.one_of(st.just((None, None)), st.tuples(st.floats(-90, 90), st.floats(-180, 180))))
        clusters.append(Cluster(unique.pop(), ids, draw(st.sampled_from(ids)), draw(channels), *spot))
    links = [WanLink(draw(st.integers(0, k - 1)), k, draw(channels), draw(channels)) for k in range(1, len(sizes))]
    pairs = [(a, b) for a in range(len(sites)) for b in range(a)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=3)) if pairs else []
    overrides = [Override(SiteId(a), SiteId(b), draw(channels), draw(channels)) for a, b in chosen]
    return Topology(draw(names), tuple(sites), tuple(clusters), tuple(links), tuple(overrides))


@settings(max_examples=60, deadline=None)
@given(topologies())
def test_what_is_written_loads_as_the_same(topology: Topology) -> None:
    assert topology_from_tables(tomllib.loads(topology_to_toml(topology)), "x.toml") == topology
