"""A host that does nothing but remember: every effect of a stack as a line to read.

Problem: a protocol's behaviour should be reviewed as text, effect by effect, without a network or a clock. Idea: time
stands still until `advance`; sends, timers and traces are written down in the order in which they happen, in a form
that `core/script.py` reads back.

Invariants:
- time moves only in `advance`, which fires timers in order of due time, ties in the order set;
- a message to oneself comes back as an event of its own, right after the event that sent it, before anything else;
- a timer is due at most once for each time it was set; setting it again moves it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

import msgspec

from isthmus.core.layer import Kind, Layer, Stack
from isthmus.core.message import Cast, Message, SiteId, Targets

NS_PER_MS = 1_000_000
VALUED = (Kind.VIEW, Kind.ROLE, Kind.SUSPECT, Kind.TRUST, Kind.REJECT, Kind.RECOVER)  # kinds whose value says something


class RecordingHost:
    """One site's host under a manual clock."""

    def __init__(self, site: SiteId, incarnation: int = 0) -> None:
        self.site = site
        self.incarnation = incarnation
        self.now_ns = 0
        self.random = Random(f"recording/{site}/{incarnation}")
        self.lines: list[str] = []  # effects since the last `drain`
        self.looped: deque[Message] = deque()  # sent to oneself, not come back yet
        self.timers: dict[tuple[Layer, int], int] = {}  # armed timers, each with its number in the heap
        self.heap: list[tuple[int, int, Layer, int]] = []  # due time, number, whose, key; stale if the number differs
        self.set_count = 0
        self.stack: Stack

    def attach(self, stack: Stack) -> None:
        """Send what this site sends itself to a stack."""
        self.stack = stack

    @property
    def host(self) -> RecordingHost:
        """Itself: a recording host is its own bench."""
        return self

    # Events

    def run(self, event: Callable[[], None]) -> None:
        """Carry out one event, then the messages to oneself that follow from it."""
        try:
            event()
        finally:
            while self.looped:
                self.stack.receive(self.site, self.looped.popleft())

    def receive(self, source: SiteId, message: Message) -> None:
        """A message comes in from the network."""
        self.run(lambda: self.stack.receive(source, message))

    def advance(self, delay_ns: int) -> None:
        """Let time pass and fire what falls due."""
        end_ns = self.now_ns + delay_ns
        while self.heap and self.heap[0][0] <= end_ns:
            due_ns, number, layer, key = heappop(self.heap)
            if self.timers.get((layer, key)) == number:
                del self.timers[layer, key]
                self.now_ns = due_ns
                self.run(lambda layer=layer, key=key: layer.timer(key))  # type: ignore[misc]
        self.now_ns = end_ns

    def drain(self) -> list[str]:
        """The effects since the last call."""
        lines, self.lines = self.lines, []
        return lines

    def note(self, line: str) -> None:
        """Write down what the application was told."""
        self.lines.append(line)

    # Effects

    def send(self, targets: Targets, message: Message) -> None:
        self.lines.append(send_line(targets, message))
        if self.site in targets:
            self.looped.append(message)

    def set_timer(self, layer: Layer, key: int, delay_ns: int) -> None:
        self.set_count += 1
        self.timers[layer, key] = self.set_count
        heappush(self.heap, (self.now_ns + delay_ns, self.set_count, layer, key))
        self.lines.append(f"timer {layer.timer_name(key)} in {delay_ns / NS_PER_MS:g}ms")

    def cancel_timer(self, layer: Layer, key: int) -> None:
        if self.timers.pop((layer, key), None) is not None:
            self.lines.append(f"cancel {layer.timer_name(key)}")

    def trace(self, kind: Kind, subject: Cast | None = None, value: int = 0) -> None:
        destinations = subject.destinations if subject is not None and kind == Kind.SUBMIT else ()
        sender, number = (-1, -1) if subject is None else (subject.sender, subject.number)
        self.lines.append(trace_line(kind, sender, number, destinations, value))


def send_line(targets: Targets, message: Message) -> str:
    return f"send [{' '.join(map(str, targets))}] {show(message)}"


def trace_line(kind: Kind, sender: int, number: int, destinations: tuple[int, ...], value: int) -> str:
    """A row of a trace as a line: the kind, the message, to whom if not to all, the value where it says something."""
    words = [kind.name.lower()]
    if sender >= 0:
        words.append(f"{sender}:{number}")
    if destinations:
        words.append(f"to [{' '.join(map(str, destinations))}]")
    if kind in VALUED:
        words.append(str(value))
    return " ".join(words)


def show(value: Any) -> str:
    """A wire type as the literal that `core/script.py` reads; what has its default value is left out."""
    if not isinstance(value, msgspec.Struct):
        return repr(value)
    shown = []
    for field in msgspec.structs.fields(type(value)):
        given = getattr(value, field.name)
        if field.required or given != field.default:
            shown.append(f"{field.name}={show(given)}")
    return f"{type(value).__name__}({', '.join(shown)})"
