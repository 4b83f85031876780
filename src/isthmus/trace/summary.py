"""A run in a few figures, worked out row by row in memory that does not grow with the run.

Latency is counted twice: per delivery, from submit to each delivery, and per message as the papers define it, from
submit to the last delivery. Only messages still owed to somebody are held; a crashed process is owed nothing.
"""

from __future__ import annotations

from isthmus.core.layer import Kind
from isthmus.trace.histogram import Histogram
from isthmus.trace.schema import Row

DELIVER, SUBMIT = Kind.DELIVER, Kind.SUBMIT
MessageKey = tuple[int, int]  # sender, number
NEVER = -1


class Open:
    """A message that not all have delivered."""

    __slots__ = ("last_ns", "orphan", "owed", "submitted_ns")

    def __init__(self, submitted_ns: int, owed: int) -> None:
        self.submitted_ns = submitted_ns
        self.last_ns = NEVER  # when it was delivered last
        self.orphan = False  # its sender crashed: it may have died with it, also where that sender comes back
        self.owed = owed  # a bit for each process that has not delivered it
        self.orphan = False  # its sender crashed: it may have died with it


class Summary:
    """A sink that counts and measures."""

    __slots__ = (
        "crash_count",
        "delivered",
        "open",
        "per_message",
        "refused_count",
        "rejected_count",
        "submitted_count",
        "up",
    )

    def __init__(self, processes: int) -> None:
        self.up = (1 << processes) - 1  # a bit for each process that is in the group and has not crashed
        self.open: dict[MessageKey, Open] = {}
        self.delivered = Histogram()  # latency of each delivery, ns
        self.per_message = Histogram()  # latency to the last delivery of each message, ns
        self.submitted_count = 0
        self.refused_count = 0
        self.rejected_count = 0
        self.crash_count = 0

    def append(self, row: Row) -> None:
        """Take a row of a trace."""
        _, process, _, time_ns, kind, sender, number, _, _, destinations, _, _, _ = row
        if kind == SUBMIT:
            self.submit(time_ns, (sender, number), destinations or ())
        elif kind == DELIVER:
            self.deliver(process, time_ns, (sender, number))
        else:
            self.note(process, kind)

    def note(self, process: int, kind: int) -> None:
        """Take an event that concerns no message."""
        if kind == Kind.CRASH:
            self.crash(process)
        elif kind == Kind.VIEW:
            self.up |= 1 << process  # one that comes back is owed messages from its first view on
        elif kind == Kind.REFUSE:
            self.refused_count += 1
        elif kind == Kind.REJECT:
            self.rejected_count += 1

    def submit(self, now_ns: int, key: MessageKey, destinations: tuple[int, ...]) -> None:
        self.submitted_count += 1
        owed = sum([1 << target for target in destinations]) & self.up if destinations else self.up
        if owed:
            self.open[key] = Open(now_ns, owed)

    def deliver(self, process: int, now_ns: int, key: MessageKey) -> None:
        message = self.open.get(key)
        if message is None:
            return  # nobody is owed it: a second delivery, or one whose sender is gone; checks judge that
        latency = now_ns - message.submitted_ns
        self.delivered.add(latency if latency > 0 else 0)  # below: clocks of two machines, or a message from the future
        if now_ns > message.last_ns:
            message.last_ns = now_ns
        message.owed &= ~(1 << process)
        if not message.owed:
            self.settle(key)

    def settle(self, key: MessageKey) -> None:
        message = self.open.pop(key)
        if message.last_ns != NEVER:  # otherwise all to whom it went crashed before it came
            self.per_message.add(max(0, message.last_ns - message.submitted_ns))

    def crash(self, process: int) -> None:
        """Forgive what was owed to a process; what it alone knew of is lost, and owed to nobody."""
        self.crash_count += 1
        bit = 1 << process
        self.up &= ~bit
        for key, message in list(self.open.items()):
            message.orphan |= key[0] == process
            message.owed &= ~bit
            if not message.owed:
                self.settle(key)

    def undelivered_count(self) -> int:
        """Deliveries still owed, except of messages whose sender crashed: those may have died with it."""
        return sum(message.owed.bit_count() for message in self.open.values() if not message.orphan)
