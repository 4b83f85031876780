"""Virtual time: a heap of what is to happen.

An entry is (time, counter, action, first argument, second argument). The counter makes ties deterministic: what was
scheduled first happens first. An entry is never removed; whoever scheduled it decides, when it comes up, whether it
still means anything.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Entry = tuple[int, int, Callable[[Any, Any], None], Any, Any]


class Scheduler:
    """Runs actions in order of time, then of scheduling."""

    __slots__ = ("counter", "event_count", "heap", "now_ns")

    def __init__(self) -> None:
        self.heap: list[Entry] = []
        self.now_ns = 0
        self.counter = 0
        self.event_count = 0  # actions run so far

    def at(self, time_ns: int, action: Callable[[Any, Any], None], first: Any = None, second: Any = None) -> None:
        """Schedule an action; a time that has passed means now."""
        self.counter += 1
        heappush(self.heap, (max(time_ns, self.now_ns), self.counter, action, first, second))

    def run(self, until_ns: int, budget: int) -> bool:
        """Run what is due up to a time, at most `budget` actions; whether that was all."""
        heap = self.heap
        for done in range(budget):
            if not heap or heap[0][0] > until_ns:
                self.event_count += done
                self.now_ns = until_ns
                return True
            self.now_ns, _, action, first, second = heappop(heap)
            action(first, second)
        self.event_count += budget
        return False
