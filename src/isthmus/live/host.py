"""The live host: carries out a stack's effects in real time, without knowing of sockets or event loops.

Problem: the same stacks must run on a real network, and the host that runs them must be tested without one. Idea: the
clock and the outlet come from outside. Whoever drives the host calls `run`, `receive` and `fire_due`, asks
`next_deadline_ns` when to call again, and is handed datagrams.

A *turn* is one such call: one event from outside and all that follows from it at this site. What is sent within a turn
leaves at its end, batched: the messages to one target share datagrams, in the order sent.

Invariants:
- now_ns is set before each event; timers run on a clock that never jumps, the trace on the wall clock;
- a message to oneself comes back as an event of its own within the turn, never over the network, never lost;
- events of one host never overlap;
- a timer fires once for each time it was set; timers that a turn of timers sets wait for the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Kind, Layer, Stack
from isthmus.core.message import Cast, Message, SiteId, Targets
from isthmus.live import framing
from isthmus.trace.log import SiteLog

Clock = Callable[[], int]  # ns
Outlet = Callable[[SiteId, bytes], None]  # a datagram to a site


class Counters:
    """What a host has done, for its summary."""

    __slots__ = ("control_bytes", "datagram_count", "foreign_count", "garbled_count", "message_count", "payload_bytes")

    def __init__(self) -> None:
        self.message_count = 0  # copies sent to others
        self.datagram_count = 0  # that they left in
        self.payload_bytes = 0  # over all copies
        self.control_bytes = 0  # over all copies and the heads of datagrams
        self.foreign_count = 0  # datagrams of another run
        self.garbled_count = 0  # datagrams that did not come apart or decode


class LiveHost:
    """One incarnation of one site."""

    __slots__ = (
        "beginning",
        "clock",
        "counters",
        "heap",
        "incarnation",
        "incarnations",
        "log",
        "looped",
        "now_ns",
        "outbox",
        "outlet",
        "random",
        "set_count",
        "site",
        "stack",
        "timers",
        "token",
        "wall",
        "wire_log",
    )

    def __init__(
        self,
        site: SiteId,
        random: Random,
        outlet: Outlet,
        clock: Clock,
        wall: Clock,
        log: SiteLog,
        *,
        token: int = 0,
        incarnation: int = 0,
        wire_log: bool = False,
    ) -> None:
        self.site = site
        self.incarnation = incarnation
        self.random = random
        self.outlet = outlet
        self.clock = clock  # never jumps
        self.wall = wall  # the same at all sites, as far as clocks are
        self.log = log
        self.wire_log = wire_log  # trace every send and receive
        self.token = token
        self.beginning = framing.head(site, incarnation, token)
        self.incarnations: dict[SiteId, int] = {}  # the latest seen of each site
        self.counters = Counters()
        self.looped: deque[Message] = deque()  # to oneself; empty between turns
        self.outbox: dict[SiteId, list[bytes]] = {}  # empty between turns
        self.timers: dict[tuple[Layer, int], int] = {}  # armed timers, each with its number in the heap
        self.heap: list[tuple[int, int, Layer, int]] = []  # due time, number, whose, key; stale if the number differs
        self.set_count = 0
        self.now_ns = wall()

    def attach(self, stack: Stack) -> None:
        """Take part in the group with a stack."""
        self.stack = stack

    # Turns

    def run(self, event: Callable[[], None]) -> None:
        """One event of the application or of the membership; what it raises comes out after the turn."""
        try:
            self.now_ns = self.wall()
            event()
        finally:
            self.settle()
            self.flush()

    def receive(self, source: SiteId, datagram: bytes) -> None:
        """Take the messages of a datagram that came from a site's address, or none of them."""
        try:
            frame = framing.split(datagram, self.token)
            if frame.source != source or frame.incarnation < self.incarnations.get(source, 0):
                raise framing.Foreign(f"a datagram of site {frame.source}, incarnation {frame.incarnation}")
            messages = [self.stack.codec.decode(packet) for packet in frame.packets]
        except framing.Foreign:
            self.counters.foreign_count += 1
            return
        except RemoteError:
            self.counters.garbled_count += 1
            return
        self.incarnations[source] = frame.incarnation
        try:
            for message, packet in zip(messages, frame.packets, strict=True):
                self.now_ns = self.wall()
                if self.wire_log:
                    self.trace(Kind.RECEIVE, message.subject(), source, len(packet) - message.payload_bytes())
                self.stack.receive(source, message)
                self.settle()
        finally:
            self.flush()

    def fire_due(self) -> None:
        """Fire the timers that are due now."""
        now, last = self.clock(), self.set_count
        later = []
        try:
            while self.heap and self.heap[0][0] <= now:
                due_ns, number, layer, key = heappop(self.heap)
                if self.timers.get((layer, key)) != number:
                    continue
                if number > last:
                    later.append((due_ns, number, layer, key))
                    continue
                del self.timers[layer, key]
                self.now_ns = self.wall()
                layer.timer(key)
                self.settle()
        finally:
            for entry in later:
                heappush(self.heap, entry)
            self.flush()

    def next_deadline_ns(self) -> int | None:
        """When `fire_due` has something to do, on the clock; None: not before another turn."""
        while self.heap:
            due_ns, number, layer, key = self.heap[0]
            if self.timers.get((layer, key)) == number:
                return due_ns
            heappop(self.heap)
        return None

    def settle(self) -> None:
        """Hand back what was sent to oneself, each message as an event."""
        while self.looped:
            message = self.looped.popleft()
            self.now_ns = self.wall()
            self.stack.receive(self.site, message)

    def flush(self) -> None:
        """Let go of what was sent in this turn."""
        if not self.outbox:
            return
        outbox, self.outbox = self.outbox, {}
        for target, packets in outbox.items():
            for datagram in framing.join(self.beginning, packets):
                self.counters.datagram_count += 1
                self.counters.control_bytes += len(self.beginning)
                self.outlet(target, datagram)

    # Effects

    def send(self, targets: Targets, message: Message) -> None:
        packet = self.stack.codec.encode(message)
        framing.check_size(packet)
        payload = message.payload_bytes()
        for target in targets:
            if target == self.site:
                self.looped.append(message)
            else:
                self.outbox.setdefault(target, []).append(packet)
                self.counters.message_count += 1
                self.counters.payload_bytes += payload
                self.counters.control_bytes += framing.LENGTH.size + len(packet) - payload
        if self.wire_log:
            self.trace(Kind.SEND, message.subject(), len(targets), len(packet) - payload)

    def set_timer(self, layer: Layer, key: int, delay_ns: int) -> None:
        self.set_count += 1
        self.timers[layer, key] = self.set_count
        heappush(self.heap, (self.clock() + max(0, delay_ns), self.set_count, layer, key))

    def cancel_timer(self, layer: Layer, key: int) -> None:
        self.timers.pop((layer, key), None)

    def trace(self, kind: Kind, subject: Cast | None = None, value: int = 0, control_bytes: int = 0) -> None:
        self.log.write(self.now_ns, kind, subject, value, 0, self.stack.view, control_bytes)
