"""A topology as TOML that loads as an equal one (load.py), without defaults."""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec
import tomli_w

from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel, Override, Topology, WanLink


def topology_to_toml(topology: Topology) -> str:
    names = [site.name for site in topology.sites]
    clusters = []
    for cluster in topology.clusters:
        sites: list[Any] = [names[site] for site in cluster.sites]
        numbered = sites == [f"{cluster.name}-{k}" for k in range(len(sites))]
        located = [topology.sites[site].address for site in cluster.sites]
        if any(located):
            pairs = zip(sites, located, strict=True)
            numbered, sites = False, [{"name": name, "address": at} if at else name for name, at in pairs]
        table: dict[str, Any] = {"name": cluster.name, "sites": len(sites) if numbered else sites}
        if cluster.agent != cluster.sites[0]:
            table["agent"] = names[cluster.agent]
        table["lan"] = channel_table(cluster.lan, None)
        if cluster.latitude is not None:
            table |= {"latitude": cluster.latitude, "longitude": cluster.longitude}
        if cluster.gateways:
            table["gateways"] = [names[site] for site in cluster.gateways]
        if cluster.references:
            table["references"] = [names[site] for site in cluster.references]
        if cluster.node_of is not None:
            table["node_of"] = topology.clusters[cluster.node_of].name
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
    """The tables of gateways, routes and regions, as far as there are any."""
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
    """A channel as written: its delay, and the differences from a base channel."""
    delay = channel.delay
    table: dict[str, Any] = {"delay": delay.ms if isinstance(delay, Constant) else msgspec.to_builtins(delay)}
    rest = base or Channel(delay)
    for key in ("loss", "duplicate", "bandwidth_mbps", "fifo"):
        value = getattr(channel, key)
        if value != getattr(rest, key):
            table[key] = inf if value is None else value
    return table
