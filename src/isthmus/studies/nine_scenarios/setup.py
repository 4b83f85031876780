"""The runs of the study `nine-scenarios`: every protocol at every distribution of load."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from isthmus.scenario.model import Scenario, StackSpec
from isthmus.studies.model import Cell, Scale
from isthmus.studies.tickets.labels import (
    HYBRID,
    HYBRID_NULLS,
    NINE,
    PERIODIC,
    POISSON,
    SOURCES,
    SYMMETRIC,
    SYMMETRIC_NULLS,
    TOKEN_SITE,
)
from isthmus.studies.tickets.setup import (
    DRAIN_MS,
    NO_NULLS,
    SITES,
    TOKEN_SITE_STACK,
    WITH_NULLS,
    five_sites,
    symmetric_stack,
    workloads,
)
from isthmus.topology.model import Topology

SPAN_MS: dict[Scale, float] = {"quick": 2_000.0, "full": 30_000.0}  # in which messages are counted
FROM_MS = 2_000.0  # by then clocks have met
LAST_MS = 1_500.0  # after the span, so that its messages are delivered
SLOWEST_MS = {PERIODIC: 1_500.0, POISSON: 6_000.0}  # the same where delivery needs a message of every slow site
RUNS_OF = {1: 8, 2: 4, 3: 3, 4: 1, 5: 1}  # of the symmetric protocol without nulls, by the number of busy sites
PROTOCOLS = (TOKEN_SITE, SYMMETRIC, HYBRID, SYMMETRIC_NULLS, HYBRID_NULLS)


def stack(protocol: str, load: str) -> StackSpec:
    heavy = tuple(site for site, letter in zip(SITES, load, strict=True) if letter == "H")
    replace = msgspec.structs.replace
    return {
        TOKEN_SITE: replace(TOKEN_SITE_STACK, sequencer=SITES[0]),
        SYMMETRIC: symmetric_stack(NO_NULLS),
        HYBRID: StackSpec(name="hybrid", transport="direct", hybrid=replace(NO_NULLS, active=heavy)),
        SYMMETRIC_NULLS: symmetric_stack(WITH_NULLS),
        HYBRID_NULLS: StackSpec(name="hybrid", transport="direct", hybrid=replace(WITH_NULLS, active=heavy)),
    }[protocol]


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    return [
        cell(protocol, source, load, 100 * seed + again, SPAN_MS[scale])
        for protocol in PROTOCOLS
        for source in SOURCES
        for load in NINE
        for seed in seeds
        for again in range(RUNS_OF[load.count("H")] if protocol == SYMMETRIC else 1)
    ]


def cell(protocol: str, source: str, load: str, seed: int, span_ms: float) -> Cell:
    until_ms = FROM_MS + span_ms
    scenario = Scenario(
        name="nine-scenarios",
        topology=five_sites(),
        stack=stack(protocol, load),
        workloads=workloads(load, source),
        seed=seed,
        duration_ms=until_ms + (SLOWEST_MS[source] if protocol == SYMMETRIC else LAST_MS),
        drain_ms=DRAIN_MS,
    )
    names = {"protocol": protocol, "source": source, "scenario": f"{NINE.index(load) + 1} {load}"}
    return Cell({**names, "from_ms": FROM_MS, "until_ms": until_ms, "seed": seed}, scenario)


def networks() -> tuple[Topology, ...]:
    return (five_sites(),)
