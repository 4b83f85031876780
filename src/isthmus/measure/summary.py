"""A run in a few figures, computed row by row in memory that does not grow with the run.

Latency is counted twice, per delivery and per message; latency.py defines both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from isthmus.core.layer import Kind
from isthmus.measure.latency import LatencyMeter
from isthmus.trace.schema import MessageKey, Row

DELIVER, SUBMIT = Kind.DELIVER, Kind.SUBMIT


class RunSummary(LatencyMeter):
    """A sink that counts and measures; `groups` are the members of each group, or how many one group 0 has."""

    __slots__ = ("crash_count", "refused_count", "rejected_count", "submitted_count")

    def __init__(self, groups: Mapping[int, Iterable[int]] | int) -> None:
        super().__init__(groups)
        self.submitted_count = 0  # each message once, in its origin group
        self.refused_count = 0
        self.rejected_count = 0
        self.crash_count = 0

    def append(self, row: Row) -> None:
        """Take a row of a trace."""
        _, process, _, time_ns, kind, origin, sender, number, group, _, destinations, _, _, _, _ = row
        if kind == SUBMIT:
            self.submit(time_ns, (origin, sender, number), destinations or (), group)
        elif kind == DELIVER:
            self.deliver(process, time_ns, (origin, sender, number), group)
        else:
            self.note(process, kind, group)

    def note(self, process: int, kind: int, group: int) -> None:
        """Take an event that concerns no message."""
        if kind == Kind.CRASH:
            self.crash_count += 1
            self.crash(process)
        elif kind == Kind.VIEW:
            self.install(process, group)
        elif kind == Kind.REFUSE:
            self.refused_count += 1
        elif kind == Kind.REJECT:
            self.rejected_count += 1

    def submit(self, now_ns: int, key: MessageKey, destinations: tuple[int, ...], group: int) -> None:
        if group == key[0]:
            self.submitted_count += 1
        super().submit(now_ns, key, destinations, group)
