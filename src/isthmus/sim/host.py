"""The simulator's host: carries out a stack's effects in virtual time."""

from __future__ import annotations

from random import Random

from isthmus.core.layer import Kind, Layer, Stack
from isthmus.core.message import Cast, Message, SiteId, Targets
from isthmus.sim.clock import SiteClock
from isthmus.sim.network import Network
from isthmus.sim.scheduler import Scheduler
from isthmus.trace.log import SiteLog


class Meter:
    """How messages are measured on their way: by their encoded size, and through the codec where asked."""

    __slots__ = ("control_bytes", "decodes", "payload_bytes")

    def __init__(self, decodes: bool) -> None:
        self.decodes = decodes  # messages arrive as what the codec makes of them
        self.control_bytes = 0  # over all copies sent
        self.payload_bytes = 0


class SimHost:
    """One incarnation of one site."""

    __slots__ = (
        "alive",
        "clock",
        "incarnation",
        "log",
        "meter",
        "network",
        "now_ns",
        "random",
        "scheduler",
        "site",
        "stack",
        "timers",
        "wire_log",
    )

    def __init__(
        self,
        site: SiteId,
        incarnation: int,
        random: Random,
        scheduler: Scheduler,
        network: Network,
        log: SiteLog,
        clock: SiteClock | None = None,
        meter: Meter | None = None,
        wire_log: bool = False,
    ) -> None:
        self.site = site
        self.incarnation = incarnation
        self.random = random
        self.scheduler = scheduler
        self.network = network
        self.log = log
        self.clock = clock  # None: it is always right
        self.meter = meter  # None: sizes are not looked at
        self.wire_log = wire_log  # trace every send and receive
        self.alive = True
        self.timers: dict[tuple[Layer, int], int] = {}  # when each is due; an entry of the heap that differs is stale
        self.enter()

    def attach(self, stack: Stack) -> None:
        """Take part in the network with a stack."""
        self.stack = stack
        self.network.attach(self.site, self.receive)

    def enter(self) -> None:
        """Set the clock for an event."""
        now = self.scheduler.now_ns
        self.now_ns = now if self.clock is None else self.clock.read(now)

    def crash(self) -> None:
        """Stop for good; what comes for this incarnation from now on is lost."""
        self.alive = False
        self.timers.clear()

    # Events

    def receive(self, source: SiteId, message: Message) -> None:
        if not self.alive:
            return
        self.now_ns = self.scheduler.now_ns if self.clock is None else self.clock.read(self.scheduler.now_ns)
        if self.wire_log and source != self.site:
            size = 0 if self.meter is None else len(self.stack.codec.encode(message))
            self.trace(Kind.RECEIVE, message.subject(), source, max(0, size - message.payload_bytes()))
        self.stack.receive(source, message)

    def fire(self, layer: Layer, key: int) -> None:
        if self.alive and self.timers.get((layer, key)) == self.scheduler.now_ns:
            del self.timers[layer, key]
            self.enter()
            layer.timer(key)

    # Effects

    def send(self, targets: Targets, message: Message) -> None:
        size = 0
        if self.meter is not None:
            message, size = self.measured(targets, message)
        self.network.send(self.site, targets, message, size)
        if self.wire_log:
            self.trace(Kind.SEND, message.subject(), len(targets), max(0, size - message.payload_bytes()))

    def measured(self, targets: Targets, message: Message) -> tuple[Message, int]:
        """A message as its receivers get it, and its size; copies to oneself do not count."""
        assert self.meter is not None
        packet = self.stack.codec.encode(message)
        copies = len(targets) - (self.site in targets)
        payload = message.payload_bytes()
        self.meter.payload_bytes += copies * payload
        self.meter.control_bytes += copies * (len(packet) - payload)
        return (self.stack.codec.decode(packet) if self.meter.decodes else message), len(packet)

    def set_timer(self, layer: Layer, key: int, delay_ns: int) -> None:
        if self.clock is not None:
            delay_ns = self.clock.true_span(delay_ns)
        due = self.scheduler.now_ns + max(0, delay_ns)
        self.timers[layer, key] = due
        self.scheduler.at(due, self.fire, layer, key)

    def cancel_timer(self, layer: Layer, key: int) -> None:
        self.timers.pop((layer, key), None)

    def trace(self, kind: Kind, subject: Cast | None = None, value: int = 0, control_bytes: int = 0) -> None:
        self.log.write(self.scheduler.now_ns, kind, subject, value, 0, self.stack.view, control_bytes)
