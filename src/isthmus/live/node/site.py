"""A live site and its ports: the effects of stacks in real time, without sockets or event loops.

Problem: the same stacks must run on a real network, and what runs them must be tested without one. Idea: clocks and
outlet are passed in. A driver calls `receive`, `fire_due` and the events of ports, then `finish`, which ends the turn
and sends datagrams; `next_deadline_ns` says when to call again.

A *turn* is all that happens between two calls of `finish`: the datagrams of one reading of the socket, the timers that
are due, what the application submits in one round of its event loop. What is sent within a turn leaves at its end: the
messages to one target share datagrams, in the order sent.

Invariants:
- `now_ns` of a port is set before each event; it and timers are monotonic, the trace has the wall clock;
- a message to oneself comes back as an event of its own within the turn, never over the network, never lost;
- events of one site never overlap;
- a timer fires once each time it was set; a timer that is set by a timer waits for the next turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING

from isthmus.core.errors import RemoteError
from isthmus.core.layer import ClockState, Kind, Layer, Reading, Stack
from isthmus.core.message import ONLY_GROUP, PACKET_HEAD_BYTES, Cast, GroupId, Message, SiteId, Targets, packet_bytes
from isthmus.core.port import Port
from isthmus.live.net.framing import LOOPBACK_DATAGRAM_BYTES, MESSAGES, check_size, entry, frame_bytes_for, join, split
from isthmus.live.net.hello import Hello
from isthmus.live.node.peers import Outlet, Peers
from isthmus.trace.log import SiteLog

if TYPE_CHECKING:
    from isthmus.live.clock.service import Timekeeper

Clock = Callable[[], int]  # ns
NOBODY = Hello(0, "", "", "", (), ())


class Counters:
    """Totals of what a site has sent, for its summary."""

    def __init__(self) -> None:
        self.datagram_count = 0  # sent to others
        # Where the site measures:
        self.message_count = 0  # copies that they carried
        self.payload_bytes = 0  # over all copies
        self.control_bytes = 0  # over all copies, heads included


class LiveSite:
    """One life of one site: what its ports share."""

    def __init__(
        self,
        site: SiteId,
        random: Random,
        outlet: Outlet,
        clock: Clock,
        wall: Clock,
        log: SiteLog,
        *,
        life: int = 0,
        incarnation: int = 0,
        token: int = 0,
        names: tuple[str, ...] = (),
        hello: Hello = NOBODY,
        datagram_bytes: int = LOOPBACK_DATAGRAM_BYTES,
        wire_log: bool = False,
        measures: bool = True,
        renewable: bool = False,
        bulk_outlet: Outlet | None = None,
    ) -> None:
        self.site = site
        self.random = random
        self.outlet = outlet
        self.bulk_outlet = bulk_outlet or outlet
        self.clock = clock  # never jumps
        self.wall = wall  # the same at all sites, as far as clocks are
        self.log = log
        self.datagram_bytes = datagram_bytes
        self.wire_log = wire_log  # trace every send and receive
        self.measures = measures  # count messages and bytes
        self.incarnation = incarnation
        self.peers = Peers(site, life, token, names, hello, outlet, clock(), renewable)
        self.beginning = self.peers.head(MESSAGES)
        self.counters = Counters()
        self.ports: dict[int, LivePort] = {}  # by group
        self.looped: deque[tuple[LivePort, int, Message]] = deque()  # to oneself; empty after turns
        self.outbox: dict[SiteId, list[bytes]] = {}  # messages with their heads; empty after turns
        self.bulk_outbox: dict[SiteId, list[bytes]] = {}  # the same, of messages that are not to delay others
        self.timers: dict[tuple[Layer, int], int] = {}  # armed timers, each with its number in the heap
        self.heap: list[tuple[int, int, Layer, int]] = []  # due time, number, layer, key; stale if the number differs
        self.set_count = 0
        self.arrival_ns: int | None = None  # arrival of the datagram being handled, on the wall clock; None: unknown
        self.stamped = False  # whether the system stamps arrivals
        self.timekeeper: Timekeeper | None = None  # of the clock service, where it runs

    def read_clock(self, now_ns: int) -> Reading:
        """Calendar time at a recent time of the clock: by the clock service, or by the system."""
        if self.timekeeper is None:
            return Reading(self.wall(), None)
        served = self.timekeeper.service.read(now_ns)
        return Reading(self.wall() - self.clock() + now_ns, None, ClockState.FREE_RUNNING) if served is None else served

    def port(self, group: GroupId = ONLY_GROUP) -> LivePort:
        """A new port, for a stack that is then attached to it."""
        port = self.ports[group] = LivePort(self, group)
        return port

    # Turns

    def run(self, port: LivePort, event: Callable[[], None]) -> None:
        """One event in a group as a turn of its own; what it raises comes out after the turn."""
        try:
            port.enter()
            event()
        finally:
            self.finish()

    def receive(self, source: SiteId, datagram: bytes, beginning: bytes = b"") -> None:
        """Take the messages of a datagram that came from a site's address, or none of them.

        One that was sealed comes without the head, which is `beginning`.
        """
        now, peers = self.clock(), self.peers
        if (beginning or datagram[:PACKET_HEAD_BYTES]) == peers.expected.get(source):
            peers.heard[source] = now
        elif source == self.site or not peers.admits(source, beginning + datagram, now):  # of an earlier life, say
            return
        place = PACKET_HEAD_BYTES - len(beginning)
        try:
            packets = [(self.ports[group], view_id, packet) for group, view_id, packet in split(datagram, place)]
        except KeyError:  # of a group that this site is not in
            peers.foreign_count += 1
            return
        except RemoteError:
            peers.garbled_count += 1
            return
        found = []
        for port, view_id, packet in packets:
            try:
                found.append((port, view_id, port.decode(packet)))
            except RemoteError:
                port.trace(Kind.REJECT, value=source)
                return
        for port, view_id, message in found:
            port.now_ns = now
            if self.wire_log:
                port.trace_wire(Kind.RECEIVE, message, source)
            port.take(source, view_id, message)
            if port.installing is not None or port.resuming:
                self.settle()  # what follows is of the new view

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
                layer.host.now_ns = self.clock()
                layer.timer(key)
                self.settle()
        finally:
            for postponed in later:
                heappush(self.heap, postponed)

    def next_deadline_ns(self) -> int | None:
        """When `fire_due` has something to do, on the clock; None: not before another turn."""
        while self.heap:
            due_ns, number, layer, key = self.heap[0]
            if self.timers.get((layer, key)) == number:
                return due_ns
            heappop(self.heap)
        return None

    def finish(self) -> None:
        """End a turn: carry out the effects of its events, and send what was gathered."""
        try:
            self.settle()
            if self.timekeeper is not None:
                self.timekeeper.follow()
                self.settle()
        finally:
            if self.outbox or self.bulk_outbox:
                self.flush()

    def settle(self) -> None:
        """Carry out the effects of events, and take messages to oneself, each as an event."""
        while True:
            for port in self.ports.values():
                if port.turn_due:
                    port.finish()
            if not self.looped:
                return
            port, view_id, message = self.looped.popleft()
            port.now_ns = self.clock()
            port.take(self.site, view_id, message)

    def flush(self) -> None:
        """Send the messages of this turn, packed by target."""
        outbox, self.outbox = self.outbox, {}
        bulk, self.bulk_outbox = self.bulk_outbox, {}
        self.pack(outbox, self.outlet)
        if bulk:
            self.pack(bulk, self.bulk_outlet)

    def pack(self, outbox: dict[SiteId, list[bytes]], outlet: Outlet) -> None:
        counters, before, datagrams = self.counters, [b""], [b""]
        for target, entries in outbox.items():
            if entries != before:  # the same messages to several targets are packed once
                before, datagrams = entries, list(join(self.beginning, entries, self.datagram_bytes))
            counters.datagram_count += len(datagrams)
            if self.measures:
                counters.control_bytes += PACKET_HEAD_BYTES * len(datagrams)
            for datagram in datagrams:
                outlet(target, datagram)

    def stop(self) -> None:
        """Stop: no timer fires and nothing is sent from now on."""
        self.timers.clear()
        self.heap.clear()
        self.looped.clear()
        self.outbox.clear()
        self.bulk_outbox.clear()


class LivePort(Port):
    """One site's end of one group."""

    __slots__ = ("decode", "encode", "owner")

    def __init__(self, owner: LiveSite, group: GroupId) -> None:
        super().__init__(owner.site, group, owner.incarnation, owner.random, frame_bytes_for(owner.datagram_bytes))
        self.owner = owner
        self.traces = owner.log.sink is not None or owner.log.summary is not None
        self.enter()

    def attach(self, stack: Stack) -> None:
        """Take part in the group with a stack."""
        self.stack = stack
        self.encode, self.decode = stack.codec.encode, stack.codec.decode

    def enter(self) -> None:
        """Set the clock for an event."""
        self.now_ns = self.owner.clock()

    # Effects

    def clock(self) -> Reading:
        return self.owner.read_clock(self.now_ns)

    def heard_ns(self, site: SiteId) -> int | None:
        return self.owner.peers.heard.get(site)

    def send(self, targets: Targets, message: Message) -> None:
        owner = self.owner
        packet = self.encode(message)
        check_size(packet)
        view_id = 0 if message.viewless else self.view_id
        wrapped = entry(self.group, view_id, packet)
        copies = len(targets)
        outbox = owner.bulk_outbox if message.bulk else owner.outbox
        for target in targets:
            if target == self.site:
                owner.looped.append((self, view_id, message))
                copies -= 1
            elif target in outbox:
                outbox[target].append(wrapped)
            else:
                outbox[target] = [wrapped]
        if copies and owner.measures:
            payload = copies * message.payload_bytes()
            counters = owner.counters
            counters.message_count += copies
            counters.payload_bytes += payload
            counters.control_bytes += copies * len(wrapped) - payload
        if owner.wire_log:
            self.trace_wire(Kind.SEND, message, len(targets))

    def set_timer(self, layer: Layer, key: int, delay_ns: int) -> None:
        owner = self.owner
        owner.set_count += 1
        owner.timers[layer, key] = owner.set_count
        heappush(owner.heap, (owner.clock() + max(0, delay_ns), owner.set_count, layer, key))

    def cancel_timer(self, layer: Layer, key: int) -> None:
        self.owner.timers.pop((layer, key), None)

    def trace(self, kind: Kind, subject: Cast | None = None, value: int = 0) -> None:
        owner = self.owner
        owner.log.write(owner.wall(), kind, subject, value, self.group, self.stack.view)

    def gauge(self, gauge: int, value: int, subject: Cast | None = None) -> None:
        owner = self.owner
        owner.log.write(owner.wall(), Kind.GAUGE, subject, value, self.group, self.stack.view, 0, gauge)

    def trace_wire(self, kind: Kind, message: Message, value: int) -> None:
        """Trace a message that is sent or received; a row for several carried messages names none."""
        subjects, owner = message.subjects(), self.owner
        size = packet_bytes(message, len(self.encode(message))) - message.payload_bytes()
        subject = subjects[0] if len(subjects) == 1 else None
        owner.log.write(owner.wall(), kind, subject, value, self.group, self.stack.view, max(0, size))
