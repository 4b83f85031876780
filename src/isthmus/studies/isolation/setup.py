"""The runs of the study `isolation`: 30 sites at equal distances, and five that send rarely."""

from __future__ import annotations

from collections.abc import Sequence

from isthmus.scenario.model import Scenario, StackSpec
from isthmus.studies.isolation.claims import PERIOD_MS, RATE_PER_S
from isthmus.studies.model import Cell, Scale
from isthmus.studies.tickets.labels import PERIODIC, POISSON, SOURCES, SYMMETRIC, SYMMETRIC_NULLS, TOKEN_SITE
from isthmus.studies.tickets.setup import DRAIN_MS, NO_NULLS, TOKEN_SITE_STACK, WITH_NULLS, WORKLOADS, symmetric_stack
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel, Topology
from isthmus.topology.shapes import mesh

SITES = 30
RARE_SITES, RARE_PER_S, RARE_MS = 5, 0.5, 30_000.0  # five sites that send once in two seconds
DELAYS_MS: dict[Scale, tuple[float, ...]] = {
    "quick": (25.0, 100.0, 500.0),
    "full": (25.0, 50.0, 75.0, 100.0, 125.0, 200.0, 300.0, 400.0, 500.0),
}
DURATION_MS: dict[Scale, float] = {"quick": 3_500.0, "full": 10_000.0}
FROM_MS = 1_200.0
LAST_MS = {PERIODIC: 500.0, POISSON: 1_000.0}  # at the end of a run, not counted
PROTOCOLS: dict[str, StackSpec] = {
    TOKEN_SITE: TOKEN_SITE_STACK,
    SYMMETRIC: symmetric_stack(NO_NULLS),
    SYMMETRIC_NULLS: symmetric_stack(WITH_NULLS),
}


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    sending = [*((protocol, DURATION_MS[scale], False) for protocol in PROTOCOLS), (SYMMETRIC_NULLS, RARE_MS, True)]
    return [
        cell(protocol, source, delay_ms, seed, duration_ms, rare)
        for protocol, duration_ms, rare in sending
        for source in SOURCES
        for delay_ms in DELAYS_MS[scale]
        for seed in seeds
    ]


def cell(protocol: str, source: str, delay_ms: float, seed: int, duration_ms: float, rare: bool = False) -> Cell:
    until_ms = duration_ms - LAST_MS[source]
    channel = Channel(Constant(delay_ms))
    sites, rate = (RARE_SITES, RARE_PER_S) if rare else (SITES, RATE_PER_S)
    scenario = Scenario(
        name="isolation",
        topology=mesh(1, sites, channel, channel),
        stack=PROTOCOLS[protocol],
        workloads=(WORKLOADS[source](rate_per_s=rate),),
        seed=seed,
        duration_ms=duration_ms,
        drain_ms=DRAIN_MS,
    )
    names = {"protocol": protocol, "source": source}
    times = {"delay_ms": delay_ms, "from_ms": FROM_MS, "until_ms": until_ms}
    return Cell({**names, **times, "rare": rare, "seed": seed}, scenario)


def networks() -> tuple[Topology, ...]:
    return (cell(TOKEN_SITE, PERIODIC, PERIOD_MS, 1, FROM_MS).scenario.topology,)
