"""The figures of a composition's run: messages inside a group and messages to other groups, measured apart.

A message is *between* groups if it is addressed to a process that was never in its origin group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from isthmus.measure.histogram import Histogram
from isthmus.measure.latency import mask
from isthmus.measure.summary import RunSummary
from isthmus.trace.schema import MessageKey

ClassKey = tuple[int, bool]  # the group that sends; whether to others


class ClassSummary(RunSummary):
    """A summary with the latency of messages by their group and whether they leave it."""

    __slots__ = ("by_class", "leaving")

    def __init__(self, groups: Mapping[int, Iterable[int]]) -> None:
        super().__init__(groups)
        self.by_class: dict[ClassKey, Histogram] = {}  # latency of each message, ns
        self.leaving: set[MessageKey] = set()  # of the open messages, those to other groups

    def submit(self, now_ns: int, key: MessageKey, destinations: tuple[int, ...], group: int) -> None:
        super().submit(now_ns, key, destinations, group)
        if key in self.open and mask(destinations) & ~self.known.get(group, 0):
            self.leaving.add(key)

    def measured(self, key: MessageKey, submitted_ns: int, latency_ns: int) -> None:
        super().measured(key, submitted_ns, latency_ns)
        self.by_class.setdefault((key[0], key in self.leaving), Histogram()).add(latency_ns)

    def settle(self, key: MessageKey) -> None:
        super().settle(key)
        self.leaving.discard(key)
