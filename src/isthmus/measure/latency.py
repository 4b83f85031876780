"""The latency of messages and deliveries: the one definition for rows in memory.

A message is *owed*, in its origin group, to every process that it is addressed to and that is in the group and up when
it is submitted; a crash ends what was owed to a process, and its next view in the group makes it one that is owed new
messages again. The latency of a delivery is the time from the submit to the first delivery at a process that is owed
the message; the latency of a message, as the papers define it, is that of its last such delivery, and counts once
nothing of it is owed any more. Where a message's destinations name processes that are not in its origin group, it is
owed to them, too, in the group that it is carried into; other deliveries in groups that it was carried into are not.

The same over DataFrames: pipeline/measure/latency.py. Both are tested against each other on random traces.

Invariants: only messages still owed to some process are held, so memory does not grow with the run. Latencies are never
negative: the clocks of two machines may differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from isthmus.measure.histogram import Histogram
from isthmus.trace.schema import MessageKey

NEVER = -1


def elapsed_ns(submitted_ns: int, delivered_ns: int) -> int:
    """The time from a submit to a delivery."""
    return max(0, delivered_ns - submitted_ns)


class Open:
    """A message that not all have delivered."""

    __slots__ = ("last_ns", "orphan", "owed", "submitted_ns")

    def __init__(self, submitted_ns: int, owed: int) -> None:
        self.submitted_ns = submitted_ns
        self.last_ns = NEVER  # when it was delivered last
        self.owed = owed  # a bit for each process that has not delivered it
        self.orphan = False  # its sender crashed: it may have died with it, also where that sender comes back


class LatencyMeter:
    """Latencies of one run, event by event; `groups` are the members of each, or how many one group 0 has."""

    __slots__ = ("delivered", "forgiven_count", "known", "open", "per_message", "up")

    def __init__(self, groups: Mapping[int, Iterable[int]] | int) -> None:
        members = {0: range(groups)} if isinstance(groups, int) else groups
        self.up = {group: mask(processes) for group, processes in members.items()}  # those in it that are not down
        self.known = dict(self.up)  # those that were ever in it
        self.open: dict[MessageKey, Open] = {}
        self.delivered = Histogram()  # latency of each delivery, ns
        self.per_message = Histogram()  # latency of each message, ns
        self.forgiven_count = 0  # deliveries that were owed to a process when it crashed, or was left out

    def submit(self, now_ns: int, key: MessageKey, destinations: tuple[int, ...], group: int) -> None:
        if group != key[0]:
            return  # carried into another group, where it is not owed
        up = self.up.get(group, 0)
        owed = mask(destinations) & (up | self.up_elsewhere(group)) if destinations else up
        if owed:
            self.open[key] = Open(now_ns, owed)

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
        """The processes that are up in other groups alone."""
        others = 0
        for other, up in self.up.items():
            if other != group:
                others |= up
        return others & ~self.known.get(group, 0)

    def settle(self, key: MessageKey) -> None:
        """Close a message that is no longer owed to any process."""
        message = self.open.pop(key)
        if message.last_ns != NEVER:  # otherwise all to whom it went crashed before it came
            self.measured(key, message.submitted_ns, elapsed_ns(message.submitted_ns, message.last_ns))

    def measured(self, key: MessageKey, submitted_ns: int, latency_ns: int) -> None:  # noqa: ARG002
        """Take the latency of one message; a subclass may want more than the histogram."""
        self.per_message.add(latency_ns)

    def install(self, process: int, group: int) -> None:
        """A process installed a view: from now on it is owed the group's messages."""
        self.up[group] = self.up.get(group, 0) | 1 << process
        self.known[group] = self.known.get(group, 0) | 1 << process

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
        """Deliveries still owed, except of messages whose sender crashed: those may have died with it."""
        return sum(message.owed.bit_count() for message in self.open.values() if not message.orphan)


def mask(processes: Iterable[int]) -> int:
    """A set of processes as bits."""
    return sum([1 << process for process in processes])
