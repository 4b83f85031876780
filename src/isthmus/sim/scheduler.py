"""Virtual time: a heap of scheduled actions.

An entry is (time, counter, action, first argument, second argument). The counter makes ties deterministic: actions due
at one time run in the order of scheduling. An entry is never removed; the action itself checks, when it comes up,
whether it is still valid.

An *event source* has events of its own, in its own data structure; the packet network is one. It runs beside the heap:
the earlier of the two goes first, the heap on ties. It may execute many events at a time, as long as nothing
else is due and none of them reaches a site, which could add entries to the heap.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Protocol

Entry = tuple[int, int, Callable[[Any, Any], None], Any, Any]


class EventSource(Protocol):
    """Events beside the heap."""

    def next_ns(self) -> int | None: ...  # when the next event is due; None: there is none
    def run_before(self, limit_ns: int) -> int: ...  # execute some or all events due before the limit; return how many


class Scheduler:
    """A scheduler: runs actions in order of time, then of scheduling."""

    __slots__ = ("counter", "event_count", "heap", "now_ns", "sources")

    def __init__(self) -> None:
        self.heap: list[Entry] = []
        self.now_ns = 0
        self.counter = 0
        self.event_count = 0  # actions run so far
        self.sources: list[EventSource] = []

    def at(self, time_ns: int, action: Callable[[Any, Any], None], first: Any = None, second: Any = None) -> None:
        """Schedule an action; a time in the past means now."""
        self.counter += 1
        heappush(self.heap, (max(time_ns, self.now_ns), self.counter, action, first, second))

    def run(self, until_ns: int, budget: int) -> bool:
        """Run actions due up to a time, at most `budget` of them; return whether that was all."""
        if self.sources:
            return self.run_beside_sources(until_ns, budget)
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

    def run_beside_sources(self, until_ns: int, budget: int) -> bool:
        """Run actions in the presence of event sources."""
        heap, end = self.heap, self.event_count + budget
        while self.event_count < end:
            limit_ns = min(heap[0][0], until_ns + 1) if heap else until_ns + 1
            due_ns, source = limit_ns, None
            for one in self.sources:
                next_ns = one.next_ns()
                if next_ns is not None and next_ns < due_ns:
                    if source is not None:
                        limit_ns = due_ns
                    due_ns, source = next_ns, one
                elif next_ns is not None:
                    limit_ns = min(limit_ns, next_ns)
            if due_ns > until_ns:
                self.now_ns = until_ns
                return True
            self.now_ns = due_ns
            if source is not None:
                self.event_count += source.run_before(max(limit_ns, due_ns + 1))
            else:
                _, _, action, first, second = heappop(heap)
                action(first, second)
                self.event_count += 1
        return False
