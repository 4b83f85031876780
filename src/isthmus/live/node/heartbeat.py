"""Heartbeats of a site whose program keeps the event loop to itself: a thread repeats the last ones, for a while.

Problem: heartbeats leave from the event loop, which is the program's as well. One that computes for half a second, or
that handles sixty megabytes, says nothing meanwhile; the others take that for a death and go on without it.

Idea: the layer below suspicion notes each heartbeat with the time. A thread looks once per period; where the loop has
been silent for `LATE_PERIODS`, the thread sends the last heartbeat again, in a datagram of its own, by the same socket.
It says what the site last said, no more: no opinion is formed, no promise made. A process that is stopped, or gone, has
no thread either, and is found as before.

Not for ever: a program that never comes back to its loop would hold the group up by flow control. After `most_ns` the
thread is silent too, and the others go on without the site. A program that holds the interpreter's lock (a long call
into C that does not release it) silences the thread at once; nothing in the process can help that.

Over an emulated network it does nothing: that network's state is the loop's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from isthmus.core.layer import Layer
from isthmus.core.message import Message, SiteId, Targets
from isthmus.core.units import NS_PER_S
from isthmus.live.net.framing import entry

LATE_PERIODS = 3
Outlet = Callable[[SiteId, bytes], None]


class HeartbeatThread:
    """What the loop last said to whom, and the thread that repeats it."""

    def __init__(self, outlet: Outlet, period_ns: int, most_ns: int) -> None:
        self.outlet = outlet  # called from the thread
        self.period_ns = period_ns
        self.most_ns = most_ns  # for so long it speaks for the loop
        self.said: dict[SiteId, tuple[int, bytes]] = {}  # when and what; values are replaced, never changed
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, name="isthmus-pulse", daemon=True)

    def note(self, target: SiteId, now_ns: int, datagram: bytes) -> None:
        """Note what the loop says now."""
        self.said[target] = now_ns, datagram

    def tick(self, now_ns: int) -> None:
        """Repeat what is overdue."""
        last_ns = max([said_ns for said_ns, _ in list(self.said.values())], default=now_ns)
        if LATE_PERIODS * self.period_ns < now_ns - last_ns < self.most_ns:
            for target, (_, datagram) in list(self.said.items()):
                self.outlet(target, datagram)

    def run(self) -> None:
        while not self.ended.wait(self.period_ns / NS_PER_S):
            self.tick(time.monotonic_ns())

    def start(self) -> None:
        self.thread.start()

    def close(self) -> None:
        self.ended.set()
        if self.thread.is_alive():
            self.thread.join()


class HeartbeatRecorder(Layer):
    """Below suspicion: has a pulse note what leaves."""

    __slots__ = ("beginning", "encode", "known", "pulse")

    def __init__(self, pulse: HeartbeatThread, beginning: bytes) -> None:
        self.pulse = pulse
        self.beginning = beginning  # of each datagram of this life
        self.known: tuple[Message, bytes] | None = None  # the last message, and it as a datagram

    def carry(self, targets: Targets, message: Message) -> None:
        if self.known is None or self.known[0] != message:
            packet = self.stack.codec.encode(message)
            self.known = message, self.beginning + entry(self.host.group, 0, packet)
        for target in targets:
            self.pulse.note(target, self.host.now_ns, self.known[1])
        self.send(targets, message)
