"""The runs of the study `dynamic-roles`: the nine scenarios one after another in a single run.

Further runs change the network instead of the load (changes.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from isthmus.scenario.model import HybridSpec, StackSpec
from isthmus.scenario.workload import Workload
from isthmus.studies.dynamic_roles import changes
from isthmus.studies.dynamic_roles.claims import LOADS, POISSON_ONLY
from isthmus.studies.model import Cell, Scale
from isthmus.studies.tickets.labels import (
    DYNAMIC,
    DYNAMIC_ALONE,
    DYNAMIC_PAPER,
    NINE,
    POISSON,
    SOURCES,
    SYMMETRIC,
    SYMMETRIC_NULLS,
    TOKEN_SITE,
)
from isthmus.studies.tickets.setup import (
    NO_NULLS,
    PAPER_DYNAMIC,
    SITES,
    TOKEN_SITE_STACK,
    WITH_NULLS,
    dynamic_stack,
    five_sites,
    symmetric_stack,
    workloads,
)
from isthmus.topology.model import Topology

PHASE_MS: dict[Scale, float] = {"quick": 12_000.0, "full": 16_000.0}
PROTOCOLS: dict[str, StackSpec] = {
    TOKEN_SITE: msgspec.structs.replace(TOKEN_SITE_STACK, sequencer=SITES[0]),
    DYNAMIC_PAPER: dynamic_stack(PAPER_DYNAMIC),
    DYNAMIC: dynamic_stack(WITH_NULLS),
    SYMMETRIC_NULLS: symmetric_stack(WITH_NULLS),
    DYNAMIC_ALONE: dynamic_stack(HybridSpec(rule="dynamic")),
    SYMMETRIC: symmetric_stack(NO_NULLS),
}


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    """All runs; at quick scale only Poisson sources where both kinds of source have nearly the same latency."""
    loads = [
        cell(protocol, source, seed, PHASE_MS[scale])
        for protocol in PROTOCOLS
        for source in SOURCES
        for seed in seeds
        if scale == "full" or source == POISSON or protocol not in POISSON_ONLY
    ]
    changed = [
        changes.cell(part, protocol, stack, source, seed, changes.PHASE_MS[scale])
        for part in changes.parts()
        for protocol, stack in PROTOCOLS.items()
        for source in SOURCES
        for seed in seeds
        if scale == "full" or source == POISSON
    ]
    return loads + changed


def cell(protocol: str, source: str, seed: int, phase_ms: float, loads: Sequence[str] = NINE) -> Cell:
    def phased(source: str, phase_ms: float) -> Iterator[Workload]:
        for place, load in enumerate(loads):
            yield from workloads(load, source, place * phase_ms, (place + 1) * phase_ms)

    part = changes.PhasedNetwork(LOADS, five_sites(), tuple(loads), phased, lambda _: ())
    return changes.cell(part, protocol, PROTOCOLS[protocol], source, seed, phase_ms)


def networks() -> tuple[Topology, ...]:
    return tuple(part.topology for part in changes.parts())
