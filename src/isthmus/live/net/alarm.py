"""One alarm on an event loop: it goes off at the earliest time that was asked for.

The due time is kept here, as not every event loop has handles that know it. Asking for a later time than the armed one
costs nothing: the alarm goes off early, its owner finds nothing to do, and sets it again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from isthmus.core.units import NS_PER_S


class Alarm:
    """A call-back at a time of the monotonic clock, or earlier."""

    __slots__ = ("action", "due_ns", "handle", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, action: Callable[[], None]) -> None:
        self.loop = loop
        self.action = action
        self.handle: asyncio.TimerHandle | None = None
        self.due_ns = 0  # of the handle

    def set(self, due_ns: int) -> None:
        if self.handle is not None:
            if self.due_ns <= due_ns:
                return
            self.handle.cancel()
        self.due_ns = due_ns
        self.handle = self.loop.call_later(max(0, due_ns - time.monotonic_ns()) / NS_PER_S, self.fire)

    def cancel(self) -> None:
        if self.handle is not None:
            self.handle.cancel()
            self.handle = None

    def fire(self) -> None:
        self.handle = None
        self.action()
