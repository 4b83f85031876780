"""A site of a composition: its nodes as groups of the site, with the filters of a process or the ends of a router.

    async with Group.join("network.toml", site="lisbon-0", composition="regions.toml") as group:
        await group.send(b"hello", groups=["lisbon", "osaka"])
    async with LiveRouter.join("network.toml", site="lisbon-router", composition="regions.toml") as router:
        await router.closed()

The composition is the same at all sites. It names the sites of the topology: the processes of its groups, and its
routers. One whose domains want more than it gives is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from isthmus.core.errors import InputError
from isthmus.core.layer import View
from isthmus.core.message import GroupId
from isthmus.core.validation import BadValue
from isthmus.live.api.plans import GroupPlan, JoinedGroup, Membership, Where, default_options, membership_of
from isthmus.live.net.hello import digest
from isthmus.live.node.member import Member
from isthmus.live.node.peers import logger
from isthmus.live.node.site import LivePort
from isthmus.protocols.application import Application
from isthmus.protocols.routing.calculus.model import Composition
from isthmus.protocols.routing.options import RouterOptions
from isthmus.protocols.routing.router import RouterPort
from isthmus.protocols.transport.base import Transport
from isthmus.scenario.composition.check import (
    check_recomputed,
    check_sites,
    check_views,
    check_wanted,
    couriers_of,
    is_bare,
    routes_of,
)
from isthmus.scenario.composition.load import load_composition
from isthmus.scenario.composition.nodes import nodes_as_groups, routing_at
from isthmus.stacks.registry import StackOptions
from isthmus.topology.load import load_topology
from isthmus.topology.model import Topology

NodeOptions = Mapping[str, StackOptions]  # by node, the same at all its sites
FORM_S = 5.0  # how long messages into a new node wait, at most, for all its sites to be in
LEAVE_S = 2.0  # how long leaving waits, at most, for the others to go on without this site


def composed_member(
    topology: Topology | Path | str,
    site: str,
    where: Mapping[str, Where],
    composition: Composition | Path | str,
    options: NodeOptions | None = None,
    router: RouterOptions | None = None,
    emulate: bool = False,
    datagram_bytes: int | None = None,
    membership: Membership = None,
) -> Member:
    """One site with the nodes of a composition as its groups."""
    made = composition if isinstance(composition, Composition) else load_composition(Path(composition))
    source = made.name if isinstance(composition, Composition) else str(composition)
    check_wanted(made, source)
    network = topology if isinstance(topology, Topology) else load_topology(Path(topology))
    check_sites(made, network, source)
    chosen = router or RouterOptions()
    try:
        check_recomputed(made, network, chosen)
    except BadValue as error:
        raise error.at(source, "") from None
    unknown = next((name for name in options or {} if all(node.name != name for node in made.nodes)), None)
    if unknown is not None:
        names = ", ".join(node.name for node in made.nodes)
        raise InputError("options", "", repr(unknown), f"a node of the composition: {names}")
    plans = []
    for number, node in enumerate(nodes_as_groups(made)):
        assert node.stack is not None
        given = (options or {}).get(node.name) or default_options(node.stack.name, network)
        given = msgspec.structs.replace(given, safe=given.safe or node.stack.safe, bare=is_bare(made, number))
        plans.append(GroupPlan(node.name, node.stack.name, node.sites, given, digest((made, chosen.routes)).hex()))
    agreed = membership_of(membership, plans)
    try:
        check_views(made, agreed is not None)
    except BadValue as error:
        raise error.at(source, "") from None
    member = Member(network, site, where, plans, emulate, datagram_bytes, agreed)
    member.routes = routes_of(made, network)
    member.routing = partial(routing_at, made, network, member.site, chosen)
    member.couriers = couriers_of(made, network)
    return member


def own_groups(member: Member) -> list[JoinedGroup]:
    """The groups of a composition that a site is a process of; raises where it is a router."""
    assert member.routes is not None
    name = member.topology.sites[member.site].name
    if member.site in member.routes.router_of:
        raise InputError("site", "", f"{name!r}, which is a router", "a process of a group; run routers by LiveRouter")
    found = [group for group in member.groups if member.site in member.routes.processes[group.group]]
    if not found:
        raise InputError("site", "", repr(name), "a process of a group of the composition")
    return found


def only_group(member: Member) -> JoinedGroup:
    """The group of a composition that a site is a process of; raises where there are several."""
    found = own_groups(member)
    if len(found) > 1:
        names = ", ".join(group.plan.name for group in found)
        raise InputError("site", "", f"a process of {names}", "a process of one group; join several by Groups.join")
    return found[0]


def options_by_node(stack: str | None, options: StackOptions | NodeOptions | None) -> NodeOptions | None:
    """Options as a composition takes them; raises where they are meant for a group without one."""
    if stack is not None:
        raise InputError("stack", "", repr(stack), "none, as the composition names the stacks of its groups")
    if isinstance(options, StackOptions):
        raise InputError("options", "", "the options of one stack", "options by node, such as {'lisbon': ...}")
    return options


class LiveRouter:
    """One router of a composition, in this process: a site of several nodes that passes messages on."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.on_view: Callable[[str, tuple[str, ...]], None] = lambda _node, _members: None  # told of each view
        self.views: dict[str, View] = {}  # by node: the installed ones
        self._end = asyncio.Event()
        self._formed = {group.group for group in member.groups if member.agreed is None}  # nodes that had all in
        for group in member.groups:
            if member.site in group.members:
                group.boot = partial(self._boot, group)
                group.on_stack = partial(self._hold, group)
                group.on_end = self._end.set

    @classmethod
    def join(
        cls,
        topology: Topology | Path | str,
        site: str,
        composition: Composition | Path | str,
        ports: Mapping[str, Where] | None = None,
        options: NodeOptions | None = None,
        router: RouterOptions | None = None,
        emulate: bool = False,
        datagram_bytes: int | None = None,
        membership: Membership = None,
        addresses: Mapping[str, Where] | None = None,
    ) -> LiveRouter:
        """A router to be entered with `async with`; what is left out is as for `Group.join`, and so for all sites."""
        where = {**(ports or {}), **(addresses or {})}
        member = composed_member(
            topology, site, where, composition, options, router, emulate, datagram_bytes, membership
        )
        assert member.routes is not None
        if member.site not in member.routes.router_of:
            names = ", ".join(member.topology.sites[one].name for one in sorted(member.routes.router_of))
            raise InputError("site", "", repr(site), f"a router of the composition: {names}")
        return cls(member)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes that it joins."""
        return tuple(group.plan.name for group in self.member.groups if self.member.site in group.members)

    def is_blocked(self, node: str) -> bool:
        """Whether nothing can be passed on into a node now: there is no view, or it changes, or has no majority."""
        group = next(group for group in self.member.groups if group.plan.name == node)
        port = group.port
        return port is None or port.view_id == 0 or port.stack.find(Transport).blocked

    async def __aenter__(self) -> Self:
        await self.member.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        try:
            await self.member.leave_groups(LEAVE_S)
        finally:
            self.member.close()

    async def closed(self) -> None:
        """Wait until the router is out of its nodes: it was closed, or the others refuse it."""
        await self._end.wait()
        if self.member.refused_why:
            self.member.joined()  # which says why

    def _boot(self, group: JoinedGroup) -> Application:
        """A silent application for each life; what it is given has passed the router, and it needs no state."""
        return Application(on_view=partial(self._view, group.group), wants=(), on_restore=lambda _state: None)

    def _hold(self, group: JoinedGroup, port: LivePort) -> None:
        """Have nothing passed on into a node that begins before all its sites are in, or have had time to come in."""
        if group.group not in self._formed:
            port.stack.find(RouterPort).forming = True

    def _let_go(self, group: JoinedGroup) -> None:
        """Pass on what waits, to those that are in a node."""
        driver, port = self.member.driver, group.port
        self._formed.add(group.group)
        if driver is not None and port is not None:
            driver.run(port, port.stack.find(RouterPort).note_formed)

    def _note_forming(self, group: JoinedGroup, view: View) -> None:
        if group.group in self._formed:
            return
        if group.plan.name not in self.views and view.view_id <= len(group.members):
            asyncio.get_running_loop().call_later(FORM_S, self._let_go, group)
        if len(view.members) == len(group.members) or view.view_id > len(group.members):
            asyncio.get_running_loop().call_soon(self._let_go, group)

    def _view(self, node: GroupId, view: View) -> None:
        name = self.member.groups[node].plan.name
        members = tuple(self.member.topology.sites[site].name for site in view.members)
        self._note_forming(self.member.groups[node], view)
        self.views[name] = view
        logger.info("view %d of %s: %s", view.view_id, name, ", ".join(members))
        self.on_view(name, members)
