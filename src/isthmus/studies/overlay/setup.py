"""The network, the traffic and the two protocols of the overlay studies.

Every node is host and router. Duplex links of 10 Mb/s with a propagation of 0 to 1 ms, uniform; the graph is G(n, p),
connected. Flooding sends a header of 32 bytes, a number of 4 and the data; the vector protocol n numbers of 4 bytes and
the data, in fragments of at most 1468 bytes with a header each, over a multicast tree. Ten senders, drawn at random,
submit bursts of ten messages at each of the first five milliseconds: an endless rate would saturate a link.

Both are the stacks that users have, over the direct transport: no packet is lost here, and none is acknowledged. Flow
control and reports of what is stable are set so far away that they send nothing; what is measured is the order alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from random import Random
from typing import Literal

from isthmus.protocols.transport.reliable.frames import ReliableOptions
from isthmus.scenario.faults import Crash
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.overlay import OverlaySpec
from isthmus.scenario.packets import NetworkSpec
from isthmus.scenario.workload import Burst
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel, Topology, WanLink
from isthmus.topology.shapes import mesh, of_equal_clusters
from isthmus.topology.wiring import random_wiring

Protocol = Literal["flooding", "vector"]
SENDERS, BURSTS, BURST = 10, 5, 10
MESSAGES = SENDERS * BURSTS * BURST
BANDWIDTH_MBPS, PROPAGATION_MS = 10.0, (0.0, 1.0)
NUMBER_BYTES = 4
DRAIN_MS = 600_000.0
LATER_MS = 10 * DRAIN_MS  # of what is not to come into play
QUIET = ReliableOptions(ack_period_ms=LATER_MS, keep_max=1_000_000)
LAN = Channel(Constant(1.0))  # sites lie in one LAN as far as stacks are told; packets go over the network's own links


def paper_degree(nodes: int) -> float:
    """n p as the paper has it, from 4 links per node at n = 100 to 6 at n = 600; 4 for fewer."""
    return 4 + 2 * max(0, nodes - 100) / 500


def connected_degree(nodes: int) -> float:
    """n p with which every third random graph or so has a node without a link: of larger networks."""
    return log(nodes) + 1


def senders_of(nodes: int, seed: int, spared: Sequence[int] = ()) -> list[int]:
    """Who sends, drawn at random, none of some."""
    able = [node for node in range(nodes) if node not in spared]
    return sorted(Random(f"{seed}/senders/{nodes}").sample(able, min(SENDERS, len(able))))


def overlay_scenario(
    protocol: Protocol,
    nodes: int,
    data_bytes: int,
    seed: int,
    *,
    overlay: OverlaySpec | None = None,
    crashed: Sequence[int] = (),
    spared: Sequence[int] = (),
    bursts: int = BURSTS,
    burst: int = BURST,
    degree: float | None = None,
    topology: Topology | None = None,
) -> Scenario:
    """One run; `crashed` are down from the start, `spared` send nothing. A topology stands in for the random graph."""
    floods = protocol == "flooding"
    sites = topology or mesh(1, nodes, LAN, LAN)
    names = [site.name for site in sites.sites]
    stack = StackSpec(name="causal-vector", transport="direct", reliable=QUIET)
    if floods:
        stack = StackSpec(name="flooding", transport="direct", reliable=QUIET, overlay=overlay or OverlaySpec())
    return Scenario(
        name="overlay",
        topology=sites,
        stack=stack,
        workloads=(
            Burst(
                period_ms=1.0,
                burst_count=burst,
                count=bursts * burst,
                sites=tuple(names[node] for node in senders_of(nodes, seed, (*crashed, *spared))),
                payload_bytes=data_bytes,
            ),
        ),
        seed=seed,
        duration_ms=float(bursts),
        drain_ms=DRAIN_MS,
        faults=tuple(Crash(at_ms=0.0, site=names[node]) for node in crashed),
        membership=Membership(detection_ms=LATER_MS),
        trace="none",
        wire="reference",
        network=NetworkSpec(
            kind="packets",
            graph="topology" if topology else "random",
            mean_degree=None if topology else degree or paper_degree(nodes),
            bandwidth_mbps=BANDWIDTH_MBPS,
            propagation_ms=PROPAGATION_MS,
            multicast="unicast" if floods else "tree",
            control_bytes=NUMBER_BYTES * (1 if floods else nodes),
            endpoints="auto",
        ),
    )


def wired_topology(nodes: int, seed: int) -> Topology:
    """The same kind of random graph as a topology, so that ids can be assigned by it."""
    wiring = random_wiring(nodes, paper_degree(nodes), BANDWIDTH_MBPS, PROPAGATION_MS, Random(f"{seed}/wired/{nodes}"))
    links = []
    for link in range(0, wiring.links, 2):
        channel = Channel(Constant(wiring.propagation_ns[link] / 1e6), bandwidth_mbps=BANDWIDTH_MBPS)
        links.append(WanLink(wiring.tails[link], wiring.heads[link], channel, channel))
    names = [f"n{node}" for node in range(nodes)]
    return of_equal_clusters(f"random-{nodes}", names, 1, [LAN] * nodes, tuple(links))
