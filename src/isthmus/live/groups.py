"""Several groups at one site, over one socket.

    plans = [GroupPlan("orders"), GroupPlan("chat", stack="fifo", sites=("paris", "tokyo"))]
    async with Groups.join("network.toml", site="paris-0", ports=ports, groups=plans) as groups:
        await groups["orders"].send(b"hello")
        async for message in groups["chat"]:
            ...

The list of groups is the same at all sites, with those that a site is not in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from isthmus.core.errors import InputError
from isthmus.live.group import Group
from isthmus.live.member import Member
from isthmus.live.plans import GroupPlan, Where
from isthmus.topology.model import Topology


class Groups:
    """The groups that one site is in, by name."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.groups = {each.plan.name: Group(member, each) for each in member.groups if member.site in each.members}

    @classmethod
    def join(
        cls,
        topology: Topology | Path | str,
        site: str,
        ports: Mapping[str, Where],
        groups: Sequence[GroupPlan],
        emulate: bool = False,
        datagram_bytes: int | None = None,
    ) -> Groups:
        """Groups to be entered with `async with`; the options are those of `Group.join`."""
        return cls(Member(topology, site, ports, groups, emulate, datagram_bytes))

    def __getitem__(self, name: str) -> Group:
        if name not in self.groups:
            known = ", ".join(self.groups) or "none"
            raise InputError("group", "", repr(name), f"a group that this site is in: {known}")
        return self.groups[name]

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
                    await group.leave()
        finally:
            self.member.close()
