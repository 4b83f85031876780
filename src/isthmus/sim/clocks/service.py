"""The clock service in a run: its port at every site, the views of the LANs, references and their faults, readings.

All clocks are read at the same true instants: every `sample_ms` those of all sites, and right before the first
installation of a round at a LAN those of its sites, when their last synchronisation is oldest. Readings become CLOCK
rows, each followed by the published error bound if there is one.

The views of a LAN are ideal: all of its sites detect a crash or a start after the detection time. A view change needs
no flush, as the service has no shared state: a round in progress is abandoned.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import msgspec

from isthmus.core.layer import ClockState, Kind, Layer, Reading, Stack, View
from isthmus.core.message import ONLY_GROUP, GroupId, Message, SiteId, Targets
from isthmus.core.units import NS_PER_MS
from isthmus.measure.clocks import ClockFigures
from isthmus.protocols.clocks.client import ClockClient
from isthmus.protocols.clocks.options import NS_PER_US, ClockOptions, accuracy_ns, precision_ns, worldwide_ns
from isthmus.protocols.clocks.round_trips import RoundTrips
from isthmus.protocols.clocks.service import INSTALL, ClockService
from isthmus.protocols.clocks.wire import Candidate
from isthmus.scenario.faults import OfReference, ReferenceDeath, ReferenceJump
from isthmus.scenario.model import Scenario
from isthmus.sim.clocks.clock import SiteClock
from isthmus.sim.network.broadcast import LanBroadcast
from isthmus.sim.network.delays import DelayNetwork, Stamp
from isthmus.sim.scheduler import Scheduler
from isthmus.sim.site import SimPort, SimSite
from isthmus.trace.schema import Gauge

CLOCKS = GroupId(-2)  # the port of the clock service


def clock_of(scenario: Scenario, site: SiteId) -> SiteClock:
    """Return the clock of a site, with its errors drawn."""
    clocks = scenario.clocks
    random = scenario.random("clock", site)
    bound_ns, bound_drift = round(clocks.offset_ms * NS_PER_MS), clocks.drift_ppm / 1e6
    offset_ns = round(random.uniform(-1, 1) * clocks.offset_ms * NS_PER_MS)
    share = random.uniform(-1, 1)
    if clocks.extreme:
        share = 1.0 if site % 2 else -1.0
    if grain_ns := round(clocks.granularity_us * NS_PER_US):
        offset_ns = offset_ns // grain_ns * grain_ns  # counters tick together at the start, then drift apart
    return SiteClock(offset_ns, share * clocks.drift_ppm / 1e6, bound_ns, bound_drift)


def set_calendar(clocks: list[SiteClock | None], site: SimSite, by_ms: float) -> None:
    """Set the calendar of a site forward or back."""
    clock = clocks[site.site] or SiteClock(0, 0.0)
    clock.jump_ns += round(by_ms * NS_PER_MS)
    clocks[site.site] = clock
    site.set_clock(clock)


class Reference:
    """A source of true time at a site, exact except for its error and its faults."""

    __slots__ = ("assumed_ns", "error_ns", "faults", "random")

    def __init__(self, error_ns: int, assumed_ns: int, random: Random) -> None:
        self.error_ns = error_ns  # maximum error without a fault
        self.assumed_ns = assumed_ns  # the error bound that it reports
        self.random = random
        self.faults: list[OfReference] = []  # current faults

    def read(self, true_ns: int) -> Reading | None:
        time_ns = true_ns + round(self.random.uniform(-1, 1) * self.error_ns)
        for fault in self.faults:
            if isinstance(fault, ReferenceDeath):
                return None
            share = 1.0 if isinstance(fault, ReferenceJump) else self.random.uniform(-1, 1)
            time_ns += round(share * fault.by_ms * NS_PER_MS)
        return Reading(time_ns, self.assumed_ns)


class ClockPort(SimPort):
    """The port of the clock service at a site: stamps receptions, broadcasts candidates, reads the reference."""

    __slots__ = ("arrived_ns", "grain_ns", "lan", "source", "upcoming")

    def __init__(
        self, owner: SimSite, lan: LanBroadcast, grain_ns: int, source: Reference | None, upcoming: Callable[[], None]
    ) -> None:
        super().__init__(owner, CLOCKS)
        self.lan = lan
        self.grain_ns = max(1, grain_ns)
        self.source = source
        self.upcoming = upcoming  # called before an installation
        self.arrived_ns: int | None = None  # true arrival time of the current message; None: there is none

    @property
    def received_ns(self) -> int:
        """The hardware clock at the arrival of the current message, in whole ticks."""
        true_ns, clock = self.event_ns(), self.owner.clock
        return (true_ns if clock is None else clock.read(true_ns)) // self.grain_ns * self.grain_ns

    def event_ns(self) -> int:
        return self.scheduler.now_ns if self.arrived_ns is None else self.arrived_ns

    def reference(self) -> Reading | None:
        return None if self.source is None else self.source.read(self.event_ns())

    def receive(self, stamp: Stamp, message: Message) -> None:
        self.receive_at(self.scheduler.now_ns, stamp, message)

    receive_traced = receive

    def receive_at(self, arrived_ns: int, stamp: Stamp, message: Message) -> None:
        """Handle a message by its arrival time; a paused site handles it later, with the same stamp."""
        if self.owner.standing is not None:
            self.owner.standing.hold_packet(partial(self.receive_at, arrived_ns), stamp, message)
            return
        self.heard[stamp[0]] = self.scheduler.now_ns
        if self.owner.wire_log and self.owner.alive and stamp[0] != self.site:
            self.trace_wire(Kind.RECEIVE, message, stamp[0])
        self.run(partial(self.take_arrived, arrived_ns, stamp, message))

    def take_arrived(self, arrived_ns: int, stamp: Stamp, message: Message) -> None:
        self.arrived_ns = arrived_ns
        self.take(*stamp, message)
        self.arrived_ns = None

    def send(self, targets: Targets, message: Message) -> None:
        if type(message) is not Candidate:
            super().send(targets, message)
            return
        if self.meter is not None:
            self.measured(targets[:1], message)  # one transmission, whatever the number of receivers
        self.lan.send((self.site, self.view_id), self.group, targets, message)
        if self.owner.wire_log:
            self.trace_wire(Kind.SEND, message, len(targets))

    def fire(self, layer: Layer, key: int) -> None:
        if key == INSTALL and isinstance(layer, ClockService):
            self.upcoming()
        super().fire(layer, key)


def service_of(options: ClockOptions, site: SiteId) -> ClockService:
    """Return the service of a site: that of its LAN, or its own if its LAN has no reference and consists of clients."""
    if options.without_reference == "clients" and options.agent is not None:
        return ClockClient(msgspec.structs.replace(options, agent=site))
    return ClockService(options)


class LanViews:
    """The views of one LAN's sites."""

    __slots__ = ("detection_ns", "number", "scheduler", "sites", "up")

    def __init__(self, scheduler: Scheduler, detection_ns: int, sites: Targets) -> None:
        self.scheduler = scheduler
        self.detection_ns = detection_ns
        self.sites = sites
        self.number = 0  # of the last view
        self.up: dict[SiteId, SimSite] = {}

    def changed(self, site: SimSite) -> None:
        """Note that a site started or crashed; the others learn of it after the detection time."""
        self.scheduler.at(self.scheduler.now_ns + self.detection_ns, self.install, site)

    def install(self, site: SimSite, _: object = None) -> None:
        """Update the state of a site, and announce a new view to all live sites."""
        if site.alive:
            self.up[site.site] = site
        elif self.up.get(site.site) is site:
            del self.up[site.site]
        self.announce()

    def announce(self) -> None:
        self.number += 1
        members = tuple(number for number in self.sites if number in self.up)
        for number in members:
            port = self.up[number].ports[CLOCKS]
            port.run(partial(enter_view, port, View(self.number, members)))


def enter_view(port: SimPort, view: View) -> None:
    port.install(view)
    port.resume()


class ClockWorld:
    """The clock services of all sites of a run."""

    def __init__(self, scenario: Scenario, scheduler: Scheduler, network: DelayNetwork, sites: list[SimSite]) -> None:
        self.scenario = scenario
        self.scheduler = scheduler
        self.sites = sites  # the current incarnations of the run's sites
        clocks, topology = scenario.clocks, scenario.topology
        assert clocks.service is not None
        self.options = [clocks.options(topology, lan) for lan in range(len(topology.clusters))]
        self.broadcast = LanBroadcast(network, clocks.broadcast, scenario.random("broadcast"))
        detection_ns = round(scenario.membership.detection_ms * NS_PER_MS)
        self.views = [LanViews(scheduler, detection_ns, cluster.sites) for cluster in topology.clusters]
        error_ns = round(clocks.reference_error_us * NS_PER_US)
        self.references = {
            site: Reference(error_ns, round(options.reference_error_us * NS_PER_US), scenario.random("reference", site))
            for cluster, options in zip(topology.clusters, self.options, strict=True)
            for site in cluster.references
        }
        self.sample_ns = round(clocks.service.sample_ms * NS_PER_MS)
        self.read_rounds = [0] * len(topology.clusters)  # by LAN: the last round with clocks read before its end
        self.figures = ClockFigures([site.cluster for site in topology.sites])

    def boot(self, site: SimSite) -> None:
        """Attach the clock service to a site."""
        lan = self.scenario.topology.sites[site.site].cluster
        grain_ns = round(self.scenario.clocks.granularity_us * NS_PER_US)
        upcoming = partial(self.before_installation, site, lan)
        port = ClockPort(site, self.broadcast, grain_ns, self.references.get(site.site), upcoming)
        site.ports[CLOCKS] = port
        service = service_of(self.options[lan], site.site)
        port.attach(Stack(port, RoundTrips(service.options, service), service))
        site.time_service = service

    def start(self) -> None:
        """Install the first view of each LAN, of the sites that are up."""
        for views in self.views:
            views.up = {number: self.sites[number] for number in views.sites if self.sites[number].alive}
            views.announce()
        self.scheduler.at(self.sample_ns, self.sample)

    def changed(self, site: SimSite) -> None:
        self.views[self.scenario.topology.sites[site.site].cluster].changed(site)

    def named(self) -> dict[str, float]:
        """Return the figures of readings and rounds; bounds are those of LANs with a reference."""
        services = [site.time_service for site in self.sites if site.time_service is not None]
        bounded = [options for options in self.options if options.agent is None]
        bounds = {"precision": precision_ns, "world": worldwide_ns, "accuracy": accuracy_ns}
        return {
            **self.figures.named(),
            "clock_rounds": sum(service.adopted_count for service in services),
            "clock_rounds_missed": sum(service.missed_count for service in services),
            **{
                f"clock_bound_{name}_us": max((bound(options) for options in bounded), default=0) / NS_PER_US
                for name, bound in bounds.items()
            },
        }

    # Readings

    def sample(self, *_: object) -> None:
        self.read([site for site in self.sites if site.alive])
        self.scheduler.at(self.scheduler.now_ns + self.sample_ns, self.sample)

    def before_installation(self, site: SimSite, lan: int) -> None:
        """Read the clocks of a LAN, once per round."""
        service = site.time_service
        if service is not None and site.alive and service.round > self.read_rounds[lan]:
            self.read_rounds[lan] = service.round
            members = self.scenario.topology.clusters[lan].sites
            self.read([self.sites[number] for number in members if self.sites[number].alive])

    def read(self, sites: list[SimSite]) -> None:
        """Read clocks at this instant."""
        now_ns = self.scheduler.now_ns
        readings = [(site.site, site.ports[CLOCKS].clock()) for site in sites]
        for site, (_, reading) in zip(sites, readings, strict=True):
            state = int(reading.state or ClockState.FREE_RUNNING)
            view = site.ports[CLOCKS].stack.view
            site.log.write(now_ns, Kind.CLOCK, None, reading.time_ns, ONLY_GROUP, view, 0, state)
            if reading.error_ns is not None:
                gauge = Gauge.CLOCK_BOUND_NS
                site.log.write(now_ns, Kind.GAUGE, None, reading.error_ns, ONLY_GROUP, view, 0, gauge)
        self.figures.note(now_ns, readings)

    # Faults

    def inject(self, fault: OfReference) -> None:
        reference = self.references[self.scenario.topology.site_id(fault.site)]
        reference.faults.append(fault)
        self.scheduler.at(round(fault.until_ms * NS_PER_MS), lambda *_: reference.faults.remove(fault))
