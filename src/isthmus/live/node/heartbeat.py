"""Heartbeats of a site whose program blocks the event loop: a thread repeats the last ones, for a while.

Problem: heartbeats leave from the event loop, which is the program's as well. A program that computes for half a
second, or handles sixty megabytes, sends none meanwhile; the others take it for dead and go on without it.

Idea: the layer below suspicion notes each heartbeat with the time. A thread looks twice per period; where the loop has
been silent for `LATE_PERIODS`, the thread sends the last heartbeat again, in a datagram of its own, by the same socket.
It repeats and adds nothing: no opinion is formed, no promise made. A process that is stopped or dead has no thread
either, and is detected as before.

The time is bounded, as a program that never returns to its loop would block the group by flow control. After `most_ns`
the thread is silent too, and the others go on without the site. A program that holds the lock of the interpreter (a
call into C that does not release it) silences the thread at once; nothing in the process can prevent that.

It does not run over an emulated network, whose state belongs to the loop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from isthmus.core.layer import Layer
from isthmus.core.message import Message, SiteId, Targets
from isthmus.core.units import NS_PER_S
from isthmus.live.net.framing import entry
from isthmus.protocols.membership.suspicion import Heartbeat

LATE_PERIODS = 1.25  # with the thread's own period, sooner than the shortest time-out
LOOKS = 2  # per period
Outlet = Callable[[SiteId, bytes], None]


class HeartbeatThread:
    """The last heartbeat to each site, and the thread that repeats them."""

    def __init__(self, outlet: Outlet, period_ns: int, most_ns: int) -> None:
        self.outlet = outlet  # called from the thread
        self.period_ns = period_ns
        self.most_ns = most_ns  # how long it stands in for the loop
        self.sent: dict[SiteId, tuple[int, bytes]] = {}  # when and what; values are replaced, never changed
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, name="isthmus-heartbeats", daemon=True)

    def note(self, target: SiteId, now_ns: int, datagram: bytes) -> None:
        """Note a heartbeat that the loop sends now."""
        self.sent[target] = now_ns, datagram

    def tick(self, now_ns: int) -> None:
        """Repeat the heartbeats if they are overdue."""
        last_ns = max([sent_ns for sent_ns, _ in list(self.sent.values())], default=now_ns)
        if LATE_PERIODS * self.period_ns < now_ns - last_ns < self.most_ns:
            for target, (_, datagram) in list(self.sent.items()):
                self.outlet(target, datagram)

    def run(self) -> None:
        while not self.ended.wait(self.period_ns / LOOKS / NS_PER_S):
            self.tick(time.monotonic_ns())

    def start(self) -> None:
        self.thread.start()

    def close(self) -> None:
        self.ended.set()
        if self.thread.is_alive():
            self.thread.join()


class HeartbeatRecorder(Layer):
    """A layer below suspicion that notes heartbeats for the thread."""

    __slots__ = ("beginning", "encode", "known", "thread")

    def __init__(self, thread: HeartbeatThread, beginning: bytes) -> None:
        self.thread = thread
        self.beginning = beginning  # of each datagram of this life
        self.known: tuple[Message, bytes] | None = None  # the last message, and it as a datagram

    def carry(self, targets: Targets, message: Message) -> None:
        if isinstance(message, Heartbeat):
            if self.known is None or self.known[0] != message:
                packet = self.stack.codec.encode(message)
                self.known = message, self.beginning + entry(self.host.group, 0, packet)
            for target in targets:
                self.thread.note(target, self.host.now_ns, self.known[1])
        self.send(targets, message)
