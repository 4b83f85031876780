"""The runs of the study `overlay`: networks, traffic and crashes.

The paper's: G(n, p) with mean degree (5/1200) n^(4/3) - 5/3, 10 Mb/s, 35 to 44 ms per link; every millisecond ten
different members each submit a message, 50 in all, so that every run ends. Ours: other overlays over the same traffic;
messages of 64 KiB in fragments; ids by topology, on clusters of ten joined by a slow WAN; crashes of all but one
neighbour of a node of least degree. End points are compiled, and rows are not kept: each run measures itself.
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
from isthmus.studies.model import Cell, Parameters, Scale
from isthmus.studies.overlay.claims import DATA
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel, Topology, WanLink
from isthmus.topology.overlay.links import Kind, hypercube, hypercube_neighbours
from isthmus.topology.shapes import mesh, of_equal_clusters
from isthmus.topology.wiring import random_wiring

Protocol = Literal["flooding", "vector"]
SENDERS, BURSTS, BURST = 10, 5, 10
MESSAGES = SENDERS * BURSTS * BURST
BANDWIDTH_MBPS, PROPAGATION_MS = 10.0, (0.0, 1.0)
NUMBER_BYTES = 4
DRAIN_MS = 600_000.0
LATER_MS = 10 * DRAIN_MS  # beyond the end of every run
QUIET = ReliableOptions(ack_period_ms=LATER_MS, keep_max=1_000_000)
LAN = Channel(Constant(1.0))  # to stacks, sites are on one LAN; packets use the links of the network
SIZES: dict[Scale, tuple[int, ...]] = {"quick": (100, 400), "full": (100, 200, 300, 400, 500, 600)}
PROTOCOLS: tuple[Protocol, ...] = ("flooding", "vector")
KINDS: tuple[Kind, ...] = ("hypercube", "incomplete", "random", "ring", "clique")
IDS: tuple[Literal["numbers", "topology"], ...] = ("numbers", "topology")
BASELINE_NODES, IDS_NODES, CRASH_NODES = 33, 64, 48
CONNECTIVITY = 6  # of the hypercube of 48


def paper_degree(nodes: int) -> float:
    """n p as the paper has it, from 4 links per node at n = 100 to 6 at n = 600; 4 for fewer."""
    return 4 + 2 * max(0, nodes - 100) / 500


def connected_degree(nodes: int) -> float:
    """n p of larger networks, with which about every third random graph has an isolated node."""
    return log(nodes) + 1


def senders_of(nodes: int, seed: int, spared: Sequence[int] = ()) -> list[int]:
    """The senders, drawn at random, without those spared."""
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
    """A random graph of the same kind as a topology, by which ids can be assigned."""
    wiring = random_wiring(nodes, paper_degree(nodes), BANDWIDTH_MBPS, PROPAGATION_MS, Random(f"{seed}/wired/{nodes}"))
    links = []
    for link in range(0, wiring.links, 2):
        channel = Channel(Constant(wiring.propagation_ns[link] / 1e6), bandwidth_mbps=BANDWIDTH_MBPS)
        links.append(WanLink(wiring.tails[link], wiring.heads[link], channel, channel))
    names = [f"n{node}" for node in range(nodes)]
    return of_equal_clusters(f"random-{nodes}", names, 1, [LAN] * nodes, tuple(links))


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    """All parts; each seed is a topology."""
    cells = [
        cell("main", protocol, nodes, data, seed, overlay_scenario(protocol, nodes, data, seed))
        for nodes in SIZES[scale]
        for data in DATA
        for protocol in PROTOCOLS
        for seed in seeds
    ]
    for seed in seeds:
        for kind in KINDS:
            scenario = overlay_scenario("flooding", BASELINE_NODES, 0, seed, overlay=OverlaySpec(kind=kind))
            cells.append(cell("overlays", kind, BASELINE_NODES, 0, seed, scenario))
        scenario = overlay_scenario("vector", BASELINE_NODES, 0, seed)
        cells.append(cell("overlays", "vector", BASELINE_NODES, 0, seed, scenario))
        topology = wired_topology(IDS_NODES, seed)
        for ids in IDS:
            overlay = OverlaySpec(ids=ids)
            scenario = overlay_scenario("flooding", IDS_NODES, 100, seed, overlay=overlay, topology=topology)
            cells.append(cell("ids", ids, IDS_NODES, 100, seed, scenario))
        cells += crash_cells(seed)
    return cells


def crash_cells(seed: int) -> list[Cell]:
    """Crashed neighbours of a node of least degree, one fewer than the connectivity and all; of vector, half."""
    near = hypercube(CRASH_NODES)
    lonely = min(range(CRASH_NODES), key=lambda node: (len(near[node]), node))
    around = hypercube_neighbours(lonely, CRASH_NODES)
    half = [node for node in range(CRASH_NODES) if node % 2 != lonely % 2]
    chosen: list[tuple[str, Protocol, Sequence[int]]] = [
        ("flooding, connectivity - 1", "flooding", around[: CONNECTIVITY - 1]),
        ("flooding, all neighbours of one", "flooding", around),
        ("vector, half of all", "vector", half),
    ]
    return [
        cell(
            *("crashes", name, CRASH_NODES, 0, seed),
            overlay_scenario(protocol, CRASH_NODES, 0, seed, crashed=crashed, spared=(lonely,)),
            crashed=len(crashed),
        )
        for name, protocol, crashed in chosen
    ]


def cell(part: str, protocol: str, nodes: int, data: int, seed: int, scenario: Scenario, crashed: int = 0) -> Cell:
    of_run: Parameters = {"part": part, "protocol": protocol, "nodes": nodes, "data": data}
    return Cell({**of_run, "crashed": crashed, "seed": seed}, scenario)
