"""A site of a network in this process: one group, several groups, or a router, over one socket.

    plans = [GroupPlan("orders"), GroupPlan("chat", stack="fifo", sites=("paris", "tokyo"))]
    async with isthmus.Site("network.toml", "paris-0", groups=plans) as site:
        await site["orders"].send(b"hello")
        async for message in site["chat"]:
            ...

The list of groups is the same at all sites, including groups that a site is not in. In a composition the nodes are the
groups: a process uses those that it is in, and a router passes messages on between those that it joins.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from isthmus.core.errors import InputError
from isthmus.core.layer import Reading
from isthmus.live.api.composition import composed
from isthmus.live.api.group import SETTLE_S, Group
from isthmus.live.api.program_state import RestoreState, StateSource, TakeState
from isthmus.live.api.router import RouterNode
from isthmus.live.clock.service import ClockStatus
from isthmus.live.node.plans import GroupPlan, SiteAddress, SiteConfig, agreed_plan
from isthmus.live.node.runtime import SiteRuntime
from isthmus.live.node.site_group import GroupHandler, SiteGroup
from isthmus.live.seal.status import SessionStatus
from isthmus.protocols.routing.calculus.model import Composition
from isthmus.stacks.registry import StackOptions
from isthmus.topology.load import load_topology
from isthmus.topology.model import Topology

R = TypeVar("R")


class Site:
    """One site of a network, with all groups that it is in.

    Args:
        topology: the network, or a TOML file with it.
        name: the name of this site in the topology.
        groups: the groups, the same list at all sites.
        addresses: where sites listen, by name; the topology gives the others. A number is a port of the loopback.
        composition: instead of `groups`: a composition, or a TOML file with it.
        options: what the stacks of a composition leave open, by node.
        state: gives the state of the application in the named group, after all that its iteration has given (`join`).
        restore: takes over such a state, at a site that joins.
        config: what concerns the whole site.

    Enter it with `async with`, or `await` it and call `drain` or `close` at the end.

    Example: `async with isthmus.Site("network.toml", "r", composition="offices.toml") as router: await router.closed()`
    """

    def __init__(
        self,
        topology: Topology | Path | str,
        name: str,
        *,
        groups: Sequence[GroupPlan] = (),
        addresses: Mapping[str, SiteAddress] | None = None,
        composition: Composition | Path | str | None = None,
        options: Mapping[str, StackOptions] | None = None,
        state: Callable[[str], StateSource | Awaitable[StateSource]] | None = None,
        restore: Callable[[str, bytes], Awaitable[None] | None] | None = None,
        config: SiteConfig | None = None,
    ) -> None:
        config = config or SiteConfig()
        network = topology if isinstance(topology, Topology) else load_topology(Path(topology))
        nodes = None
        if composition is None:
            if config.router is not None:
                raise InputError("router", "", "options of routers", "nothing without a composition")
            if options:
                raise InputError("options", "", "options by node", "those of a GroupPlan, without a composition")
            plans, agreed = list(groups), agreed_plan(config.membership, groups)
        else:
            if groups:
                raise InputError("groups", "", "plans of groups", "none, as the composition has the groups")
            plans, agreed, nodes = composed(network, name, composition, options or {}, config)
        self._state, self._restore = state, restore
        self.name = name
        self.groups: dict[str, Group] = {}  # those that this site is in, by name
        self.nodes: dict[str, RouterNode] = {}  # those that this site joins as a router, by name
        self.runtime = SiteRuntime(network, name, addresses or {}, plans, agreed, self._handler, config, nodes)
        if nodes is not None and not self.groups and not self.nodes:
            raise InputError("site", "", repr(name), "a process or a router of the composition")

    def _handler(self, runtime: SiteRuntime, joined: SiteGroup) -> GroupHandler | None:
        """What this site does in a group that it is in."""
        name, routes = joined.plan.name, runtime.routes
        if routes is not None and runtime.site in routes.router_of:
            self.nodes[name] = RouterNode(runtime, joined)
            return self.nodes[name]._handler()
        if routes is not None and runtime.site not in routes.processes[joined.group]:
            return None
        state = None if self._state is None else partial(self._state, name)
        restore = None if self._restore is None else partial(self._restore, name)
        self.groups[name] = Group(runtime, joined, state, restore)
        return self.groups[name]._handler()

    def __getitem__(self, name: str) -> Group:
        if name not in self.groups:
            known = ", ".join(self.groups) or "none"
            raise InputError("group", "", repr(name), f"a group that this site is in: {known}")
        return self.groups[name]

    async def __aenter__(self) -> Self:
        await self.runtime.open()
        return self

    def __await__(self) -> Generator[object, None, Self]:
        return self.__aenter__().__await__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if error is None:
            await self.drain()
        else:
            await self.close()

    async def drain(self, timeout: float = SETTLE_S) -> bool:
        """Send what is queued in all groups, wait until the others have it, then leave in order and close.

        After `timeout` seconds per group it leaves anyway, logs a warning with the reason, and returns False.
        """
        return await self.runtime.drain(timeout)

    async def close(self) -> None:
        """Leave at once, without waiting for anything; the others find out as after a crash."""
        self.runtime.close()

    async def closed(self) -> None:
        """Wait until this site has left a group or was closed; raises why, where it had to stop."""
        await self.runtime.ended.wait()
        if self.runtime.failure is not None:
            self.runtime.joined()  # raises

    def reload_keys(self) -> None:
        """Read the key file again: see `Group.reload_keys`."""
        self.runtime.reload_keys()

    def sessions(self) -> list[SessionStatus]:
        """The sealed sessions with the other sites; empty in clear."""
        return self.runtime.sessions()

    def clock(self) -> Reading:
        """The time at this site, the same in all its groups: see `Group.clock`."""
        return self.runtime.clock()

    def clock_status(self) -> ClockStatus:
        """How the clock of this site is kept; raises LocalError where the clock service does not run."""
        return self.runtime.clock_status()


def join(
    topology: Topology | Path | str,
    site: str,
    *,
    stack: str | None = None,
    options: StackOptions | Mapping[str, StackOptions] | None = None,
    safe: bool | None = None,
    addresses: Mapping[str, SiteAddress] | None = None,
    composition: Composition | Path | str | None = None,
    state: TakeState | None = None,
    restore: RestoreState | None = None,
    keys: Path | str | None = None,
    config: SiteConfig | None = None,
) -> Group:
    """Join the group of all sites of a network, or in a composition the group that this site is a process of.

    Args:
        topology: the network, or a TOML file with it.
        site: the name of this site in the topology.
        stack: the named stack that orders the messages; token-site by default.
        options: what the stack leaves open; in a composition by node.
        safe: whether a message is delivered only once a quorum has it; by default as `options` has it.
        addresses: where sites listen, by name, the same at all sites: a port of the loopback, or "host:port". The
            topology gives those that are missing.
        composition: a composition of groups, or a TOML file with it.
        state: gives the state of the application, after all messages that the iteration has given so far: a function,
            which runs in a thread, or a coroutine function. The iteration gives nothing meanwhile. It returns bytes;
            or, from a copy that does not change, an iterator of pieces or a function that is run in a thread, and the
            iteration goes on at once.
        restore: takes over such a state, at a site that joins: a function, which runs in a thread, or a coroutine
            function. The iteration begins once it is done.
        keys: the key file of the cluster, as in `SiteConfig`: datagrams are sealed.
        config: what concerns the whole site: membership, keys, emulation, clocks, trace.

    Enter the group with `async with`, or `await` it. Stack, options, safe and membership are the same at all sites;
    sites compare them at first contact and log the difference.

    Example: `async with isthmus.join("network.toml", "paris-0") as group: await group.send(b"hello")`
    """
    snapshot = None if state is None else partial(_without_group, state)
    take_over = None if restore is None else partial(_without_group, restore)
    if composition is None:
        if isinstance(options, Mapping):
            raise InputError("options", "", "options by node", "StackOptions, without a composition")
        plans, by_node = [GroupPlan("", stack or "token-site", (), options, safe)], None
    else:
        if stack is not None:
            raise InputError("stack", "", repr(stack), "none, as the composition names the stacks of its groups")
        if safe is not None:
            raise InputError("safe", "", repr(safe), "nothing, as the composition says which groups are safe")
        if isinstance(options, StackOptions):
            raise InputError("options", "", "the options of one stack", "options by node, such as {'lisbon': ...}")
        plans, by_node = [], options
    if keys is not None:
        config = msgspec.structs.replace(config or SiteConfig(), keys=keys)
    found = Site(
        topology,
        site,
        groups=plans,
        addresses=addresses,
        composition=composition,
        options=by_node,
        state=snapshot,
        restore=take_over,
        config=config,
    )
    if found.nodes:
        raise InputError("site", "", f"{site!r}, which is a router", "a process of a group; run routers by Site")
    if len(found.groups) > 1:
        names = ", ".join(found.groups)
        raise InputError("site", "", f"a process of {names}", "a process of one group; join several by Site")
    (group,) = found.groups.values()
    return group


def _without_group(call: Callable[..., R], _group: str, *given: bytes) -> R:
    """Call back a program that is in one group, which needs no name."""
    return call(*given)
