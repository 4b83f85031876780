"""Networks and traffic of random scenarios."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, pairwise
from random import Random

import msgspec

from isthmus.scenario.faults import Relink
from isthmus.scenario.workload import Burst, OnOff, Periodic, Poisson, Reply, Workload
from isthmus.topology.delay import Constant, Delay, Empirical, Gamma, Normal, Uniform
from isthmus.topology.gateways.lans import lans_of
from isthmus.topology.model import Channel, GatewayLink, Topology, WanLink
from isthmus.topology.shapes import of_named_sites, shape

LAN_MS, WAN_MS = 1.0, 50.0
LARGE_LAN = (6, 9)  # sites
SMALL_BYTES = 4  # many of these fit into one frame
TOTAL_MESSAGES = (40, 300)  # approximate total over all senders of a steady workload


def random_topology(random: Random, rough: bool, small: bool) -> Topology:
    """Draw two to nine sites in one to three clusters, each pair joined by a link; sometimes all on one LAN."""
    if small:
        counts = random.choice([[3], [2, 1], [2, 2], [2, 1, 1]])
    elif random.random() < 0.1:
        counts = [random.randint(*LARGE_LAN)]
    else:
        counts = [random.randint(2 if number == 0 else 1, 3) for number in range(random.randint(1, 3))]
    clusters = [
        (f"c{number}", [f"c{number}-{place}" for place in range(count)], random_channel(random, LAN_MS, rough))
        for number, count in enumerate(counts)
    ]
    links = [
        WanLink(a, b, random_channel(random, WAN_MS, rough), random_channel(random, WAN_MS, rough))
        for b in range(len(clusters))
        for a in range(b)
    ]
    return of_named_sites("random", clusters, links)


def random_lans(random: Random, rough: bool) -> Topology:
    """Draw two to four LANs in a ring or a tree, each with one or two hosts and two dedicated gateways."""
    plain = shape(
        random.choice(["lan-ring", "lan-tree"]),
        random.randint(2, 4),
        random.randint(1, 2),
        random_channel(random, LAN_MS, rough),
        random_channel(random, WAN_MS, rough),
    )
    return msgspec.structs.replace(plain, name="random")


def random_relinks(random: Random, topology: Topology, duration_ms: float) -> tuple[Relink, ...]:
    """Draw one or two relinks, in some runs, each to a line of the LANs in random order."""
    if len(topology.clusters) < 2 or random.random() < 0.6:
        return ()
    gateways = lans_of(topology).gateways
    names = [site.name for site in topology.sites]
    made = []
    for at_ms in sorted(random.uniform(0, duration_ms) for _ in range(random.randint(1, 2))):
        order = random.sample(range(len(gateways)), len(gateways))
        links = tuple((names[gateways[a][-1]], names[gateways[b][0]]) for a, b in pairwise(order))
        made.append(Relink(at_ms=at_ms, links=links))
    return tuple(made)


def randomly_linked(random: Random, topology: Topology) -> Topology:
    """Return the same sites with a random connected graph of links between the gateways of the LANs."""
    gateways = lans_of(topology).gateways
    pairs = {(random.randrange(number), number) for number in range(1, len(gateways))}
    pairs |= {pair for pair in combinations(range(len(gateways)), 2) if random.random() < 0.5}
    links = tuple(GatewayLink(random.choice(gateways[a]), random.choice(gateways[b])) for a, b in sorted(pairs))
    return msgspec.structs.replace(topology, gateway_links=links, routes=())


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
        bandwidth_mbps=random.choice([None, None, None, 1.0]),
        fifo=random.random() < 0.5,
    )


def reordering(topology: Topology) -> Topology:
    return with_channels(topology, lambda channel: msgspec.structs.replace(channel, fifo=False))


def with_channels(topology: Topology, changed: Callable[[Channel], Channel]) -> Topology:
    replace = msgspec.structs.replace
    return replace(
        topology,
        clusters=tuple(replace(cluster, lan=changed(cluster.lan)) for cluster in topology.clusters),
        links=tuple(replace(link, forward=changed(link.forward), back=changed(link.back)) for link in topology.links),
    )


def random_workloads(random: Random, names: list[str], duration_ms: float) -> tuple[Workload, ...]:
    """Draw a workload to all sites, which gives evidence to judge, and perhaps one to some, replies, or a load."""
    first = random_workload(random, "all", len(names), duration_ms)
    more = random.random()
    if more < 0.4:
        second = random_workload(random, random.randint(1, len(names)), len(names), duration_ms)
        return first, second
    if more < 0.6:
        to = "all" if random.random() < 0.5 else random.randint(1, len(names))
        reply = Reply(probability=1 / (2 * len(names)), depth=3, delay_ms=random.choice([0.0, 5.0]), to=to)
        return first, reply
    if more < 0.8:
        return first, random_load(random, names, duration_ms)
    return (first,)


def random_workload(random: Random, to: str | int, sites: int, duration_ms: float) -> Workload:
    rate = 1000 * random.uniform(*TOTAL_MESSAGES) / (sites * duration_ms)  # per sender and second
    payload = random.choice([SMALL_BYTES, 64, 64, 300])
    workloads: list[Workload] = [
        Periodic(rate_per_s=rate, to=to, payload_bytes=payload),
        Poisson(rate_per_s=rate, to=to, payload_bytes=payload),
        Burst(
            period_ms=duration_ms / random.randint(2, 5),
            burst_count=random.randint(2, 10),
            one_turn=random.random() < 0.5,
            to=to,
            payload_bytes=payload,
        ),
        OnOff(rate_per_s=2 * rate, on_ms=1000 / rate, off_ms=300, to=to, payload_bytes=payload),
    ]
    return random.choice(workloads)


def random_load(random: Random, names: list[str], duration_ms: float) -> Workload:
    """Draw a load: hundreds of messages in one turn, at one or two sites."""
    count = random.randint(50, 1_500 // len(names))
    return Burst(
        period_ms=duration_ms,
        start_ms=random.uniform(0, 0.8) * duration_ms,
        burst_count=count,
        count=count,
        one_turn=True,
        sites=tuple(random.sample(names, random.randint(1, 2))),
        to="all" if random.random() < 0.7 else random.randint(1, len(names)),
        payload_bytes=random.choice([SMALL_BYTES, 64, 300]),
    )
