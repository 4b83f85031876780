"""A run in a few figures, computed event by event; the one definition of latency for rows in memory.

A message is *owed*, in its origin group, to every process that it is addressed to and that is in the group and up when
it is submitted. A crash ends what is owed to a process; its next view in the group makes it a member that is owed new
messages. The latency of a delivery is the time from the submit to the first delivery at a process that is owed the
message; that of a message is that of its last such delivery, and counts once nothing of it is owed any more. Processes
outside the origin group that the destinations name are owed it in the group that it is carried into. In a composition,
messages *between* groups are measured apart. The same over DataFrames: pipeline/measure/latency.py.

Invariants: only messages still owed to some process are held. Latencies are never negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from isthmus.core.layer import Kind
from isthmus.measure.histogram import Histogram
from isthmus.trace.schema import MessageKey, Row

CRASH, DELIVER, REFUSE, REJECT, SUBMIT, VIEW = (
    Kind.CRASH, Kind.DELIVER, Kind.REFUSE, Kind.REJECT, Kind.SUBMIT, Kind.VIEW,
)  # fmt: skip
NEVER = -1

ClassKey = tuple[int, bool]  # the group that sends; whether to others
OnMessage = Callable[[MessageKey, int], None]  # with the latency of a message, ns


def elapsed_ns(submitted_ns: int, delivered_ns: int) -> int:
    return max(0, delivered_ns - submitted_ns)


class OpenMessage(msgspec.Struct, eq=False, gc=False):
    """A message still owed to some process."""

    submitted_ns: int
    owed: int  # one bit per process that has not delivered it
    between: bool  # addressed to processes outside its origin group
    last_ns: int = NEVER  # of its last delivery so far
    orphan: bool = False  # its sender crashed: the message may have died with it, even if the sender recovers


class RunSummary:
    """A sink that counts and measures; `groups` are the members of each group, or the number of members of group 0."""

    def __init__(
        self, groups: Mapping[int, Iterable[int]] | int, composed: bool = False, on_message: OnMessage | None = None
    ) -> None:
        members = {0: range(groups)} if isinstance(groups, int) else groups
        self.up = {group: mask(processes) for group, processes in members.items()}  # members that are not down
        self.known = dict(self.up)  # processes that were ever members
        self.open: dict[MessageKey, OpenMessage] = {}
        self.delivered = Histogram()  # latency of each delivery, ns
        self.per_message = Histogram()  # latency of each message, ns
        self.by_class: dict[ClassKey, Histogram] | None = {} if composed else None  # the same by class, ns
        self.on_message = on_message
        self.forgiven_count = 0  # deliveries that were owed to a process when it crashed, or was left out
        self.submitted_count = 0  # each message once, in its origin group
        self.refused_count = 0
        self.rejected_count = 0
        self.crash_count = 0

    def append(self, row: Row) -> None:
        _, process, _, time_ns, kind, origin, sender, number, group, _, destinations, _, _, _, _ = row
        if kind == SUBMIT:
            self.submit(time_ns, (origin, sender, number), destinations or (), group)
        elif kind == DELIVER:
            self.deliver(process, time_ns, (origin, sender, number), group)
        else:
            self.note(process, kind, group)

    def note(self, process: int, kind: int, group: int) -> None:
        if kind == CRASH:
            self.crash_count += 1
            self.crash(process)
        elif kind == VIEW:
            self.up[group] = self.up.get(group, 0) | 1 << process
            self.known[group] = self.known.get(group, 0) | 1 << process
        elif kind == REFUSE:
            self.refused_count += 1
        elif kind == REJECT:
            self.rejected_count += 1

    def submit(self, now_ns: int, key: MessageKey, destinations: tuple[int, ...], group: int) -> None:
        if group != key[0]:
            return  # carried into another group, where it is not owed
        self.submitted_count += 1
        up = self.up.get(group, 0)
        to = mask(destinations)
        owed = to & (up | self.up_elsewhere(group)) if destinations else up
        if owed:
            self.open[key] = OpenMessage(now_ns, owed, bool(to & ~self.known.get(group, 0)))

    def deliver(self, process: int, now_ns: int, key: MessageKey, group: int) -> None:
        message = self.open.get(key)
        bit = 1 << process
        if message is None or (group != key[0] and self.known.get(key[0], 0) & bit):
            return
        if not message.owed & bit:
            return  # a second delivery, or one that was not owed; checks judge that
        latency = now_ns - message.submitted_ns
        self.delivered.add(latency if latency > 0 else 0)
        if now_ns > message.last_ns:
            message.last_ns = now_ns
        message.owed ^= bit
        if not message.owed:
            self.settle(key)

    def up_elsewhere(self, group: int) -> int:
        """Return the processes that are up in other groups alone."""
        others = 0
        for other, up in self.up.items():
            if other != group:
                others |= up
        return others & ~self.known.get(group, 0)

    def settle(self, key: MessageKey) -> None:
        """Close a message that is no longer owed to any process."""
        message = self.open.pop(key)
        if message.last_ns == NEVER:
            return  # all that it was addressed to crashed before it arrived
        latency_ns = elapsed_ns(message.submitted_ns, message.last_ns)
        self.per_message.add(latency_ns)
        if self.by_class is not None:
            self.by_class.setdefault((key[0], message.between), Histogram()).add(latency_ns)
        if self.on_message is not None:
            self.on_message(key, latency_ns)

    def crash(self, process: int) -> None:
        """Forgive what was owed to a process; what it alone knew of is lost, and no longer owed."""
        bit = 1 << process
        for group in self.up:
            self.up[group] &= ~bit
        for key, message in list(self.open.items()):
            message.orphan |= key[1] == process
            self.forgiven_count += bool(message.owed & bit)
            message.owed &= ~bit
            if not message.owed:
                self.settle(key)

    def undelivered_count(self) -> int:
        """Return the deliveries still owed, except of messages whose sender crashed: those may have died with it."""
        return sum(message.owed.bit_count() for message in self.open.values() if not message.orphan)


def mask(processes: Iterable[int]) -> int:
    return sum([1 << process for process in processes])
