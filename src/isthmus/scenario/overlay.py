"""The overlay of a flooding stack, as written in a scenario."""

from __future__ import annotations

from typing import Literal

import msgspec

from isthmus.core.message import SiteId
from isthmus.topology.model import Topology
from isthmus.topology.overlay.links import Kind, Overlay


class OverlaySpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The links over which messages are flooded."""

    kind: Kind = "hypercube"
    degree: int | None = None  # of a random graph; None: that of the hypercube
    seed: int = 0  # of a random graph
    ids: Literal["numbers", "topology"] = "numbers"  # topology: nearby sites become neighbours

    def plain(self) -> Overlay:
        """Return the same overlay with ids by site number."""
        return Overlay(self.kind, self.degree, self.seed)

    def of(self, topology: Topology) -> Overlay:
        """Return the overlay for a topology."""
        overlay = self.plain()
        if self.ids == "numbers":
            return overlay
        from isthmus.topology.overlay.ids import topology_ids

        sites = [SiteId(number) for number in range(len(topology.sites))]
        order = topology_ids(topology, sites, overlay.adjacency(len(sites)))
        return msgspec.structs.replace(overlay, order=order)
