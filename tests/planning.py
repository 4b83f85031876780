"""Settings to plan for: the nine scenarios of the hybrid paper, and instances drawn at random."""

from __future__ import annotations

from itertools import combinations
from math import exp, log
from random import Random
from typing import Literal

from isthmus.core.message import SiteId
from isthmus.protocols.total.prediction import Setting
from isthmus.protocols.total.rests import Stream
from isthmus.scenario.workload import Periodic, Poisson, Workload
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel, Cluster, Override, Site, Topology

Kind = Literal["periodic", "poisson"]
KINDS: tuple[Kind, ...] = ("periodic", "poisson")
NINE = ("HLLLL", "HHLLL", "HHHLL", "HHHHL", "HHLHL", "HLLHL", "LLLHL", "LLLHH", "HHHHH")
PERIODS_MS = {"H": 10.0, "L": 1000.0}


def nine(load: str, kind: Kind = "periodic", eager: bool = True, null_ms: float = 0.0) -> Setting:
    """A B C and D E, 20 ms inside and 540 ms across; each site's load is high or low."""
    sites = range(len(load))
    delays = tuple(tuple(0.0 if a == b else 20.0 if (a < 3) == (b < 3) else 540.0 for b in sites) for a in sites)
    return Setting(delays, tuple((Stream(kind, PERIODS_MS[letter]),) for letter in load), eager, null_ms)


def drawn(seed: int, kind: Kind, count: int = 5, eager: bool = True, null_ms: float = 0.0) -> Setting:
    """Sites in two or three clusters, 5 to 30 ms inside, 50 to 600 ms across, 0.5 to 200 messages a second each."""
    random = Random(f"planning/{seed}")
    clusters = random.choice((2, 3))
    places: list[int] = []
    while len(set(places)) < clusters:
        places = [random.randrange(clusters) for _ in range(count)]
    inside = [random.uniform(5, 30) for _ in range(clusters)]
    across = {pair: random.uniform(50, 600) for pair in combinations(range(clusters), 2)}
    sites = range(count)

    def delay(a: int, b: int) -> float:
        low, high = sorted((places[a], places[b]))
        return 0.0 if a == b else inside[low] if low == high else across[low, high]

    delays = tuple(tuple(delay(a, b) for b in sites) for a in sites)
    rates = [exp(random.uniform(log(0.5), log(200))) for _ in sites]
    return Setting(delays, tuple((Stream(kind, 1000 / rate),) for rate in rates), eager, null_ms)


def topology_of(setting: Setting) -> Topology:
    """A network with just these delays; its sites are s0, s1, ..."""
    ids = tuple(SiteId(site) for site in range(setting.count))
    pairs = tuple(
        Override(a, b, Channel(Constant(setting.delays_ms[a][b])), Channel(Constant(setting.delays_ms[b][a])))
        for a, b in combinations(ids, 2)
    )
    cluster = Cluster("all", ids, ids[0], Channel(Constant(1)))
    return Topology("drawn", tuple(Site(f"s{site}", 0) for site in ids), (cluster,), (), pairs)


def workloads_of(setting: Setting) -> tuple[Workload, ...]:
    """The streams of a setting as workloads."""
    kinds = {"periodic": Periodic, "poisson": Poisson}
    return tuple(
        kinds[stream.kind](sites=(f"s{site}",), rate_per_s=1000 / stream.period_ms)
        for site, own in enumerate(setting.streams)
        for stream in own
    )
