"""A node that a router of a composition joins at this site: the application below which messages are passed on.

async with isthmus.Site("network.toml", "lisbon-router", composition="regions.toml") as site:
    await site.closed()
"""

from __future__ import annotations

import asyncio

from isthmus.core.layer import View
from isthmus.live.api.send_queue import FORM_S
from isthmus.live.node.peers import logger
from isthmus.live.node.runtime import SiteRuntime
from isthmus.live.node.site import LivePort
from isthmus.live.node.site_group import GroupHandler, SiteGroup
from isthmus.protocols.application import Application
from isthmus.protocols.routing.router import RouterPort
from isthmus.protocols.transport.base import Transport


class RouterNode:
    """One node of a router at this site; `Site` makes it.

    Example: `if site.nodes["cable"].blocked: ...`
    """

    def __init__(self, runtime: SiteRuntime, joined: SiteGroup) -> None:
        self.runtime = runtime
        self.name = joined.plan.name
        self.view = View(0, ())
        self._joined = joined
        self._formed = runtime.agreed is None  # all sites have been in, or had time to come in

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the members of the view, by seniority; () while this site is in none."""
        return tuple(self.runtime.topology.sites[site].name for site in self.view.members)

    @property
    def blocked(self) -> bool:
        """Whether nothing can be passed on into the node now: there is no view, it changes, or has no majority."""
        port = self._joined.port
        return port is None or port.view_id == 0 or port.stack.find(Transport).blocked

    def _handler(self) -> GroupHandler:
        """A silent application for each life: what it is given has passed the router, and it needs no state."""
        return GroupHandler(
            application=lambda: Application(on_view=self._install, wants=(), on_restore=lambda _state: None),
            on_stack=self._hold_back,
            on_life_end=self._forget_view,
            on_end=self._forget_view,
        )

    def _hold_back(self, port: LivePort) -> None:
        """Hold back what is passed on into a node that begins before all its sites are in."""
        if not self._formed:
            port.stack.find(RouterPort).forming = True

    def _forget_view(self) -> None:
        self.view = View(0, ())

    def _install(self, view: View) -> None:
        loop, expected = asyncio.get_running_loop(), len(self._joined.members)
        if not self._formed:
            if not self.view.view_id and view.view_id <= expected:
                loop.call_later(FORM_S, self._release)
            if len(view.members) == expected or view.view_id > expected:
                loop.call_soon(self._release)
        self.view = view
        logger.info("view %d of %s: %s", view.view_id, self.name, ", ".join(self.members))

    def _release(self) -> None:
        """Pass on what was held back, to the members of the node."""
        self._formed = True
        port = self._joined.port
        if port is not None:
            self.runtime.run(port, port.stack.find(RouterPort).note_formed)
