"""Several groups at one site, over one socket.

    plans = [GroupPlan("orders"), GroupPlan("chat", stack="fifo", sites=("paris", "tokyo"))]
    async with Groups.join("network.toml", site="paris-0", ports=ports, groups=plans) as groups:
        await groups["orders"].send(b"hello")
        async for message in groups["chat"]:
            ...

The list of groups is the same at all sites, with those that a site is not in. The sites of each group agree on its
views, as those of a single `Group` do; `state` and `restore` are given the name of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from isthmus.core.errors import InputError
from isthmus.core.layer import Reading
from isthmus.live.api.group import LEAVE_S, Group
from isthmus.live.api.plans import GroupPlan, Membership, Where, membership_of
from isthmus.live.api.router import NodeOptions, composed_member, own_groups
from isthmus.live.clock.service import ClockPlan
from isthmus.live.node.member import Member
from isthmus.protocols.routing.calculus.model import Composition
from isthmus.protocols.routing.options import RouterOptions
from isthmus.topology.model import Topology


class Groups:
    """The groups that one site is in, by name."""

    def __init__(
        self,
        member: Member,
        state: Callable[[str], bytes] | None = None,
        restore: Callable[[str, bytes], None] | None = None,
        view_events: bool = False,
    ) -> None:
        self.member = member
        self.groups: dict[str, Group] = {}
        mine = member.groups if member.routes is None else own_groups(member)
        for each in mine:
            name = each.plan.name
            if member.site in each.members:
                snapshot = None if state is None else partial(state, name)
                take_over = None if restore is None else partial(restore, name)
                self.groups[name] = Group(member, each, snapshot, take_over, view_events)

    @classmethod
    def join(
        cls,
        topology: Topology | Path | str,
        site: str,
        ports: Mapping[str, Where] | None = None,
        groups: Sequence[GroupPlan] = (),
        emulate: bool = False,
        datagram_bytes: int | None = None,
        addresses: Mapping[str, Where] | None = None,
        membership: Membership = None,
        state: Callable[[str], bytes] | None = None,
        restore: Callable[[str, bytes], None] | None = None,
        view_events: bool = False,
        composition: Composition | Path | str | None = None,
        options: NodeOptions | None = None,
        router: RouterOptions | None = None,
        clocks: ClockPlan | None = None,
    ) -> Groups:
        """Groups to be entered with `async with`; the options are those of `Group.join`.

        With a composition the groups are those that this site is a process of, and `options` are by node.
        """
        where = {**(ports or {}), **(addresses or {})}
        if composition is not None:
            if groups:
                raise InputError("groups", "", "plans of groups", "none, as the composition has the groups")
            member = composed_member(
                topology, site, where, composition, options, router, emulate, datagram_bytes, membership
            )
            member.clock_plan = clocks
            return cls(member, state, restore, view_events)
        if router is not None:
            raise InputError("router", "", "options of routers", "nothing, where there is no composition")
        if options:
            raise InputError("options", "", "options by node", "those of a GroupPlan, where there is no composition")
        member = Member(topology, site, where, groups, emulate, datagram_bytes, membership_of(membership, groups))
        member.clock_plan = clocks
        return cls(member, state, restore, view_events)

    def __getitem__(self, name: str) -> Group:
        if name not in self.groups:
            known = ", ".join(self.groups) or "none"
            raise InputError("group", "", repr(name), f"a group that this site is in: {known}")
        return self.groups[name]

    def clock(self) -> Reading:
        """The time at this site, the same in all its groups: see `Group.clock`."""
        return self.member.clock()

    async def __aenter__(self) -> Self:
        await self.member.open()
        for group in self.groups.values():
            group.attach()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        try:
            if error is None:
                for group in self.groups.values():
                    await group.settle_at_end()
                await self.member.leave_groups(LEAVE_S)
        finally:
            self.member.close()
