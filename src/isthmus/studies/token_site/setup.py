"""The runs of the study `token-site`: 30 sites around a sequencer, over channels of constant delay."""

from __future__ import annotations

from collections.abc import Sequence

from isthmus.scenario.model import Scenario
from isthmus.studies.model import Cell, Scale
from isthmus.studies.tickets.labels import SOURCES
from isthmus.studies.tickets.setup import TOKEN_SITE_STACK, WORKLOADS
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel, Topology
from isthmus.topology.shapes import mesh

SITES, RATE_PER_S = 30, 10.0
DELAYS_MS: dict[Scale, tuple[float, ...]] = {
    "quick": (25.0, 100.0, 250.0, 500.0),
    "full": (25.0, 50.0, 75.0, 100.0, 200.0, 300.0, 400.0, 500.0),
}
DURATION_MS: dict[Scale, float] = {"quick": 1_500.0, "full": 20_000.0}


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    return [
        Cell({"source": source, "delay_ms": delay_ms, "seed": seed}, scenario(source, delay_ms, seed, scale))
        for source in SOURCES
        for delay_ms in DELAYS_MS[scale]
        for seed in seeds
    ]


def scenario(source: str, delay_ms: float, seed: int, scale: Scale) -> Scenario:
    channel = Channel(Constant(delay_ms))
    return Scenario(
        name="token-site",
        topology=mesh(1, SITES, channel, channel),
        stack=TOKEN_SITE_STACK,
        workloads=(WORKLOADS[source](rate_per_s=RATE_PER_S),),
        seed=seed,
        duration_ms=DURATION_MS[scale],
    )


def networks() -> tuple[Topology, ...]:
    return (scenario("Poisson", 100.0, 1, "quick").topology,)
