"""Routers that crash: random compositions with replicated routers, random crash schedules, and what must not happen.

A schedule crashes replicas of routers, and processes, one after another and at times together, and brings most of them
back. What the protocols assume is kept: some replica of each router is up and has been for a while, and at no time are
more than half of a node's members down or new; not even half where members agree on views themselves. After the run:

| fault | means |
|---|---|
| lost | a message of a sender that was up all along is missing at a process that it is for and that was, too |
| orphaned | the same of a sender that crashed: delivered somewhere, and not everywhere it is for |
| repeated, made up | integrity over each domain |
| reordered | an order that the calculus guarantees over connected domains |
"""

from __future__ import annotations

from random import Random

import msgspec
from tests.harness.composed_runs import DURATION_MS, composed_scenario, judge_guarantees
from tests.harness.random_compositions import random_composition

from isthmus.core.layer import Kind
from isthmus.protocols.routing.calculus.model import Composition
from isthmus.protocols.routing.routes import replica_names, site_names
from isthmus.scenario.composition.check import routes_of
from isthmus.scenario.composition.nodes import sites_of
from isthmus.scenario.faults import Crash, Fault, Recover
from isthmus.scenario.model import Membership, Scenario
from isthmus.sim.run import SimRun
from isthmus.trace.schema import DESTINATIONS, KIND, NUMBER, ORIGIN, PROCESS, SENDER, Row

DETECTION_MS = 40.0
SETTLE_MS = 150.0  # from a recovery until a site counts as one that holds the state of its nodes
AGREED_SETTLE_MS = 2_000.0  # the same where members find out by themselves and agree on views
CRASHES_MAX = 6
LOSS = 0.25  # of packets, where a process and its router crash together: else what it sent still reaches all


class DownSpan(msgspec.Struct, frozen=True):
    """When a site is down or new."""

    site: str
    start_ms: float
    end_ms: float


def replicated(composition: Composition, random: Random) -> Composition:
    """The same with two or three replicas of each router."""
    routers = tuple(
        msgspec.structs.replace(router, replicas=random.choice((2, 2, 3))) for router in composition.routers
    )
    return msgspec.structs.replace(composition, routers=routers)


def failover_composition(random: Random) -> Composition:
    """A random composition without datagrams, whose routers all have replicas."""
    while True:
        drawn = random_composition(random)
        if all(igp.kind != "datagrams" for igp in drawn.igps) and len(site_names(drawn)) <= 12:
            return replicated(drawn, random)


def random_schedule(composition: Composition, random: Random, agreed: bool = False) -> tuple[Fault, ...]:
    """Crashes and recoveries that leave each router a replica, and each node enough of its members."""
    settle_ms = AGREED_SETTLE_MS if agreed else SETTLE_MS
    replicas = [name for router in composition.routers for name in replica_names(router)]
    processes = [name for group in composition.groups for name in group.members]
    spans: list[DownSpan] = []
    faults: list[Fault] = []
    for _ in range(random.randint(1, CRASHES_MAX)):
        site = random.choice(replicas if random.random() < 0.8 else processes)
        start = round(random.uniform(5.0, DURATION_MS), 3)
        if spans and random.random() < 0.4:
            start = round(min(DURATION_MS, spans[-1].start_ms + random.uniform(0.0, 60.0)), 3)
        back = round(start + random.uniform(60.0, 250.0), 3) if random.random() < 0.7 else None
        end = 1e9 if back is None or back > DURATION_MS else back + settle_ms
        span = DownSpan(site, start, end)
        if allowed(composition, [*spans, span], agreed):
            spans.append(span)
            faults.append(Crash(at_ms=start, site=site))
            if back is not None and back <= DURATION_MS:
                faults.append(Recover(at_ms=back, site=site))
    return tuple(faults)


def joint_schedule(composition: Composition, random: Random) -> tuple[Fault, ...]:
    """A process crashes, and at about the same time the replica that forwards what it sends; nobody comes back."""
    group = random.choice([group for group in composition.groups if len(group.members) > 1] or composition.groups)
    router = random.choice(composition.routers_of(group.name))
    start = round(random.uniform(20.0, DURATION_MS - 20.0), 3)
    site, replica = random.choice(group.members), replica_names(router)[0]
    both = [DownSpan(site, start, 1e9), DownSpan(replica, round(start + random.uniform(0.0, 15.0), 3), 1e9)]
    kept = [span for number, span in enumerate(both) if allowed(composition, both[: number + 1])]
    return tuple(Crash(at_ms=span.start_ms, site=span.site) for span in kept)


def allowed(composition: Composition, spans: list[DownSpan], agreed: bool = False) -> bool:
    """Whether at all times enough sites are up: each span is looked at where it starts, with all that overlap it.

    Members that agree on views need more than half of the lives of each: half of a node that crash before a view
    without them may leave nobody who may go on.
    """
    last = spans[-1]
    if any(other.site == last.site and overlap(other, last) for other in spans[:-1]):
        return False
    for moment in [span.start_ms for span in spans]:
        down = {span.site for span in spans if span.start_ms <= moment < span.end_ms}
        if any(down.issuperset(replica_names(router)) for router in composition.routers):
            return False
        for node in composition.nodes:
            members = sites_of(composition, node)
            if 2 * len(down.intersection(members)) > len(members) - agreed:
                return False
        if any(down.issuperset(group.members) for group in composition.groups):
            return False
    return True


def overlap(one: DownSpan, other: DownSpan) -> bool:
    return one.start_ms < other.end_ms and other.start_ms < one.end_ms


def failover_scenario(seed: int, joint: bool = False, agreed: bool = False) -> Scenario:
    """A composition with replicated routers, traffic and crashes; joint: of a process and its router together.

    agreed: members agree on views themselves, and find out by themselves who has crashed.
    """
    random = Random(f"failover/{seed}")
    composition = failover_composition(random)
    schedule = joint_schedule(composition, random) if joint else random_schedule(composition, random, agreed)
    drawn = composed_scenario(composition, f"failover/{seed}", LOSS if joint else 0.0)
    stagger_ms = random.choice((0.0, 0.0, 15.0))
    membership = Membership(detection_ms=DETECTION_MS, stagger_ms=stagger_ms)
    if agreed:
        membership = Membership(kind="agreed")
    return msgspec.structs.replace(drawn, faults=schedule, membership=membership)


def failover_faults(scenario: Scenario, run_type: type[SimRun] = SimRun) -> list[str]:
    """What went wrong in a run, a sentence each."""
    rows: list[Row] = []
    run = run_type(scenario, rows)
    return judged(scenario, rows, run.execute().rejected_count)


def judged(scenario: Scenario, rows: list[Row], rejected_count: int) -> list[str]:
    """What went wrong, by the rows of a run."""
    composition = scenario.composition
    assert composition is not None
    found = [
        f"{kept.order} over {kept.scope} of {', '.join(kept.domains)}: {kept.fault}"
        for kept in judge_guarantees(composition, rows)
        if kept.fault
    ]
    if rejected_count:
        found.append(f"{rejected_count} packets were refused")
    return found + missing(scenario, rows)


def missing(scenario: Scenario, rows: list[Row]) -> list[str]:
    """Messages that a process which was up all along lacks: those of senders that are up, and those delivered."""
    assert scenario.composition is not None
    routes = routes_of(scenario.composition, scenario.topology)
    crashed = {row[PROCESS] for row in rows if row[KIND] == Kind.CRASH}
    delivered: dict[tuple[int, ...], set[int]] = {}
    submitted: dict[tuple[int, ...], tuple[int, ...]] = {}
    for row in rows:
        name = (row[ORIGIN], row[SENDER], row[NUMBER])
        if row[KIND] == Kind.DELIVER:
            delivered.setdefault(name, set()).add(row[PROCESS])
        elif row[KIND] == Kind.SUBMIT:
            submitted[name] = row[DESTINATIONS] or routes.processes[row[ORIGIN]]
    found = []
    for key, destinations in submitted.items():
        reached = delivered.get(key, set())
        if key[1] in crashed and reached <= {key[1]}:
            continue  # it may have died with its sender
        lacking = [site for site in destinations if site not in crashed and site not in reached]
        if lacking:
            word = "orphaned" if key[1] in crashed else "lost"
            found.append(f"{word}: message {key} is missing at processes {lacking}, and delivered at {sorted(reached)}")
    return found
