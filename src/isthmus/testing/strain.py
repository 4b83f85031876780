"""What random scenarios add for the optimistic order: what it alone could stumble over.

Clocks that drift a lot and jump, a sequencer that crashes and perhaps comes back, messages of several sizes, every
delay rule with good constants and bad ones; now and then the paper's transport, direct over channels that reorder.
"""

from __future__ import annotations

from random import Random

import msgspec

from isthmus.protocols.total.compensation import POLICIES, OptimisticOptions
from isthmus.scenario.faults import ClockJump, Crash, Fault, Recover
from isthmus.scenario.model import Clocks, Scenario
from isthmus.scenario.workload import Poisson, Workload
from isthmus.topology.model import Channel, Topology


def strained(plain: Scenario, random: Random) -> Scenario:
    """A random scenario, made harder for an optimistic stack."""
    topology, stack = plain.topology, msgspec.structs.replace(plain.stack, optimistic=random_options(random))
    if random.random() < 0.2 and is_sure(plain):
        topology = reordering(topology)
        stack = msgspec.structs.replace(stack, transport="direct")
    names = [site.name for site in topology.sites]
    first = stack.sequencer or names[0]
    faults: list[Fault] = []
    drawn = plain.random_faults
    if random.random() < 0.6 and len(names) > 2:
        if len(names) < 5:  # two must be left, or there is no order to judge
            drawn = msgspec.structs.replace(drawn, crashes=0)
        at_ms = random.uniform(0, 0.8) * plain.duration_ms
        faults.append(Crash(at_ms=at_ms, site=first))
        if random.random() < 0.5:
            faults.append(Recover(at_ms=random.uniform(at_ms, plain.duration_ms), site=first))
    for _ in range(random.choice([0, 1, 3])):
        by_ms = random.choice([-1, 1]) * 10 ** random.uniform(0, 4)
        faults.append(
            ClockJump(at_ms=random.uniform(0, plain.duration_ms), site=random.choice([first, *names]), by_ms=by_ms)
        )
    sized: list[Workload] = [Poisson(rate_per_s=random.uniform(1, 3), payload_bytes=random.choice([0, 500, 1500]))]
    return msgspec.structs.replace(
        plain,
        topology=topology,
        stack=stack,
        workloads=(*plain.workloads, *sized[: random.choice([0, 1])]),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        random_faults=drawn,
        clocks=Clocks(offset_ms=random.choice([0, 100, 10_000]), drift_ppm=random.choice([0, 200, 20_000])),
    )


def random_options(random: Random) -> OptimisticOptions:
    return OptimisticOptions(
        policy=random.choice(list(POLICIES)),
        alpha=random.choice([0.95, 0.95, 0.5, 0.0]),
        gain=random.choice([0.02, 0.02, 0.5]),
        window_ms=random.choice([None, None, 0.0, 30.0]),
        delay_max_ms=random.choice([1000.0, 50.0]),
        request_age_ms=random.choice([10_000.0, 200.0]),
    )


def is_sure(scenario: Scenario) -> bool:
    """Whether a direct transport could bear it: nothing is lost or repeated."""
    drawn, topology = scenario.random_faults, scenario.topology
    channels = [
        *(cluster.lan for cluster in topology.clusters),
        *(channel for link in topology.links for channel in (link.forward, link.back)),
    ]
    clean = not any(channel.loss or channel.duplicate for channel in channels)
    return clean and not drawn.partitions and not drawn.losses


def reordering(topology: Topology) -> Topology:
    """The same network with channels that let packets overtake each other."""

    def loose(channel: Channel) -> Channel:
        return msgspec.structs.replace(channel, fifo=False)

    replace = msgspec.structs.replace
    return replace(
        topology,
        clusters=tuple(replace(cluster, lan=loose(cluster.lan)) for cluster in topology.clusters),
        links=tuple(replace(link, forward=loose(link.forward), back=loose(link.back)) for link in topology.links),
    )
