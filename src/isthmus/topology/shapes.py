"""Generated networks: star, ring, mesh, a connected random graph, and LANs with gateways in a ring or tree.

Clusters are named c0, c1, ... and their sites c0-0, c0-1, ... The random shape is a random tree plus random links up to
the requested mean degree. The LANs of `lan-ring` and `lan-tree` have two dedicated gateways each: c0-left and c0-right,
where c0-right is linked to c1-left; or c0-up, linked to the LAN above, and c0-down, linked to those below.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from random import Random

import msgspec

from isthmus.core.message import SiteId
from isthmus.core.validation import BadValue
from isthmus.topology.model import Channel, Cluster, GatewayLink, Topology, TopologySite, WanLink

SHAPES = ("star", "ring", "mesh", "random", "lan-ring", "lan-tree")
BRANCHES = 2  # of a LAN tree


def star(clusters: int, sites: int, lan: Channel, wan: Channel) -> Topology:
    """Cluster c0 in the middle, each other joined to it alone."""
    return regular("star", clusters, sites, lan, wan, [(0, other) for other in range(1, clusters)])


def ring(clusters: int, sites: int, lan: Channel, wan: Channel) -> Topology:
    """Each cluster joined to the next, the last to the first."""
    pairs = [(number, number + 1) for number in range(clusters - 1)]
    return regular("ring", clusters, sites, lan, wan, pairs + ([(0, clusters - 1)] if clusters > 2 else []))


def mesh(clusters: int, sites: int, lan: Channel, wan: Channel) -> Topology:
    """Each cluster joined to every other."""
    return regular("mesh", clusters, sites, lan, wan, combinations(range(clusters), 2))


def random_graph(
    clusters: int, sites: int, lan: Channel, wan: Channel, seed: int = 1, mean_degree: float = 3.0
) -> Topology:
    """A random tree plus random links until a cluster has `mean_degree` links on average."""
    random = Random(seed)
    order = list(range(clusters))
    random.shuffle(order)
    tree = {(min(pair), max(pair)) for pair in ((order[k], order[random.randrange(k)]) for k in range(1, clusters))}
    spare = [pair for pair in combinations(range(clusters), 2) if pair not in tree]
    wanted = max(0, min(len(spare), round(clusters * mean_degree / 2) - len(tree)))
    return regular("random", clusters, sites, lan, wan, sorted([*tree, *random.sample(spare, wanted)]))


def lan_ring(clusters: int, sites: int, lan: Channel, wan: Channel) -> Topology:
    """Each LAN joined to the next by its right gateway, the last to the first."""
    pairs = [(number, number + 1) for number in range(clusters - 1)]
    pairs += [(clusters - 1, 0)] if clusters > 2 else []
    return with_gateways("lan-ring", clusters, sites, lan, wan, pairs, ("left", "right"))


def lan_tree(clusters: int, sites: int, lan: Channel, wan: Channel) -> Topology:
    """LAN c0 at the top, two below each; gateways up and down."""
    pairs = [((number - 1) // BRANCHES, number) for number in range(1, clusters)]
    return with_gateways("lan-tree", clusters, sites, lan, wan, pairs, ("up", "down"))


def with_gateways(
    name: str,
    clusters: int,
    sites: int,
    lan: Channel,
    wan: Channel,
    pairs: Sequence[tuple[int, int]],
    gateways: tuple[str, str],
) -> Topology:
    """LANs of `sites` hosts and two gateways; a link leads from a second gateway to a first one."""
    plain = regular(name, clusters, sites + len(gateways), lan, wan, pairs)
    size = sites + len(gateways)
    named = [
        TopologySite(f"c{site.cluster}-{gateways[place % size - sites]}", site.cluster)
        if place % size >= sites
        else site
        for place, site in enumerate(plain.sites)
    ]
    return msgspec.structs.replace(
        plain,
        sites=tuple(named),
        clusters=tuple(msgspec.structs.replace(one, gateways=one.sites[sites:]) for one in plain.clusters),
        gateway_links=tuple(GatewayLink(plain.clusters[a].sites[-1], plain.clusters[b].sites[sites]) for a, b in pairs),
    )


def shape(name: str, clusters: int, sites: int, lan: Channel, wan: Channel, seed: int = 1) -> Topology:
    """The shape of a name; only the random one uses the seed."""
    if name == "random":
        return random_graph(clusters, sites, lan, wan, seed)
    made = {"star": star, "ring": ring, "mesh": mesh, "lan-ring": lan_ring, "lan-tree": lan_tree}[name]
    return made(clusters, sites, lan, wan)


def regular(
    name: str, clusters: int, sites: int, lan: Channel, wan: Channel, pairs: Iterable[tuple[int, int]]
) -> Topology:
    """Clusters of equal size, joined by equal links."""
    for key, count in (("clusters", clusters), ("sites", sites)):
        if count < 1:
            raise BadValue(key, str(count), "at least 1")
    names = [f"c{number}" for number in range(clusters)]
    links = tuple(WanLink(a, b, wan, wan) for a, b in pairs)
    return of_equal_clusters(f"{name}-{clusters}", names, sites, [lan] * clusters, links)


def of_equal_clusters(
    name: str,
    names: Sequence[str],
    sites: int,
    lans: Sequence[Channel],
    links: tuple[WanLink, ...],
    places: Sequence[tuple[float, float]] | None = None,
) -> Topology:
    """Clusters of `sites` sites each, numbered after their cluster's name; `places` are latitude and longitude."""
    made = of_named_sites(
        name, [(one, [f"{one}-{k}" for k in range(sites)], lan) for one, lan in zip(names, lans, strict=True)], links
    )
    if places is None:
        return made
    located = [
        msgspec.structs.replace(cluster, latitude=latitude, longitude=longitude)
        for cluster, (latitude, longitude) in zip(made.clusters, places, strict=True)
    ]
    return msgspec.structs.replace(made, clusters=tuple(located))


def of_named_sites(
    name: str, clusters: Iterable[tuple[str, Sequence[str], Channel]], links: Iterable[WanLink] = ()
) -> Topology:
    """Clusters by name, the names of their sites, of which the first is the agent, and LAN."""
    sites: list[TopologySite] = []
    made: list[Cluster] = []
    for number, (cluster, names, lan) in enumerate(clusters):
        ids = tuple(SiteId(len(sites) + place) for place in range(len(names)))
        sites += [TopologySite(site, number) for site in names]
        made.append(Cluster(cluster, ids, ids[0], lan))
    return Topology(name, tuple(sites), tuple(made), tuple(links))


def unique_names(labels: Iterable[str], sites: int) -> list[str]:
    """Labels made unique by a numeric suffix, none equal to a site of another."""
    taken: set[str] = set()
    names = []
    for label in labels:
        name, number = label, 1
        while not taken.isdisjoint(both := {name, *(f"{name}-{k}" for k in range(sites))}):
            number += 1
            name = f"{label} {number}"
        taken |= both
        names.append(name)
    return names
