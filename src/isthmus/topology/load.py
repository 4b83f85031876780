"""A topology from TOML and back.

The file says what differs from the common case: channels may leave out what `[defaults]` or, for the way back, the
way forth already says. Loading fills everything in; writing gives the filled-in form, so that loading it
again gives an equal topology. docs/design/topology.md has the form with every key.

Two clusters that no links join get a WAN link of their own where `defaults.wan` is given; without any links that is a
full mesh. Every mistake raises one `InputError` with the file, the key, what was found and what was expected.
"""

from __future__ import annotations

from itertools import combinations
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from isthmus.core.document import Invalid, convert, join, one_of, read_toml, show
from isthmus.core.errors import InputError
from isthmus.core.message import SiteId
from isthmus.topology.delay import Constant, Delay
from isthmus.topology.graph import components
from isthmus.topology.model import Channel, Cluster, GatewayLink, Override, Region, Site, Topology, WanLink
from isthmus.topology.separators import check_zones

SITES_MAX = 100_000


class RawChannel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A channel as written: what is left out comes from elsewhere."""

    delay: Delay | float | None = None  # a plain number: that many milliseconds, always
    loss: float | None = None
    duplicate: float | None = None
    bandwidth_mbps: float | None = None  # inf: unlimited, where a default would say otherwise
    fifo: bool | None = None

    def over(self, base: Channel | None, source: str, key: str, hint: str) -> Channel:
        """Lay what is written over what holds otherwise."""
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
        except Invalid as error:
            raise error.at(source, key) from None


class RawDefaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The channels where nothing else is said."""

    lan: RawChannel | None = None
    wan: RawChannel | None = None


class RawCluster(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cluster as written."""

    name: str
    sites: int | tuple[str, ...] = 1
    agent: str | None = None
    lan: RawChannel = RawChannel()
    latitude: float | None = None
    longitude: float | None = None
    gateways: tuple[str, ...] = ()


class RawGatewayLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two gateways, by their names."""

    from_: str = msgspec.field(name="from")
    to: str


class RawRoute(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fixed way from one cluster to another over gateways."""

    clusters: tuple[str, ...]  # both ends included


class RawRegion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A region as written."""

    name: str
    clusters: tuple[str, ...]
    separator: tuple[str, ...] = ()


class RawLink(RawChannel, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A link as written: the way forth, and what differs on the way back."""

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
    """The topology that a TOML file describes, named after the file where it has no name."""
    return topology_from_tables(read_toml(path), str(path))


def topology_from_tables(tables: Any, source: str, prefix: str = "") -> Topology:
    """The topology that tables describe; `prefix` is their key inside the file `source`."""
    raw = convert(tables, RawTopology, source, prefix)
    return Builder(raw, source, prefix).build()


class Builder:
    """Turns what is written into a topology, and knows the key of everything it looks at."""

    def __init__(self, raw: RawTopology, source: str, prefix: str) -> None:
        self.raw, self.source, self.prefix = raw, source, prefix
        self.sites: list[Site] = []
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
        if self.wan is not None and len(self.clusters) > 1:
            parts = components(len(self.clusters), [(link.a, link.b) for link in self.links])
            apart = sorted((min(a, b), max(a, b)) for x, y in combinations(parts, 2) for a in x for b in y)
            self.links += [WanLink(a, b, self.wan, self.wan) for a, b in apart]
        name = self.raw.name or Path(self.source).stem
        try:
            made = Topology(
                *(name, tuple(self.sites), tuple(self.clusters), tuple(self.links), tuple(self.overrides)),
                gateway_links=self.gateway_links(),
                routes=self.routes(),
                regions=self.regions(),
            )
            if made.gateway_links or made.routes or made.regions or any(c.gateways for c in made.clusters):
                check_zones(made)  # which refuses what cannot be
        except Invalid as error:
            raise error.at(self.source, self.prefix) from None
        return made

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
            names, keys = list(raw.sites), [f"{key}.sites[{k}]" for k in range(len(raw.sites))]
        if not names:
            raise self.wrong(f"{key}.sites", "an empty list", "at least one site")
        ids = tuple(SiteId(len(self.sites) + k) for k in range(len(names)))
        for site, name, place in zip(ids, names, keys, strict=True):
            self.claim(name, place)
            self.site_of[name] = site
            self.sites.append(Site(name, number))
        agent = names[0] if raw.agent is None else raw.agent
        if agent not in names:
            raise self.wrong(f"{key}.agent", show(agent), f"a site of {raw.name}: {one_of(agent, names)}")
        for order, gateway in enumerate(raw.gateways):
            if gateway not in names:
                found = f"{show(gateway)}, which is outside {raw.name}" if gateway in self.site_of else show(gateway)
                expected = f"a site of {raw.name}: {one_of(gateway, names)}"
                raise self.wrong(f"{key}.gateways[{order}]", found, expected)
        gateways = tuple(dict.fromkeys(self.site_of[gateway] for gateway in raw.gateways))
        hint = "a delay here or in defaults.lan"
        lan = raw.lan.over(self.lan, self.source, self.at(f"{key}.lan"), hint)
        try:
            cluster = Cluster(raw.name, ids, self.site_of[agent], lan, raw.latitude, raw.longitude, gateways)
        except Invalid as error:
            raise error.at(self.source, self.at(key)) from None
        self.clusters.append(cluster)

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


def plain_delay(delay: Delay | float) -> Delay:
    """A delay, or the constant one that a plain number stands for."""
    if not isinstance(delay, int | float):
        return delay
    try:
        return Constant(float(delay))
    except Invalid as error:
        raise Invalid("delay", error.found, error.expected) from None


def topology_to_toml(topology: Topology) -> str:
    """The TOML that loads as an equal topology."""
    names = [site.name for site in topology.sites]
    clusters = []
    for cluster in topology.clusters:
        sites = [names[site] for site in cluster.sites]
        numbered = sites == [f"{cluster.name}-{k}" for k in range(len(sites))]
        table: dict[str, Any] = {"name": cluster.name, "sites": len(sites) if numbered else sites}
        if cluster.agent != cluster.sites[0]:
            table["agent"] = names[cluster.agent]
        table["lan"] = channel_table(cluster.lan, None)
        if cluster.latitude is not None:
            table |= {"latitude": cluster.latitude, "longitude": cluster.longitude}
        if cluster.gateways:
            table["gateways"] = [names[site] for site in cluster.gateways]
        clusters.append(table)
    links = [
        {"from": topology.clusters[link.a].name, "to": topology.clusters[link.b].name} | link_table(link, None)
        for link in topology.links
    ]
    for pair in topology.overrides:
        here, there = topology.sites[pair.a].cluster, topology.sites[pair.b].cluster
        base = topology.clusters[here].lan if here == there else None
        links.append({"from": names[pair.a], "to": names[pair.b]} | link_table(pair, base))
    tables = {"name": topology.name, "clusters": clusters} | ({"links": links} if links else {})
    return tomli_w.dumps(tables | gateway_tables(topology))


def gateway_tables(topology: Topology) -> dict[str, Any]:
    """What is written of gateways, routes and regions, where anything is."""
    names = [site.name for site in topology.sites]
    lans = [cluster.name for cluster in topology.clusters]
    regions: list[dict[str, Any]] = []
    for region in topology.regions:
        table: dict[str, Any] = {"name": region.name, "clusters": [lans[number] for number in region.clusters]}
        regions.append(table | ({"separator": [names[s] for s in region.separator]} if region.separator else {}))
    tables: dict[str, Any] = {
        "gateway_links": [{"from": names[link.a], "to": names[link.b]} for link in topology.gateway_links],
        "routes": [{"clusters": [lans[number] for number in route]} for route in topology.routes],
        "regions": regions,
    }
    return {key: table for key, table in tables.items() if table}


def link_table(link: WanLink | Override, base: Channel | None) -> dict[str, Any]:
    table = channel_table(link.forward, base)
    return table if link.back == link.forward else table | {"back": channel_table(link.back, link.forward)}


def channel_table(channel: Channel, base: Channel | None) -> dict[str, Any]:
    """A channel as written: its delay, and what differs from what holds otherwise."""
    delay = channel.delay
    table: dict[str, Any] = {"delay": delay.ms if isinstance(delay, Constant) else msgspec.to_builtins(delay)}
    rest = base or Channel(delay)
    for key in ("loss", "duplicate", "bandwidth_mbps", "fifo"):
        value = getattr(channel, key)
        if value != getattr(rest, key):
            table[key] = inf if value is None else value
    return table
