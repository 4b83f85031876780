"""How long suspicion takes and how often it is wrong, against figures computed from the rule by hand.

A site watches another over a link that is slow, lossy or interrupted by pauses. Detection is the time from the last
sign of life that a site sent, at a random moment between two heartbeats, to its being suspected.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from random import Random
from typing import Any

import pytest

from isthmus.core.layer import Layer, Stack
from isthmus.core.message import GroupId, Message, SiteId, Targets
from isthmus.core.port import Port
from isthmus.protocols.membership.suspicion import LAN, WAN, Heartbeat, Suspicion, Timing

MS = 1_000_000
HOUR_NS = 3_600_000 * MS
HERE, THERE = SiteId(0), SiteId(1)


class Watcher(Port):
    """A host for one failure detector, in virtual time."""

    def __init__(self, near: bool) -> None:
        super().__init__(HERE, GroupId(-1), 0, Random("watcher"), 1400)
        self.heap: list[tuple[int, int, int]] = []  # due, number, key
        self.timers: dict[int, int] = {}
        self.count = 0
        self.heard_at: int | None = None
        self.told: list[tuple[int, bool]] = []
        self.sent: list[tuple[int, Message]] = []
        clusters = {HERE: 0, THERE: 0 if near else 1}
        self.suspicion = Suspicion(clusters, lambda _, suspected: self.told.append((self.now_ns, suspected)))
        self.stack = Stack(self, self.suspicion)  # type: ignore[arg-type]

    def heard_ns(self, site: SiteId) -> int | None:
        return self.heard_at

    def send(self, targets: Targets, message: Message) -> None:
        """Note what is sent; nobody listens."""
        self.sent.append((self.now_ns, message))

    def trace(self, *_: Any) -> None: ...

    def set_timer(self, layer: Layer, key: int, delay_ns: int) -> None:
        self.count += 1
        self.timers[key] = self.count
        heappush(self.heap, (self.now_ns + delay_ns, self.count, key))

    def run_to(self, until_ns: int) -> None:
        while self.heap and self.heap[0][0] <= until_ns:
            due, number, key = heappop(self.heap)
            if self.timers.get(key) == number:
                del self.timers[key]
                self.now_ns = due
                self.suspicion.timer(key)
        self.now_ns = until_ns

    def hear(self, at_ns: int) -> None:
        self.run_to(at_ns)
        self.heard_at = at_ns
        self.stack.receive(THERE, Heartbeat(0))


def arrivals(random: Random, timing: Timing, delay_ms: float, loss: float, pauses: bool) -> Iterator[int]:
    """When heartbeats come: one per period, late by the delay, some lost, some held up by a pause of their sender."""
    sent_ms = 0.0
    while True:
        sent_ms += timing.heartbeat_ms
        if pauses and random.random() < timing.heartbeat_ms / 10_000:  # every ten seconds
            sent_ms += random.uniform(50, 200)
        if random.random() >= loss:
            yield round((sent_ms + delay_ms + random.uniform(0, 0.05) * delay_ms) * MS)


CASES = {  # timing, one-way delay in ms, loss, pauses; false suspicions per hour at most; detection p50, p99 in ms
    "LAN with pauses": (LAN, 1.0, 0.0, True, 0.0, (345, 462)),
    "WAN": (WAN, 100.0, 0.0, False, 0.0, (1003, 1107)),
    "WAN, loss 1 %": (WAN, 100.0, 0.01, False, 0.0, (1003, 1112)),
    "WAN, loss 5 %": (WAN, 100.0, 0.05, False, 0.1, (1070, 1500)),
}


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_false_suspicions_in_hours(case: str) -> None:
    timing, delay_ms, loss, pauses, most, _ = CASES[case]
    hours = 20
    watcher = Watcher(near=timing is LAN)
    for at_ns in arrivals(Random(case), timing, delay_ms, loss, pauses):
        if at_ns > hours * HOUR_NS:
            break
        watcher.hear(at_ns)
    wrong = sum(suspected for _, suspected in watcher.told)
    print(f"{case}: {wrong / hours:.2f} false suspicions per hour")
    assert wrong / hours <= most


@pytest.mark.parametrize("case", CASES)
def test_detection_times(case: str) -> None:
    timing, delay_ms, loss, pauses, _, (median, high) = CASES[case]
    times = []
    for seed in range(100):
        random = Random(f"{case}/{seed}")
        watcher = Watcher(near=timing is LAN)
        history_s = 900 if loss else 30  # the longest gap of ten minutes is to count
        dies_ns = round((history_s + random.uniform(0, 10)) * 1000 * MS)
        for at_ns in arrivals(random, timing, delay_ms, loss, pauses):
            if at_ns - delay_ms * MS > dies_ns:
                break
            watcher.hear(at_ns)
        watcher.told.clear()
        watcher.run_to(dies_ns + 10_000 * MS)
        times.append((watcher.told[0][0] - dies_ns) / MS)
    times.sort()
    print(f"{case}: detection p50 {times[50]:.0f} ms, p99 {times[98]:.0f} ms")
    assert times[50] == pytest.approx(median, rel=0.06)
    assert times[98] <= high
