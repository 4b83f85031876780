"""A run: a scenario in, rows and figures out; the same scenario gives the same rows, byte for byte.

A run lasts for the scenario's duration and then until nothing is owed to anybody, but at most for its drain time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from isthmus.core.layer import Kind
from isthmus.core.message import SiteId, Targets
from isthmus.scenario.faults import ClockJump, Crash, DelayShift, Fault, Heal, Loss, Partition, Recover
from isthmus.scenario.model import Scenario
from isthmus.scenario.traffic import SiteTraffic
from isthmus.scenario.workload import NS_PER_MS, named_sites
from isthmus.sim.clock import SiteClock
from isthmus.sim.host import Meter, SimHost
from isthmus.sim.membership import IdealMembership
from isthmus.sim.network import Link, Network
from isthmus.sim.scheduler import Scheduler
from isthmus.stacks import STACKS, Build
from isthmus.trace.log import SiteLog
from isthmus.trace.schema import Sink
from isthmus.trace.summary import Summary

SLICE = 50_000  # events between two stops, at which whoever drives a run may tell how far it is
SETTLE_NS = 1_000_000_000  # how long a run goes on once nothing is owed, so that a late second delivery shows
Progress = Callable[[int], None]  # called with the virtual time in ns


class Run:
    """One scenario under way."""

    def __init__(self, scenario: Scenario, sink: Sink | None = None, build: Build | None = None, run: int = 0) -> None:
        self.scenario = scenario
        self.build = build or STACKS[scenario.stack.name].build  # a test may plant a stack of its own
        self.options = scenario.stack_options()
        self.scheduler = Scheduler()
        self.network = Network(scenario.topology, self.scheduler, scenario.random("network"))
        self.summary = Summary(len(scenario.topology.sites))
        wanted = sink if scenario.trace != "none" else None
        self.sites = [SiteId(number) for number in range(len(scenario.topology.sites))]
        self.logs = [SiteLog(site, wanted, self.summary, run) for site in self.sites]
        sized = scenario.wire != "reference" or self.network.needs_sizes
        self.meter = Meter(decodes=scenario.wire == "codec") if sized else None
        self.traffic = [self.traffic_of(site) for site in self.sites]
        self.end_ns = round(scenario.duration_ms * NS_PER_MS)
        detection_ns = round(scenario.membership.detection_ms * NS_PER_MS)
        self.membership = IdealMembership(self.scheduler, self.network, detection_ns)
        self.clocks = [self.clock_of(site) for site in self.sites]  # a clock goes on while its site is down
        self.hosts = [self.boot(site, 0) for site in self.sites]
        for fault in scenario.faults_of_run():
            self.scheduler.at(round(fault.at_ms * NS_PER_MS), self.strike, fault)

    def boot(self, site: SiteId, incarnation: int) -> SimHost:
        """Start a site with an empty state."""
        random = self.scenario.random("site", site, incarnation)
        log, meter = self.logs[site], self.meter
        wire_log = self.scenario.trace == "wire"
        host = SimHost(site, incarnation, random, self.scheduler, self.network, log, self.clocks[site], meter, wire_log)
        host.attach(self.build(host, self.traffic[site].boot(), self.options))
        return host

    def clock_of(self, site: SiteId) -> SiteClock | None:
        """The clock of a site; None where it is always right."""
        clocks = self.scenario.clocks
        if not clocks.offset_ms and not clocks.drift_ppm:
            return None
        random = self.scenario.random("clock", site)
        offset_ns = round(random.uniform(-1, 1) * clocks.offset_ms * NS_PER_MS)
        return SiteClock(offset_ns, random.uniform(-1, 1) * clocks.drift_ppm / 1e6)

    def traffic_of(self, site: SiteId) -> SiteTraffic:
        """A site's applications; what they do at a time is an event of the site's."""

        def at(time_ns: int, action: Callable[[], None]) -> None:
            self.scheduler.at(time_ns, act, action)

        def act(action: Callable[[], None], _: object) -> None:
            self.hosts[site].enter()
            action()

        return SiteTraffic(self.scenario, site, at, lambda: self.scheduler.now_ns)

    def start(self) -> None:
        """Install the first view and let the sites send."""
        self.membership.start(self.hosts)
        for traffic in self.traffic:
            traffic.start()

    def execute(self, progress: Progress | None = None) -> Summary:
        """Run to the end."""
        for now_ns in self.steps():
            if progress is not None:
                progress(now_ns)
        return self.summary

    def steps(self) -> Iterator[int]:
        """Run to the end with a stop at every SLICE events; gives the virtual time in ns at each."""
        self.start()
        yield from self.advance(self.end_ns)
        last_ns = self.end_ns + round(self.scenario.drain_ms * NS_PER_MS)
        while self.scheduler.now_ns < last_ns and not self.at_rest():
            yield from self.advance(min(last_ns, self.scheduler.now_ns + SETTLE_NS))
        yield from self.advance(self.scheduler.now_ns + SETTLE_NS)

    def at_rest(self) -> bool:
        """Whether nothing is owed, and nobody who is up has anything left to send or to hear of."""
        up = [host for host in self.hosts if host.alive]
        settled = all(host.stack.view is self.membership.view and host.stack.layers[0].settled() for host in up)
        return settled and self.membership.at_rest() and not self.summary.undelivered_count()

    def advance(self, until_ns: int) -> Iterator[int]:
        """Run up to a time; gives the time at every stop, and at the end."""
        while not self.scheduler.run(until_ns, SLICE):
            yield self.scheduler.now_ns
        yield self.scheduler.now_ns

    # Faults

    def strike(self, fault: Fault, _: object) -> None:
        if isinstance(fault, Crash):
            self.crash(self.scenario.topology.site_id(fault.site))
        elif isinstance(fault, Recover):
            self.recover(self.scenario.topology.site_id(fault.site))
        elif isinstance(fault, ClockJump):
            self.jump(self.scenario.topology.site_id(fault.site), round(fault.by_ms * NS_PER_MS))
        elif isinstance(fault, Partition):
            self.partition([named_sites(self.scenario.topology, group, "groups") for group in fault.groups])
        elif isinstance(fault, Heal):
            for link in self.network.between(tuple(self.sites), tuple(self.sites)):
                link.cut_count = 0
        else:
            self.disturb(fault)
        self.network.faults_changed()

    def crash(self, site: SiteId) -> None:
        host = self.hosts[site]
        if host.alive:
            host.trace(Kind.CRASH)
            host.crash()
            self.traffic[site].crash()
            self.membership.changed()

    def recover(self, site: SiteId) -> None:
        old = self.hosts[site]
        if not old.alive:
            host = self.hosts[site] = self.boot(site, old.incarnation + 1)
            host.trace(Kind.RECOVER, value=host.incarnation)
            self.membership.joined(host)

    def jump(self, site: SiteId, by_ns: int) -> None:
        clock = self.clocks[site] or SiteClock(0, 0.0)
        clock.offset_ns += by_ns
        self.clocks[site] = self.hosts[site].clock = clock

    def partition(self, groups: list[Targets]) -> None:
        named = {site for group in groups for site in group}
        rest = tuple(site for site in self.sites if site not in named)
        sides = [*groups, rest]
        for side in sides:
            others = tuple(site for site in self.sites if site not in side)
            for link in self.network.between(side, others):
                link.cut_count += 1

    def disturb(self, fault: Loss | DelayShift) -> None:
        """Make channels worse until the fault ends."""
        topology = self.scenario.topology
        sources = named_sites(topology, fault.source, "source") or tuple(self.sites)
        targets = named_sites(topology, fault.target, "target") or tuple(self.sites)
        links = list(self.network.between(sources, targets))
        for link in links:
            link.disturb(fault, self.scheduler.now_ns)
        self.scheduler.at(round(fault.until_ms * NS_PER_MS), self.calm, fault, links)

    def calm(self, fault: Loss | DelayShift, links: list[Link]) -> None:
        for link in links:
            link.calm(fault)
        self.network.faults_changed()
        # A link that keeps order is constant again only when what was slowed down has arrived.
        self.scheduler.at(max([link.last_ns for link in links], default=0), lambda *_: self.network.faults_changed())
