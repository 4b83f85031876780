"""A simulated site and its ports: executes the effects of stacks in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from isthmus.core.errors import RemoteError
from isthmus.core.layer import ClockState, Kind, Layer, Reading, Stack
from isthmus.core.message import ONLY_GROUP, Cast, GroupId, Message, SiteId, Targets, packet_bytes, size_of
from isthmus.core.port import NO_OPEN_VIEW, Port
from isthmus.protocols.clocks.service import ClockService
from isthmus.sim.clocks.clock import SiteClock
from isthmus.sim.network.delays import Network, Stamp
from isthmus.sim.scheduler import Scheduler
from isthmus.sim.standstill import Standstill
from isthmus.trace.log import SiteLog

DELIVER = Kind.DELIVER
FRAME_BYTES = 32_000  # a virtual packet may be large; a batch beyond this is split


class Meter:
    """The measurement of messages in transit: by size, and through the codec if enabled."""

    __slots__ = ("control_bytes", "decodes", "payload_bytes")

    def __init__(self, decodes: bool) -> None:
        self.decodes = decodes  # messages arrive as decoded by the codec
        self.control_bytes = 0  # over all copies sent
        self.payload_bytes = 0


@dataclass(slots=True, eq=False)
class SimSite:
    """One incarnation of one site: the state shared by its ports."""

    site: SiteId
    incarnation: int
    random: Random
    scheduler: Scheduler
    network: Network
    log: SiteLog
    clock: SiteClock | None = None  # None: it is always right
    meter: Meter | None = None  # None: sizes are not measured
    wire_log: bool = False  # trace every send and receive
    time_service: ClockService | None = None  # supplies the calendar if present
    turn_ns: int = 0  # duration of a turn; 0: a turn is one event
    alive: bool = True
    standing: Standstill | None = None  # what waits while the site is paused
    heard: dict[SiteId, int] = field(default_factory=dict)  # last arrival from each site, in virtual time
    timers: dict[tuple[Layer, int], int] = field(default_factory=dict)  # due; heap entries of another time are stale
    ports: dict[GroupId, SimPort] = field(default_factory=dict)

    def port(self, group: GroupId = ONLY_GROUP) -> SimPort:
        """Return a new port, for a stack to be attached."""
        port = self.ports[group] = SimPort(self, group)
        return port

    def set_clock(self, clock: SiteClock) -> None:
        self.clock = clock
        for port in self.ports.values():
            port.site_clock = clock

    def now_ns(self) -> int:
        now = self.scheduler.now_ns
        return now if self.clock is None else self.clock.read(now)

    def crash(self) -> None:
        """Stop permanently; later packets for this incarnation are lost."""
        self.alive = False
        self.timers.clear()
        for port in self.ports.values():
            port.freeze()
        standing, self.standing = self.standing, None
        if standing is not None:
            standing.release_events(self.soon)

    # Pauses

    def stop(self) -> Standstill | None:
        """Pause until `go_on` is called with the returned value; None if the site is down or already paused."""
        if not self.alive or self.standing is not None:
            return None
        self.standing = Standstill(self.scheduler.now_ns, self.timers, [port.open_id for port in self.ports.values()])
        self.timers = {}  # heap entries are stale during the pause
        for port in self.ports.values():
            port.open_id = NO_OPEN_VIEW  # so that no packet takes the fast path
        return self.standing

    def go_on(self, standing: Standstill) -> None:
        """Read the packets held back, then execute the events held back, then fire the overdue timers."""
        if self.standing is not standing:
            return  # it was killed meanwhile
        self.standing = None
        now_ns, self.timers = self.scheduler.now_ns, standing.timers
        for port, open_id in zip(self.ports.values(), standing.open_ids, strict=True):
            port.open_id = open_id
        standing.release_packets(self.soon)
        standing.release_events(self.soon)
        self.network.dropped_count += standing.lost_count
        for layer, key in standing.overdue(now_ns):
            assert isinstance(layer.host, SimPort)
            self.timers[layer, key] = now_ns
            self.soon(layer.host.fire, layer, key)

    def soon(self, action: Callable[[Any, Any], None], first: Any, second: Any) -> None:
        self.scheduler.at(self.scheduler.now_ns, action, first, second)

    def when_moving(self, event: Callable[[], None]) -> None:
        """Execute an event now, or at the end of the pause."""
        if self.standing is None:
            event()
        else:
            self.standing.events.append(event)


class SimPort(Port):
    """One incarnation of one site in one group."""

    __slots__ = (
        "counts",
        "heard",
        "log",
        "meter",
        "network",
        "owner",
        "routes",
        "scheduler",
        "site_clock",
        "stamp",
        "turn_ends",
    )

    def __init__(self, owner: SimSite, group: GroupId) -> None:
        super().__init__(owner.site, group, owner.incarnation, owner.random, FRAME_BYTES)
        self.owner = owner
        self.scheduler = owner.scheduler
        self.network = owner.network
        self.meter = owner.meter
        self.heard = owner.heard
        self.log = owner.log
        self.counts = owner.log.summary if owner.log.sink is None else None  # if no rows are requested
        self.site_clock = owner.clock
        self.stamp: Stamp = (owner.site, 0)
        self.turn_ends = False  # the end of a turn that outlasts its event is scheduled
        self.enter()

    def attach(self, stack: Stack) -> None:
        """Attach a stack, and take part in the network."""
        self.stack = stack
        self.routes = stack.routes
        self.network.attach(self.site, self.group, self.receive_traced if self.owner.wire_log else self.receive)

    def enter(self) -> None:
        """Set the clock for an event."""
        self.now_ns = self.owner.now_ns()

    # Events

    def run(self, event: Callable[[], None]) -> None:
        """Execute one external event."""
        if self.owner.standing is not None:
            self.owner.standing.events.append(partial(self.run, event))
        elif self.owner.alive:
            self.enter()
            event()
            if self.turn_due:
                self.finish()

    def end_event(self) -> None:
        """End the turn with the event, or some time after it."""
        if not self.owner.turn_ns:
            self.finish()
        elif not self.turn_ends:
            self.turn_ends = True
            self.scheduler.at(self.scheduler.now_ns + self.owner.turn_ns, self.end_long_turn)

    def end_long_turn(self, *_: object) -> None:
        self.turn_ends = False
        self.run(lambda: None)

    def receive(self, stamp: Stamp, message: Message) -> None:
        """Take a message from the network; fast path for one of the open view."""
        source, view_id = stamp
        if view_id != self.open_id:
            self.receive_other(stamp, message)
            return
        now = self.scheduler.now_ns
        self.now_ns = now if self.site_clock is None else self.site_clock.read(now)
        self.heard[source] = now
        try:
            self.routes[type(message)](source, message)
        except RemoteError:
            self.trace(Kind.REJECT, value=source)
        if self.turn_due:
            self.end_event()

    def receive_other(self, stamp: Stamp, message: Message) -> None:
        """Take a message of another view, of none, after a crash, or during a pause."""
        if self.owner.standing is not None:
            self.owner.standing.hold_packet(self.receive, stamp, message)
        elif self.owner.alive:
            self.heard[stamp[0]] = self.scheduler.now_ns
            self.run(lambda: self.take(*stamp, message))

    def receive_traced(self, stamp: Stamp, message: Message) -> None:
        """Take a message, with a trace row for each packet."""
        if self.owner.standing is not None:
            self.owner.standing.hold_packet(self.receive_traced, stamp, message)
            return
        if self.owner.alive and stamp[0] != self.site:
            self.trace_wire(Kind.RECEIVE, message, stamp[0])
        self.receive(stamp, message)

    def fire(self, layer: Layer, key: int) -> None:
        timers = self.owner.timers
        if timers.get((layer, key)) == self.scheduler.now_ns and self.owner.alive:
            del timers[layer, key]
            self.enter()
            layer.timer(key)
            if self.turn_due:
                self.end_event()

    # Effects

    def clock(self) -> Reading:
        service = self.owner.time_service
        if service is None:
            return self.calendar()
        served = service.read(self.owner.now_ns())
        return self.calendar()._replace(state=ClockState.FREE_RUNNING) if served is None else served

    def calendar(self) -> Reading:
        """Return the site's own calendar, without the corrections of a service."""
        clock, now = self.owner.clock, self.scheduler.now_ns
        return Reading(now, 0) if clock is None else clock.calendar(now)

    def heard_ns(self, site: SiteId) -> int | None:
        at = self.heard.get(site)
        if at is None or self.owner.clock is None:
            return at
        return self.owner.clock.read(at)

    def send(self, targets: Targets, message: Message) -> None:
        size = 0
        if self.meter is not None:
            message, size = self.measured(targets, message)
        if self.stamp[1] != self.view_id:
            self.stamp = (self.site, self.view_id)
        stamp = (self.site, 0) if message.viewless else self.stamp
        self.network.send(stamp, self.group, targets, message, size)
        if self.owner.wire_log:
            self.trace_wire(Kind.SEND, message, len(targets))

    def measured(self, targets: Targets, message: Message) -> tuple[Message, int]:
        """Return a message as its receivers get it, and its size; copies to the sender itself do not count."""
        meter = self.meter
        assert meter is not None
        packet = self.stack.codec.encode(message)
        size = packet_bytes(message, len(packet))
        copies = len(targets) - (self.site in targets)
        payload = message.payload_bytes()
        meter.payload_bytes += copies * payload
        meter.control_bytes += copies * (size - payload)
        return (self.stack.codec.decode(packet) if meter.decodes else message), size

    def set_timer(self, layer: Layer, key: int, delay_ns: int) -> None:
        owner = self.owner
        if owner.clock is not None:
            delay_ns = owner.clock.true_span(delay_ns)
        due = self.scheduler.now_ns + max(0, delay_ns)
        owner.timers[layer, key] = due
        self.scheduler.at(due, self.fire, layer, key)

    def cancel_timer(self, layer: Layer, key: int) -> None:
        self.owner.timers.pop((layer, key), None)

    def trace(self, kind: Kind, subject: Cast | None = None, value: int = 0) -> None:
        if kind is DELIVER:
            assert subject is not None
            if type(subject) is Cast and self.counts is not None:
                key = (self.group, subject.sender, subject.number)
                self.counts.deliver(self.site, self.scheduler.now_ns, key, self.group)
            else:
                self.log.deliver(self.scheduler.now_ns, subject, self.group)
        else:
            self.log.write(self.scheduler.now_ns, kind, subject, value, self.group, self.stack.view)

    def gauge(self, gauge: int, value: int, subject: Cast | None = None) -> None:
        self.owner.log.write(self.scheduler.now_ns, Kind.GAUGE, subject, value, self.group, self.stack.view, 0, gauge)

    def trace_wire(self, kind: Kind, message: Message, value: int) -> None:
        """Write a row for a packet; one that carries several messages names none."""
        subjects = message.subjects()
        size = 0 if self.meter is None else size_of(self.stack.codec, message) - message.payload_bytes()
        subject = subjects[0] if len(subjects) == 1 else None
        self.owner.log.write(self.scheduler.now_ns, kind, subject, value, self.group, self.stack.view, max(0, size))
