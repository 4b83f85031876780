"""Compositions run by real stacks and routers in the simulator: does the runtime keep what the calculus says?

The calculus is tried by an adversary that plays every protocol as badly as it may (random_compositions.py). Here the
same compositions run: nodes are stacks that keep no more than the declared order, as far as there is one; channels
reorder, and some pairs of sites are far apart; every class of messages has traffic, and some messages are answered. A
guarantee that a run breaks is an error of the layers, or of the calculus.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import msgspec
from tests.harness.random_compositions import SCOPES

from isthmus.core.message import SiteId
from isthmus.judge.oracle import Oracle
from isthmus.protocols.routing.calculus.model import Composition, DomainScope, OrderingDomain, connected_domains
from isthmus.protocols.routing.calculus.semantics import decide
from isthmus.protocols.routing.calculus.shape import Shape
from isthmus.protocols.routing.calculus.walks import walks_of
from isthmus.protocols.routing.routes import site_names
from isthmus.scenario.composition.nodes import nodes_as_groups
from isthmus.scenario.model import GroupSpec, Scenario, StackSpec
from isthmus.scenario.workload import Poisson, Reply, Workload
from isthmus.sim.run import SimRun
from isthmus.stacks.registry import STACKS
from isthmus.topology.delay import Uniform
from isthmus.topology.model import Channel, Cluster, Override, Topology, TopologySite
from isthmus.trace.domain import Domain
from isthmus.trace.schema import Row

STACKS_OF = {  # that keep these orders and no more, but for what always holds
    "none": ("unordered",),
    "fifo": ("fifo",),
    "causal": ("causal-vector", "causal-matrix", "causal-history"),
    "total": ("optimistic-arrival",),
    "fifo-total": ("token-site", "token-site", "ring", "symmetric", "optimistic"),
    "causal-total": ("token-site",),
}
CLASSES_MAX = 12  # with traffic, of each domain
DURATION_MS = 400.0
NEAR, FAR = Channel(Uniform(0.1, 4.0), fifo=False), Channel(Uniform(10.0, 60.0), fifo=False)


class Kept(NamedTuple):
    """One guarantee of a run."""

    domains: tuple[str, ...]
    scope: DomainScope
    order: str
    evidence_count: int
    fault: str  # the witness, where it was broken


class ComposedRun(NamedTuple):
    """What came of a run."""

    kept: list[Kept]
    faults: list[str]  # besides: what was lost or refused


def random_network(names: tuple[str, ...], random: Random, loss: float = 0.0) -> Topology:
    """Sites on one LAN of which some pairs are far apart, each way by itself."""
    near, far = (msgspec.structs.replace(channel, loss=loss) for channel in (NEAR, FAR))
    sites = tuple(TopologySite(name, 0) for name in names)
    numbers = tuple(SiteId(number) for number in range(len(names)))
    overrides = tuple(
        Override(a, b, *(far if random.random() < 0.5 else near for _ in range(2)))
        for a in numbers
        for b in numbers
        if a < b and random.random() < 0.4
    )
    return Topology("random", sites, (Cluster("lan", numbers, numbers[0], near),), overrides=overrides)


def with_stacks(composition: Composition, random: Random) -> tuple[GroupSpec, ...]:
    """The nodes with stacks drawn from those that keep just their orders."""
    drawn = []
    for node in composition.nodes:
        safe = any(router.replicas > 1 for router in composition.routers_of(node.name))
        names = [name for name in STACKS_OF[node.semantics] if not safe or "safe" in STACKS[name].options]
        drawn.append(GroupSpec(name=node.name, stack=StackSpec(name=random.choice(names))))
    return nodes_as_groups(composition, drawn)


def classes_of(composition: Composition, domain: OrderingDomain, random: Random) -> list[tuple[str, tuple[str, ...]]]:
    """Some classes of a domain, as names; () for what stays inside."""
    names = [group.name for group in composition.groups]
    walks = walks_of(Shape(composition, domain), 0, "all")
    found = [
        (names[walk.source], () if walk.is_intra else tuple(names[group] for group in walk.to))
        for walk in random.sample(walks, min(CLASSES_MAX, len(walks)))
    ]
    if not domain.flows and len(domain.groups) > 2:
        everyone = tuple(name for name in domain.groups if composition.group(name).open)
        found += [(name, everyone) for name in domain.groups if everyone != (name,) and everyone]
    return list(dict.fromkeys(found))


def random_traffic(composition: Composition, random: Random) -> tuple[Workload, ...]:
    """A few messages of each class, and answers."""
    made: list[Workload] = []
    for domain in composition.domains:
        for source, to in classes_of(composition, domain, random):
            count = random.randint(1, 3)
            rate = count / DURATION_MS * 1500
            made.append(Poisson(group=source, to_groups=to, rate_per_s=rate, count=count, payload_bytes=24))
            if random.random() < 0.5:
                made.append(Reply(group=source, to_groups=to, probability=0.3, depth=2, payload_bytes=24))
    return tuple(made)


def composed_scenario(composition: Composition, seed: int | str, loss: float = 0.0) -> Scenario:
    """A run of a composition over a random network with random stacks and traffic."""
    random = Random(f"composed/{seed}")
    return Scenario(
        name="composed",
        seed=random.randrange(1 << 30),
        stack=StackSpec(name="fifo"),
        topology=random_network(site_names(composition), random, loss),
        groups=with_stacks(composition, random),
        workloads=random_traffic(composition, random),
        composition=composition,
        duration_ms=DURATION_MS,
        payloads="varied",
        wire="codec" if random.random() < 0.2 else "reference",
    )


def run_composed(scenario: Scenario, run_type: type[SimRun] = SimRun) -> ComposedRun:
    """Run a scenario and judge every guarantee that the calculus gives its domains."""
    rows: list[Row] = []
    run = run_type(scenario, rows)
    summary = run.execute()
    composition = scenario.composition
    assert composition is not None
    faults = []
    lossy = any(igp.kind == "datagrams" for igp in composition.igps)
    if summary.undelivered_count() and not lossy:
        faults.append(f"{summary.undelivered_count()} deliveries are owed at the end")
    if summary.rejected_count:
        faults.append(f"{summary.rejected_count} packets were refused")
    return ComposedRun(judge_guarantees(composition, rows), faults)


def judge_guarantees(composition: Composition, rows: list[Row]) -> list[Kept]:
    """What was kept of each order that connected domains are guaranteed together."""
    kept = []
    numbers = {group.name: number for number, group in enumerate(composition.groups)}
    for part in connected_domains(composition.domains):
        groups = sorted({numbers[name] for domain in part for name in domain.groups})
        for scope in SCOPES:
            decision = decide(composition, part, scope)
            held = [one.order for one in decision.guarantees if one.holds]
            oracle = Oracle(rows, [Domain("part", tuple(groups), scope)])
            for verdict in oracle.scoped(["integrity", *held]):
                if verdict.domain:
                    witness = verdict.witness if verdict.status == "violated" else ""
                    kept.append(Kept(decision.domains, scope, verdict.property, verdict.evidence_count, witness))
    return kept
