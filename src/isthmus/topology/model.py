"""Network topology: sites in clusters, LANs inside, WAN links between, and the channels of each path.

A site's id is its place in `sites`. A packet passes, in this order of precedence: the channel that was given for just
that pair of sites; the LAN, inside one cluster; the direct WAN link between two clusters; otherwise the WAN links of
the path of least mean delay (then fewest links, then lowest cluster numbers).

Invariants: names are unique over sites and clusters; every cluster has a site, an agent of its own, and a path to every
other cluster. Routes are computed when first requested and cached beside the fields, so that a topology stays a value.
A `Passage` is how both hosts send packets along such a path: pure arithmetic, from one time to the times of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from math import isfinite
from random import Random

import msgspec

from isthmus.core.errors import LocalError
from isthmus.core.message import SiteId
from isthmus.core.validation import BadValue, one_of
from isthmus.topology.delay import Delay
from isthmus.topology.graph import DelayGraph, components, delay_graph, least_delay_tree


class Channel(msgspec.Struct, frozen=True):
    """One direction of one network: delay, loss, duplicates, bandwidth and order."""

    delay: Delay
    loss: float = 0.0  # probability that a packet is lost, in [0, 1)
    duplicate: float = 0.0  # probability that it arrives twice, in [0, 1]
    bandwidth_mbps: float | None = None  # megabits a second, above 0; None: unlimited
    fifo: bool = True  # packets never overtake each other

    def __post_init__(self) -> None:
        if not 0 <= self.loss < 1:
            raise BadValue("loss", repr(self.loss), "a probability from 0 to below 1")
        if not 0 <= self.duplicate <= 1:
            raise BadValue("duplicate", repr(self.duplicate), "a probability from 0 to 1")
        if self.bandwidth_mbps is not None and not (isfinite(self.bandwidth_mbps) and self.bandwidth_mbps > 0):
            raise BadValue("bandwidth_mbps", repr(self.bandwidth_mbps), "a finite number above 0")


class Pipe:
    """A channel of limited bandwidth, one direction."""

    __slots__ = ("free_ns", "ns_per_byte")

    def __init__(self, bandwidth_mbps: float) -> None:
        self.ns_per_byte = 8_000 / bandwidth_mbps
        self.free_ns = 0  # when its last packet will have left

    def pass_through(self, now_ns: int, size_bytes: int) -> int:
        """The time when a packet that enters now has left the pipe."""
        self.free_ns = max(now_ns, self.free_ns) + round(size_bytes * self.ns_per_byte)
        return self.free_ns


class Passage:
    """The path from one site to another."""

    __slots__ = ("delays", "duplicates", "fifo", "last_ns", "losses", "pipes", "random")

    def __init__(self, channels: Sequence[Channel], random: Random, pipes: list[Pipe] | None = None) -> None:
        self.random = random
        self.delays = [channel.delay.sampler(random) for channel in channels]
        self.losses = [channel.loss for channel in channels if channel.loss]
        self.duplicates = [channel.duplicate for channel in channels if channel.duplicate]
        self.fifo = all(channel.fifo for channel in channels)
        limits = [channel.bandwidth_mbps for channel in channels if channel.bandwidth_mbps is not None]
        self.pipes = [Pipe(limit) for limit in limits] if pipes is None else pipes  # given: shared with other paths
        self.last_ns = 0  # arrival of the last packet

    def lost(self) -> bool:
        draw = self.random.random
        return any(draw() < loss for loss in self.losses)

    def delay_ns(self) -> int:
        """The delay of the next packet, without queueing."""
        return sum([sample() for sample in self.delays])

    def arrivals(self, now_ns: int, size_bytes: int) -> list[int]:
        """The arrival times of a packet's copies: none if it is lost, two if it is duplicated."""
        if self.lost():
            return []
        draw = self.random.random
        copies = 2 if any(draw() < duplicate for duplicate in self.duplicates) else 1
        return [self.arrival(now_ns, size_bytes) for _ in range(copies)]

    def arrival(self, now_ns: int, size_bytes: int) -> int:
        at_ns = now_ns
        for pipe in self.pipes:
            at_ns = pipe.pass_through(at_ns, size_bytes)
        at_ns += self.delay_ns()
        if self.fifo:
            at_ns = self.last_ns = max(at_ns, self.last_ns)
        return at_ns


class TopologySite(msgspec.Struct, frozen=True, gc=False):
    """One machine."""

    name: str
    cluster: int
    address: str = ""  # where it listens live, host:port; "": given elsewhere


class Cluster(msgspec.Struct, frozen=True):
    """The sites of one LAN."""

    name: str
    sites: tuple[SiteId, ...]
    agent: SiteId  # one of the sites
    lan: Channel
    latitude: float | None = None  # degrees, from -90 to 90
    longitude: float | None = None  # degrees, from -180 to 180
    gateways: tuple[SiteId, ...] = ()  # sites that join it to other LANs; () for the agent and a second site
    node_of: int | None = None  # the cluster whose LAN this node is on, with its agent as communication server
    references: tuple[SiteId, ...] = ()  # sites with a source of true time, such as a GPS receiver

    def __post_init__(self) -> None:
        for key, value, limit in (("latitude", self.latitude, 90), ("longitude", self.longitude, 180)):
            if value is not None and not -limit <= value <= limit:
                raise BadValue(key, repr(value), f"degrees from -{limit} to {limit}")
        if (self.latitude is None) != (self.longitude is None):
            missing = "latitude" if self.latitude is None else "longitude"
            raise BadValue(missing, "nothing", "both latitude and longitude, or neither")
        if self.node_of is not None and len(self.gateways) > 1:
            raise BadValue("gateways", f"{len(self.gateways)} of a node", "one at most, its communication server")

    def is_joined(self) -> bool:
        return bool(self.gateways) or self.node_of is not None


class WanLink(msgspec.Struct, frozen=True):
    """Two clusters joined: `forward` leads from a to b, `back` from b to a."""

    a: int
    b: int
    forward: Channel
    back: Channel


class Override(msgspec.Struct, frozen=True):
    """Two sites with their own channels, which take precedence over those of their clusters."""

    a: SiteId
    b: SiteId
    forward: Channel
    back: Channel


class GatewayLink(msgspec.Struct, frozen=True):
    """Two gateways of different clusters that relay for each other."""

    a: SiteId
    b: SiteId


class Region(msgspec.Struct, frozen=True):
    """Clusters that form a causal zone together."""

    name: str
    clusters: tuple[int, ...]
    separator: tuple[SiteId, ...] = ()  # () for the gateways that have links out of the region


class Topology(msgspec.Struct, frozen=True, dict=True):
    """A network: sites, the clusters they form, the links between clusters."""

    name: str
    sites: tuple[TopologySite, ...]
    clusters: tuple[Cluster, ...]
    links: tuple[WanLink, ...] = ()
    overrides: tuple[Override, ...] = ()
    gateway_links: tuple[GatewayLink, ...] = ()  # () for one along each WAN link
    routes: tuple[tuple[int, ...], ...] = ()  # fixed routes over gateways, cluster by cluster; otherwise the shortest
    regions: tuple[Region, ...] = ()

    def __post_init__(self) -> None:
        if not self.clusters:
            raise BadValue("clusters", "nothing", "at least one cluster")
        names = [cluster.name for cluster in self.clusters] + [site.name for site in self.sites]
        if len(set(names)) < len(names):
            raise LocalError(f"the topology {self.name} has two sites or clusters of one name")
        for cluster in self.clusters:
            if cluster.agent not in cluster.sites:
                raise LocalError(f"the agent of {cluster.name} is none of its sites")
        if len(self.clusters) > 1:
            parts = components(len(self.clusters), [(link.a, link.b) for link in self.links])
            if len(parts) > 1:
                here, there = (self.clusters[part[0]].name for part in parts[:2])
                expected = "links (or defaults.wan) that join all clusters"
                raise BadValue("links", f"no path from {here} to {there}", expected)

    def site_id(self, name: str) -> SiteId:
        if name not in self._names or self.sites[self._names[name][0]].name != name:
            raise BadValue("", repr(name), one_of(name, [site.name for site in self.sites]))
        return self._names[name][0]

    def resolve(self, name: str) -> tuple[SiteId, ...]:
        """The sites that a name stands for: one site, or all of a cluster."""
        if name not in self._names:
            raise BadValue("", repr(name), one_of(name, self._names))
        return self._names[name]

    def channels(self, source: SiteId, target: SiteId) -> tuple[Channel, ...]:
        """The channels that a packet passes, in order; none from a site to itself."""
        if source == target:
            return ()
        if (override := self._overrides.get((source, target))) is not None:
            return (override,)
        here, there = self.sites[source].cluster, self.sites[target].cluster
        return (self.clusters[here].lan,) if here == there else self.path(here, there)

    def has_own_channel(self, source: SiteId, target: SiteId) -> bool:
        """Whether a channel was given for just this pair of sites."""
        return (source, target) in self._overrides

    def path(self, here: int, there: int) -> tuple[Channel, ...]:
        """The WAN channels from one cluster to another: the direct link, or the path of least mean delay."""
        if (here, there) in self._direct:
            return (self._direct[here, there],)
        route = self.route(here, there)
        return tuple(self._direct[pair] for pair in pairwise(route))

    def route(self, here: int, there: int) -> tuple[int, ...]:
        """The clusters on the way from one to another, both ends included."""
        if here == there or (here, there) in self._direct:
            return (here,) if here == there else (here, there)
        if here not in self._trees:
            self._trees[here] = least_delay_tree(self._graph, here)
        before, route = self._trees[here], [there]
        while route[-1] != here:
            route.append(before[route[-1]])
        return tuple(reversed(route))

    def all_channels(self) -> Iterator[Channel]:
        yield from (cluster.lan for cluster in self.clusters)
        for link in self.links:
            yield from (link.forward, link.back)
        for override in self.overrides:
            yield from (override.forward, override.back)

    def mean_ms(self, source: SiteId, target: SiteId) -> float:
        return sum(channel.delay.mean_ms for channel in self.channels(source, target))

    def longest_ms(self, source: SiteId, target: SiteId) -> float:
        """The longest delay without queues; inf if it is unbounded."""
        return sum(channel.delay.longest_ms for channel in self.channels(source, target))

    def cluster_mean_ms(self, here: int, there: int) -> float:
        return sum(channel.delay.mean_ms for channel in self.path(here, there)) if here != there else 0.0

    @cached_property
    def _names(self) -> dict[str, tuple[SiteId, ...]]:
        names = {cluster.name: cluster.sites for cluster in self.clusters}
        return names | {site.name: (SiteId(number),) for number, site in enumerate(self.sites)}

    @cached_property
    def _overrides(self) -> dict[tuple[SiteId, SiteId], Channel]:
        forward = {(link.a, link.b): link.forward for link in self.overrides}
        return forward | {(link.b, link.a): link.back for link in self.overrides}

    @cached_property
    def _direct(self) -> dict[tuple[int, int], Channel]:
        forward = {(link.a, link.b): link.forward for link in self.links}
        return forward | {(link.b, link.a): link.back for link in self.links}

    @cached_property
    def _graph(self) -> DelayGraph:
        """The WAN links with their mean delays, one entry per direction."""
        delays = {pair: channel.delay.mean_ms for pair, channel in self._direct.items()}
        return delay_graph(len(self.clusters), delays)

    @cached_property
    def _trees(self) -> dict[int, list[int]]:
        """The cluster before each one on its route, for each cluster from which routes were requested."""
        return {}
