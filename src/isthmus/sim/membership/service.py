"""The interface between a simulated run and the membership service of a group."""

from __future__ import annotations

from typing import Protocol

from isthmus.core.layer import Layer, View
from isthmus.core.message import GroupId, SiteId
from isthmus.protocols.membership.suspicion import Suspicion
from isthmus.sim.site import SimSite


class MembershipService(Protocol):
    """The views of one group of one run: ideal, agreed by its members, or kept by a directory."""

    group: GroupId

    @property
    def view(self) -> View: ...
    def layer_of(self, site: SimSite, suspicion: Suspicion) -> Layer | None: ...  # of an incarnation; None: not needed
    def start(self, sites: list[SimSite]) -> None: ...
    def changed(self) -> None: ...  # a site crashed or started, or links were cut or healed
    def joined(self, site: SimSite) -> None: ...  # a site started or restarted
    def renewing(self, site: SiteId) -> None: ...  # its life is about to end, and its process lives
    def ask_to_leave(self, site: SiteId) -> None: ...
    def at_rest(self) -> bool: ...  # no view change is in progress or pending
