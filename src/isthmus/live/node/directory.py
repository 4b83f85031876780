"""The directory of a live group whose members come and go while messages flow: a group of its own, behind it.

The first sites of the group keep the directory: they are members of a hidden group, in which they agree on views and on
records (protocols/causal/flooding/directory). The runtime treats it as any group; it writes no trace.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from isthmus.core.message import GroupId
from isthmus.live.node.plans import GroupPlan
from isthmus.live.node.site_group import GroupHandler, SiteGroup
from isthmus.protocols.causal.flooding.directory.member import DirectoryMember
from isthmus.protocols.causal.flooding.directory.replica import DIRECTORY_GROUPS, DirectoryReplica, keepers_of
from isthmus.protocols.membership.suspicion import Suspicion
from isthmus.stacks.assembly import directory_stack
from isthmus.stacks.registry import STACKS, StackOptions
from isthmus.topology.model import Topology

TICK_MIN_NS = 20_000_000


class SiteDirectory:
    """One site's part of the directory of one group."""

    __slots__ = ("group", "keepers", "member", "replica")

    def __init__(self, topology: Topology, group: SiteGroup) -> None:
        self.group = group
        names = tuple(topology.sites[site].name for site in keepers_of(group.members))
        plan = GroupPlan(f"{group.plan.name}.directory".lstrip("."), "fifo", names, safe=True)
        self.keepers = SiteGroup(topology, plan, GroupId(DIRECTORY_GROUPS + group.group))
        self.keepers.build = directory_stack
        self.replica: DirectoryReplica | None = None  # of the present life, as is
        self.member: DirectoryMember | None = None

    def handler(self) -> GroupHandler:
        """What uses the hidden group at this site."""
        return GroupHandler(application=self.top, on_stack=lambda port: setattr(port, "traces", False))

    def top(self) -> DirectoryReplica:
        assert self.replica is not None
        return self.replica

    def begin_life(
        self, suspicion: Suspicion, round_trip_ns: int, renew: Callable[[], None], left: Callable[[], None]
    ) -> StackOptions:
        """The options of the group's stack in a new life."""
        tick_ns = max(TICK_MIN_NS, round_trip_ns // 2)
        self.replica = None
        if self.keepers.handler is not None:
            self.replica = DirectoryReplica(self.group.members, tick_ns, suspicion.is_suspected)

        def go() -> None:
            self.member = None
            left()

        self.member = DirectoryMember(self.group.members, self.keepers.members, tick_ns, self.replica, renew, go)
        return msgspec.structs.replace(self.group.options, membership=self.member)


def directories(topology: Topology, groups: list[SiteGroup]) -> list[SiteDirectory]:
    """The directories of the groups whose stack never stops for a view."""
    return [SiteDirectory(topology, group) for group in groups if STACKS[group.plan.stack].steady]
