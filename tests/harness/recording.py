"""A host that only records: every effect of a stack as a line to read.

Problem: a protocol's behaviour should be reviewed as text, effect by effect, without a network or a clock. Idea: time
stands still until `advance`; sends, timers and traces are recorded in the order in which they happen, in a form that
`testing/blocks.py` reads back.

Invariants:
- time moves only in `advance`, which fires timers in order of due time, ties in the order set;
- a message to oneself comes back as an event of its own, right after the event that sent it, before anything else;
- a timer is due at most once for each time it was set; setting it again moves it;
- the calendar is a constant ahead of the monotonic clock until a test sets it anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

import msgspec

from isthmus.core.layer import Kind, Layer, Reading, Stack
from isthmus.core.message import ONLY_GROUP, Cast, GroupId, Message, SiteId, Targets
from isthmus.core.port import Port
from isthmus.core.units import NS_PER_MS
from isthmus.trace.log import NOTHING, identity
from isthmus.trace.schema import COUNTER_BITS, Gauge

FRAME_BYTES = 32_000
VALUED = (Kind.VIEW, Kind.ROLE, Kind.SUSPECT, Kind.TRUST, Kind.REJECT, Kind.RECOVER)  # kinds whose value says something
Transmit = Callable[["RecordingPort", SiteId, int, Message], None]  # from, to, in which view


class RecordingSite:
    """One incarnation of one site under a manual clock: what its ports share."""

    def __init__(self, site: SiteId, incarnation: int = 0, transmit: Transmit | None = None) -> None:
        self.site = site
        self.incarnation = incarnation
        self.transmit = transmit  # takes what is sent to other sites; None: nobody does
        self.now_ns = 0
        self.ahead_ns = 0  # by how much the calendar is ahead of the monotonic clock
        self.error_ns: int | None = 0  # the error bound that the calendar publishes
        self.random = Random(f"recording/{site}/{incarnation}")
        self.alive = True
        self.lines: list[str] = []  # effects since the last `drain`
        self.looped: deque[tuple[RecordingPort, int, Message]] = deque()  # sent to oneself, not come back yet
        self.timers: dict[tuple[Layer, int], int] = {}  # armed timers, each with its number in the heap
        # Due time, number, whose, key; an entry whose number differs from that of the armed timer is stale.
        self.heap: list[tuple[int, int, RecordingPort, Layer, int]] = []
        self.set_count = 0
        self.heard: dict[SiteId, int] = {}
        self.ports: dict[GroupId, RecordingPort] = {}

    def port(self, group: GroupId = ONLY_GROUP) -> RecordingPort:
        """The port of a group, made where there is none."""
        if group not in self.ports:
            self.ports[group] = RecordingPort(self, group)
        return self.ports[group]

    # A site in one group is a bench for golden scripts

    @property
    def host(self) -> RecordingPort:
        return self.port()

    def attach(self, stack: Stack) -> None:
        self.host.stack = stack

    def run(self, event: Callable[[], None]) -> None:
        self.host.run(event)

    def receive(self, source: SiteId, view_id: int, message: Message) -> None:
        self.host.receive(source, view_id, message)

    def set_calendar(self, ahead_ns: int, error_ns: int | None) -> None:
        self.ahead_ns, self.error_ns = ahead_ns, error_ns

    def note(self, line: str) -> None:
        """Record what the application was told."""
        self.record(self.host, line)

    def drain(self) -> list[str]:
        """The effects since the last call."""
        lines, self.lines = self.lines, []
        return lines

    def record(self, port: RecordingPort, line: str) -> None:
        """Take an effect at one of the ports."""
        self.lines.append(line)

    def record_send(self, port: RecordingPort, targets: Targets, message: Message) -> None:
        self.record(port, send_line(targets, message))

    def record_timer(self, port: RecordingPort, line: str) -> None:
        self.record(port, line)

    # Time

    def next_due_ns(self) -> int | None:
        """When the next timer is due; None where none is set."""
        while self.heap and self.timers.get(self.heap[0][3:]) != self.heap[0][1]:
            heappop(self.heap)
        return self.heap[0][0] if self.heap and self.alive else None

    def fire_next(self) -> None:
        """Fire the timer that is due next."""
        self.now_ns, _, port, layer, key = heappop(self.heap)
        del self.timers[layer, key]
        port.run(lambda: layer.timer(key))

    def advance(self, delay_ns: int) -> None:
        """Let time pass and fire what falls due."""
        end_ns = self.now_ns + delay_ns
        while (due_ns := self.next_due_ns()) is not None and due_ns <= end_ns:
            self.fire_next()
        self.now_ns = end_ns

    def crash(self) -> None:
        self.alive = False
        self.timers.clear()


class RecordingPort(Port):
    """One site's end of one group, every effect recorded."""

    __slots__ = ("owner",)

    def __init__(self, owner: RecordingSite, group: GroupId) -> None:
        super().__init__(owner.site, group, owner.incarnation, owner.random, FRAME_BYTES)
        self.owner = owner

    # Events

    def run(self, event: Callable[[], None]) -> None:
        """Carry out one event, then the messages to oneself that follow from it."""
        owner = self.owner
        if not owner.alive:
            return
        try:
            self.one_event(event)
        finally:
            while owner.looped:
                port, view_id, message = owner.looped.popleft()
                port.one_event(lambda port=port, at=view_id, back=message: port.arrive(port.site, at, back))  # type: ignore[misc]

    def one_event(self, event: Callable[[], None]) -> None:
        self.now_ns = self.owner.now_ns
        try:
            event()
        finally:
            if self.turn_due:
                self.finish()

    def arrive(self, source: SiteId, view_id: int, message: Message) -> None:
        self.owner.heard[source] = self.owner.now_ns
        self.take(source, view_id, message)

    def receive(self, source: SiteId, view_id: int, message: Message) -> None:
        """A message comes in from the network."""
        self.run(lambda: self.arrive(source, view_id, message))

    # Effects

    def clock(self) -> Reading:
        return Reading(self.owner.now_ns + self.owner.ahead_ns, self.owner.error_ns)

    def heard_ns(self, site: SiteId) -> int | None:
        return self.owner.heard.get(site)

    def send(self, targets: Targets, message: Message) -> None:
        owner, view_id = self.owner, 0 if message.viewless else self.view_id
        owner.record_send(self, targets, message)
        for target in targets:
            if target == self.site:
                owner.looped.append((self, view_id, message))
            elif owner.transmit is not None:
                owner.transmit(self, target, view_id, message)

    def set_timer(self, layer: Layer, key: int, delay_ns: int) -> None:
        owner = self.owner
        owner.set_count += 1
        owner.timers[layer, key] = owner.set_count
        heappush(owner.heap, (owner.now_ns + max(0, delay_ns), owner.set_count, self, layer, key))
        owner.record_timer(self, f"timer {layer.timer_name(key)} in {delay_ns / NS_PER_MS:g}ms")

    def cancel_timer(self, layer: Layer, key: int) -> None:
        if self.owner.timers.pop((layer, key), None) is not None:
            self.owner.record_timer(self, f"cancel {layer.timer_name(key)}")

    def trace(self, kind: Kind, subject: Cast | None = None, value: int = 0) -> None:
        destinations = subject.destinations if subject is not None and kind == Kind.SUBMIT else ()
        message = NOTHING if subject is None else identity(subject, self.group)
        self.owner.record(self, trace_line(kind, message, self.group, destinations, value))

    def gauge(self, gauge: int, value: int, subject: Cast | None = None) -> None:
        message = NOTHING if subject is None else identity(subject, self.group)
        self.owner.record(self, trace_line(Kind.GAUGE, message, self.group, (), value, gauge))


def send_line(targets: Targets, message: Message) -> str:
    """A send as a line that tells all of the message."""
    return f"send [{' '.join(map(str, targets))}] {show(message)}"


def trace_line(
    kind: Kind,
    message: tuple[int, int, int],
    group: int,
    destinations: tuple[int, ...],
    value: int,
    gauge: int = 0,
) -> str:
    """A row of a trace as a line: the kind, the message, to whom if not to all, the value where it says something."""
    words = [kind.name.lower()]
    origin, sender, number = message
    if gauge:
        words.append(Gauge(gauge).name.lower())
    if sender >= 0:
        words.append(("" if origin == group else f"g{origin}/") + message_name(sender, number))
    if destinations:
        words.append(f"to [{' '.join(map(str, destinations))}]")
    if kind in VALUED or gauge:
        words.append(str(value))
    return " ".join(words)


def show(value: Any, name: Callable[[Cast], str] | None = None) -> str:
    """A wire type as the literal that `testing/blocks.py` reads; what has its default value is left out.

    With `name` a message of the application is shown by its name only.
    """
    if isinstance(value, tuple):
        return f"({', '.join(show(one, name) for one in value)}{',' if len(value) == 1 else ''})"
    if name is not None and isinstance(value, Cast):
        return name(value)
    if not isinstance(value, msgspec.Struct):
        return repr(value)
    shown = []
    for field in msgspec.structs.fields(type(value)):
        given = getattr(value, field.name)
        if field.required or given != field.default:
            shown.append(f"{field.name}={show(given, name)}")
    return f"{type(value).__name__}({', '.join(shown)})"


def message_name(sender: int, number: int) -> str:
    """Return a readable message name: 3:7, or 3:1.7 where the sender was in incarnation 1."""
    incarnation, count = divmod(number, 1 << COUNTER_BITS)
    return f"{sender}:{incarnation}.{count}" if incarnation > 0 else f"{sender}:{number}"
