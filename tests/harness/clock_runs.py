"""Runs of the clock service that several tests make: one LAN as in the specification's figures, and several."""

from __future__ import annotations

from typing import Any

from isthmus.protocols.clocks.options import ClockOptions
from isthmus.scenario.clocks import Broadcasts, Clocks, TimeService
from isthmus.scenario.faults import Fault
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.workload import Periodic
from isthmus.sim.run import SimRun
from isthmus.topology.load import topology_from_tables
from isthmus.topology.model import Topology
from isthmus.trace.schema import Row

ACCESS = {"delay": {"kind": "uniform", "low_ms": 0.1, "high_ms": 1.0}}


def lans(*references: int, sites: int = 8, wan: Any = 20.0) -> Topology:
    """LANs a, b, c ... with so many references each; the WAN joins each with the first."""
    names = "abcdefgh"[: len(references)]
    clusters = [
        {"name": name, "sites": sites, "lan": ACCESS, "references": [f"{name}-{k}" for k in range(count)]}
        for name, count in zip(names, references, strict=True)
    ]
    links = [{"from": "a", "to": name} | (wan if isinstance(wan, dict) else {"delay": wan}) for name in names[1:]]
    return topology_from_tables({"name": "LANs", "clusters": clusters, "links": links}, "here")


def clocks(drift: float = 1e-5, tightness_us: float = 10.0, period_s: float = 1.0, **service: Any) -> Clocks:
    """Clocks at the ends of their rates; a fifth of the candidates reach one receiver late."""
    broadcast = Broadcasts(tightness_us=tightness_us, repeat=0.2)
    serve = TimeService(period_ms=1000 * period_s, **({"sample_ms": 1000 * period_s} | service))
    return Clocks(
        drift_ppm=drift * 1e6, extreme=True, offset_ms=100, granularity_us=1, broadcast=broadcast, service=serve
    )


def scenario(topology: Topology, clocks: Clocks, rounds: float, *faults: Fault, **more: Any) -> Scenario:
    assert clocks.service is not None
    given: dict[str, Any] = {
        "stack": StackSpec(name="fifo"),
        "workloads": (Periodic(rate_per_s=1, count=1, sites=(topology.sites[0].name,)),),
        "duration_ms": rounds * clocks.service.period_ms,
        "drain_ms": 0,
        "seed": 1,
        "trace": "none",
        "wire": "reference",
        "membership": Membership(detection_ms=100),
    }
    return Scenario(topology=topology, clocks=clocks, faults=faults, **(given | more))


def run(made: Scenario, rows: list[Row] | None = None) -> SimRun:
    done = SimRun(made, rows)
    done.execute()
    return done


def options(made: Scenario, lan: int = 0) -> ClockOptions:
    return made.clocks.options(made.topology, lan)
