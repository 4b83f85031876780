"""The network and the stacks that the studies of total order by tickets share.

The network is the hybrid paper's: A B C and D E, 20 ms inside a cluster and 540 ms across, both with little variance.
"""

from __future__ import annotations

from isthmus.protocols.estimator import EstimatorOptions
from isthmus.scenario.model import HybridSpec, StackSpec
from isthmus.scenario.workload import Periodic, Poisson, Workload
from isthmus.studies.tickets.instances import LAN_MS, NEAR, PERIODS_MS, WAN_MS
from isthmus.studies.tickets.labels import PERIODIC, POISSON
from isthmus.topology.delay import Gamma
from isthmus.topology.model import Channel, Topology, WanLink
from isthmus.topology.shapes import of_named_sites

SITES = "ABCDE"
WORKLOADS: dict[str, type[Periodic] | type[Poisson]] = {PERIODIC: Periodic, POISSON: Poisson}  # by source
WITH_NULLS = HybridSpec()
NO_NULLS = HybridSpec(null_ms=0.0, eager=False)
PAPER_DYNAMIC = HybridSpec(
    null_ms=0.0, eager=False, rule="paper", estimator=EstimatorOptions(detector="mean-shift", samples=7, silence=False)
)
TOKEN_SITE_STACK = StackSpec(name="token-site", transport="direct")
DRAIN_MS = 5_000.0  # everything deliverable is delivered by then, and probes that continue cost little


def five_sites() -> Topology:
    """A B C | D E."""
    lan = Channel(Gamma(LAN_MS, 0.05, LAN_MS - 1))
    wan = Channel(Gamma(WAN_MS, 0.5, WAN_MS - 5))
    clusters = (("west", SITES[:NEAR], lan), ("east", SITES[NEAR:], lan))
    return of_named_sites("five", clusters, [WanLink(0, 1, wan, wan)])


def workloads(load: str, source: str, start_ms: float = 0.0, stop_ms: float | None = None) -> tuple[Workload, ...]:
    """Periodic or Poisson traffic of every site at its load, H or L, for a time."""
    return tuple(
        WORKLOADS[source](rate_per_s=1000 / PERIODS_MS[letter], sites=(site,), start_ms=start_ms, stop_ms=stop_ms)
        for site, letter in zip(SITES, load, strict=True)
    )


def symmetric_stack(spec: HybridSpec) -> StackSpec:
    return StackSpec(name="symmetric", transport="direct", hybrid=spec)


def dynamic_stack(spec: HybridSpec) -> StackSpec:
    return StackSpec(name="dynamic-hybrid", transport="direct", hybrid=spec)
