"""Ticket clocks: which number a ticket should have, so that it waits no longer than it must.

Problem: a ticket is stable once every active process has promised to go beyond it. Where numbers only count, the
promise of a distant process lags behind by the time a message takes to get there, and a message waits for that lag on
top of its own delay: up to twice the network delay. Where numbers follow time, a promise made at the same instant as
the ticket is already as high.

Idea: a reading in ticks that grows with time. *Lamport* has none: a ticket is one more than the highest number heard
of. *Rate* advances with the monotonic clock at one slope for all, and jumps ahead to what a received number must have
become on its way; offsets between clocks do not matter. *Synchronised* trusts the site's calendar time as it is; where
a clock service runs and is not synchronised yet, it goes by rate until then.

Safety never depends on a reading: tickets grow whatever it says. A clock that is off, or jumps, costs time only.
"""

from __future__ import annotations

from typing import Literal

from isthmus.core.layer import ClockState, Host

ClockName = Literal["lamport", "rate", "synchronised"]
NS_PER_TICK = 1_000


class Lamport:
    """Numbers count."""

    __slots__ = ()

    def reading(self, host: Host) -> int:  # noqa: ARG002
        """Return the ticks that have passed."""
        return 0

    def heard(self, number: int, delay_ns: int, host: Host) -> None:
        """Take in a number that was issued about a network delay ago."""


class Rate(Lamport):
    """Numbers advance at one slope everywhere, and catch up with what they hear."""

    __slots__ = ("ahead",)

    def __init__(self) -> None:
        self.ahead: int | None = None  # ticks added to the local clock's; None: nothing sent or received

    def reading(self, host: Host) -> int:
        ticks = host.now_ns // NS_PER_TICK
        if self.ahead is None:
            self.ahead = -ticks  # counts from here on: no clock need be right, or even positive
        return max(0, ticks + self.ahead)

    def heard(self, number: int, delay_ns: int, host: Host) -> None:
        reading = number + delay_ns // NS_PER_TICK
        if reading > self.reading(host):
            self.ahead = reading - host.now_ns // NS_PER_TICK


class Synchronised(Rate):
    """Numbers are the time."""

    __slots__ = ()

    def reading(self, host: Host) -> int:
        calendar = host.clock()
        if calendar.state is ClockState.FREE_RUNNING:
            return super().reading(host)
        return max(0, calendar.time_ns // NS_PER_TICK)

    def heard(self, number: int, delay_ns: int, host: Host) -> None:
        if host.clock().state is ClockState.FREE_RUNNING:
            super().heard(number, delay_ns, host)


CLOCKS: dict[ClockName, type[Lamport]] = {"lamport": Lamport, "rate": Rate, "synchronised": Synchronised}
