"""The runs of the study `optimistic`: every delay rule on the paper's two clusters, and on networks shaped like clouds.

The paper's: five and five processes, 20 ms inside a cluster, 40 ms across, normal delays with a standard deviation of
sigma times the mean, channels that reorder. The sequencer is site 0; its cluster is *near*, the other *distant*. The
clouds are ours: delays as providers publish them, shifted gamma, little packet loss, below the reliable transport.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from isthmus.protocols.total.optimistic.compensation import OptimisticOptions, PolicyName
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Poisson, Workload
from isthmus.studies.model import Cell, Parameters, Scale
from isthmus.topology.delay import Constant, Gamma, Normal
from isthmus.topology.model import Channel, Topology, WanLink
from isthmus.topology.shapes import mesh, of_named_sites

SEQUENCER, NEAR, DISTANT = 0, 1, 5  # a site of each kind, in the paper's network
CLUSTER_SITES = 5
LAN_MS, WAN_MS = 20.0, 40.0
DURATION_MS, WARM_UP_MS = 100_000.0, 10_000.0

# One-way delays in ms between the clusters of a cloud, each cluster with its number of sites; the sequencer is the
# first site of the first.
Matrix = dict[tuple[str, str], float]
CLOUDS: dict[str, tuple[dict[str, int], Matrix]] = {
    "zones of a region": (
        {"zone-a": 3, "zone-b": 3, "zone-c": 3},
        {("zone-a", "zone-b"): 0.7, ("zone-a", "zone-c"): 1.1, ("zone-b", "zone-c"): 0.9},
    ),
    "regions of a continent": (
        {"north": 3, "south": 3, "inland": 2},
        {("north", "south"): 14.0, ("north", "inland"): 22.0, ("south", "inland"): 31.0},
    ),
    "continents": (
        {"east": 3, "west": 2, "europe": 3, "asia": 2},
        {
            ("east", "west"): 32.0,
            ("east", "europe"): 41.0,
            ("east", "asia"): 84.0,
            ("west", "europe"): 69.0,
            ("west", "asia"): 54.0,
            ("europe", "asia"): 112.0,
        },
    ),
}
CLOUDS["continents, sequencer apart"] = ({"asia": 1, "east": 3, "west": 3, "europe": 3}, CLOUDS["continents"][1])
CLOUD_SD = 0.03  # standard deviation of a delay, as a share of its mean
CLOUD_LOSS = 0.0005
CLOUD_LAN_MS = 0.3
POLICIES: tuple[PolicyName, ...] = ("none", "compensation", "open-loop", "stamped")
SIGMAS = (0.01, 0.03, 0.1)
RATES: dict[Scale, tuple[float, ...]] = {"quick": (100.0, 300.0), "full": (50.0, 100.0, 200.0, 300.0, 500.0)}
WINDOWS_MS: dict[Scale, dict[float, tuple[float, ...]]] = {
    "quick": {0.03: (22.0, 23.0), 0.1: (28.0,)},
    "full": {0.03: (16.0, 18.0, 20.0, 21.0, 22.0, 24.0), 0.1: (16.0, 20.0, 22.0, 24.0, 26.0, 28.0)},
}
CLOUD_NAMES: dict[Scale, tuple[str, ...]] = {
    "quick": ("continents", "continents, sequencer apart"),
    "full": tuple(CLOUDS),
}
CLOUD_POLICIES: dict[Scale, tuple[PolicyName, ...]] = {"quick": ("none", "stamped"), "full": POLICIES}


def paper_scenario(
    sigma: float,
    rate_per_s: float,
    policy: PolicyName,
    seed: int,
    duration_ms: float = DURATION_MS,
    window_ms: float | None = None,
) -> Scenario:
    """A run of the paper: all processes send at equal rates, `rate_per_s` in total."""

    def channel(mean_ms: float) -> Channel:
        delay = Normal(mean_ms, sigma * mean_ms) if sigma else Constant(mean_ms)
        return Channel(delay, fifo=False)

    options = OptimisticOptions(policy=policy, window_ms=window_ms)
    stack = StackSpec(name="optimistic-arrival", transport="direct", optimistic=options)
    network = mesh(2, CLUSTER_SITES, channel(LAN_MS), channel(WAN_MS))
    load = Poisson(rate_per_s=rate_per_s / (2 * CLUSTER_SITES))
    return optimistic_scenario(network, stack, (load,), seed, duration_ms, wire="reference")


def optimistic_scenario(
    topology: Topology, stack: StackSpec, loads: Sequence[Workload], seed: int, duration_ms: float, **more: Any
) -> Scenario:
    common = {"name": "optimistic", "seed": seed, "duration_ms": duration_ms, **more}
    return Scenario(topology=topology, stack=stack, workloads=tuple(loads), **common)


def cloud_topology(name: str) -> Topology:
    sizes, distances = CLOUDS[name]

    def channel(mean_ms: float) -> Channel:
        delay = Gamma(mean_ms, (CLOUD_SD * mean_ms) ** 2, 0.9 * mean_ms)
        return Channel(delay, loss=CLOUD_LOSS, fifo=False)

    lan = Channel(Gamma(CLOUD_LAN_MS, (0.1 * CLOUD_LAN_MS) ** 2, 0.5 * CLOUD_LAN_MS), fifo=False)
    clusters = [(one, [f"{one}-{place}" for place in range(count)], lan) for one, count in sizes.items()]
    places = list(sizes)
    ends = {(places.index(a), places.index(b)): channel(mean_ms) for (a, b), mean_ms in distances.items()}
    return of_named_sites(name, clusters, (WanLink(*pair, way, way) for pair, way in ends.items()))


def cloud_scenario(name: str, policy: PolicyName, seed: int, duration_ms: float, rate_per_s: float = 100.0) -> Scenario:
    topology = cloud_topology(name)
    load = Poisson(rate_per_s=rate_per_s / len(topology.sites))
    stack = StackSpec(name="optimistic", optimistic=OptimisticOptions(policy=policy))
    return optimistic_scenario(topology, stack, (load,), seed, duration_ms, wire="reference")


def narrow_scenario(policy: PolicyName, sizes: bool, seed: int, duration_ms: float) -> Scenario:
    """The paper's network with 100 Mbit/s between the clusters; most messages have 100 bytes, some 30,000.

    The large ones take 2.4 ms longer across per copy sent before, so up to 12 ms; inside a cluster they do not.
    """
    lan = Channel(Normal(LAN_MS, 0.01 * LAN_MS), fifo=False)
    wan = Channel(Normal(WAN_MS, 0.01 * WAN_MS), fifo=False, bandwidth_mbps=100.0)
    share = 1 / (2 * CLUSTER_SITES)
    loads = [Poisson(rate_per_s=rate * share, payload_bytes=size) for rate, size in ((40.0, 100), (10.0, 30_000))]
    stack = StackSpec(name="optimistic", optimistic=OptimisticOptions(policy=policy, sizes=sizes))
    return optimistic_scenario(mesh(2, CLUSTER_SITES, lan, wan), stack, loads, seed, duration_ms)


def cell(
    part: str, scenario: Scenario, near: int, warm_up_ms: float, seed: int, sigma: float = 0.0, rate: float = 0.0
) -> Cell:
    """A run with its parameters; `near` is the number of sites in the sequencer's cluster."""
    options = scenario.stack.optimistic
    network = scenario.topology.name if part == "cloud" else "two clusters"
    aim_ms = -1.0 if options.window_ms is None else options.window_ms
    place: Parameters = {"part": part, "network": network, "sigma": sigma, "rate_per_s": rate}
    rule: Parameters = {"policy": options.policy, "aim_ms": aim_ms, "sizes": options.sizes}
    return Cell({**place, **rule, "near": near, "warm_up_ms": warm_up_ms, "seed": seed}, scenario)


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    return [made for seed in seeds for part in (paper, windows, narrow, clouds) for made in part(scale, seed)]


def paper(scale: Scale, seed: int) -> list[Cell]:
    """Rates and variances; at quick scale fewer and shorter runs, the longest where hit ratios vary most."""
    return [
        cell("paper", paper_scenario(*place, seed, length[0]), CLUSTER_SITES, length[1], seed, *place[:2])
        for place in product(SIGMAS, RATES[scale], POLICIES)
        if (length := lengths(scale, *place)) is not None
    ]


def lengths(scale: Scale, sigma: float, rate: float, policy: str) -> tuple[float, float] | None:
    """Duration and warm-up in ms; None where quick scale leaves a run out."""
    if scale == "full":
        return DURATION_MS, WARM_UP_MS
    if rate == 100.0 and sigma > 0.01:
        varies = sigma == 0.03 and policy in ("none", "compensation")
        return (60_000.0 if varies else 20_000.0), WARM_UP_MS
    return (5_000.0, 2_500.0) if policy != "open-loop" and rate > 100.0 and sigma < 0.1 else None


def windows(scale: Scale, seed: int) -> list[Cell]:
    """Stamped and open-loop, aiming at given windows."""
    policies: tuple[PolicyName, ...] = ("stamped",) if scale == "quick" else ("open-loop", "stamped")
    quick_ms = {0.03: 60_000.0, 0.1: 20_000.0}  # the smaller the difference, the longer
    return [
        cell("window", made, CLUSTER_SITES, WARM_UP_MS, seed, sigma, 100.0)
        for sigma, aims in WINDOWS_MS[scale].items()
        for aim in aims
        for policy in policies
        for duration_ms in [quick_ms[sigma] if scale == "quick" else DURATION_MS]
        for made in [paper_scenario(sigma, 100.0, policy, seed, duration_ms, aim)]
    ]


def narrow(scale: Scale, seed: int) -> list[Cell]:
    policies: tuple[PolicyName, ...] = ("compensation",) if scale == "quick" else POLICIES[1:]
    duration_ms = 25_000.0 if scale == "quick" else DURATION_MS
    return [
        cell("narrow", narrow_scenario(policy, sizes, seed, duration_ms), CLUSTER_SITES, 10_000.0, seed)
        for policy in policies
        for sizes in (False, True)
    ]


def clouds(scale: Scale, seed: int) -> list[Cell]:
    duration_ms = 15_000.0 if scale == "quick" else DURATION_MS
    return [
        cell("cloud", made, len(made.topology.clusters[0].sites), WARM_UP_MS, seed, CLOUD_SD, 100.0)
        for name in CLOUD_NAMES[scale]
        for policy in CLOUD_POLICIES[scale]
        for made in [cloud_scenario(name, policy, seed, duration_ms)]
    ]


def networks() -> tuple[Topology, ...]:
    return (paper_scenario(SIGMAS[1], RATES["quick"][0], "none", 1, WARM_UP_MS).topology,)
