"""The runs of the study `internet-scale`: one burst over random graphs of 1,000 to 50,000 nodes."""

from __future__ import annotations

from collections.abc import Sequence

from isthmus.studies.internet_scale.claims import DATA_BYTES
from isthmus.studies.model import Cell, Scale
from isthmus.studies.overlay.setup import connected_degree, overlay_scenario

NODES: dict[Scale, tuple[int, ...]] = {"quick": (1000, 2000), "full": (1000, 2000, 5000, 10_000, 20_000, 50_000)}


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    return [
        Cell(
            {"nodes": nodes, "seed": seed},
            overlay_scenario("flooding", nodes, DATA_BYTES, seed, bursts=1, burst=1, degree=connected_degree(nodes)),
        )
        for nodes in NODES[scale]
        for seed in seeds
    ]
