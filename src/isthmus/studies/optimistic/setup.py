"""The networks of the study of optimistic total order: the paper's two clusters, and three shaped like real clouds.

The paper's: five and five processes, 20 ms inside a cluster, 40 ms across, normal delays with a standard deviation of
sigma times the mean, channels that reorder, no layer below that would repair or delay anything. The sequencer is site
0; its cluster is *near*, the other *distant*.

The clouds are ours: delays of the kind that providers publish, shifted gamma, a few packets lost, under the reliable
transport and the stack that numbers each sender's messages in its order.
"""

from __future__ import annotations

from isthmus.core.message import SiteId
from isthmus.protocols.total.optimistic.compensation import OptimisticOptions, PolicyName
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Poisson, Workload
from isthmus.topology.delay import Constant, Gamma, Normal
from isthmus.topology.model import Channel, Cluster, Topology, TopologySite, WanLink
from isthmus.topology.shapes import mesh

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


def paper_scenario(
    sigma: float,
    rate_per_s: float,
    policy: PolicyName,
    seed: int,
    duration_ms: float = DURATION_MS,
    window_ms: float | None = None,
) -> Scenario:
    """A run of the paper: all processes send alike, together `rate_per_s`."""

    def channel(mean_ms: float) -> Channel:
        delay = Normal(mean_ms, sigma * mean_ms) if sigma else Constant(mean_ms)
        return Channel(delay, fifo=False)

    options = OptimisticOptions(policy=policy, window_ms=window_ms)
    return Scenario(
        name="optimistic",
        topology=mesh(2, CLUSTER_SITES, channel(LAN_MS), channel(WAN_MS)),
        stack=StackSpec(name="optimistic-arrival", transport="direct", optimistic=options),
        workloads=(Poisson(rate_per_s=rate_per_s / (2 * CLUSTER_SITES)),),
        seed=seed,
        duration_ms=duration_ms,
        wire="reference",
    )


def cloud_topology(name: str) -> Topology:
    """A network of CLOUDS."""
    sizes, distances = CLOUDS[name]

    def channel(mean_ms: float) -> Channel:
        delay = Gamma(mean_ms, (CLOUD_SD * mean_ms) ** 2, 0.9 * mean_ms)
        return Channel(delay, loss=CLOUD_LOSS, fifo=False)

    sites: list[TopologySite] = []
    clusters: list[Cluster] = []
    for number, (cluster, count) in enumerate(sizes.items()):
        ids = tuple(SiteId(len(sites) + place) for place in range(count))
        sites += [TopologySite(f"{cluster}-{place}", number) for place in range(count)]
        lan = Channel(Gamma(CLOUD_LAN_MS, (0.1 * CLOUD_LAN_MS) ** 2, 0.5 * CLOUD_LAN_MS), fifo=False)
        clusters.append(Cluster(cluster, ids, ids[0], lan))
    places = {cluster: number for number, cluster in enumerate(sizes)}
    links = tuple(
        WanLink(places[a], places[b], channel(mean_ms), channel(mean_ms)) for (a, b), mean_ms in distances.items()
    )
    return Topology(name, tuple(sites), tuple(clusters), links)


def near_count(name: str) -> int:
    """The sites of the sequencer's cluster, the first ones of a cloud."""
    return next(iter(CLOUDS[name][0].values()))


def cloud_scenario(name: str, policy: PolicyName, seed: int, duration_ms: float, rate_per_s: float = 100.0) -> Scenario:
    topology = cloud_topology(name)
    each: Workload = Poisson(rate_per_s=rate_per_s / len(topology.sites))
    return Scenario(
        name="optimistic",
        topology=topology,
        stack=StackSpec(name="optimistic", optimistic=OptimisticOptions(policy=policy)),
        workloads=(each,),
        seed=seed,
        duration_ms=duration_ms,
        wire="reference",
    )


def narrow_scenario(policy: PolicyName, sizes: bool, seed: int, duration_ms: float) -> Scenario:
    """The paper's network with 100 Mbit/s between the clusters: of 100 bytes most messages, of 30,000 some.

    Those take 2.4 ms longer across, for each copy that goes before, so up to 12 ms; inside a cluster they do not.
    """
    lan = Channel(Normal(LAN_MS, 0.01 * LAN_MS), fifo=False)
    wan = Channel(Normal(WAN_MS, 0.01 * WAN_MS), fifo=False, bandwidth_mbps=100.0)
    share = 1 / (2 * CLUSTER_SITES)
    return Scenario(
        name="optimistic",
        topology=mesh(2, CLUSTER_SITES, lan, wan),
        stack=StackSpec(name="optimistic", optimistic=OptimisticOptions(policy=policy, sizes=sizes)),
        workloads=(
            Poisson(rate_per_s=40.0 * share, payload_bytes=100),
            Poisson(rate_per_s=10.0 * share, payload_bytes=30_000),
        ),
        seed=seed,
        duration_ms=duration_ms,
    )
