"""The runs of the study `causal-separators`: a ring of LANs, groups inside LANs and across two of them.

Group G_k is all hosts of LAN k; group O_k is the second half of LAN k and the first half of LAN k + 1. Each host sends
30 messages at 10 per second, Poisson: 80 % to its LAN, 20 % to the O that it belongs to; or to sets drawn at random, or
drawn for each message; or LANs have nodes, whose participants send mostly to each other. Channels reorder.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Literal

from msgspec.structs import replace

from isthmus.core.message import SiteId
from isthmus.protocols.causal.options import CausalPolicy
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Poisson, Workload
from isthmus.stacks.registry import STACKS
from isthmus.studies.model import Cell, Scale
from isthmus.topology.delay import Gamma
from isthmus.topology.gateways.lans import GATEWAYS
from isthmus.topology.model import Channel, Cluster, Region, Topology, TopologySite, WanLink
from isthmus.topology.shapes import lan_ring, ring

Traffic = Literal["groups", "subsets", "drawn", "nested", "regions"]  # nested: nodes on LANs; regions: in one, too
NESTED = ("nested", "regions")

LAN = Channel(Gamma(1.3, 0.3**2, 1.0), fifo=False)
WAN = Channel(Gamma(60.0, 10.0**2, 50.0), fifo=False)
RATE_PER_S, LOCAL, MESSAGES = 10.0, 0.8, 30
SETS = 5  # to which a host sends, where they are drawn at random
NODES, PARTICIPANTS = 2, 4  # on each LAN, and on each node, where zones are nested
SENDING_MS = 1000 * MESSAGES / RATE_PER_S
WARM_UP = 0.4  # of the time of sending, before sizes are taken

GAUGE_MS = 5.0
BARE = CausalPolicy(gauge_ms=GAUGE_MS, anywhere=False, remainder=False, forgetting=False)  # only the rules of the paper
FULL = CausalPolicy(gauge_ms=GAUGE_MS)
RULES: dict[str, CausalPolicy] = {
    "literal": replace(BARE, symmetric=False, separators=False),
    "literal, R9": replace(BARE, symmetric=False),
    "symmetric": replace(BARE, separators=False),
    "symmetric, R9": BARE,
    "R9 anywhere": replace(FULL, remainder=False, forgetting=False),
    "R9 anywhere, remainder": replace(FULL, forgetting=False),
    "all": FULL,
    "all, masks": replace(FULL, coding="masks"),
    "all, not extended": replace(FULL, extended=False),
    "all, forced": replace(FULL, forced=True),
    **{
        f"all but {name}": replace(FULL, **{name: False})
        for name in ("symmetric", "anywhere", "remainder", "forgetting")
    },
    "all but R9": replace(FULL, separators=False),
    "vector": FULL,
    "matrix": FULL,
    "R1 to R4": replace(BARE, symmetric=False, separators=False, pruning=False),
    "R1 to R8": replace(BARE, symmetric=False, separators=False),
}
HISTORY = "causal-history"
STACKS_OF = {"vector": "causal-vector", "matrix": "causal-matrix", "R1 to R4": HISTORY, "R1 to R8": HISTORY}
AT_3_BY_8 = tuple(RULES)[:-2]
LENGTH = ("R1 to R4", "R1 to R8")  # whose sizes are measured over time
LOCAL_RULES = ("symmetric", "symmetric, R9", "all but R9", "all")
SIZES: dict[Scale, dict[tuple[Traffic, int, int], tuple[str, ...]]] = {
    "quick": {
        ("groups", 3, 4): (*LENGTH, "symmetric, R9", "all", "vector", "matrix"),
        ("groups", 3, 8): AT_3_BY_8,
        ("groups", 3, 16): ("all",),
        ("groups", 12, 8): ("symmetric, R9", "all"),
        ("groups", 24, 8): ("symmetric, R9", "all"),
        ("subsets", 3, 8): ("symmetric, R9", "all but R9", "all"),
        ("drawn", 3, 8): ("all but R9", "all"),
        ("nested", 3, 10): ("all but R9", "all"),
        ("regions", 3, 10): ("all",),
    },
    "full": {
        ("groups", 3, 4): (*LENGTH, "symmetric, R9", "all", "vector", "matrix"),
        ("groups", 3, 8): AT_3_BY_8,
        ("groups", 3, 16): ("symmetric", "symmetric, R9", "all", "vector", "matrix"),
        ("groups", 3, 32): ("symmetric", "symmetric, R9", "all"),
        ("groups", 6, 16): ("symmetric", "symmetric, R9", "all"),
        ("groups", 12, 16): (*tuple(RULES)[:4], "all", "all, masks"),
        ("groups", 24, 16): ("symmetric, R9", "all"),
        ("groups", 12, 32): ("symmetric", "symmetric, R9", "all", "all, masks"),
        ("groups", 6, 8): ("symmetric, R9", "all", "vector", "matrix"),
        ("groups", 12, 8): ("symmetric, R9", "all"),
        ("groups", 24, 8): ("symmetric, R9", "all"),
        ("subsets", 3, 8): (*LOCAL_RULES, "vector", "matrix"),
        ("subsets", 3, 16): LOCAL_RULES,
        ("subsets", 12, 8): LOCAL_RULES,
        ("drawn", 3, 8): LOCAL_RULES,
        ("drawn", 3, 16): LOCAL_RULES,
        ("drawn", 12, 8): ("symmetric, R9", "all"),
        ("nested", 3, 10): LOCAL_RULES,
        ("nested", 6, 10): LOCAL_RULES,
        ("nested", 12, 10): LOCAL_RULES,
        ("regions", 3, 10): ("all but R9", "all"),
        ("regions", 6, 10): ("all but R9", "all"),
    },
}


def hosts_of(lan: int, lans: int, hosts: int) -> tuple[str, ...]:
    return tuple(f"c{lan % lans}-{number}" for number in range(hosts))


def share_of(share: float, sites: tuple[str, ...], sets: int = 1, **to: Any) -> Workload:
    """A share of the messages of some hosts, those of each divided over so many sets of destinations."""
    rate, count = share * RATE_PER_S / sets, round(share * MESSAGES / sets)
    return Poisson(rate_per_s=rate, count=count, sites=sites, **to)


def group_traffic(lans: int, hosts: int) -> list[Workload]:
    """Messages to the groups of LANs, and to those across two LANs."""
    made: list[Workload] = []
    for lan in range(lans):
        inside = hosts_of(lan, lans, hosts)
        across = inside[hosts // 2 :] + hosts_of(lan + 1, lans, hosts)[: hosts // 2]
        made += [share_of(LOCAL, inside, to=inside), share_of(1 - LOCAL, across, to=across)]
    return made


def subset_traffic(lans: int, hosts: int, seed: int) -> list[Workload]:
    """As many messages, from each host to random sets of hosts of its own: inside its LAN, and over all LANs."""
    random = Random(f"subsets/{seed}")
    made: list[Workload] = []
    everyone = [host for lan in range(lans) for host in hosts_of(lan, lans, hosts)]
    for lan in range(lans):
        inside = hosts_of(lan, lans, hosts)
        for host in inside:
            for among, share in ((inside, LOCAL), (everyone, 1 - LOCAL)):
                sets = round(share * SETS)
                drawn = [tuple(random.sample(among, hosts // 2)) for _ in range(sets)]
                made += [share_of(share, (host,), sets, to=to) for to in drawn]
    return made


def drawn_traffic(lans: int, hosts: int) -> list[Workload]:
    """As many messages, each to a set of hosts drawn for it: of the sender's LAN, or of all LANs."""
    everyone = tuple(host for lan in range(lans) for host in hosts_of(lan, lans, hosts))
    some = max(1, hosts // 2)
    return [
        share_of(share, inside, to=some, among=among)
        for inside in (hosts_of(lan, lans, hosts) for lan in range(lans))
        for among, share in ((inside, LOCAL), (everyone, 1 - LOCAL))
    ]


def nested_ring(lans: int, region: bool) -> Topology:
    """A ring of LANs with nodes, each a communication server and participants; half of the LANs may be a region."""
    plain = lan_ring(lans, 1, LAN, WAN)
    sites, clusters, links = list(plain.sites), list(plain.clusters), list(plain.links)
    for lan in range(lans):
        for number in range(NODES):
            node = len(clusters)
            ids = tuple(SiteId(len(sites) + place) for place in range(1 + PARTICIPANTS))
            names = (f"n{lan}{number}-server", *participants_of(lan, number, lans))
            sites += [TopologySite(name, node) for name in names]
            clusters.append(Cluster(f"n{lan}{number}", ids, ids[0], LAN, gateways=ids[:1], node_of=lan))
            links.append(WanLink(lan, node, LAN, LAN))
    regions = (Region("region", tuple(range((lans + 1) // 2))),) if region else ()
    name = f"nested-ring-{lans}"
    return Topology(name, tuple(sites), tuple(clusters), tuple(links), (), plain.gateway_links, (), regions)


def participants_of(lan: int, number: int, lans: int) -> tuple[str, ...]:
    return tuple(f"n{lan % lans}{number}-{place}" for place in range(PARTICIPANTS))


def nested_traffic(lans: int) -> list[Workload]:
    """Messages of participants: most to their node, some to all nodes of their LAN, few to a node of the next LAN."""
    made: list[Workload] = []
    for lan in range(lans):
        on_lan = tuple(name for number in range(NODES) for name in participants_of(lan, number, lans))
        for number in range(NODES):
            inside = participants_of(lan, number, lans)
            across = (*inside, *participants_of(lan + 1, number, lans))
            shares = ((inside, LOCAL**2), (on_lan, LOCAL * (1 - LOCAL)), (across, 1 - LOCAL))
            made += [share_of(share, inside, to=to) for to, share in shares]
    return made


def first_group(lans: int, hosts: int, traffic: Traffic) -> tuple[int, int]:
    """The first and the last site of the first LAN's hosts, or of the first node's participants."""
    if traffic not in NESTED:
        return 0, hosts - 1
    before = (1 + GATEWAYS) * lans + 1  # the sites on LANs, and the first server
    return before, before + PARTICIPANTS - 1


def causal_scenario(
    lans: int, hosts: int, stack: str, policy: CausalPolicy, seed: int, traffic: Traffic = "groups"
) -> Scenario:
    """Traffic of a kind over a ring of LANs; with dedicated gateways only if the stack relays by them."""
    if traffic in NESTED:
        topology, workloads = nested_ring(lans, traffic == "regions"), nested_traffic(lans)
    else:
        topology = (lan_ring if STACKS[stack].relays else ring)(lans, hosts, LAN, WAN)
        if traffic == "groups":
            workloads = group_traffic(lans, hosts)
        else:
            workloads = subset_traffic(lans, hosts, seed) if traffic == "subsets" else drawn_traffic(lans, hosts)
    return Scenario(
        name="causal-separators",
        topology=topology,
        stack=StackSpec(name=stack, transport="direct", causal=policy),
        workloads=tuple(workloads),
        seed=seed,
        duration_ms=1.5 * SENDING_MS,
    )


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    cells = []
    for (traffic, lans, hosts), chosen in SIZES[scale].items():
        first, last = first_group(lans, hosts, traffic)
        of_size = {"traffic": traffic, "lans": lans, "hosts": hosts, "first": first, "last": last}
        for rules in chosen:
            stack = STACKS_OF.get(rules, "causal-separators")
            for seed in seeds:
                scenario = causal_scenario(lans, hosts, stack, RULES[rules], seed, traffic)
                cells.append(Cell({**of_size, "rules": rules, "seed": seed}, scenario))
    return cells
