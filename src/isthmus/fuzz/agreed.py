"""Random scenarios with agreed membership, each a function of one seed.

Network, traffic and stack are those of `random_scenario`. The faults are drawn separately: crashes of any number of
sites, some in the middle of a view change; partitions; cuts in one direction or of one pair only; links slowed down
enough for wrong suspicion; loss; leaves; pauses. Every fault ends before the run does; where a view has lost its quorum
permanently, an operator founds the group anew.
"""

from __future__ import annotations

from random import Random

import msgspec

from isthmus.fuzz.scenarios import random_scenario, with_second_group
from isthmus.protocols.membership.suspicion import Timing
from isthmus.scenario.faults import Crash, DelayShift, Fault, Heal, Leave, Loss, Partition, Pause, RandomFaults, Recover
from isthmus.scenario.model import Agreed, Membership, Scenario
from isthmus.stacks.registry import STACKS
from isthmus.topology.model import Topology

DURATION_MS = 3_000.0
ROUND_TRIP_MIN_MS = 20.0  # shorter round trips add packets, but no new schedules
CEILING = 60  # heartbeats: at 50 % loss, this many in a row are lost with probability 10^-18
ROUNDS_SOON = 6.0  # one-way delays after detection within which a view change is under way


def agreed_scenario(stack: str, seed: int) -> Scenario:
    plain = random_scenario(stack, seed)
    random = Random(f"agreed/{stack}/{seed}")
    agreed = random_agreed(random, plain.topology)
    duration_ms = DURATION_MS
    made = msgspec.structs.replace(
        plain,
        name=f"agreed-{stack}-{seed}",
        stack=msgspec.structs.replace(plain.stack, transport="reliable", safe=is_safe(stack, seed)),
        groups=(),
        workloads=tuple(workload for workload in plain.workloads if not workload.group),
        duration_ms=max(duration_ms, plain.duration_ms),
        drain_ms=plain.drain_ms,
        faults=(
            *random_trouble(random, plain.topology, agreed, duration_ms),
            *random_pauses(Random(f"pauses/{stack}/{seed}"), plain.topology, agreed, duration_ms),
        ),
        random_faults=RandomFaults(losses=random.choice([0, 1]), clock_jumps=random.choice([0, 1])),
        membership=Membership(kind="agreed", agreed=agreed),
    )
    apart = Random(f"groups/{stack}/{seed}")
    if apart.random() >= 0.12 or made.stack.safe:
        return made
    both = with_second_group(made, apart)
    return both if can_vote(both) else made


def can_vote(scenario: Scenario) -> bool:
    """Return whether every group keeps a majority of its votes; otherwise it can never form a view again."""
    votes = scenario.membership.agreed.votes(scenario.topology)
    gone: set[str] = set()  # permanently
    for fault in scenario.faults:
        if isinstance(fault, Crash | Leave):
            gone.add(fault.site)
        elif isinstance(fault, Recover):
            gone.discard(fault.site)
    names = [site.name for site in scenario.topology.sites]
    for group in scenario.groups:
        members = scenario.members_of(group.name)
        left = [votes.get(site, 1) for site in members if names[site] not in gone]
        if 2 * sum(left) <= sum(votes.get(site, 1) for site in members):
            return False
    return True


def is_safe(stack: str, seed: int) -> bool:
    """Return whether delivery is safe: in a quarter of the runs, for stacks that support it."""
    return "safe" in STACKS[stack].options and Random(f"safe/{stack}/{seed}").random() < 0.25


def random_agreed(random: Random, topology: Topology) -> Agreed:
    """Draw options: short or long time-outs, with or without the file, sometimes with unequal weights."""
    heartbeat_ms = random.choice([25.0, 50.0, 100.0])
    lan = Timing(heartbeat_ms=heartbeat_ms, floor_ms=random.choice([2, 4, 8]) * heartbeat_ms, ceiling_ms=6_000)
    wan = Timing(heartbeat_ms=100.0, floor_ms=random.choice([200.0, 400.0, 800.0]), ceiling_ms=100.0 * CEILING)
    names = [site.name for site in topology.sites]
    weights = {name: random.choice([0, 1, 1, 2, 3]) for name in names} if random.random() < 0.25 else {}
    if weights and not any(weights.values()):
        weights[names[0]] = 1
    usual_ms = Agreed().round_trip_of(topology)
    round_ms = max(ROUND_TRIP_MIN_MS, usual_ms * random.choice([1, 2]))
    return Agreed(file=random.random() < 0.5, lan=lan, wan=wan, weights=weights, round_trip_ms=round_ms)


def random_trouble(random: Random, topology: Topology, agreed: Agreed, duration_ms: float) -> tuple[Fault, ...]:
    """Draw faults of all kinds, in sequence or concurrent; each ends within the run."""
    names = [site.name for site in topology.sites]
    round_ms = agreed.round_trip_of(topology)
    faults: list[Fault] = []
    for _ in range(random.choice([0, 1, 1, 2, 3])):
        at_ms = random.uniform(0, 0.8) * duration_ms
        until_ms = random.uniform(at_ms + 1, duration_ms)
        faults += random.choice([partition, one_way, pair_cut, slow, loss])(random, names, at_ms, until_ms)
    at_ms = random.uniform(0, 0.7) * duration_ms
    victims = random.sample(names, random.choice([0, 1, 1, 2, 2, 3]) % len(names))
    stays_down = random.random() < 0.2 and len(victims) <= (len(names) - 1) // 2
    for site in victims:
        if random.random() < 0.15 and len(names) > 2:
            faults.append(Leave(at_ms=at_ms, site=site))
        else:
            faults.append(Crash(at_ms=at_ms, site=site))
            if not stays_down:
                faults.append(Recover(at_ms=random.uniform(at_ms, duration_ms), site=site))
        detection_ms = random.choice([agreed.lan.floor_ms, agreed.wan.floor_ms])
        soon_ms = at_ms + detection_ms + random.uniform(0, ROUNDS_SOON) * round_ms / 2
        at_ms = soon_ms if random.random() < 0.7 and soon_ms < duration_ms else random.uniform(0, 0.9) * duration_ms
    return tuple(sorted(faults, key=lambda fault: fault.at_ms))


def random_pauses(random: Random, topology: Topology, agreed: Agreed, duration_ms: float) -> list[Fault]:
    """Draw pauses, in a third of the runs: for a fraction or for a multiple of a time-out."""
    if random.random() > 1 / 3:
        return []
    names = [site.name for site in topology.sites]
    pauses: list[Fault] = []
    for site in random.sample(names, random.choice([1, 1, 2, 3]) % len(names)):
        at_ms = random.uniform(0, 0.8) * duration_ms
        long_ms = random.choice([0.5, 1, 2, 4]) * random.choice([agreed.lan.floor_ms, agreed.wan.floor_ms])
        pauses.append(Pause(at_ms=at_ms, until_ms=at_ms + random.uniform(0.2, 1) * long_ms, site=site))
    return pauses


def partition(random: Random, names: list[str], at_ms: float, until_ms: float) -> list[Fault]:
    side = tuple(random.sample(names, random.randint(1, max(1, len(names) - 1))))
    return [Partition(at_ms=at_ms, groups=(side,)), Heal(at_ms=until_ms)]


def one_way(random: Random, names: list[str], at_ms: float, until_ms: float) -> list[Fault]:
    """Drop all packets in one direction between two sets of sites."""
    cut = random.randint(1, len(names) - 1)
    order = random.sample(names, len(names))
    return [Loss(at_ms=at_ms, until_ms=until_ms, source=tuple(order[:cut]), target=tuple(order[cut:]), probability=1.0)]


def pair_cut(random: Random, names: list[str], at_ms: float, until_ms: float) -> list[Fault]:
    """Drop all packets between two sites, in one or both directions; all others reach both."""
    a, b = random.sample(names, 2)
    ways = [((a,), (b,)), ((b,), (a,))][: random.choice([1, 2])]
    return [Loss(at_ms=at_ms, until_ms=until_ms, source=s, target=t, probability=1.0) for s, t in ways]


def slow(random: Random, names: list[str], at_ms: float, until_ms: float) -> list[Fault]:
    """Delay the packets of some sites until the sites are suspected; the packets still arrive."""
    source = tuple(random.sample(names, random.randint(1, len(names))))
    return [DelayShift(at_ms=at_ms, until_ms=until_ms, source=source, add_ms=random.uniform(50, 1500))]


def loss(random: Random, names: list[str], at_ms: float, until_ms: float) -> list[Fault]:
    source = tuple(random.sample(names, random.randint(1, len(names))))
    return [Loss(at_ms=at_ms, until_ms=until_ms, source=source, probability=random.uniform(0.05, 0.3))]
