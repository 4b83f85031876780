"""Random scenarios: any number of networks, workloads and faults, each the function of one seed.

They are small, so that thousands run in minutes, and rough, so that few orders survive them by luck: loss up to 30 %,
duplication, reordering, heavy-tailed delays, crashes, recoveries, partitions that heal, clock jumps, bursts, replies
on delivery, messages to subsets, tiny windows. Every fault ends before the run does, so that what is still owed at the
end is owed for good.
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from isthmus.core.message import SiteId
from isthmus.protocols.estimator import EstimatorOptions
from isthmus.protocols.transport.credit import CreditOptions
from isthmus.protocols.transport.frames import ReliableOptions
from isthmus.scenario.faults import Crash, Fault, RandomFaults, Recover
from isthmus.scenario.model import Clocks, HybridSpec, Membership, Reader, Scenario, StackSpec
from isthmus.scenario.workload import Burst, OnOff, Periodic, Poisson, Reply, Workload
from isthmus.testing.strain import strained
from isthmus.stacks import STACKS
from isthmus.topology.delay import Constant, Delay, Empirical, Gamma, Normal, Uniform
from isthmus.topology.model import Channel, Cluster, Site, Topology, WanLink

DURATION_MS = 3_000.0
HARD_MS = 4_000.0
DRAIN_MS = 600_000.0  # tiny windows over bad links take their time; a run ends as soon as nothing is owed


def random_scenario(stack: str, seed: int) -> Scenario:
    """The scenario that a seed stands for."""
    random = Random(f"fuzz/{stack}/{seed}")
    topology = random_topology(random)
    names = [site.name for site in topology.sites]
    slow = Reader(sites=(random.choice(names),), consume_ms=random.uniform(1, 20))
    made = Scenario(
        name=f"fuzz-{stack}-{seed}",
        topology=topology,
        stack=random_stack(stack, names, random),
        workloads=random_workloads(random, len(names)),
        seed=seed,
        duration_ms=DURATION_MS,
        drain_ms=DRAIN_MS,
        random_faults=random_faults(random),
        clocks=Clocks(offset_ms=100, drift_ppm=200) if random.random() < 0.3 else Clocks(),
        readers=(slow,) if random.random() < 0.2 else (),
        membership=Membership(detection_ms=random.choice([0, 50, 500])),
        wire="codec" if random.random() < 0.1 else "reference",
    )
    return strained(made, random) if stack.startswith("optimistic") else made


def hard_scenario(stack: str, seed: int) -> Scenario:
    """The same, with tight windows, slow readers, and sites that crash and come back again and again, down to one."""
    plain = random_scenario(stack, seed)
    random = Random(f"hard/{stack}/{seed}")
    names = [site.name for site in plain.topology.sites]
    faults: list[Fault] = []
    for name in random.sample(names, random.randint(1, len(names) - 1)):
        times = sorted(random.uniform(0, HARD_MS) for _ in range(random.randint(1, 4)))
        faults += [
            Recover(at_ms=when, site=name) if number % 2 else Crash(at_ms=when, site=name)
            for number, when in enumerate(times)
        ]
    options = msgspec.structs.replace(
        plain.stack,
        credit=CreditOptions(window=random.choice([2, 4, 32]), queue_max=random.choice([8, 64])),
        reliable=ReliableOptions(ack_every=random.choice([4, 256]), keep_max=random.choice([4, 64])),
    )
    return msgspec.structs.replace(
        plain,
        name=f"hard-{stack}-{seed}",
        stack=options,
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        random_faults=msgspec.structs.replace(plain.random_faults, crashes=0),
        readers=(Reader(sites=(random.choice(names),), consume_ms=random.choice([1, 30])),),
        membership=Membership(detection_ms=random.choice([0, 1, 50, 500])),
        duration_ms=HARD_MS,
        drain_ms=3 * DRAIN_MS,
    )


def random_topology(random: Random) -> Topology:
    """Two to seven sites in one to three clusters, each pair of clusters joined by a link of its own."""
    sites: list[Site] = []
    clusters: list[Cluster] = []
    rough = random.random() < 0.8
    for number in range(random.randint(1, 3)):
        first = len(sites)
        count = random.randint(2 if number == 0 else 1, 3)
        sites += [Site(f"c{number}-{place}", number) for place in range(count)]
        ids = tuple(SiteId(first + place) for place in range(count))
        clusters.append(Cluster(f"c{number}", ids, ids[0], random_channel(random, 1.0, rough)))
    links = [
        WanLink(a, b, random_channel(random, 50.0, rough), random_channel(random, 50.0, rough))
        for b in range(len(clusters))
        for a in range(b)
    ]
    return Topology("random", tuple(sites), tuple(clusters), tuple(links))


def random_channel(random: Random, scale_ms: float, rough: bool) -> Channel:
    mean = scale_ms * random.uniform(0.2, 2)
    delays: list[Delay] = [
        Constant(mean),
        Uniform(0, 2 * mean),
        Normal(mean, mean / 4),
        Gamma(mean, (mean / 2) ** 2, mean / 4),
        Empirical((mean / 2, mean / 2, mean, 10 * mean)),
    ]
    delay = random.choice(delays)
    if not rough:
        return Channel(delay)
    return Channel(
        delay,
        loss=random.choice([0.0, random.uniform(0, 0.3)]),
        duplicate=random.choice([0.0, random.uniform(0, 0.2)]),
        bandwidth_mbps=random.choice([None, None, 1.0]),
        fifo=random.random() < 0.5,
    )


def random_stack(stack: str, names: list[str], random: Random) -> StackSpec:
    window = random.choice([4, 32, 1024])
    ticketed = stack in ("symmetric", "hybrid", "dynamic-hybrid")
    return StackSpec(
        name=stack,
        hybrid=random_hybrid(stack, names, random) if ticketed else HybridSpec(),
        **sequenced(stack, random.choice([None, random.choice(names)]), random.choice([None, None, 0.0, 5.0])),
        credit=CreditOptions(window=window, queue_max=random.choice([8, 1024])),
        reliable=ReliableOptions(
            ack_every=random.choice([4, 256]), hold_max=random.choice([4, 1024]), keep_max=random.choice([16, 8192])
        ),
    )


def sequenced(stack: str, sequencer: str | None, batch_ms: float | None) -> dict[str, Any]:
    return {"sequencer": sequencer, "batch_ms": batch_ms} if "sequencer" in STACKS[stack].options else {}


def random_hybrid(stack: str, names: list[str], random: Random) -> HybridSpec:
    """Roles, clocks and nulls of the ticket protocols; nulls always, as silence would hold up the rest for ever."""
    return HybridSpec(
        active=tuple(random.sample(names, random.randint(1, len(names)))) if stack == "hybrid" else (),
        rule=random.choice(["restless", "restless", "dynamic", "paper"]),
        clock=random.choice(["lamport", "rate", "synchronised"]),
        null_ms=random.choice([5.0, 25.0, 200.0]),
        eager=random.random() < 0.7,
        threshold=random.choice([0.0, 0.2]),
        estimator=EstimatorOptions(
            probe_ms=random.choice([50.0, 500.0]),
            detector=random.choice(["mean-shift", "sliding"]),
            samples=random.choice([3, 16]),
            silence=random.random() < 0.5,
        ),
    )


def random_workloads(random: Random, sites: int) -> tuple[Workload, ...]:
    """One for all, so that there is something to judge, and perhaps one for some, or answers."""
    first = random_workload(random, "all")
    more = random.random()
    if more < 0.3:
        return first, random_workload(random, random.randint(1, sites))
    if more < 0.6:
        to = "all" if random.random() < 0.5 else random.randint(1, sites)
        return first, Reply(probability=1 / (2 * sites), depth=3, delay_ms=random.choice([0.0, 5.0]), to=to)
    return (first,)


def random_workload(random: Random, to: str | int) -> Workload:
    rate = random.uniform(5, 30)
    workloads: list[Workload] = [
        Periodic(rate_per_s=rate, to=to),
        Poisson(rate_per_s=rate, to=to),
        Burst(period_ms=500, burst_count=random.randint(2, 10), to=to),
        OnOff(rate_per_s=2 * rate, on_ms=300, off_ms=300, to=to),
    ]
    return random.choice(workloads)


def random_faults(random: Random) -> RandomFaults:
    if random.random() < 0.2:
        return RandomFaults()
    return RandomFaults(
        crashes=random.choice([0, 1, 1, 2]),
        recover=random.choice([0.0, 0.5]),
        partitions=random.choice([0, 0, 1, 2]),
        losses=random.choice([0, 1]),
        delay_shifts=random.choice([0, 1]),
        clock_jumps=random.choice([0, 1]),
    )
