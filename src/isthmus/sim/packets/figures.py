"""Figures of a run over the packet network, as numbers by name; the same for layers and compiled end points.

| name | meaning |
|---|---|
| delay_mean_ms, delay_max_ms | from the submit of a message to its delivery at a site other than its sender |
| queue_mean, queue_max | messages received and not yet delivered: time average per site; maximum at one site |
| load_mean, load_max | packets on links, queued, leaving or in flight: time average, all links; maximum on one |
| fragments, arc_bytes | packets and their bytes, once per logical arc: from a sender to each of its targets |
| sends | messages, counted in the same way |
| hops | packets over physical links |
| violations | deliveries out of causal order; counted by compiled end points only, otherwise left to the checks |

Time averages cover the span from the start to the last arrival of a packet. None of them needs a row per hop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from isthmus.measure.summary import RunSummary
from isthmus.trace.schema import MessageKey

NS_IN_MS = 1e6


class DelaySummary(RunSummary):
    """A summary that also measures deliveries at sites other than the sender, to the nanosecond."""

    __slots__ = ("others_count", "others_max_ns", "others_ns")

    def __init__(self, groups: Mapping[int, Iterable[int]]) -> None:
        super().__init__(groups)
        self.others_count = self.others_ns = self.others_max_ns = 0

    def deliver(self, process: int, now_ns: int, key: MessageKey, group: int) -> None:
        message = self.open.get(key)
        if message is not None and process != key[1] and message.owed >> process & 1:
            delay_ns = now_ns - message.submitted_ns
            self.others_count += 1
            self.others_ns += delay_ns
            self.others_max_ns = max(self.others_max_ns, delay_ns)
        super().deliver(process, now_ns, key, group)
