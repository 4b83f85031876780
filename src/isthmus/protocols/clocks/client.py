"""A clock that its site sets by round trips to a server, as NTP does: a baseline for the service.

Every site asks the nearest LAN that has time, takes the answer of the least round trip among the last eight, and sets
its clock to the middle of the resulting interval. It makes no use of other sites on its LAN. Half the difference of the
two one-way delays stays invisible, however many samples there are.
"""

from __future__ import annotations

from isthmus.protocols.clocks.agreement import CommonTime
from isthmus.protocols.clocks.service import ROUND, ClockService


class ClockClient(ClockService):
    """The clock of a site, set by its own round trips."""

    __slots__ = ()

    def begin(self, number: int) -> None:
        """Set the clock, once a period; no other site takes part."""
        self.round = number
        self.host.set_timer(self, ROUND, self.options.period_ns)
        now_ns = self.host.now_ns
        reading = None if self.remote is None else self.remote(now_ns)
        if reading is None:
            self.missed_count += 1
        else:
            shown_ns = None if self.span is None else self.clock.read(now_ns)
            self.adopt(CommonTime(reading.time_ns, reading.interval(), True, shown_ns), now_ns)
