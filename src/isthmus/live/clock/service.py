"""The clock service of a live site: stamps by the kernel, tightness as measured, references as there are.

The layers are those of the simulator. Here are what they need of a real host (`LiveClockPort`), and what is not known
beforehand: `MeasuredService` measures the tightness of its LAN in every round and uses it where none is given. Until
enough rounds are measured the clock is free-running.

The views of a LAN are those of the site's first group, cut down to the LAN: `follow` looks after every turn. A
candidate leaves at once, ahead of the end of the turn, one copy after the other, the sender's own by the network, too.
Each sender begins with the member after itself, so that a different member is served last each time.

Readings become CLOCK rows. They are of round instants of the system clock, the same at all sites of a machine, so that
they can be compared; a reading of the recent past is as good as a current one. True time in the trace is the system
clock of the machine: clocks can be judged by a trace that one machine wrote.

Invariants: a candidate that is not taken at once has lost its stamp, and is dropped; a reference is read at the stamp,
not when the message is handled.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from isthmus.core.errors import InputError
from isthmus.core.layer import ClockState, Kind, Reading, Stack, View
from isthmus.core.message import ONLY_GROUP, GroupId, Message, SiteId, Targets
from isthmus.core.port import NO_OPEN_VIEW
from isthmus.core.units import NS_PER_MS
from isthmus.live.clock.references import KINDS, ReferenceSource, reference_source
from isthmus.live.net.framing import entry
from isthmus.live.net.timestamps import ahead_ns
from isthmus.live.node.site import LivePort, LiveSite
from isthmus.protocols.clocks.options import ClockOptions
from isthmus.protocols.clocks.round_trips import RoundTrips
from isthmus.protocols.clocks.service import ClockService
from isthmus.protocols.clocks.tightness import Tightness
from isthmus.protocols.clocks.wire import Candidate
from isthmus.scenario.clocks import Clocks, TimeService
from isthmus.topology.model import Topology
from isthmus.trace.schema import Gauge

Broadcast = Callable[[Targets, bytes], None]  # one datagram to several sites, the own one included
CLOCK_GROUP = GroupId(0xFFFE)  # the port of the clock service
SAMPLE = 5  # timer key, beside those of the service
NS_PER_US = 1_000
LIVE_SERVICE = TimeService(window_ms=100.0, agreement_ms=300.0)  # processes may have to wait for a busy machine
DRIFT_PPM = 200.0  # quartz is within 100; what steers the system clock may turn the monotonic one by as much again
GRANULARITY_US = 1.0  # of stamps: of two readings that are compared
REFERENCE_ERROR_US = 1_000.0  # of a system clock that NTP keeps, unless something better is known


class ClockPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The clock service of a live site; `service` is the same at all sites."""

    service: TimeService = LIVE_SERVICE
    reference: str | None = None  # system, file:PATH or socket:PATH; None: system, where the topology names this site
    kernel_stamps: bool = True  # otherwise the time at which a datagram is read

    def clocks(self) -> Clocks:
        """What a live service may assume where its scenario says nothing."""
        return Clocks(
            drift_ppm=DRIFT_PPM,
            granularity_us=GRANULARITY_US,
            reference_error_us=REFERENCE_ERROR_US,
            service=self.service,
        )


class ClockStatus(msgspec.Struct, frozen=True):
    """The state of the clock of a site."""

    site: str
    state: str  # synchronised, hold-over or free-running
    at_ns: int  # the system clock, or true time in a simulated trace, when it was read
    time_ns: int
    earliest_ns: int | None  # None: no bound is known
    latest_ns: int | None
    members: tuple[str, ...]  # of the LAN's view
    tightness_us: float | None  # that the service goes by; None: not measured yet
    stamps: str  # kernel or user
    reference: str  # as it was given; "" where there is none
    rounds: int  # that were adopted
    missed: int  # rounds without agreement


class LiveClockPort(LivePort):
    """The clock service's end of a live site."""

    __slots__ = ("broadcast", "sample_ns", "source")

    def __init__(self, owner: LiveSite, broadcast: Broadcast, source: ReferenceSource | None, sample_ns: int) -> None:
        super().__init__(owner, CLOCK_GROUP)
        self.broadcast = broadcast
        self.source = source
        self.sample_ns = sample_ns

    @property
    def received_ns(self) -> int:
        """The monotonic clock when the message in hand arrived; in other events, now."""
        arrived = self.owner.arrival_ns
        return self.now_ns if arrived is None else min(self.now_ns, arrived - ahead_ns())

    def calendar(self) -> Reading:
        return Reading(self.owner.wall(), None)

    def reference(self) -> Reading | None:
        arrived = self.owner.arrival_ns
        system_ns = self.now_ns + ahead_ns() if arrived is None else arrived
        return None if self.source is None else self.source.read(system_ns)

    def take(self, source: SiteId, view_id: int, message: Message) -> None:
        if view_id == self.open_id or type(message) is not Candidate:
            super().take(source, view_id, message)

    def send(self, targets: Targets, message: Message) -> None:
        """Send; a candidate to all as simultaneously as possible, to this site last."""
        if type(message) is not Candidate:
            super().send(targets, message)
            return
        after = targets.index(self.site) + 1
        packet = entry(self.group, self.view_id, self.encode(message))
        self.broadcast((*targets[after:], *targets[:after]), self.owner.beginning + packet)
        self.owner.counters.datagram_count += len(targets)

    def sample(self) -> int:
        """Trace the reading at the last round instant; return how long until the next one."""
        owner, ahead = self.owner, ahead_ns()
        system_ns = self.now_ns + ahead
        instant_ns = system_ns - system_ns % self.sample_ns
        if self.traces:
            reading, view = owner.read_clock(instant_ns - ahead), self.stack.view
            state = int(reading.state or ClockState.FREE_RUNNING)
            owner.log.write(instant_ns, Kind.CLOCK, None, reading.time_ns, ONLY_GROUP, view, 0, state)
            if reading.error_ns is not None:
                gauge = Gauge.CLOCK_BOUND_NS
                owner.log.write(instant_ns, Kind.GAUGE, None, reading.error_ns, ONLY_GROUP, view, 0, gauge)
        return instant_ns + self.sample_ns - system_ns


class MeasuredService(ClockService):
    """The clock service with a measured tightness, and with readings for the trace."""

    __slots__ = ("measured",)
    timer_names = (*ClockService.timer_names, "sample")  # type: ignore[assignment]
    host: LiveClockPort  # type: ignore[assignment]

    def __init__(self, options: ClockOptions, measures: bool) -> None:
        super().__init__(options)
        self.measured = Tightness() if measures else None  # None: it is given

    def tightness_us(self) -> float | None:
        """The tightness in use; None: not measured yet."""
        if self.measured is not None and self.measured.published_ns() is None:
            return None
        return self.options.tightness_us

    def install(self, view: View) -> None:
        if not self.members:
            self.host.set_timer(self, SAMPLE, self.host.sample())
        super().install(view)

    def timer(self, key: int) -> None:
        if key == SAMPLE:
            self.host.set_timer(self, SAMPLE, self.host.sample())
        else:
            super().timer(key)

    def conclude(self) -> None:
        """Measure first, so that the round uses its own measurement."""
        if self.measured is not None:
            if all(site in self.tables for site in self.members):
                self.measured.add([self.tables[site] for site in self.members])
            found = self.measured.published_ns()
            if found is None:
                return
            self.options = msgspec.structs.replace(self.options, tightness_us=found / NS_PER_US)
        super().conclude()


class Timekeeper:
    """The clock service of one life of a live site."""

    def __init__(
        self, site: LiveSite, topology: Topology, plan: ClockPlan, group: GroupId, broadcast: Broadcast
    ) -> None:
        self.site = site
        self.topology = topology
        self.plan = plan
        self.group = group  # whose views are followed
        self.cluster = topology.sites[site.site].cluster
        options = options_for(topology, self.cluster, plan)
        self.given = reference_for(topology, site.site, plan)
        source = reference_source(self.given, round(options.reference_error_us * NS_PER_US)) if self.given else None
        self.source = source
        sample_ns = round(plan.service.sample_ms * NS_PER_MS)
        self.port = site.ports[CLOCK_GROUP] = LiveClockPort(site, broadcast, source, sample_ns)
        site.peers.expected[site.site] = site.beginning  # its own broadcasts come back by the network
        self.service = MeasuredService(options, measures=plan.service.tightness_us is None)
        self.port.attach(Stack(self.port, RoundTrips(options, self.service), self.service))
        site.timekeeper = self

    def follow(self) -> None:
        """Have the LAN's view follow the group's."""
        followed = self.site.ports.get(self.group)
        if followed is None or followed.open_id in (NO_OPEN_VIEW, self.port.view_id):
            return
        members = tuple(
            site for site in self.topology.clusters[self.cluster].sites if site in followed.stack.view.members
        )
        self.port.enter()
        self.port.install(View(followed.view_id, members))
        self.port.resume()

    def status(self) -> ClockStatus:
        site, names = self.site, [each.name for each in self.topology.sites]
        reading = site.read_clock(site.clock())
        earliest_ns, latest_ns = reading.interval() or (None, None)
        return ClockStatus(
            names[site.site],
            (reading.state or ClockState.FREE_RUNNING).name.lower().replace("_", "-"),
            time.time_ns(),
            reading.time_ns,
            earliest_ns,
            latest_ns,
            tuple(names[member] for member in self.service.members),
            self.service.tightness_us(),
            "kernel" if site.stamped else "user",
            self.given or "",
            self.service.adopted_count,
            self.service.missed_count,
        )

    def close(self) -> None:
        if self.source is not None:
            self.source.close()


def options_for(topology: Topology, cluster: int, plan: ClockPlan) -> ClockOptions:
    """The options of the service of a LAN; a measured tightness replaces that of the options."""
    return plan.clocks().options(topology, cluster)


def reference_for(topology: Topology, site: SiteId, plan: ClockPlan) -> str | None:
    """The reference of a site; refuses one that the topology does not name."""
    here = topology.sites[site]
    named = site in topology.clusters[here.cluster].references
    if plan.reference is not None and not named:
        lan = topology.clusters[here.cluster].name
        expected = f"one only where the topology names the site: references = [{here.name!r}] in cluster {lan!r}"
        raise InputError("reference", here.name, repr(plan.reference), expected)
    if plan.reference is not None and not is_reference(plan.reference):
        raise InputError("reference", here.name, repr(plan.reference), KINDS)
    return plan.reference or ("system" if named else None)


def is_reference(given: str) -> bool:
    kind, _, path = given.partition(":")
    return given == "system" or (kind in ("file", "socket") and bool(path))


def as_json(keeper: Timekeeper | None) -> dict[str, Any]:
    """The state of a clock for the report of a site; empty without the service."""
    return {} if keeper is None else {"clock": msgspec.to_builtins(keeper.status())}
