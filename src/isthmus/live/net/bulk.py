"""Bulk datagrams of one site: pieces of a cut or of a state, which wait here and not in the socket.

Problem: what the system has taken leaves in order. Megabytes of pieces in the socket, or on an emulated link of limited
rate, delay the heartbeats that are sent after them. Idea: a queue for each target, of which the socket is given the
next datagram only while it has less than a window still to send. All else goes past.

Bound: `QUEUED_MAX` datagrams in all; what comes beyond is dropped, and asked for again.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from isthmus.core.message import SiteId
from isthmus.live.net.alarm import Alarm

QUEUED_MAX = 50_000


class BulkQueue:
    """What waits to be sent, by target."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        send: Callable[[SiteId, bytes], None],
        wait_ns: Callable[[SiteId, int], int],
    ) -> None:
        self.send = send
        self.wait_ns = wait_ns  # how long the next datagram to a target has to wait at a time; 0: it may leave
        self.waiting: dict[SiteId, deque[bytes]] = {}  # none is empty
        self.count = 0  # of all of them
        self.dropped_count = 0
        self.alarm = Alarm(loop, self.release)

    def put(self, target: SiteId, datagram: bytes) -> None:
        if self.count >= QUEUED_MAX:
            self.dropped_count += 1
            return
        self.count += 1
        queue = self.waiting.get(target)
        if queue is not None:
            queue.append(datagram)  # the alarm is set
        else:
            self.waiting[target] = deque([datagram])
            self.release()

    def release(self) -> None:
        """Send in turn to each target what may leave now, and the rest later."""
        times_ns: list[int] = []
        ready = list(self.waiting)
        while ready:
            going, ready = ready, []
            for target in going:
                now_ns = time.monotonic_ns()
                wait_ns = self.wait_ns(target, now_ns)
                if wait_ns > 0:
                    times_ns.append(now_ns + wait_ns)
                    continue
                queue = self.waiting[target]
                self.count -= 1
                self.send(target, queue.popleft())
                if queue:
                    ready.append(target)
                else:
                    del self.waiting[target]
        if times_ns:
            self.alarm.set(min(times_ns))

    def clear(self) -> None:
        """Drop what waits, with the life that it is of."""
        self.waiting.clear()
        self.count = 0
        self.alarm.cancel()
