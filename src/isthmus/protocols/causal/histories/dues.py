"""Who has yet to acknowledge which of our own messages: arithmetic of the end-to-end acknowledgements of relay.py.

A message is *stable* when all its destinations have delivered it. Destinations say how far they have come, in any order
and more than once; what one says covers all that it said before. Each look finds whom to ask: the destinations of what
was sent before the look before it, and is still not known to be there.

Invariants: counters are added in order; `stable` never goes back; what is at most `stable` is due to nobody.
"""

from __future__ import annotations

DOUBLINGS_MAX = 2  # of the time between two looks, while nothing becomes stable


class UnackedMessages:
    """Own messages that are not stable."""

    __slots__ = ("lacking", "last", "looked", "quiet_count", "stable")

    def __init__(self) -> None:
        self.lacking: dict[int, int] = {}  # by counter: who has yet to have it, as a mask
        self.last = 0  # the last that was added
        self.stable = 0  # all up to this one are stable
        self.looked = (0, 0)  # at the last look: the last added, and what was stable
        self.quiet_count = 0  # looks in a row since which nothing has become stable

    def add(self, count: int, destinations: int) -> None:
        self.lacking[count] = destinations
        self.last = count

    def pass_over(self, count: int) -> None:
        """Note a counter that was given to what nobody acknowledges."""
        self.last = count
        if not self.lacking:
            self.stable = count

    def note(self, site: int, count: int) -> list[int]:
        """Note that a site, given as a mask, has all up to a count; the messages that are stable now and were not."""
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
        """Whom to ask, as a mask; notes that they were looked for."""
        late, (sent, stable) = 0, self.looked
        for number, rest in self.lacking.items():
            if number > sent:
                break
            late |= rest
        self.quiet_count = self.quiet_count + 1 if late and self.stable == stable else 0
        self.looked = (self.last, self.stable)
        return late

    def patience(self) -> int:
        """How many times longer than usual to wait until the next look."""
        return int(2 ** min(self.quiet_count, DOUBLINGS_MAX))

    def everyone(self) -> int:
        """All who lack something, as a mask."""
        behind = 0
        for rest in self.lacking.values():
            behind |= rest
        return behind
