"""One process as a site of a network: its socket, its groups and their stacks, for the client side of the package.

Which groups there are, with which members and stacks, is the same at all sites, as is where each site listens; that is
what the token stands for, and what a Hello says in words. Membership is static: a group's first view has all its
members, whether they are there yet or not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

import msgspec

from isthmus.core.document import Invalid, one_of
from isthmus.core.errors import InputError, LocalError
from isthmus.core.layer import View
from isthmus.core.message import GroupId, SiteId, Targets
from isthmus.live.driver import Driver
from isthmus.live.emulation import Emulation
from isthmus.live.errors import Refused
from isthmus.live.framing import DATAGRAM_MAX, LOOPBACK_DATAGRAM_BYTES, PATH_DATAGRAM_BYTES
from isthmus.live.notes import GroupHello, hello_of, token_of
from isthmus.live.site import LivePort, LiveSite
from isthmus.live.sockets import LOOPBACK, Address, Socket
from isthmus.live.waiting import owed
from isthmus.protocols.application import Application
from isthmus.scenario.model import HybridSpec
from isthmus.scenario.workload import named_sites
from isthmus.stacks import STACKS, StackOptions
from isthmus.topology.load import load_topology
from isthmus.topology.model import Topology
from isthmus.trace.log import SiteLog
from isthmus.trace.schema import Sink

WATCH_S = 1.0  # how often silence is looked for
DATAGRAM_LEAST = 576  # that every path takes
Where = int | tuple[str, int]  # a port of the loopback, or an IPv4 address and a port


class GroupPlan(msgspec.Struct, frozen=True):
    """One group, the same at all sites; its number is its place among the groups."""

    name: str = ""
    stack: str = "token-site"
    sites: tuple[str, ...] = ()  # sites or clusters; () for all
    options: StackOptions | None = None  # None: what the stack's name means in the topology


class JoinedGroup:
    """A group with its names resolved, and the application of this site in it."""

    __slots__ = ("application", "group", "members", "on_end", "options", "plan", "port")

    def __init__(self, topology: Topology, plan: GroupPlan, group: GroupId) -> None:
        if plan.stack not in STACKS:
            raise InputError("stack", "", repr(plan.stack), one_of(plan.stack, STACKS))
        self.plan = plan
        self.group = group
        everyone = tuple(SiteId(number) for number in range(len(topology.sites)))
        self.members: Targets = named_sites(topology, plan.sites, "sites") or everyone
        given = plan.options or StackOptions(hybrid=HybridSpec().of(plan.stack, topology))
        self.options = msgspec.structs.replace(given, clusters=tuple(each.cluster for each in topology.sites))
        self.application: Application | None = None  # None: this site has none in the group
        self.on_end: Callable[[], None] = lambda: None  # nothing more will come: the site has left, or is refused
        self.port: LivePort | None = None  # while it is joined

    def hello(self) -> GroupHello:
        return GroupHello(self.group, self.plan.name, self.plan.stack, self.members, shared_options(self))


class Member:
    """One site of a network, in this process."""

    def __init__(
        self,
        topology: Topology | Path | str,
        site: str,
        ports: Mapping[str, Where],
        plans: Sequence[GroupPlan],
        emulate: bool = False,
        datagram_bytes: int | None = None,
    ) -> None:
        self.topology = topology if isinstance(topology, Topology) else load_topology(Path(topology))
        try:
            self.site = self.topology.site_id(site)
        except Invalid as error:
            raise error.at("site", "") from None
        self.addresses = addresses_of(self.topology, ports)
        self.emulate = emulate
        self.datagram_bytes = self.datagram_limit(datagram_bytes)
        self.groups = [JoinedGroup(self.topology, plan, GroupId(number)) for number, plan in enumerate(plans)]
        names = [plan.name for plan in plans]
        if len(set(names)) < len(names):
            raise InputError("groups", "", f"the names {', '.join(names)}", "a name of its own for each group")
        self.sink: Sink | None = None  # set before joining: where the trace goes
        self.driver: Driver | None = None
        self.refused_why = ""  # by the others
        self.watching: asyncio.TimerHandle | None = None

    def datagram_limit(self, given: int | None) -> int:
        """The size of datagrams: as asked for, or what the path takes in one piece."""
        if given is None:
            local = all(host.startswith("127.") for host, _ in self.addresses) and not self.emulate
            return LOOPBACK_DATAGRAM_BYTES if local else PATH_DATAGRAM_BYTES
        if not DATAGRAM_LEAST <= given <= DATAGRAM_MAX:
            raise InputError(
                "datagram_bytes", "", repr(given), f"a whole number from {DATAGRAM_LEAST} to {DATAGRAM_MAX}"
            )
        return given

    async def open(self) -> None:
        """Bind the socket and install the first view of each group."""
        socket = Socket(self.addresses[self.site])
        life = time.time_ns()
        shown = tuple(f"{host}:{port}" for host, port in self.addresses)
        hello = hello_of(self.topology, self.site, shown, tuple(group.hello() for group in self.groups))
        site = LiveSite(
            *(self.site, Random(f"{life}/{self.site}"), socket.send, time.monotonic_ns, time.time_ns),
            SiteLog(self.site, self.sink),
            life=life,
            token=token_of(hello),
            names=tuple(each.name for each in self.topology.sites),
            hello=hello,
            datagram_bytes=self.datagram_bytes,
            measures=self.sink is not None,
        )
        driver = self.driver = Driver(site, socket)
        driver.on_refused = self.note_refused
        for group in self.groups:
            if group.application is not None:
                port = group.port = site.port(group.group)
                port.attach(STACKS[group.plan.stack].build(port, group.application, group.options))
        others = {SiteId(n): address for n, address in enumerate(self.addresses) if n != self.site}
        emulation = Emulation(self.topology, self.site, Random(f"{life}/network")) if self.emulate else None
        socket.open(others, emulation, driver.receive, driver.stranger, driver.finish)
        for group in self.groups:
            if group.port is not None:
                group.port.install(View(1, group.members))
                group.port.resume()
        driver.finish()
        site.peers.greet()
        self.watching = driver.loop.call_later(WATCH_S, self.watch)

    def joined(self) -> Driver:
        """What drives the site; raises where it is not joined, or not taken by the others."""
        if self.refused_why:
            raise Refused(self.refused_why)
        if self.driver is None:
            raise LocalError("the group is not joined: enter it with `async with`")
        return self.driver

    def watch(self) -> None:
        """Look for sites that have fallen silent while something is owed to them."""
        if self.driver is not None and not self.driver.closed:
            site = self.driver.site
            silent = [peer for port in site.ports.values() for peer in owed(port.stack)]
            site.peers.watch(dict.fromkeys(silent), site.clock())
            self.watching = self.driver.loop.call_later(WATCH_S, self.watch)

    def note_refused(self, why: str) -> None:
        self.refused_why = why
        for group in self.groups:
            group.on_end()

    def close(self) -> None:
        if self.watching is not None:
            self.watching.cancel()
        if self.driver is not None:
            self.driver.close()
            self.driver = None
        for group in self.groups:
            group.on_end()


def addresses_of(topology: Topology, ports: Mapping[str, Where]) -> list[Address]:
    """Where each site of a topology listens."""
    found: list[Address] = []
    for known in topology.sites:
        if known.name not in ports:
            raise InputError("ports", known.name, "nothing", "the port of every site of the topology")
        given = ports[known.name]
        host, port = (LOOPBACK, given) if isinstance(given, int) else given
        if not 0 < port < 65536:
            raise InputError("ports", known.name, repr(port), "a port from 1 to 65535")
        found.append((host, port))
    if len(set(found)) < len(found):
        raise InputError("ports", "", "one port for two sites", "a port of its own for each site")
    return found


def shared_options(group: JoinedGroup) -> dict[str, str]:
    """The options of a group's stack that must be the same at all sites, as text."""
    taken, options = STACKS[group.plan.stack].options, group.options
    shown: dict[str, object] = {"credit.window": options.credit.window}
    if "sequencer" in taken:
        shown["sequencer"] = "the eldest" if options.sequencer is None else f"site {options.sequencer}"
    if options.participants is not None:
        shown["participants"] = sorted(options.participants.conditions.items())
    if "optimistic" in taken:
        shown["optimistic.policy"] = options.optimistic.policy
    if "hybrid" in taken:
        hybrid = options.hybrid
        shown["hybrid.rule"], shown["hybrid.clock"] = hybrid.rule, hybrid.clock
        shown["hybrid.active"] = "all" if hybrid.active is None else list(hybrid.active)
        shown["hybrid.sequencer_of"] = sorted(hybrid.sequencer_of.items())
    return {name: str(value)[:200] for name, value in shown.items()}
