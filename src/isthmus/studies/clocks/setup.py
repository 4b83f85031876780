"""The runs of the study `clocks`: one LAN, many, a LAN without a reference, references that fail.

Eight nodes, stamps of 1 us, references right within 1 us, agreement in 20 ms, every clock at one of the two ends of its
rate. Clocks are read in each round just before the next installation, when the last one is oldest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from isthmus.core.message import SiteId
from isthmus.protocols.clocks.options import accuracy_ns, precision_ns
from isthmus.scenario.clocks import Broadcasts, Clocks, TimeService
from isthmus.scenario.faults import Fault, ReferenceDeath, ReferenceJump
from isthmus.scenario.model import GroupSpec, Scenario, StackSpec
from isthmus.scenario.workload import Periodic
from isthmus.studies.clocks.claims import FAULT_S, FIGURES, GATED, NTP, OUTVOTED, OWN, ROUNDS
from isthmus.studies.model import Cell, Parameters, Scale
from isthmus.topology.delay import Gamma, Uniform
from isthmus.topology.model import Channel, Cluster, Topology, TopologySite, WanLink

NODES = 8
NS_PER_US = 1_000
WAYS_MS = (55.0, 5.0)  # minimum delays there and back
QUEUEING_MS = 3.0  # on a WAN link, beyond the minimum delay: the mean of an exponential distribution
DRIFTS, PERIODS = (1e-6, 1e-5, 1e-4), (1.0, 10.0)
TIGHTNESS_US = (1.0, 10.0, 100.0, 1_000.0, 10_000.0)
ACCESS_MS = ((0.1, 1.0), (1.0, 8.0))
LANS: dict[Scale, tuple[int, ...]] = {"quick": (1, 8), "full": (1, 2, 4, 8, 16, 32, 64)}
HOLD_OVER_S: dict[Scale, tuple[float, ...]] = {"quick": (30.0, 120.0), "full": (60.0, 300.0, 1_200.0, 3_600.0)}
LAN_NODES = 4  # with several LANs
AGENT = "round trips of the agent"  # a way to keep time, besides OWN and NTP


def lan(number: int, first: int, sites: int, references: int, access_ms: tuple[float, float]) -> Cluster:
    ids = tuple(SiteId(first + place) for place in range(sites))
    return Cluster(f"lan{number}", ids, ids[0], Channel(Uniform(*access_ms)), references=ids[:references])


def network(references: Iterable[int], sites: int = NODES, access_ms: tuple[float, float] = ACCESS_MS[0]) -> Topology:
    """LANs, by their numbers of references, linked to the first with delays of 55 ms there and 5 ms back."""
    clusters = [lan(number, number * sites, sites, count, access_ms) for number, count in enumerate(references)]
    nodes = [TopologySite(f"{cluster.name}-{place}", n) for n, cluster in enumerate(clusters) for place in range(sites)]
    there, back = (Channel(Gamma(least + QUEUEING_MS, QUEUEING_MS**2, least), fifo=False) for least in WAYS_MS)
    links = [WanLink(0, other, there, back) for other in range(1, len(clusters))]
    return Topology("LANs with references", tuple(nodes), tuple(clusters), tuple(links))


def clocks(drift: float, tightness_us: float, period_s: float, sample_s: float = 1e6, **service: Any) -> Clocks:
    window_ms = max(10.0, 6 * tightness_us / 1_000)
    timing = {"period_ms": period_s * 1_000, "sample_ms": sample_s * 1_000, "window_ms": window_ms}
    return Clocks(
        offset_ms=100.0,
        drift_ppm=drift * 1e6,
        extreme=True,
        granularity_us=1.0,
        reference_error_us=1.0,
        broadcast=Broadcasts(tightness_us=tightness_us, repeat=0.2),
        service=TimeService(**(timing | service)),
    )


def cell(
    part: str,
    topology: Topology,
    world: Clocks,
    seed: int,
    *faults: Fault,
    seconds: float | None = None,
    **more: str | int | float | bool,
) -> Cell:
    """One run; its parameters include the bounds for a LAN with a reference."""
    assert world.service is not None
    period_s = world.service.period_ms / 1_000
    options = world.options(topology, 0)
    parameters: Parameters = {
        "part": part,
        "seed": seed,
        "drift_ppm": world.drift_ppm,
        "tightness_us": world.broadcast.tightness_us,
        "period_s": period_s,
        "lans": len(topology.clusters),
        "way": "",
        "access_ms": 0.0,
        "holdover_s": 0.0,
        "bound_precision_us": precision_ns(options) / NS_PER_US,
        "bound_accuracy_us": accuracy_ns(options) / NS_PER_US,
    }
    scenario = Scenario(
        name="clocks",
        seed=seed,
        topology=topology,
        stack=StackSpec(name="fifo"),
        groups=(GroupSpec(name="one site", sites=(topology.sites[0].name,)),),  # only the clocks are measured
        workloads=(Periodic(rate_per_s=1, count=1),),
        duration_ms=1_000 * (seconds or ROUNDS * period_s),
        drain_ms=0,
        clocks=world,
        faults=faults,
        wire="reference",
    )
    return Cell(parameters | more, scenario)


def drift_cells(seed: int) -> list[Cell]:
    """The specification's figures, and drift against period."""
    plain = network((1,))
    settings = dict.fromkeys((*FIGURES, *((drift, 10.0, period) for drift in DRIFTS for period in PERIODS)))
    return [cell("drift", plain, clocks(*setting), seed) for setting in settings]


def other_cells(scale: Scale, seed: int) -> list[Cell]:
    plain, drift = network((1,)), 1e-5
    made = [cell("tightness", plain, clocks(1e-6, tightness, 1.0), seed) for tightness in TIGHTNESS_US]
    made += [
        cell("access", network((1,), access_ms=ends), clocks(1e-6, 10.0, 1.0), seed, access_ms=sum(ends) / 2)
        for ends in ACCESS_MS
    ]
    made += [
        cell("lans", network((1,) * count), clocks(drift, 10.0, 1.0, 1.0), seed, seconds=20) for count in LANS[scale]
    ]
    own, remote = network((1, 1), LAN_NODES), network((1, 0), LAN_NODES)
    made += [
        cell("ways", where, clocks(drift, 10.0, 1.0, 0.5, without_reference=how), seed, way=way)
        for way, where, how in ((OWN, own, "refuse"), (AGENT, remote, "round-trips"), (NTP, remote, "clients"))
    ]
    outvoted, gated = (
        ReferenceJump(at_ms=1_000.0 * FAULT_S, site=site, by_ms=1_000.0) for site in ("lan0-1", "lan0-0")
    )
    made += [
        cell("references", network((count,)), clocks(drift, 10.0, 1.0, 0.5, gate_ms=gate), seed, fault, way=way)
        for way, count, gate, fault in ((OUTVOTED, 3, None, outvoted), (GATED, 1, 3.0, gated))
    ]
    death = ReferenceDeath(at_ms=1_000.0 * FAULT_S, site="lan0-0")
    made += [
        cell("hold-over", plain, clocks(drift, 10.0, 1.0, 10.0), seed, death, seconds=FAULT_S + span, holdover_s=span)
        for span in HOLD_OVER_S[scale]
    ]
    return made


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    return [one for seed in seeds for one in (*drift_cells(seed), *other_cells(scale, seed))]


def networks() -> tuple[Topology, ...]:
    return (network((1, 0), 4),)
