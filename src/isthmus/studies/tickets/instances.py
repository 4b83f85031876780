"""Settings to plan for: the nine scenarios of the hybrid paper, instances drawn at random, and regions of a cloud.

A setting holds delays and streams only; `as_topology` and `as_workloads` turn it into a network of constant delays and
its traffic, so that a plan can be simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import exp, log
from random import Random
from typing import Literal

from isthmus.core.message import SiteId
from isthmus.scenario.workload import Periodic, Poisson, Workload
from isthmus.stacks.roles.prediction import Setting
from isthmus.stacks.roles.rests import MessageStream
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel, Cluster, Override, Topology, TopologySite

StreamKind = Literal["periodic", "poisson"]
KINDS: tuple[StreamKind, ...] = ("periodic", "poisson")
PERIODS_MS = {"H": 10.0, "L": 1000.0}
LAN_MS, WAN_MS = 20.0, 540.0  # of the nine
NEAR = 3  # A, B, C

# One-way delays in ms between the regions of clouds, row to column above the diagonal, and messages a second of each.
Cloud = tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]
CLOUDS: dict[str, Cloud] = {
    "six regions, load in one": (
        ((32.0, 38.0, 44.0, 85.0, 110.0), (66.0, 72.0, 54.0, 90.0), (8.0, 118.0, 82.0), (124.0, 76.0), (36.0,)),
        (120.0, 8.0, 15.0, 4.0, 6.0, 2.0),
    ),
    "six regions, load in three": (
        ((32.0, 38.0, 44.0, 85.0, 110.0), (66.0, 72.0, 54.0, 90.0), (8.0, 118.0, 82.0), (124.0, 76.0), (36.0,)),
        (60.0, 3.0, 60.0, 2.0, 60.0, 1.0),
    ),
    "seven regions, load by night": (
        (
            (5.0, 31.0, 40.0, 46.0, 84.0, 105.0),
            (33.0, 42.0, 48.0, 86.0, 107.0),
            (69.0, 75.0, 55.0, 78.0),
            (12.0, 112.0, 132.0),
            (120.0, 140.0),
            (52.0,),
        ),
        (2.0, 1.0, 5.0, 0.5, 1.0, 80.0, 40.0),
    ),
    "eight regions, all alike": (
        (
            (6.0, 30.0, 39.0, 45.0, 83.0, 104.0, 62.0),
            (34.0, 43.0, 49.0, 87.0, 108.0, 66.0),
            (68.0, 74.0, 56.0, 80.0, 92.0),
            (11.0, 111.0, 131.0, 97.0),
            (121.0, 142.0, 103.0),
            (50.0, 145.0),
            (150.0,),
        ),
        (20.0,) * 8,
    ),
}


def setting_of(
    delay_ms: Callable[[int, int], float], periods_ms: Sequence[float], kind: StreamKind, eager: bool, null_ms: float
) -> Setting:
    """One stream per site; delays are a function of two sites, the lower one first."""
    sites = range(len(periods_ms))
    delays = tuple(tuple(0.0 if a == b else delay_ms(min(a, b), max(a, b)) for b in sites) for a in sites)
    return Setting(delays, tuple((MessageStream(kind, period_ms),) for period_ms in periods_ms), eager, null_ms)


def nine_setting(load: str, kind: StreamKind = "periodic", eager: bool = True, null_ms: float = 0.0) -> Setting:
    """A B C and D E, 20 ms inside and 540 ms across; each site's load is high or low."""

    def delay_ms(a: int, b: int) -> float:
        return LAN_MS if (a < NEAR) == (b < NEAR) else WAN_MS

    return setting_of(delay_ms, [PERIODS_MS[letter] for letter in load], kind, eager, null_ms)


def drawn_setting(seed: int, kind: StreamKind, count: int = 5, eager: bool = True, null_ms: float = 0.0) -> Setting:
    """Sites in two or three clusters, 5 to 30 ms inside, 50 to 600 ms across, 0.5 to 200 messages per second each."""
    random = Random(f"planning/{seed}")
    clusters = random.choice((2, 3))
    places: list[int] = []
    while len(set(places)) < clusters:
        places = [random.randrange(clusters) for _ in range(count)]
    inside = [random.uniform(5, 30) for _ in range(clusters)]
    across = {pair: random.uniform(50, 600) for pair in combinations(range(clusters), 2)}

    def delay_ms(a: int, b: int) -> float:
        low, high = sorted((places[a], places[b]))
        return inside[low] if low == high else across[low, high]

    rates = [exp(random.uniform(log(0.5), log(200))) for _ in range(count)]
    return setting_of(delay_ms, [1000 / rate for rate in rates], kind, eager, null_ms)


def cloud_setting(name: str, kind: StreamKind, eager: bool = True, null_ms: float = 0.0) -> Setting:
    """A site in each region of a cloud, 5 to 150 ms apart."""
    rows, rates = CLOUDS[name]
    return setting_of(lambda a, b: rows[a][b - a - 1], [1000 / rate for rate in rates], kind, eager, null_ms)


def as_topology(setting: Setting) -> Topology:
    """A network with just these delays; its sites are s0, s1, ..."""
    ids = tuple(SiteId(site) for site in range(setting.count))
    pairs = tuple(
        Override(a, b, Channel(Constant(setting.delays_ms[a][b])), Channel(Constant(setting.delays_ms[b][a])))
        for a, b in combinations(ids, 2)
    )
    cluster = Cluster("all", ids, ids[0], Channel(Constant(1)))
    return Topology("drawn", tuple(TopologySite(f"s{site}", 0) for site in ids), (cluster,), (), pairs)


def as_workloads(setting: Setting) -> tuple[Workload, ...]:
    kinds = {"periodic": Periodic, "poisson": Poisson}
    return tuple(
        kinds[stream.kind](sites=(f"s{site}",), rate_per_s=1000 / stream.period_ms)
        for site, own in enumerate(setting.streams)
        for stream in own
    )
