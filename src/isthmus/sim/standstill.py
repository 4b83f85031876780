"""A site that is paused for a while, as a process stopped by a signal is.

Its input waits: packets as in the buffer of a socket, timers and actions of the applications as in the queues of an
event loop. When the site resumes, packets are read before timers fire, so that it does not mistake its own
pause for the silence of others. If it is killed meanwhile, packets and timers are lost with it.

Bound: `PACKETS_MAX` packets wait; any more are lost and counted, as by a full socket buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from isthmus.core.layer import Layer
from isthmus.core.message import Message
from isthmus.sim.network.delays import Receive, Stamp

PACKETS_MAX = 10_000
Timers = dict[tuple[Layer, int], int]
At = Callable[[Callable[[Any, Any], None], Any, Any], None]  # schedule an action now, after all that is already due


class Standstill:
    """The input that waits while a site is paused."""

    __slots__ = ("events", "lost_count", "open_ids", "packets", "since_ns", "timers")

    def __init__(self, since_ns: int, timers: Timers, open_ids: list[int]) -> None:
        self.since_ns = since_ns
        self.timers = timers  # due times at the start of the pause
        self.open_ids = open_ids  # of the site's ports: the views whose messages they accepted
        self.packets: list[tuple[Receive, Stamp, Message]] = []
        self.events: list[Callable[[], None]] = []  # each checks for itself whether the site is still up
        self.lost_count = 0  # packets beyond the bound

    def hold_packet(self, receive: Receive, stamp: Stamp, message: Message) -> None:
        if len(self.packets) < PACKETS_MAX:
            self.packets.append((receive, stamp, message))
        else:
            self.lost_count += 1

    def release_packets(self, at: At) -> None:
        for receive, stamp, message in self.packets:
            at(receive, stamp, message)

    def release_events(self, at: At) -> None:
        for event in self.events:
            at(lambda one, _: one(), event, None)

    def overdue(self, now_ns: int) -> list[tuple[Layer, int]]:
        """Return the overdue timers, in order of time; their heap entries are gone."""
        due = [(due_ns, whose) for whose, due_ns in self.timers.items() if due_ns <= now_ns]
        return [whose for _, whose in sorted(due, key=lambda pair: pair[0])]
