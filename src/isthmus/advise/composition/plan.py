"""A composition for a network and its traffic: groups along clusters, near groups near in the tree, the tree balanced.

Few shapes are worth a look, and each can be priced (cost.py). *Groups*: the clusters; the clusters cut into equal
parts; or near clusters put together. *Tree*: all groups below one IGP; or near groups, by delay over traffic, below one
IGP each, and these below a root. *Forwarding*: each kind in the order of their prices; the first that the calculus
grants is taken, and its protocols are weakened as long as it does.

At most 12 groups are planned, and compared with one group of all sites. A process of a router runs at the agent of the
cluster in which its group has most members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from isthmus.advise.composition.cost import Cost, Delays, LoadedMember, composition_cost, node_cost
from isthmus.core.validation import BadValue
from isthmus.protocols.routing.calculus.model import (
    PARTS,
    Composition,
    DomainScope,
    Forwarding,
    GroupFlow,
    Igp,
    OrderingDomain,
    ProcessGroup,
    RouterSpec,
    Semantics,
    Wanted,
)
from isthmus.protocols.routing.calculus.semantics import grants
from isthmus.protocols.routing.calculus.walks import network_of
from isthmus.topology.model import Topology

GROUPS_MAX = 12
CUTS = (1, 2, 3, 4)
MODES: tuple[Forwarding, ...] = ("plain", "total", "hierarchical", "shadow-and-hold")
STACKS_FOR: dict[Semantics, str] = {"fifo": "fifo", "causal": "causal-vector", "fifo-total": "token-site"}
DOMAIN = "everyone"

Sites = tuple[int, ...]


class SiteFlow(NamedTuple):
    """What a site sends to some sites, in messages per ms."""

    source: int
    to: Sites
    rate: float


class PlannedComposition(NamedTuple):
    """One way to compose the sites."""

    name: str
    composition: Composition | None  # None: one group
    cost: Cost


class Blueprint(NamedTuple):
    """Groups and the regions that they form; one region: a single IGP."""

    name: str
    groups: tuple[Sites, ...]
    regions: tuple[tuple[int, ...], ...]


class PlanTask(NamedTuple):
    """What a composition is planned for."""

    topology: Topology
    delays: Delays
    flows: Sequence[SiteFlow]
    wants: Wanted
    scope: DomainScope


def plan_composition(
    topology: Topology, delays: Delays, flows: Sequence[SiteFlow], wants: Wanted, scope: DomainScope
) -> list[PlannedComposition]:
    """Return the single group, then the granted plan of each shape, the fastest first."""
    task = PlanTask(topology, delays, flows, wants, scope)
    if not flows:
        raise BadValue("workloads", "no messages", "traffic to plan for")
    everyone = range(len(topology.sites))
    total = "total" in PARTS[wants]
    members = [LoadedMember(site, sum(flow.rate for flow in flows if flow.source == site), False) for site in everyone]
    whole = node_cost(total, members, delays)
    rate = sum(flow.rate for flow in flows)
    single = PlannedComposition(
        "single group", None, Cost(whole.mean_ms, whole.worst_ms, 1000 * rate * whole.headroom, (whole.kind,))
    )
    found = []
    shapes = {blueprint[1:]: blueprint for blueprint in blueprints(topology, delays, flows)}
    for blueprint in shapes.values():
        planned = best_of(task, blueprint)
        if planned is not None:
            found.append(planned)
    return [single, *sorted(found, key=lambda one: (one.cost.mean_ms, -one.cost.throughput_per_s))]


def blueprints(topology: Topology, delays: Delays, flows: Sequence[SiteFlow]) -> Iterator[Blueprint]:
    clusters = [tuple(map(int, cluster.sites)) for cluster in topology.clusters]
    partitions: dict[tuple[Sites, ...], str] = {}
    for cut in CUTS:
        parts = tuple(part for cluster in clusters for part in cut_into(cluster, min(cut, max(1, len(cluster) // 2))))
        partitions.setdefault(parts, "one group per cluster" if cut == 1 else f"clusters cut into {cut}")
    for count in range(2, min(len(clusters), GROUPS_MAX + 1)):
        near = gathered(clusters, count, lambda a, b: mean_delay(a, b, delays), len(topology.sites))
        merged = tuple(tuple(site for at in part for site in clusters[at]) for part in near)
        partitions.setdefault(merged, f"{count} groups of near clusters")
    for groups, name in partitions.items():
        if not 2 <= len(groups) <= GROUPS_MAX:
            continue
        yield Blueprint(f"{name}, one IGP", groups, (tuple(range(len(groups))),))
        for count in range(2, len(groups) // 2 + 1):
            most = -(-len(groups) // count)
            regions = gathered(list(groups), count, lambda a, b: nearness(a, b, delays, flows), most)
            if len(regions) > 1 and all(len(region) > 1 for region in regions):
                yield Blueprint(f"{name}, {len(regions)} regions", groups, regions)


def cut_into(sites: Sites, count: int) -> list[Sites]:
    bounds = [len(sites) * place // count for place in range(count + 1)]
    return [sites[start:end] for start, end in pairwise(bounds)]


def mean_delay(one: Sites, other: Sites, delays: Delays) -> float:
    return sum(delays[a][b] + delays[b][a] for a in one for b in other) / (2 * len(one) * len(other))


def nearness(one: Sites, other: Sites, delays: Delays, flows: Sequence[SiteFlow]) -> float:
    """The delay between two groups over the traffic between them, less for those that talk more than the average."""
    ends = frozenset(one), frozenset(other)
    pairs = (ends, ends[::-1])
    between = sum(
        flow.rate for flow in flows for near, far in pairs if flow.source in near and not far.isdisjoint(flow.to)
    )
    return mean_delay(one, other, delays) / (1 + between / sum(flow.rate for flow in flows))


def gathered(
    parts: Sequence[Sites], count: int, distance: Callable[[Sites, Sites], float], most: int
) -> tuple[tuple[int, ...], ...]:
    """Put the nearest together, small ones first, until so many are left, none with more than `most` parts."""
    left: list[tuple[int, ...]] = [(at,) for at in range(len(parts))]
    apart = {(a, b): distance(parts[a], parts[b]) for a in range(len(parts)) for b in range(a + 1, len(parts))}

    def between(one: tuple[int, ...], other: tuple[int, ...]) -> float:
        return float(sum(apart[min(a, b), max(a, b)] for a in one for b in other) / (len(one) * len(other)))

    while len(left) > count:
        pairs = [
            (round(between(one, other), 9), len(one) + len(other), one, other)
            for at, one in enumerate(left)
            for other in left[at + 1 :]
            if len(one) + len(other) <= most
        ]
        if not pairs:
            break
        _, _, one, other = min(pairs)
        left = sorted([*(part for part in left if part not in (one, other)), tuple(sorted(one + other))])
    return tuple(left)


def best_of(task: PlanTask, blueprint: Blueprint) -> PlannedComposition | None:
    """The cheapest forwarding of a shape that the calculus grants, with protocols as weak as it allows."""
    parts = PARTS[task.wants]
    strong: Semantics = "fifo-total" if "total" in parts else "causal" if "causal" in parts else "fifo"
    options = []
    for place, mode in enumerate(MODES):
        composition = composed(task, blueprint, mode, strong, strong)
        try:
            options.append((priced(task, composition, blueprint).mean_ms, place, mode))
        except BadValue:
            continue  # this shape has no such forwarding
    for _, _, mode in sorted(options):
        strongest = composed(task, blueprint, mode, strong, strong)
        if grants(strongest, strongest.domains[0]):
            chosen = weakened(task, blueprint, mode, strong)
            cost = priced(task, chosen, blueprint)
            return PlannedComposition(blueprint.name, with_stacks(chosen, cost.kinds), cost)
    return None


def weakened(task: PlanTask, blueprint: Blueprint, mode: Forwarding, strong: Semantics) -> Composition:
    """The weakest protocols, the same for all groups and the same for all IGPs, that are still enough."""
    kinds = list(STACKS_FOR)[: list(STACKS_FOR).index(strong) + 1]
    pairs = sorted(((groups, igps) for groups in kinds for igps in kinds), key=lambda pair: sum(map(kinds.index, pair)))
    for group_kind, igp_kind in pairs:
        composition = composed(task, blueprint, mode, group_kind, igp_kind)
        if grants(composition, composition.domains[0]):
            return composition
    raise AssertionError("the strongest protocols were granted")


def with_stacks(composition: Composition, kinds: Sequence[str]) -> Composition:
    """The composition with a ring at each node where that is the fastest total order."""
    stacks = {node.name: "ring" for node, kind in zip(composition.nodes, kinds, strict=True) if kind == "ring"}
    groups = tuple(msgspec.structs.replace(one, stack=stacks.get(one.name, one.stack)) for one in composition.groups)
    igps = tuple(msgspec.structs.replace(one, stack=stacks.get(one.name, one.stack)) for one in composition.igps)
    return msgspec.structs.replace(composition, groups=groups, igps=igps)


def composed(
    task: PlanTask, blueprint: Blueprint, mode: Forwarding, group_kind: Semantics, igp_kind: Semantics
) -> Composition:
    names = [f"group-{number}" for number in range(len(blueprint.groups))]
    groups = tuple(
        ProcessGroup(name, tuple(task.topology.sites[site].name for site in sites), group_kind, STACKS_FOR[group_kind])
        for name, sites in zip(names, blueprint.groups, strict=True)
    )
    several = len(blueprint.regions) > 1
    igps = [f"region-{number}" for number in range(len(blueprint.regions))] if several else ["backbone"]
    routers = [
        RouterSpec(f"{names[group]}-router", (names[group], igp))
        for igp, region in zip(igps, blueprint.regions, strict=True)
        for group in region
    ]
    if several:
        routers += [RouterSpec(f"{igp}-router", (igp, "backbone")) for igp in igps]
        igps.append("backbone")
    used = classes_of(blueprint, task.flows)
    inter = tuple(
        GroupFlow(names[source], tuple(names[to] for to in sorted(tos))) for source, tos in used if tos != (source,)
    )
    intra = tuple(names[source] for source, tos in used if tos == (source,))
    domain = OrderingDomain(DOMAIN, tuple(names), task.wants, task.scope, mode, inter, intra, root="backbone")
    nodes = tuple(igp_of(name, igp_kind, sum(name in router.joins for router in routers)) for name in igps)
    return Composition(task.topology.name, groups, tuple(routers), (domain,), nodes)


def igp_of(name: str, kind: Semantics, routers: int) -> Igp:
    """An IGP: a link where FIFO between two routers is all that is needed."""
    return Igp(name, "fifo", "link") if kind == "fifo" and routers == 2 else Igp(name, kind, stack=STACKS_FOR[kind])


def classes_of(blueprint: Blueprint, flows: Sequence[SiteFlow]) -> dict[tuple[int, tuple[int, ...]], float]:
    """The traffic by group and destination groups."""
    home = {site: number for number, sites in enumerate(blueprint.groups) for site in sites}
    found: dict[tuple[int, tuple[int, ...]], float] = {}
    for flow in flows:
        key = (home[flow.source], tuple(sorted({home[site] for site in flow.to})))
        found[key] = found.get(key, 0.0) + flow.rate
    return found


def priced(task: PlanTask, composition: Composition, blueprint: Blueprint) -> Cost:
    """What a composition costs with the traffic, whatever scope it is judged over."""
    network = network_of(composition, composition.domains, "all")
    numbers = {(walk.source, walk.to): number for number, walk in enumerate(network.walks)}
    rates = {numbers[key]: rate for key, rate in classes_of(blueprint, task.flows).items()}
    homes: list[Sites] = [*blueprint.groups, *(() for _ in composition.igps)]
    return composition_cost(network, rates, homes, router_homes(composition, blueprint, task.topology), task.delays)


def router_homes(composition: Composition, blueprint: Blueprint, topology: Topology) -> list[int]:
    """The site of each router: the agent of the cluster in which its group, or its region's first, has most members."""
    number: Mapping[str, int] = {group.name: at for at, group in enumerate(composition.groups)}
    below: dict[str, int] = {}
    homes = []
    for router in composition.routers:
        first = router.joins[0]
        group = number[first] if first in number else below[first]
        below.setdefault(router.joins[1], group)
        counts: dict[int, int] = {}
        for site in blueprint.groups[group]:
            cluster = topology.sites[site].cluster
            counts[cluster] = counts.get(cluster, 0) + 1
        agent = topology.clusters[max(counts, key=lambda cluster: (counts[cluster], -cluster))].agent
        homes.append(int(agent) if agent in blueprint.groups[group] else blueprint.groups[group][0])
    return homes
