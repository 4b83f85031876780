"""One process as a site of a network: its socket, its groups and their stacks, for the client side of the package.

Which groups there are, with which members and stacks, is the same at all sites, as is where each site listens; that is
what the token stands for, and what a Hello says in words. Membership is static, where a group's first view has all its
members, whether they are there yet or not; or the members agree on views (lives.py), and the site may have many lives.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random

import msgspec

from isthmus.core.errors import InputError, LocalError
from isthmus.core.layer import Kind, Reading, Stack, View
from isthmus.core.message import GroupId, SiteId, Targets
from isthmus.core.validation import BadValue
from isthmus.live.api.errors import Refused
from isthmus.live.api.plans import AgreedPlan, GroupPlan, JoinedGroup, Where, endpoints_of
from isthmus.live.clock.service import ClockPlan, ClockStatus, Timekeeper
from isthmus.live.net.emulation import Emulation
from isthmus.live.net.framing import datagram_limit
from isthmus.live.net.hello import hello_of, token_of
from isthmus.live.net.names import Address, Resolver
from isthmus.live.net.sockets import Socket
from isthmus.live.node.alarm import NS_PER_S
from isthmus.live.node.driver import Driver
from isthmus.live.node.heartbeat import Pulse, Repeated
from isthmus.live.node.incarnations import FileStore, first_view, next_incarnation
from isthmus.live.node.peers import logger
from isthmus.live.node.site import LivePort, LiveSite
from isthmus.live.node.waiting import owed
from isthmus.protocols.membership.agreement import Agreement
from isthmus.protocols.membership.home import AgreementOptions, Past, SiteHome
from isthmus.protocols.membership.suspicion import Suspicion
from isthmus.protocols.routing.routes import CompositionRoutes
from isthmus.protocols.transport.relay import Relay
from isthmus.scenario.composition.nodes import Routing
from isthmus.scenario.model import Agreed
from isthmus.stacks.registry import STACKS, StackOptions
from isthmus.topology.load import load_topology
from isthmus.topology.model import Topology
from isthmus.trace.log import SiteLog
from isthmus.trace.schema import Gauge, Sink

WATCH_S = 1.0  # how often silence is looked for
LOOK_S = 0.02  # how often a site looks whether it is to found a group
CHECK_S = 0.01
SHORT_ROUND_TRIP_MS = 10.0  # a process may need this long to answer, however near it is
SHORT_ROUNDS = AgreementOptions(answer=20.0, attempt=30.0, fresh=30.0, give_up=100.0)  # a busy machine is patient
SITE_GROUP = GroupId(0xFFFF)  # of what a site does for all its groups


class Member:
    """One site of a network, in this process."""

    def __init__(
        self,
        topology: Topology | Path | str,
        site: str,
        addresses: Mapping[str, Where],
        plans: Sequence[GroupPlan],
        emulate: bool = False,
        datagram_bytes: int | None = None,
        agreed: AgreedPlan | None = None,
    ) -> None:
        self.topology = topology if isinstance(topology, Topology) else load_topology(Path(topology))
        try:
            self.site = self.topology.site_id(site)
        except BadValue as error:
            raise error.at("site", "") from None
        self.endpoints = endpoints_of(self.topology, addresses)
        self.resolver = Resolver(self.site, self.endpoints, [each.name for each in self.topology.sites])
        self.emulate = emulate
        self.datagram_bytes = datagram_limit(datagram_bytes, self.is_on_loopback())
        numbered = enumerate(plans)
        self.groups = [JoinedGroup(self.topology, plan, GroupId(n), agreed is not None) for n, plan in numbered]
        names = [plan.name for plan in plans]
        if len(set(names)) < len(names):
            raise InputError("groups", "", f"the names {', '.join(names)}", "a name of its own for each group")
        self.agreed = agreed  # None: membership is static
        self.incarnation = 0
        self.suspicion: Suspicion | None = None
        self.pulse: Pulse | None = None
        self.renewing = False
        self.sink: Sink | None = None  # set before joining: where the trace goes
        self.log: SiteLog | None = None  # the same with more to say of it
        self.routes: CompositionRoutes | None = None  # of the composition whose nodes the groups are
        self.routing: Callable[[], Routing] | None = None  # set before joining: layers of each life, if composed
        self.couriers: Targets = ()  # set before joining: the routers, which a trace does not name
        self.wire_log = False  # set before joining: trace every send and receive, too
        self.on_opinion: Callable[[SiteId, bool], None] = lambda _site, _suspected: None
        self.clock_plan: ClockPlan | None = None  # set before joining: of the clock service; None: it does not run
        self.timekeeper: Timekeeper | None = None  # of the present life
        self.driver: Driver | None = None
        self.refused_why = ""  # by the others
        self.watching: asyncio.TimerHandle | None = None

    async def open(self, socket: Socket | None = None) -> None:
        """Bind the socket, unless one is given, and take part in each group."""
        for group in self.groups:
            joins = group.application is not None or group.boot is not None
            if self.agreed is not None and self.agreed.folder is not None and joins:
                group.store = FileStore(self.agreed.folder, self.topology.sites[self.site].name, group.plan.name)
        addresses = await self.resolver.find_all()
        socket = socket or Socket(addresses[self.site])
        if self.clock_plan is not None:
            socket.keep_time(self.site, self.clock_plan.kernel_stamps)
        self.log = self.log or SiteLog(self.site, self.sink, couriers=self.couriers)
        if self.agreed is not None and self.agreed.blocked_s and not self.emulate:
            self.pulse = self.begin_pulse(socket, self.agreed)
        driver = self.driver = Driver(self.begin_life(socket), socket)
        driver.on_refused = self.note_refused
        others = {SiteId(n): address for n, address in enumerate(addresses) if n != self.site}
        emulation = Emulation(self.topology, self.site, Random(f"{time.time_ns()}/network")) if self.emulate else None
        socket.open(others, emulation, driver.receive, driver.stranger, driver.finish)
        if self.agreed is None:
            for group in self.groups:
                if group.port is not None:
                    group.port.install(View(1, group.members))
                    group.port.resume()
        else:
            socket.on_refused = self.note_hint
            self.look_around()
        driver.finish()
        driver.site.peers.greet()
        self.watching = driver.loop.call_later(WATCH_S, self.watch)

    # Lives

    def begin_life(self, socket: Socket) -> LiveSite:
        """A site with its ports and stacks, under an incarnation of its own."""
        assert self.log is not None
        life = time.time_ns()
        shown = tuple(map(str, self.endpoints))
        hello = hello_of(self.topology, self.site, shown, tuple(group.hello() for group in self.groups))
        if self.agreed is not None:
            known = [group.store.incarnation for group in self.groups if group.store is not None]
            self.incarnation = next_incarnation(max([self.incarnation, *known]))
        site = LiveSite(
            *(self.site, Random(f"{life}/{self.site}"), socket.send, time.monotonic_ns, time.time_ns, self.log),
            life=life,
            incarnation=self.incarnation,
            token=token_of(hello),
            names=tuple(each.name for each in self.topology.sites),
            hello=hello,
            datagram_bytes=self.datagram_bytes,
            wire_log=self.wire_log,
            measures=self.log.sink is not None,
            renewable=self.agreed is not None,
        )
        if self.agreed is not None:
            self.suspicion = self.watch_others(site, self.agreed.rules)
        routed = None if self.routing is None else self.routing()
        for group in self.groups:
            if group.boot is not None:
                group.application = group.boot()
            if group.application is not None:
                port = group.port = site.port(group.group)
                options = self.options_of(group)
                if routed is not None:
                    options = routed(group.group, options)
                port.attach(STACKS[group.plan.stack].build(port, group.application, options))
                if self.suspicion is not None and options.relay is not None:
                    port.stack.find(Relay).reaches = self.suspicion.reaches
                group.on_stack(port)
        self.keep_time(site, socket)
        return site

    def keep_time(self, site: LiveSite, socket: Socket) -> None:
        """Give a life its clock service, where one is to run; it follows the views of the first group of the site."""
        followed = next((group.group for group in self.groups if group.port is not None), None)
        if self.timekeeper is not None:
            self.timekeeper.close()
        if self.clock_plan is not None and followed is not None:
            site.stamped = socket.stamped
            self.timekeeper = Timekeeper(site, self.topology, self.clock_plan, followed, socket.broadcast)

    def clock(self) -> Reading:
        """The time at this site, with the bound of its error where the clock service knows one."""
        site = self.joined().site
        return site.read_clock(site.clock())

    def clock_status(self) -> ClockStatus:
        """How the clock of this site stands."""
        self.joined()
        if self.timekeeper is None:
            raise LocalError("no clock service runs here: join with clocks=ClockPlan()")
        return self.timekeeper.status()

    def options_of(self, group: JoinedGroup) -> StackOptions:
        """The options of a group's stack in this life."""
        if self.agreed is None or self.suspicion is None:
            return group.options
        rules, past = self.agreed.rules, group.past
        if group.store is not None:
            group.store.incarnation = self.incarnation
        round_trip_ns = round(self.round_trip_ms(rules) * 1e6)
        home = SiteHome(
            *(group.members, rules.votes(self.topology), round_trip_ns, self.suspicion, group.store, past),
            renew=partial(self.end_life, group),
            go=partial(self.note_left, group),
        )
        is_short = round_trip_ns <= SHORT_ROUND_TRIP_MS * 1e6
        rounds = SHORT_ROUNDS if rules.rounds == AgreementOptions() and is_short else rules.rounds
        group.agreement, group.past = Agreement(home, rounds), None
        group.agreement.couriers = self.couriers
        return msgspec.structs.replace(group.options, membership=group.agreement)

    def round_trip_ms(self, rules: Agreed) -> float:
        """The longest usual round trip: as given, or as the topology says where that is what lies between the sites."""
        if rules.round_trip_ms is not None:
            return rules.round_trip_ms
        between_ms = 0.0 if self.is_on_loopback() else rules.round_trip_of(self.topology)
        return max(SHORT_ROUND_TRIP_MS, between_ms)

    def is_on_loopback(self) -> bool:
        return all(endpoint.is_loopback() for endpoint in self.endpoints) and not self.emulate

    def watch_others(self, site: LiveSite, rules: Agreed) -> Suspicion:
        """Have a site watch those that it shares a group with, for all its groups."""
        clusters = {
            SiteId(number): 0 if self.is_on_loopback() else each.cluster
            for number, each in enumerate(self.topology.sites)
        }
        watched = {other for group in self.groups if self.site in group.members for other in group.members}
        suspicion = Suspicion(clusters, partial(self.tell, site), rules.lan, rules.wan, watched)
        port = site.port(SITE_GROUP)
        repeated = () if self.pulse is None else (Repeated(self.pulse, site.beginning),)
        port.attach(Stack(port, suspicion, *repeated))
        if self.suspicion is not None:
            suspicion.inherit(self.suspicion)
        return suspicion

    def begin_pulse(self, socket: Socket, agreed: AgreedPlan) -> Pulse:
        """Have a thread speak for the event loop while the program has it."""
        here = self.topology.sites[self.site].cluster
        others = [each.cluster for number, each in enumerate(self.topology.sites) if number != self.site]
        near = self.is_on_loopback() or here in others
        period_ns = (agreed.rules.lan if near else agreed.rules.wan).period_ns()
        pulse = Pulse(socket.repeat, period_ns, round(agreed.blocked_s * NS_PER_S))
        pulse.start()
        return pulse

    def tell(self, site: LiveSite, other: SiteId, suspected: bool) -> None:
        """Tell the groups of an opinion, as events of their own."""
        logger.info("%s is %s", site.peers.name(other), "suspected" if suspected else "trusted again")
        self.on_opinion(other, suspected)
        driver = self.driver
        if driver is None:
            return
        for group in self.groups:
            if group.port is not None:
                lowest = group.port.stack.layers[-1]
                driver.loop.call_soon(self.run_in, site, group.port, partial(lowest.suspect, other, suspected))

    def run_in(self, site: LiveSite, port: LivePort, event: Callable[[], None]) -> None:
        """Run an event of a life, unless it is over."""
        if self.driver is not None and self.driver.site is site:
            self.driver.run(port, event)

    def note_hint(self, other: SiteId) -> None:
        """A port refused a datagram."""
        if self.driver is not None and self.suspicion is not None:
            site = self.driver.site
            self.driver.loop.call_soon(
                self.run_in, site, site.ports[SITE_GROUP], partial(self.suspicion.refused, other)
            )

    def note_moved(self, other: SiteId, address: Address) -> None:
        """The name of a site stands for another address now."""
        if self.driver is not None and not self.driver.closed and self.driver.socket.move(other, address):
            name = self.topology.sites[other].name
            logger.info("site %s is at %s now: its name stands for another address", name, address[0])

    def end_life(self, group: JoinedGroup, past: Past) -> None:
        """Have the next life begin once this turn is over."""
        group.past = past
        if self.driver is not None and not self.renewing:
            self.renewing = True
            self.driver.loop.call_soon(self.renew)

    def renew(self) -> None:
        self.renewing = False
        driver = self.driver
        if driver is None or driver.closed:
            return
        logger.warning("the others have gone on without this site; it joins again in a new life, with their state")
        old = driver.site
        self.note(old, Kind.CRASH)
        old.stop()
        for group in self.groups:
            if group.agreement is not None and group.past is None:
                group.past = Past(group.agreement.decision, group.agreement.flush or group.agreement.old)
            group.on_life()
        driver.site = self.begin_life(driver.socket)
        self.note(driver.site, Kind.RECOVER, self.incarnation)
        driver.finish()
        driver.site.peers.greet()

    def note(self, site: LiveSite, kind: Kind, value: int = 0) -> None:
        """Trace what happened to this site as a whole, once."""
        port = next((group.port for group in self.groups if group.port is not None), None)
        if port is not None and port.owner is site:
            port.trace(kind, value=value)

    def gauge(self, gauge: Gauge, value: int) -> None:
        """Trace a figure of this site as a whole."""
        port = next((group.port for group in self.groups if group.port is not None), None)
        if port is not None:
            port.gauge(gauge, value)

    def look_around(self) -> None:
        """Found the groups that are ours to found; look again until this site is in all of them."""
        driver = self.driver
        if driver is None or driver.closed or self.agreed is None:
            return
        waiting = False
        for group in self.groups:
            if group.agreement is not None and group.port is not None and not group.agreement.is_seated():
                waiting = True
                group.port.enter()
                view = first_view(group.agreement, self.agreed.found)
                if view is not None:
                    logger.info("founding the group %s", group.plan.name or "of this network")
                    driver.run(group.port, partial(group.agreement.found, view))
        if waiting:
            driver.loop.call_later(LOOK_S, self.look_around)

    def note_left(self, group: JoinedGroup) -> None:
        """This site is out of a group, as it asked."""
        group.agreement = None
        if group.store is not None:
            group.store.save(None)
        group.on_end()

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
            joined = [group.port.stack for group in self.groups if group.port is not None]
            silent = [peer for stack in joined for peer in owed(stack)]
            site.peers.watch(dict.fromkeys(silent), site.clock())
            for peer in map(SiteId, range(len(self.endpoints))):
                gone = self.suspicion is not None and self.suspicion.is_suspected(peer)
                if peer != self.site and (gone or peer in site.peers.silent):
                    self.resolver.look_again(peer, self.note_moved)
            self.watching = self.driver.loop.call_later(WATCH_S, self.watch)

    def note_refused(self, why: str) -> None:
        self.refused_why = why
        for group in self.groups:
            group.on_end()

    async def leave_groups(self, timeout_s: float) -> None:
        """Ask the others to go on without this site, and wait until they do, or for so long."""
        driver, end_s = self.driver, time.monotonic() + timeout_s
        for group in self.groups:
            if driver is not None and group.agreement is not None and group.port is not None:
                driver.run(group.port, group.agreement.leave)
        while time.monotonic() < end_s and any(group.agreement is not None for group in self.groups):
            await asyncio.sleep(CHECK_S)

    def close(self) -> None:
        if self.watching is not None:
            self.watching.cancel()
        self.resolver.close()
        if self.pulse is not None:
            self.pulse.close()
        if self.timekeeper is not None:
            self.timekeeper.close()
            self.timekeeper = None
        if self.driver is not None:
            self.driver.close()
            self.driver = None
        for group in self.groups:
            group.on_end()
