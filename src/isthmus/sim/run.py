"""A run: a scenario in, rows and figures out; the same scenario gives the same rows, byte for byte.

A run lasts for the scenario's duration and then until nothing is owed to any site, but at most for its drain time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from isthmus.core.layer import Kind
from isthmus.core.message import GroupId, SiteId, Targets
from isthmus.core.units import NS_PER_MS
from isthmus.protocols.application import Application
from isthmus.protocols.causal.histories.relayed_order import RelayedOrder
from isthmus.protocols.membership.suspicion import Suspicion
from isthmus.scenario.composition.nodes import routing_at
from isthmus.scenario.faults import (
    ClockJump,
    Crash,
    DelayShift,
    Fault,
    Heal,
    Leave,
    Loss,
    OfReference,
    Partition,
    Pause,
    Recover,
    Relink,
)
from isthmus.scenario.model import GroupOfRun, Scenario
from isthmus.scenario.participants.trace import ParticipantTrace
from isthmus.scenario.participants.traffic import ParticipantEvent, ParticipantTraffic
from isthmus.scenario.traffic import At, SiteTraffic
from isthmus.scenario.workload import named_sites
from isthmus.sim.base import SETTLE_NS, Simulation
from isthmus.sim.clocks.service import ClockWorld, clock_of, set_calendar
from isthmus.sim.membership.agreed import AgreedMembership
from isthmus.sim.membership.agreed_directory import AgreedDirectory
from isthmus.sim.membership.directory import Directory
from isthmus.sim.membership.ideal import IdealMembership
from isthmus.sim.membership.service import MembershipService
from isthmus.sim.network.costs import costed_network
from isthmus.sim.network.delays import DelayNetwork, Link
from isthmus.sim.packets.network import PacketNetwork, packet_network
from isthmus.sim.site import Meter, SimPort, SimSite
from isthmus.sim.standstill import Standstill
from isthmus.stacks.assembly import attach_group, attach_suspicion
from isthmus.stacks.registry import STACKS, Build
from isthmus.topology.gateways.lans import Lans, lans_of
from isthmus.trace.schema import Gauge, Sink

SITE_GROUP = GroupId(-1)  # the port for traffic that a site sends on behalf of all its groups
SLICE = 50_000  # events between two stops, at which the caller may report progress


class SimRun(Simulation):
    """A run of one scenario, with all its sites."""

    network: DelayNetwork | PacketNetwork

    def __init__(self, scenario: Scenario, sink: Sink | None = None, build: Build | None = None, run: int = 0) -> None:
        super().__init__(scenario, sink, run)
        self.build = build  # a test may substitute a stack for the scenario's
        self.network = self.network_of(scenario)
        sized = scenario.wire != "reference" or self.network.needs_sizes
        self.meter = Meter(decodes=scenario.wire == "codec") if sized else None
        self.cuts: list[dict[SiteId, int]] = []  # current partitions: the side of each site
        self.services = [self.service_of(group) for group in self.groups]
        self.traffic = [self.traffic_of(site) for site in self.site_ids]
        hosts = sorted(scenario.topology.site_id(one.site) for one in scenario.participants)
        self.participants = {site: self.participants_of(site) for site in hosts}
        drifts = scenario.clocks.offset_ms or scenario.clocks.drift_ppm
        self.clocks = [clock_of(scenario, site) if drifts else None for site in self.site_ids]  # they outlive a crash
        self.suspicions: dict[SiteId, Suspicion] = {}  # by live process, with agreed membership
        self.sites: list[SimSite] = []
        served = scenario.clocks.service is not None
        self.time = ClockWorld(scenario, self.scheduler, self.delays, self.sites) if served else None
        self.sites += [self.boot(site, 0) for site in self.site_ids]
        for fault in scenario.faults_of_run():
            self.scheduler.at(round(fault.at_ms * NS_PER_MS), self.inject, fault)

    def network_of(self, scenario: Scenario) -> DelayNetwork | PacketNetwork:
        if scenario.network.kind == "packets":
            return packet_network(scenario, self.scheduler, self.logs)
        if scenario.network.costs is not None:
            return costed_network(scenario, self.scheduler, self.groups)
        return DelayNetwork(scenario.topology, self.scheduler, scenario.random("network"))

    def service_of(self, group: GroupOfRun) -> MembershipService:
        scenario, scheduler, restart = self.scenario, self.scheduler, self.start_again
        if scenario.membership.kind == "agreed":
            kind = AgreedDirectory if STACKS[group.stack.name].steady else AgreedMembership
            return kind(scenario, group, scheduler, restart, self.crash)
        if STACKS[group.stack.name].steady:
            return Directory(scenario, group.id, scheduler, restart, self.crash)
        return IdealMembership(scenario, group.id, scheduler, self.network, self.reaches, restart)

    def boot(self, site: SiteId, incarnation: int) -> SimSite:
        """Start a site with an empty state."""
        random = self.scenario.random("site", site, incarnation)
        log, clock, wire_log = self.logs[site], self.clocks[site], self.scenario.trace == "wire"
        made = SimSite(site, incarnation, random, self.scheduler, self.network, log, clock, self.meter, wire_log)
        made.turn_ns = round(self.scenario.turn_ms * NS_PER_MS)
        suspicion = self.watch_from(made) if self.scenario.membership.kind == "agreed" else None
        composition, routing = self.scenario.composition, None
        if composition is not None:
            routing = routing_at(composition, self.scenario.topology, site, self.scenario.router)
        for group, service in zip(self.groups, self.services, strict=True):
            if site in group.members:
                port = made.port(group.id)
                options = group.options if routing is None else routing(group.id, group.options)
                if suspicion is not None:
                    membership = service.layer_of(made, suspicion)
                    options = msgspec.structs.replace(options, membership=membership)
                stack = attach_group(port, self.build_of(group), self.application_of(port, group), options, suspicion)
                self.network.watch_queue(site, stack)
                if site in self.participants:
                    self.participants[site].boot(group.id, stack.layers)
        if self.time is not None:
            self.time.boot(made)
        return made

    def application_of(self, port: SimPort, group: GroupOfRun) -> Application:
        """Return the application of a new incarnation."""
        return self.traffic[port.site].boot(group.id)

    def build_of(self, group: GroupOfRun) -> Build:
        """Return the builder of a group's stacks: the substituted function, or that of the named stack."""
        planted = self.build if group.stack.name == self.scenario.stack.name else None
        return planted or STACKS[group.stack.name].build

    def watch_from(self, site: SimSite) -> Suspicion:
        """Start failure detection at a site, for all its groups."""
        given = self.scenario.membership.agreed
        clusters = {SiteId(number): other.cluster for number, other in enumerate(self.scenario.topology.sites)}

        def tell(other: SiteId, suspected: bool) -> None:
            for port in site.ports.values():
                self.scheduler.at(self.scheduler.now_ns, told, port, (other, suspected))

        def told(port: SimPort, word: tuple[SiteId, bool]) -> None:
            port.run(lambda: port.stack.layers[-1].suspect(*word))

        suspicion = Suspicion(clusters, tell, given.lan, given.wan)
        previous = self.suspicions.get(site.site)
        self.suspicions[site.site] = attach_suspicion(SimPort(site, SITE_GROUP), suspicion, previous)
        return suspicion

    def timetable(self, site: SiteId) -> At:
        """Return a way to schedule actions of a site's applications, as events of the group's port there."""

        def at(time_ns: int, group: GroupId, action: Callable[[], None]) -> None:
            self.scheduler.at(time_ns, act, group, action)

        def act(group: GroupId, action: Callable[[], None]) -> None:
            port = self.sites[site].ports[group]
            if port.owner.standing is not None:
                port.owner.when_moving(partial(act, group, action))
            elif port.owner.alive:
                port.run(action)
            else:
                action()  # it finds no application to submit it

        return at

    def traffic_of(self, site: SiteId) -> SiteTraffic:
        return SiteTraffic(self.scenario, site, self.timetable(site), lambda: self.scheduler.now_ns, self.groups)

    def participants_of(self, site: SiteId) -> ParticipantTraffic:
        log = ParticipantTrace(self.logs[site])

        def on_event(note: ParticipantEvent) -> None:
            self.participant_events.append(note)
            log.write(note, note.time_ns)

        return ParticipantTraffic(
            self.scenario, site, self.timetable(site), lambda: self.scheduler.now_ns, self.groups, on_event
        )

    def start(self) -> None:
        """Install the first view and start the traffic."""
        for site_id in named_sites(self.scenario.topology, self.scenario.membership.absent, "absent"):
            self.stop(self.sites[site_id])
        for service in self.services:
            service.start(self.sites)
        if self.time is not None:
            self.time.start()
        for traffic in self.traffic:
            traffic.start()
        for participants in self.participants.values():
            participants.start()
        self.network.begin_background(self.scenario.random, self.end_ns)

    def figures(self) -> dict[str, float]:
        """Return the measurements specific to some networks and clocks, by name."""
        clocks = {} if self.time is None else self.time.named()
        return self.network.figures(self.summary) | clocks

    def last_view(self) -> int:
        return self.services[0].view.view_id

    def steps(self) -> Iterator[int]:
        """Run to the end with a stop at every SLICE events; yield the virtual time in ns at each."""
        self.start()
        yield from self.advance(self.end_ns)
        last_ns = self.end_ns + round(self.scenario.drain_ms * NS_PER_MS)
        while self.scheduler.now_ns < last_ns and not self.at_rest():
            yield from self.advance(min(last_ns, self.scheduler.now_ns + SETTLE_NS))
        yield from self.advance(self.scheduler.now_ns + SETTLE_NS)

    def at_rest(self) -> bool:
        """Return whether nothing is owed, and no live site has anything left to send or to receive."""
        settled = self.network.is_idle() and all(map(self.group_at_rest, self.services))
        return settled and not self.summary.undelivered_count()

    def group_at_rest(self, service: MembershipService) -> bool:
        up = [site.ports[service.group] for site in self.sites if site.alive and service.group in site.ports]
        settled = all(port.stack.view == service.view and port.stack.layers[0].settled() for port in up)
        return settled and service.at_rest()

    def advance(self, until_ns: int) -> Iterator[int]:
        """Run up to a time; yield the time at every stop, and at the end."""
        while not self.scheduler.run(until_ns, SLICE):
            yield self.scheduler.now_ns
        yield self.scheduler.now_ns

    # Faults

    @property
    def delays(self) -> DelayNetwork:
        """The network whose links may have faults; a scenario over any other has no such faults."""
        assert isinstance(self.network, DelayNetwork)
        return self.network

    def inject(self, fault: Fault, _: object) -> None:
        if isinstance(fault, Crash):
            self.crash(self.scenario.topology.site_id(fault.site))
        elif isinstance(fault, Recover):
            self.recover(self.scenario.topology.site_id(fault.site))
        elif isinstance(fault, Leave):
            self.leave(self.scenario.topology.site_id(fault.site))
        elif isinstance(fault, Pause):
            self.pause(self.scenario.topology.site_id(fault.site), round(fault.until_ms * NS_PER_MS))
        elif isinstance(fault, ClockJump):
            set_calendar(self.clocks, self.sites[self.scenario.topology.site_id(fault.site)], fault.by_ms)
        elif isinstance(fault, Partition):
            self.partition([named_sites(self.scenario.topology, group, "groups") for group in fault.groups])
        elif isinstance(fault, Heal):
            self.cuts.clear()
            for link in self.delays.links.values():
                link.cut_count = 0
            self.links_changed()
        elif isinstance(fault, OfReference):
            assert self.time is not None  # a scenario without clock services has no such faults
            self.time.inject(fault)
        elif isinstance(fault, Relink):
            self.relink(lans_of(fault.topology(self.scenario.topology)))
        else:
            self.disturb(fault)
        self.network.faults_changed()

    def crash(self, site_id: SiteId) -> None:
        site = self.sites[site_id]
        if site.alive:
            self.stop(site)
            self.members_changed(site)

    def stop(self, site: SimSite) -> None:
        self.note(site, Kind.CRASH)
        site.crash()
        self.suspicions.pop(site.site, None)
        self.traffic[site.site].crash()
        if site.site in self.participants:
            self.participants[site.site].crash()

    def recover(self, site_id: SiteId, above: int = -1) -> None:
        old = self.sites[site_id]
        if not old.alive:
            site = self.sites[site_id] = self.boot(site_id, max(old.incarnation, above) + 1)
            self.note(site, Kind.RECOVER, site.incarnation)
            for service in self.services:
                service.joined(site)
            if self.time is not None:
                self.time.changed(site)

    def leave(self, site_id: SiteId) -> None:
        for service in self.services:
            if service.group in self.sites[site_id].ports:
                service.ask_to_leave(site_id)

    def pause(self, site_id: SiteId, until_ns: int) -> None:
        site = self.sites[site_id]
        standing = site.stop()
        if standing is not None:
            self.scheduler.at(until_ns, self.end_pause, site, standing)

    def end_pause(self, site: SimSite, standing: Standstill) -> None:
        if site.standing is standing:
            for port in list(site.ports.values())[:1]:
                port.gauge(Gauge.PAUSE_NS, self.scheduler.now_ns - standing.since_ns)
        site.go_on(standing)

    def note(self, site: SimSite, kind: Kind, value: int = 0) -> None:
        """Trace an event of a site as a whole, once."""
        for port in list(site.ports.values())[:1]:
            port.trace(kind, value=value)

    def start_again(self, site_id: SiteId, above: int = -1) -> None:
        """Restart a site without which others have continued, as a new incarnation in the same process."""
        for service in self.services:
            service.renewing(site_id)
        site = self.sites[site_id]
        for port in site.ports.values() if site.alive else ():
            port.enter()
            port.stack.take_back()
        learnt = self.suspicions.get(site_id)
        self.crash(site_id)
        if learnt is not None:
            self.suspicions[site_id] = learnt
        self.recover(site_id, above)

    def members_changed(self, site: SimSite) -> None:
        for service in self.services:
            if service.group in site.ports:
                service.changed()
        if self.time is not None:
            self.time.changed(site)

    def links_changed(self) -> None:
        if self.scenario.membership.majority:
            for service in self.services:
                service.changed()

    def relink(self, lans: Lans) -> None:
        """Change the links between gateways in every group that relays, from its next view on."""
        for place, group in enumerate(self.groups):
            if STACKS[group.stack.name].relays:
                service = self.services[place]
                assert isinstance(service, IdealMembership)  # an agreed scenario has no such fault
                service.renew(partial(self.lay_links, place, lans))

    def lay_links(self, place: int, lans: Lans, view_id: int) -> None:
        """Set the links of a group from a view on, at its sites and at those that start later."""
        group = self.groups[place]
        causal = msgspec.structs.replace(group.options.causal, lans=lans)
        options = msgspec.structs.replace(group.options, causal=causal)
        self.groups[place] = msgspec.structs.replace(group, options=options)
        for site in self.sites:
            if group.id in site.ports:
                site.ports[group.id].stack.find(RelayedOrder).relink(view_id, lans)

    def partition(self, groups: list[Targets]) -> None:
        named = {site for group in groups for site in group}
        rest = tuple(site for site in self.site_ids if site not in named)
        self.cuts.append({site: side for side, group in enumerate([*groups, rest]) for site in group})
        for side in [*groups, rest]:
            others = tuple(site for site in self.site_ids if site not in side)
            for link in self.delays.between(side, others):
                link.cut_count += 1
        self.links_changed()

    def reaches(self, source: SiteId, target: SiteId) -> bool:
        """Return whether no partition separates two sites."""
        return all(cut[source] == cut[target] for cut in self.cuts)

    def disturb(self, fault: Loss | DelayShift) -> None:
        """Degrade channels until the fault ends."""
        topology = self.scenario.topology
        sources = named_sites(topology, fault.source, "source") or tuple(self.site_ids)
        targets = named_sites(topology, fault.target, "target") or tuple(self.site_ids)
        links = list(self.delays.between(sources, targets))
        for link in links:
            link.disturb(fault, self.scheduler.now_ns)
        self.scheduler.at(round(fault.until_ms * NS_PER_MS), self.calm, fault, links)

    def calm(self, fault: Loss | DelayShift, links: list[Link]) -> None:
        for link in links:
            link.calm(fault)
        self.network.faults_changed()
        # A FIFO link is constant again only when all slowed packets have arrived.
        self.scheduler.at(max([link.last_ns for link in links], default=0), lambda *_: self.network.faults_changed())
