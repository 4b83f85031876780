"""Loading of topologies from TOML (docs/design/topology.md); `written.py` writes them.

Channels may leave out what `[defaults]` or, for the reverse direction, the forward one already gives. Two clusters that
no links join get a WAN link of their own if `defaults.wan` is given. Every mistake raises one `InputError` with the
file, the key, what was found and what was expected.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from isthmus.core.errors import InputError
from isthmus.core.message import SiteId
from isthmus.core.validation import BadValue, convert, join, one_of, read_toml, show
from isthmus.topology.addresses import endpoint
from isthmus.topology.delay import Constant, Delay
from isthmus.topology.gateways.separators import check_zones
from isthmus.topology.graph import components
from isthmus.topology.model import Channel, Cluster, GatewayLink, Override, Region, Topology, TopologySite, WanLink

SITES_MAX = 100_000


class RawChannel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A channel as written; missing fields come from elsewhere."""

    delay: Delay | float | None = None  # a plain number: that many milliseconds, always
    loss: float | None = None
    duplicate: float | None = None
    bandwidth_mbps: float | None = None  # inf: unlimited, overriding a default
    fifo: bool | None = None

    def over(self, base: Channel | None, source: str, key: str, hint: str) -> Channel:
        """Overlay the written fields on a base channel."""
        given = self.delay
        if given is None:
            if base is None:
                raise InputError(source, join(key, "delay"), "nothing", hint)
            delay = base.delay
        rest = base or Channel(Constant(0.0))
        bandwidth = rest.bandwidth_mbps if self.bandwidth_mbps is None else self.bandwidth_mbps
        try:
            if given is not None:
                delay = plain_delay(given)
            return Channel(
                delay,
                loss=rest.loss if self.loss is None else self.loss,
                duplicate=rest.duplicate if self.duplicate is None else self.duplicate,
                bandwidth_mbps=None if bandwidth == inf else bandwidth,
                fifo=rest.fifo if self.fifo is None else self.fifo,
            )
        except BadValue as error:
            raise error.at(source, key) from None


class RawDefaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The default channels."""

    lan: RawChannel | None = None
    wan: RawChannel | None = None


class RawSite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A site written with more than its name."""

    name: str
    address: str = ""


class RawCluster(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cluster as written."""

    name: str
    sites: int | tuple[str | RawSite, ...] = 1
    agent: str | None = None
    lan: RawChannel = RawChannel()
    latitude: float | None = None
    longitude: float | None = None
    gateways: tuple[str, ...] = ()
    node_of: str | None = None  # an earlier cluster: this one is a node on its LAN
    references: tuple[str, ...] = ()  # sites with a reference of true time


class RawGatewayLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two gateways, by their names."""

    from_: str = msgspec.field(name="from")
    to: str


class RawRoute(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fixed route from one cluster to another over gateways."""

    clusters: tuple[str, ...]  # both ends included


class RawRegion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A region as written."""

    name: str
    clusters: tuple[str, ...]
    separator: tuple[str, ...] = ()


class RawLink(RawChannel, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A link as written: the forward direction, and the differences of the reverse one."""

    from_: str = msgspec.field(name="from")
    to: str
    back: RawChannel = RawChannel()


class RawTopology(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file as written."""

    name: str = ""
    defaults: RawDefaults = RawDefaults()
    clusters: tuple[RawCluster, ...] = ()
    links: tuple[RawLink, ...] = ()
    gateway_links: tuple[RawGatewayLink, ...] = ()
    routes: tuple[RawRoute, ...] = ()
    regions: tuple[RawRegion, ...] = ()


def load_topology(path: Path) -> Topology:
    """The topology of a TOML file; raises InputError with the key that is wrong."""
    return topology_from_tables(read_toml(path), str(path))


def topology_from_tables(tables: Any, source: str, prefix: str = "") -> Topology:
    """The topology that tables describe; `prefix` is their key inside the file `source`."""
    raw = convert(tables, RawTopology, source, prefix)
    return Builder(raw, source, prefix).build()


class Builder:
    """Turns written tables into a topology, and keeps the key of every value for errors."""

    def __init__(self, raw: RawTopology, source: str, prefix: str) -> None:
        self.raw, self.source, self.prefix = raw, source, prefix
        self.sites: list[TopologySite] = []
        self.clusters: list[Cluster] = []
        self.links: list[WanLink] = []
        self.overrides: list[Override] = []
        self.cluster_of: dict[str, int] = {}
        self.site_of: dict[str, SiteId] = {}
        self.lan = self.default(raw.defaults.lan, "lan")
        self.wan = self.default(raw.defaults.wan, "wan")

    def build(self) -> Topology:
        for number, cluster in enumerate(self.raw.clusters):
            self.add_cluster(cluster, f"clusters[{number}]")
        seen: dict[frozenset[str], int] = {}
        for number, link in enumerate(self.raw.links):
            key, first = f"links[{number}]", seen.setdefault(frozenset((link.from_, link.to)), number)
            self.add_link(link, key)
            if first != number:
                raise self.wrong(key, f"a second link between {link.from_} and {link.to}", f"only links[{first}]")
        self.join_nodes()
        if self.wan is not None and len(self.clusters) > 1:
            parts = components(len(self.clusters), [(link.a, link.b) for link in self.links])
            apart = sorted((min(a, b), max(a, b)) for x, y in combinations(parts, 2) for a in x for b in y)
            nodes = [number for number, cluster in enumerate(self.clusters) if cluster.node_of is not None]
            self.links += [WanLink(a, b, self.wan, self.wan) for a, b in apart if a not in nodes and b not in nodes]
        name = self.raw.name or Path(self.source).stem
        try:
            made = Topology(
                *(name, tuple(self.sites), tuple(self.clusters), tuple(self.links), tuple(self.overrides)),
                gateway_links=self.gateway_links(),
                routes=self.routes(),
                regions=self.regions(),
            )
            if made.gateway_links or made.routes or made.regions or any(c.is_joined() for c in made.clusters):
                check_zones(made)  # refuses impossible ones
        except BadValue as error:
            raise error.at(self.source, self.prefix) from None
        return made

    def join_nodes(self) -> None:
        """Join each node without a link to its LAN by one like the LAN's own."""
        pairs = [{link.a, link.b} for link in self.links]
        for number, cluster in enumerate(self.clusters):
            if cluster.node_of is not None and {number, cluster.node_of} not in pairs:
                lan = self.clusters[cluster.node_of].lan
                self.links.append(WanLink(number, cluster.node_of, lan, lan))

    def gateway_links(self) -> tuple[GatewayLink, ...]:
        return tuple(
            GatewayLink(
                self.site_named(link.from_, f"gateway_links[{number}].from"),
                self.site_named(link.to, f"gateway_links[{number}].to"),
            )
            for number, link in enumerate(self.raw.gateway_links)
        )

    def routes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(
            self.clusters_named(route.clusters, f"routes[{number}].clusters")
            for number, route in enumerate(self.raw.routes)
        )

    def regions(self) -> tuple[Region, ...]:
        found = []
        for number, raw in enumerate(self.raw.regions):
            key = f"regions[{number}]"
            separator = tuple(self.site_named(name, f"{key}.separator[{k}]") for k, name in enumerate(raw.separator))
            found.append(Region(raw.name, self.clusters_named(raw.clusters, f"{key}.clusters"), separator))
        return tuple(found)

    def site_named(self, name: str, key: str) -> SiteId:
        if name not in self.site_of:
            raise self.wrong(key, show(name), one_of(name, self.site_of))
        return self.site_of[name]

    def clusters_named(self, names: tuple[str, ...], key: str) -> tuple[int, ...]:
        for place, name in enumerate(names):
            if name not in self.cluster_of:
                raise self.wrong(f"{key}[{place}]", show(name), one_of(name, self.cluster_of))
        return tuple(self.cluster_of[name] for name in names)

    def add_cluster(self, raw: RawCluster, key: str) -> None:
        self.claim(raw.name, f"{key}.name")
        number = len(self.clusters)
        self.cluster_of[raw.name] = number
        if isinstance(raw.sites, int):
            if not 1 <= raw.sites <= SITES_MAX:
                raise self.wrong(f"{key}.sites", str(raw.sites), f"from 1 to {SITES_MAX} sites")
            names, keys = [f"{raw.name}-{k}" for k in range(raw.sites)], [f"{key}.sites"] * raw.sites
        else:
            names = [site if isinstance(site, str) else site.name for site in raw.sites]
            keys = [f"{key}.sites[{k}]" for k in range(len(raw.sites))]
        if not names:
            raise self.wrong(f"{key}.sites", "an empty list", "at least one site")
        ids = tuple(SiteId(len(self.sites) + k) for k in range(len(names)))
        for site, name, place in zip(ids, names, keys, strict=True):
            self.claim(name, place)
            self.site_of[name] = site
            self.sites.append(TopologySite(name, number, self.address_of(raw, len(self.sites) - ids[0], place)))
        agent = names[0] if raw.agent is None else raw.agent
        if agent not in names:
            raise self.wrong(f"{key}.agent", show(agent), f"a site of {raw.name}: {one_of(agent, names)}")
        gateways = self.own_sites(raw, raw.gateways, names, f"{key}.gateways")
        references = self.own_sites(raw, raw.references, names, f"{key}.references")
        hint = "a delay here or in defaults.lan"
        lan = raw.lan.over(self.lan, self.source, self.at(f"{key}.lan"), hint)
        node_of = None if raw.node_of is None else self.lan_named(raw.node_of, f"{key}.node_of")
        try:
            here, joined = (raw.latitude, raw.longitude), (gateways, node_of)
            cluster = Cluster(raw.name, ids, self.site_of[agent], lan, *here, *joined, references)
        except BadValue as error:
            raise error.at(self.source, self.at(key)) from None
        self.clusters.append(cluster)

    def own_sites(self, raw: RawCluster, given: tuple[str, ...], names: list[str], key: str) -> tuple[SiteId, ...]:
        """Sites of a cluster by their names, each once."""
        for order, name in enumerate(given):
            if name not in names:
                found = f"{show(name)}, which is outside {raw.name}" if name in self.site_of else show(name)
                raise self.wrong(f"{key}[{order}]", found, f"a site of {raw.name}: {one_of(name, names)}")
        return tuple(dict.fromkeys(self.site_of[name] for name in given))

    def lan_named(self, name: str, key: str) -> int:
        """The cluster that a node is on: one that was given before, and is no node itself."""
        lans = [cluster.name for cluster in self.clusters if cluster.node_of is None]
        if name not in lans:
            is_node = any(cluster.name == name for cluster in self.clusters)
            found = f"{show(name)}, a node" if is_node else show(name)
            raise self.wrong(key, found, f"a cluster given before, and no node: {one_of(name, lans)}")
        return self.cluster_of[name]

    def address_of(self, raw: RawCluster, place: int, key: str) -> str:
        """The address where a site listens, in canonical form; "" if none is given."""
        site = "" if isinstance(raw.sites, int) else raw.sites[place]
        if isinstance(site, str) or not site.address:
            return ""
        address = with_source(lambda: str(endpoint(site.address, "address")), self.source, self.at(key))
        taken = next((known.name for known in self.sites if known.address == address), None)
        if taken is not None:
            raise self.wrong(f"{key}.address", f"{address!r}, which {taken} has", "an address of its own for each site")
        return address

    def add_link(self, raw: RawLink, key: str) -> None:
        ends = []
        for end, name in (("from", raw.from_), ("to", raw.to)):
            if name not in self.cluster_of and name not in self.site_of:
                expected = one_of(name, [*self.cluster_of, *self.site_of])
                raise self.wrong(f"{key}.{end}", show(name), expected)
            ends.append(name in self.cluster_of)
        if raw.from_ == raw.to:
            raise self.wrong(f"{key}.to", f"{raw.to!r}, the same as from", "two different ends")
        if ends[0] != ends[1]:
            found = f"{raw.to!r}, a {'cluster' if ends[1] else 'site'}"
            raise self.wrong(f"{key}.to", found, f"a {'cluster' if ends[0] else 'site'}, as {raw.from_!r} is one")
        base = self.wan
        if not ends[0]:
            here, there = (self.sites[self.site_of[name]].cluster for name in (raw.from_, raw.to))
            base = self.clusters[here].lan if here == there else self.wan
        forward = raw.over(base, self.source, self.at(key), "a delay here or in defaults.wan")
        back = raw.back.over(forward, self.source, self.at(f"{key}.back"), "")
        if ends[0]:
            self.links.append(WanLink(self.cluster_of[raw.from_], self.cluster_of[raw.to], forward, back))
        else:
            self.overrides.append(Override(self.site_of[raw.from_], self.site_of[raw.to], forward, back))

    def default(self, raw: RawChannel | None, which: str) -> Channel | None:
        return None if raw is None else raw.over(None, self.source, self.at(f"defaults.{which}"), "a delay")

    def claim(self, name: str, key: str) -> None:
        """Refuse a name that another site or cluster has."""
        if not name.strip():
            raise self.wrong(key, show(name), "a name")
        if name in self.cluster_of or name in self.site_of:
            taken = "cluster" if name in self.cluster_of else "site"
            raise self.wrong(key, f"{name!r}, already the name of a {taken}", "a unique name")

    def at(self, key: str) -> str:
        return join(self.prefix, key)

    def wrong(self, key: str, found: str, expected: str) -> InputError:
        return InputError(self.source, self.at(key), found, expected)


def with_source(check: Callable[[], str], source: str, key: str) -> str:
    """The result of a check; its errors get the file and the key."""
    try:
        return check()
    except BadValue as error:
        raise error.at(source, key) from None


def plain_delay(delay: Delay | float) -> Delay:
    if not isinstance(delay, int | float):
        return delay
    try:
        return Constant(float(delay))
    except BadValue as error:
        raise BadValue("delay", error.found, error.expected) from None
