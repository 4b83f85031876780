"""Unacknowledged messages: the arithmetic of the end-to-end acknowledgements of relayed_order.py.

A message is *stable* when all its destinations have delivered it. Acknowledgements are cumulative and come in any
order, also more than once. Each check finds the sites whose acknowledgement is overdue: the destinations of messages
sent before the previous check and still not acknowledged.

Invariants: counters are added in order; `stable` never decreases; no site lacks a message up to `stable`.
"""

from __future__ import annotations

DOUBLINGS_MAX = 2  # of the time between two checks, while nothing becomes stable


class UnackedMessages:
    """Own messages that are not stable."""

    __slots__ = ("checked", "lacking", "last", "quiet_count", "stable")

    def __init__(self) -> None:
        self.lacking: dict[int, int] = {}  # by counter: the destinations yet to acknowledge, as a mask
        self.last = 0  # the last that was added
        self.stable = 0  # all up to this one are stable
        self.checked = (0, 0)  # at the last check: the last added, and what was stable
        self.quiet_count = 0  # successive checks since which nothing has become stable

    def add(self, count: int, destinations: int) -> None:
        self.lacking[count] = destinations
        self.last = count

    def pass_over(self, count: int) -> None:
        """Record the counter of a message that needs no acknowledgement."""
        self.last = count
        if not self.lacking:
            self.stable = count

    def note(self, site: int, count: int) -> list[int]:
        """Record that a site, given as a mask, has all up to a count; returns the messages that became stable."""
        for number in self.lacking:
            if number > count:
                break
            self.lacking[number] &= ~site
        found = []
        while self.lacking and not self.lacking[first := next(iter(self.lacking))]:
            del self.lacking[first]
            found.append(first)
        self.stable = next(iter(self.lacking)) - 1 if self.lacking else self.last
        return found

    def overdue(self) -> int:
        """The sites whose acknowledgement is overdue, as a mask; counts as a check."""
        late, (sent, stable) = 0, self.checked
        for number, rest in self.lacking.items():
            if number > sent:
                break
            late |= rest
        self.quiet_count = self.quiet_count + 1 if late and self.stable == stable else 0
        self.checked = (self.last, self.stable)
        return late

    def backoff(self) -> int:
        """The factor by which to lengthen the wait for the next check."""
        return int(2 ** min(self.quiet_count, DOUBLINGS_MAX))

    def everyone(self) -> int:
        """The sites that lack any message, as a mask."""
        behind = 0
        for rest in self.lacking.values():
            behind |= rest
        return behind
