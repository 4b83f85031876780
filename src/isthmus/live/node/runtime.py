"""One process as a site: its socket, its groups and their stacks, and its lives.

The groups, with their members and stacks, and the addresses are the same at all sites; the token stands for them, and
a Hello carries them as text. Membership is static, where the first view has all members, present or not; or members
agree on views (incarnations.py), and the site may have many lives.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from isthmus.core.errors import InputError, LocalError
from isthmus.core.layer import Kind, Reading, View
from isthmus.core.message import GroupId, SiteId, Targets
from isthmus.core.units import NS_PER_S
from isthmus.core.validation import BadValue
from isthmus.live.clock.service import ClockStatus, Timekeeper
from isthmus.live.net.emulation import Emulation
from isthmus.live.net.framing import datagram_limit
from isthmus.live.net.hello import hello_of, token_of
from isthmus.live.net.names import Address, Resolver
from isthmus.live.net.sockets import Socket
from isthmus.live.node.directory import directories
from isthmus.live.node.driver import Driver
from isthmus.live.node.errors import NotJoined, Refused, SiteFailed
from isthmus.live.node.heartbeat import HeartbeatRecorder, HeartbeatThread
from isthmus.live.node.incarnations import FileStore, first_view, next_incarnation
from isthmus.live.node.peers import logger
from isthmus.live.node.plans import AgreedPlan, GroupPlan, SiteAddress, SiteConfig, endpoints_of
from isthmus.live.node.sealing import keys_of, seal_machine
from isthmus.live.node.site import LivePort, LiveSite
from isthmus.live.node.site_group import GroupHandler, SiteGroup
from isthmus.live.node.waiting import owed
from isthmus.live.seal.status import SessionStatus
from isthmus.live.seal.wire import EXTRA_BYTES
from isthmus.protocols.membership.agreement import Agreement
from isthmus.protocols.membership.home import AgreementOptions, Past, SiteHome
from isthmus.protocols.membership.suspicion import Suspicion
from isthmus.protocols.routing.routes import CompositionRoutes
from isthmus.scenario.composition.nodes import Routing
from isthmus.scenario.model import Agreed
from isthmus.stacks.assembly import attach_group, attach_suspicion
from isthmus.stacks.registry import StackOptions
from isthmus.topology.load import load_topology
from isthmus.topology.model import Topology
from isthmus.trace.log import SiteLog
from isthmus.trace.schema import Gauge

WATCH_S = 1.0  # how often silence is looked for
LOOK_S = 0.01  # how often a site looks whether it is to found a group
CHECK_S = 0.01
LEAVE_S = 2.0  # how long leaving waits, at most, for the others to go on without this site
SHORT_ROUND_TRIP_MS = 10.0  # a process may need this long to answer, however near it is
SHORT_ROUNDS = AgreementOptions(answer=20.0, attempt=30.0, fresh=30.0, give_up=100.0)  # a busy machine is patient
SITE_GROUP = GroupId(0xFFFF)  # of what a site does for all its groups
TOLD_MAX = 3  # sites that run something else, in one sentence
HandlerOf = Callable[["SiteRuntime", SiteGroup], GroupHandler | None]


class Composed(NamedTuple):
    """What a composition gives to a site of it."""

    routes: CompositionRoutes
    routing: Callable[[], Routing]  # adds what the nodes' stacks need in one life of the site
    couriers: Targets  # the routers, which a trace does not name


class SiteRuntime:
    """One site of a network, in this process."""

    def __init__(
        self,
        topology: Topology | Path | str,
        site: str,
        addresses: Mapping[str, SiteAddress],
        plans: Sequence[GroupPlan],
        agreed: AgreedPlan | None,
        handler_of: HandlerOf,
        config: SiteConfig,
        composed: Composed | None = None,
        log: SiteLog | None = None,
        wire_log: bool = False,
    ) -> None:
        self.topology = topology if isinstance(topology, Topology) else load_topology(Path(topology))
        try:
            self.site = self.topology.site_id(site)
        except BadValue as error:
            raise error.at("site", "") from None
        self.endpoints = endpoints_of(self.topology, addresses)
        self.resolver = Resolver(self.site, self.endpoints, [each.name for each in self.topology.sites])
        self.config = config
        self.datagram_bytes = datagram_limit(config.datagram_bytes, self.is_on_loopback())
        names = [plan.name for plan in plans]
        if len(set(names)) < len(names):
            raise InputError("groups", "", f"the names {', '.join(names)}", "a name of its own for each group")
        self.agreed = agreed  # None: membership is static
        self.routes = None if composed is None else composed.routes  # of the composition whose nodes the groups are
        self.routing = None if composed is None else composed.routing
        self.couriers: Targets = () if composed is None else composed.couriers
        self.log = log or SiteLog(self.site, config.sink, couriers=self.couriers)
        self.measures = log is not None or config.sink is not None  # whether messages and bytes are counted
        self.wire_log = wire_log  # trace every send and receive, too
        self.groups = [SiteGroup(self.topology, plan, GroupId(number)) for number, plan in enumerate(plans)]
        for group in self.groups:
            if self.site in group.members:
                group.handler = handler_of(self, group)
        self.directories = [] if agreed is None else directories(self.topology, self.groups)
        for directory in self.directories:
            if self.site in directory.keepers.members:
                directory.keepers.handler = directory.handler()
            self.groups.append(directory.keepers)
        self.ended = asyncio.Event()  # a group was left, or the others refuse this site
        self.failure: LocalError | None = None  # why this site has stopped; its program is told
        self.incarnation = 0
        self.told_behind: dict[SiteId, int] = {}  # the incarnation of each site that was last too low
        self.suspicion: Suspicion | None = None
        self.heartbeats: HeartbeatThread | None = None
        self.timekeeper: Timekeeper | None = None  # of the present life
        self.driver: Driver | None = None
        self.renewing = False
        self.renewed = False  # this is not the first life in this process
        self.watching: asyncio.TimerHandle | None = None

    # Opening and leaving

    async def open(self, socket: Socket | None = None) -> None:
        """Bind the socket, unless one is given, and take part in each group; where that fails, leave nothing open."""
        if self.agreed is not None and self.agreed.folder is not None:
            for group in self.groups:
                if group.handler is not None:
                    name = self.topology.sites[self.site].name
                    group.store = FileStore(Path(self.agreed.folder), name, group.plan.name)
        addresses = await self.resolver.find_all()
        socket = socket or Socket(addresses[self.site])
        try:
            self.begin(socket, addresses)
        except BaseException:
            self.close()
            socket.close()
            raise

    def begin(self, socket: Socket, addresses: Sequence[Address]) -> None:
        """Begin the first life over a socket, in each group."""
        emulate = self.config.emulate
        socket.seal = seal_machine(self.config, self.topology, self.site, addresses[self.site], self.note_trouble)
        if self.config.clocks is not None:
            socket.keep_time(self.site, self.config.clocks.kernel_stamps)
        if self.agreed is not None and self.agreed.blocked_s and not emulate:
            self.heartbeats = self.start_heartbeats(socket, self.agreed)
        gatherers = [group.handler.gather for group in self.groups if group.handler is not None]
        life = self.begin_life(socket)
        driver = self.driver = Driver(life, socket, gatherers, self.note_refused, self.note_failure)
        others = {SiteId(n): address for n, address in enumerate(addresses) if n != self.site}
        emulation = Emulation.over(self.topology, self.site, Random(f"{time.time_ns()}/network")) if emulate else None
        socket.open(others, emulation, driver.receive, driver.stranger, driver.finish)
        if self.agreed is None:
            for group in self.groups:
                if group.port is not None:
                    group.port.install(View(1, group.members))
                    group.port.resume()
        else:
            socket.on_refused = self.note_unreachable
            self.try_found_groups()
        driver.finish()
        self.joined().site.peers.greet()
        self.watching = driver.loop.call_later(WATCH_S, self.watch)
        if self.agreed is not None:
            driver.loop.call_later(self.config.join_timeout_s, self.check_joined)

    def joined(self) -> Driver:
        """The driver of the site; raises where the site is not open, or why it has stopped."""
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        if self.driver is None:
            raise LocalError("the group is not joined: enter it with `async with`, or await it")
        return self.driver

    def run(self, port: LivePort, event: Callable[[], None]) -> None:
        """Run an event of the application or of the membership as part of a turn; nothing once the site is closed."""
        if self.driver is not None:
            self.driver.run(port, event)

    def is_open(self) -> bool:
        return self.driver is not None and not self.driver.closed

    async def drain(self, timeout_s: float) -> bool:
        """Have all groups send what is queued, leave in order, and close; whether the others have all that was sent."""
        settled = True
        if self.driver is None and self.failure is None:
            return settled  # closed already
        try:
            for group in self.groups:
                if group.handler is not None and not await group.handler.settle(timeout_s):
                    settled = False
            await self.leave()
        finally:
            self.close()
        return settled

    async def leave(self) -> None:
        """Ask the others to go on without this site, and wait until they do, at most `LEAVE_S`."""
        end_s = time.monotonic() + LEAVE_S
        for directory in self.directories:
            if directory.member is not None and directory.group.port is not None:
                self.run(directory.group.port, directory.member.leave)
        while self.is_open() and time.monotonic() < end_s and any(one.member is not None for one in self.directories):
            await asyncio.sleep(CHECK_S)
        for group in self.groups:
            if group.agreement is not None and group.port is not None:
                self.run_in(group.port.owner, group.port, group.agreement.leave)
        while self.is_open() and time.monotonic() < end_s and any(map(self.is_awaited, self.groups)):
            await asyncio.sleep(CHECK_S)
        if self.failure is not None:
            self.joined()  # raises

    def is_awaited(self, group: SiteGroup) -> bool:
        """Whether other members of a group may yet go on without this site, which leaves."""
        agreement = group.agreement
        if agreement is None or self.suspicion is None:
            return False
        others = [site for site in agreement.view.members if site != self.site]
        return not others or not all(map(self.suspicion.is_suspected, others))

    def note_left(self, group: SiteGroup) -> None:
        """This site is out of a group, as it asked."""
        group.agreement = None
        if group.store is not None:
            group.store.save(None)
        if group.failure is not None:
            self.stop(group.failure)
        else:
            self.end(group)

    def note_state_failure(self, group: SiteGroup, why: str) -> None:
        """Take note that the program's state failed; the site stops once others go on without it, or in a while."""
        assert group.port is not None
        error = getattr(group.port.stack.keeper(), "error", None)
        reason = f"{why}: {reason_of(error)}" if error is not None else why
        logger.error("this site leaves: %s", reason)
        group.failure = SiteFailed(f"this site has left the groups that it was in: {reason}")
        group.failure.__cause__ = error
        if self.driver is not None:
            self.driver.loop.call_later(LEAVE_S, self.stop, group.failure)

    def note_refused(self, why: str) -> None:
        self.stop(Refused(why))

    def note_failure(self, error: Exception) -> None:
        """Take note that an event raised, and that the site has stopped."""
        logger.error("this site has stopped: %s", reason_of(error))
        failure = SiteFailed(f"this site has left the groups that it was in: {reason_of(error)}")
        failure.__cause__ = error
        self.stop(failure)

    def stop(self, failure: LocalError) -> None:
        """Close, and have the program told why by whatever it calls."""
        if self.failure is None:
            self.failure = failure
            self.close()

    def end(self, group: SiteGroup) -> None:
        """Tell the user of a group that nothing more will come."""
        self.ended.set()
        if group.handler is not None:
            group.handler.on_end()

    def close(self) -> None:
        """Stop at once: nothing is sent or received from now on."""
        if self.watching is not None:
            self.watching.cancel()
        self.resolver.close()
        if self.heartbeats is not None:
            self.heartbeats.close()
        if self.timekeeper is not None:
            self.timekeeper.close()
            self.timekeeper = None
        if self.driver is not None:
            self.driver.close()
            self.driver = None
        for group in self.groups:
            self.end(group)

    # Lives

    def begin_life(self, socket: Socket) -> LiveSite:
        """A site with its ports and stacks, under an incarnation of its own."""
        life = time.time_ns()
        shown = tuple(map(str, self.endpoints))
        hello = hello_of(self.topology, self.site, shown, tuple(group.hello(self.agreed) for group in self.groups))
        if self.agreed is not None:
            known = [group.store.incarnation for group in self.groups if group.store is not None]
            told = [group.past.told for group in self.groups if group.past is not None]
            self.incarnation = next_incarnation(max([self.incarnation, *known, *told]))
        site = LiveSite(
            *(self.site, Random(f"{life}/{self.site}"), socket.send, time.monotonic_ns, time.time_ns, self.log),
            life=life,
            incarnation=self.incarnation,
            token=token_of(hello),
            names=tuple(each.name for each in self.topology.sites),
            hello=hello,
            datagram_bytes=self.datagram_bytes - (0 if socket.seal is None else EXTRA_BYTES),
            wire_log=self.wire_log,
            measures=self.measures,
            renewable=self.agreed is not None,
            bulk_outlet=socket.bulk.put,
        )
        socket.begin_sealing(life, site.peers.token)
        if self.agreed is not None:
            self.suspicion = self.watch_others(site, self.agreed.rules)
        routed = None if self.routing is None else self.routing()
        for group in self.groups:
            if group.handler is not None:
                port = group.port = site.port(group.group)
                options = self.options_of(group)
                if routed is not None:
                    options = routed(group.group, options)
                attach_group(port, group.build, group.handler.application(), options, self.suspicion)
                group.handler.on_stack(port)
        self.keep_time(site, socket)
        return site

    def keep_time(self, site: LiveSite, socket: Socket) -> None:
        """Give a life its clock service, where one is to run; it follows the views of the first group of the site."""
        followed = next((group.group for group in self.groups if group.port is not None), None)
        if self.timekeeper is not None:
            self.timekeeper.close()
        if self.config.clocks is not None and followed is not None:
            site.stamped = socket.stamped
            self.timekeeper = Timekeeper(site, self.topology, self.config.clocks, followed, socket.broadcast)

    def clock(self) -> Reading:
        """The time at this site, with the bound of its error where the clock service knows one."""
        site = self.joined().site
        return site.read_clock(site.clock())

    def clock_status(self) -> ClockStatus:
        """The state of the clock of this site."""
        self.joined()
        if self.timekeeper is None:
            raise LocalError("no clock service runs here: join with SiteConfig(clocks=ClockPlan())")
        return self.timekeeper.status()

    def options_of(self, group: SiteGroup) -> StackOptions:
        """The options of a group's stack in this life."""
        if self.agreed is None or self.suspicion is None:
            return group.options
        rules, past = self.agreed.rules, group.past
        for directory in self.directories:
            if directory.group is group:
                round_trip_ns = round(self.round_trip_ms(rules) * 1e6)
                renew, left = partial(self.end_life, group, None), partial(self.note_left, group)
                return directory.begin_life(self.suspicion, round_trip_ns, renew, left)
        if group.store is not None:
            group.store.begin(self.incarnation)
        round_trip_ns = round(self.round_trip_ms(rules) * 1e6)
        home = SiteHome(
            *(group.members, rules.votes(self.topology), round_trip_ns, self.suspicion, group.store, past),
            behind=self.note_behind,
            renew=partial(self.end_life, group),
            go=partial(self.note_left, group),
            failed=partial(self.note_state_failure, group),
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
        return all(endpoint.is_loopback() for endpoint in self.endpoints) and not self.config.emulate

    def watch_others(self, site: LiveSite, rules: Agreed) -> Suspicion:
        """Have a site watch those that it shares a group with, for all its groups."""
        clusters = {
            SiteId(number): 0 if self.is_on_loopback() else each.cluster
            for number, each in enumerate(self.topology.sites)
        }
        watched = {other for group in self.groups if self.site in group.members for other in group.members}
        suspicion = Suspicion(clusters, partial(self.note_opinion, site), rules.lan, rules.wan, watched)
        port = site.port(SITE_GROUP)
        repeated = () if self.heartbeats is None else (HeartbeatRecorder(self.heartbeats, site.beginning),)
        return attach_suspicion(port, suspicion, self.suspicion, *repeated)

    def start_heartbeats(self, socket: Socket, agreed: AgreedPlan) -> HeartbeatThread:
        """Have a thread repeat heartbeats while the program blocks the event loop."""
        here = self.topology.sites[self.site].cluster
        others = [each.cluster for number, each in enumerate(self.topology.sites) if number != self.site]
        near = self.is_on_loopback() or here in others
        period_ns = (agreed.rules.lan if near else agreed.rules.wan).period_ns()
        thread = HeartbeatThread(socket.repeat, period_ns, round(agreed.blocked_s * NS_PER_S))
        thread.start()
        return thread

    def note_opinion(self, site: LiveSite, other: SiteId, suspected: bool) -> None:
        """Pass an opinion on another site to the groups, as events of their own."""
        logger.info("%s is %s", site.peers.name(other), "suspected" if suspected else "trusted again")
        if self.config.on_suspicion is not None:
            self.config.on_suspicion(self.topology.sites[other].name, suspected)
        driver = self.driver
        if driver is None:
            return
        for group in self.groups:
            if group.port is not None:
                lowest = group.port.stack.layers[-1]
                driver.loop.call_soon(self.run_in, site, group.port, partial(lowest.suspect, other, suspected))

    def run_in(self, site: LiveSite, port: LivePort, event: Callable[[], None]) -> None:
        """Run an event of a life, unless it is over."""
        driver = self.driver
        if driver is not None and driver.site is site:
            try:
                driver.run(port, event)
            except Exception as error:
                driver.fail(error)

    def note_unreachable(self, other: SiteId) -> None:
        """Take note that the port of a site refused a datagram."""
        if self.driver is not None and self.suspicion is not None:
            site = self.driver.site
            self.driver.loop.call_soon(
                self.run_in, site, site.ports[SITE_GROUP], partial(self.suspicion.refused, other)
            )

    def note_trouble(self, other: SiteId, text: str) -> None:
        """Take note of what is wrong with the sealed datagrams of a site."""
        if self.driver is not None:
            self.driver.site.peers.note_trouble(other, text)

    def reload_keys(self) -> None:
        """Read the key file again, and go on with what it has now."""
        keys, socket = keys_of(self.config, self.topology.sites[self.site].name), self.joined().socket
        if keys is None:
            raise LocalError("this site sends in clear: it was started without keys")
        socket.reload_keys(keys)

    def sessions(self) -> list[SessionStatus]:
        """What this site has with each other one; empty where it sends in clear."""
        seal = self.joined().socket.seal
        return [] if seal is None else seal.status(time.monotonic_ns())

    def note_moved(self, other: SiteId, address: Address) -> None:
        """Send to a site at the address that its hostname now resolves to."""
        if self.driver is not None and not self.driver.closed and self.driver.socket.move(other, address):
            name = self.topology.sites[other].name
            logger.info("site %s: hostname now resolves to %s", name, address[0])

    def note_behind(self, other: SiteId, asked: int, known: int) -> None:
        """Log once that a site asks to join below a life of it that is known here."""
        if self.told_behind.get(other) != asked:
            self.told_behind[other] = asked
            name = self.topology.sites[other].name
            text = "site %s asks to join as incarnation %d, but %d is known here: it is told to come back above that"
            logger.warning(text, name, asked, known)

    def end_life(self, group: SiteGroup, past: Past | None) -> None:
        """Have the next life begin once this turn is over."""
        group.past = past
        if self.driver is not None and not self.renewing:
            self.renewing = True
            self.driver.loop.call_soon(self.renew)

    def renew(self) -> None:
        self.renewing, self.renewed = False, True
        driver = self.driver
        if driver is None or driver.closed:
            return
        told = max([group.past.told for group in self.groups if group.past is not None], default=-1)
        if told >= self.incarnation:
            why = f"the other sites know incarnation {told} of this one, above its own, {self.incarnation}"
            logger.warning("%s: its clock was set back, or it has lost its file; it joins again above that", why)
        else:
            logger.warning("the other sites went on without this one; it joins again in a new life")
        old = driver.site
        for group in self.groups:
            if group.port is not None:
                group.port.enter()
                group.port.stack.take_back()
        self.note(old, Kind.CRASH)
        old.stop()
        driver.socket.bulk.clear()
        for group in self.groups:
            if group.agreement is not None and group.past is None:
                group.past = group.agreement.past()
            if group.handler is not None:
                group.handler.on_life_end()
        try:
            driver.site = self.begin_life(driver.socket)
        except Exception as error:
            driver.fail(error)
            return
        self.note(driver.site, Kind.RECOVER, self.incarnation)
        driver.finish()
        driver.site.peers.greet()

    def check_joined(self) -> None:
        """Stop where no view has admitted this site in time, and a site that answers runs something else."""
        driver = self.driver
        if driver is None or driver.closed:
            return
        out = [group for group in self.groups if group.port is not None and not group.port.view_id]
        if out and not self.renewed:
            peers = driver.site.peers
            told = [f"{peers.name(site)} {text}" for site, text in sorted(peers.troubles.items())]
            if told:
                waited_s = self.config.join_timeout_s
                self.stop(NotJoined(f"not joined within {waited_s:g} s: {'; '.join(told[:TOLD_MAX])}"))
            else:
                driver.loop.call_later(WATCH_S, self.check_joined)

    def note(self, site: LiveSite, kind: Kind, value: int = 0) -> None:
        """Trace an event of this site as a whole, once."""
        port = next((group.port for group in self.groups if group.port is not None), None)
        if port is not None and port.owner is site:
            port.trace(kind, value=value)

    def gauge(self, gauge: Gauge, value: int) -> None:
        """Trace a measured value of this site as a whole."""
        port = next((group.port for group in self.groups if group.port is not None), None)
        if port is not None:
            port.gauge(gauge, value)

    def try_found_groups(self) -> None:
        """Found the groups that this site is to found; try again until it is in all of them."""
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
                    self.run_in(driver.site, group.port, partial(self.found, group, group.agreement, view))
        if waiting:
            driver.loop.call_later(LOOK_S, self.try_found_groups)

    def found(self, group: SiteGroup, agreement: Agreement, alone: View) -> None:
        """Found a group: with all its sites at once, where they reach each other soon and no state is handed over."""
        now_s = time.monotonic()
        group.asked_s = group.asked_s or now_s
        patience_s = agreement.span_ns(agreement.options.attempt) / NS_PER_S
        together = self.agreed is not None and not self.agreed.found
        if together and not group.handles_state():
            if agreement.found_with_all():
                logger.info("founding the group %s with all its sites", group.plan.name or "of this network")
                return
            if now_s - group.asked_s < patience_s:
                return
        logger.info("founding the group %s", group.plan.name or "of this network")
        agreement.found(alone)

    def watch(self) -> None:
        """Look for sites that are silent and have not acknowledged all that they were sent."""
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


def reason_of(error: Exception) -> str:
    """What happened, as a phrase."""
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'}: {error.strerror or error}"
    return f"{type(error).__name__}: {error}"
