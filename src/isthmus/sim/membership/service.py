"""What a simulated run asks of the membership of one group, whichever service decides on its views."""

from __future__ import annotations

from typing import Protocol

from isthmus.core.layer import Layer, View
from isthmus.core.message import GroupId, SiteId
from isthmus.protocols.membership.suspicion import Suspicion
from isthmus.sim.site import SimSite


class MembershipService(Protocol):
    """The views of one group of one run: ideal, agreed on by its members, or listed by a directory."""

    group: GroupId

    @property
    def view(self) -> View: ...
    def layer_of(self, site: SimSite, suspicion: Suspicion) -> Layer | None: ...  # of a new life; None: it needs none
    def start(self, sites: list[SimSite]) -> None: ...
    def changed(self) -> None: ...  # a site crashed or started, or links were cut or healed
    def joined(self, site: SimSite) -> None: ...  # a site has started, or started again
    def ask_to_leave(self, site: SiteId) -> None: ...
    def at_rest(self) -> bool: ...  # no view change is under way, nor about to be
