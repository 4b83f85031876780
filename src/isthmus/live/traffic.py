"""One site's application: puts its share of a scenario's workloads to the stack, and reads as slowly as it should.

The same random sources as in the simulator decide when and to whom, so that one scenario means the same traffic on
both hosts; only the clock is real. A message that is late, because the process was busy, is sent as soon as it can be.

Bounds: one arrival is scheduled per workload; unread messages are bounded by flow control; replies wait at most as
long as the scenario's delay, each for a message delivered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from random import Random

from isthmus.core.errors import Busy
from isthmus.core.layer import Finality
from isthmus.core.message import Cast, SiteId
from isthmus.protocols.application import Application
from isthmus.scenario.model import Scenario
from isthmus.scenario.workload import NS_PER_MS, Arrival, Reply, Workload, named_sites

FRESH = 0  # depth of a message that answers nothing; the first byte of a payload

At = Callable[[int, Callable[[], None]], None]  # do something at a time, in ns from the start of the run


class Source:
    """One workload at this site."""

    __slots__ = ("arrivals", "random", "workload")

    def __init__(self, workload: Workload, random: Random, arrivals: Iterator[Arrival]) -> None:
        self.workload = workload
        self.random = random
        self.arrivals = arrivals


class SiteTraffic:
    """The application of one site; `at` and `now_ns` count from the start of the run, each action is a turn."""

    def __init__(self, scenario: Scenario, site: SiteId, at: At, now_ns: Callable[[], int]) -> None:
        self.scenario = scenario
        self.topology = scenario.topology
        self.site = site
        self.at = at
        self.now_ns = now_ns
        self.end_ns = round(scenario.duration_ms * NS_PER_MS)
        self.sent_to = [0] * len(self.topology.sites)  # messages addressed to each site
        self.submitted_count = self.delivered_count = self.refused_count = 0
        self.pending_count = 0  # messages that are scheduled and not submitted yet
        self.consume_ns = 0  # what the application takes for a message; 0: it reads at once
        self.unread: deque[Cast] = deque()
        for reader in scenario.readers:
            if site in named_sites(self.topology, reader.sites, "sites"):
                self.consume_ns = round(reader.consume_ms * NS_PER_MS)
        self.sources: list[Source] = []
        self.replies: list[Source] = []
        for index, workload in enumerate(scenario.workloads):
            senders = workload.senders(self.topology)
            if site in senders:
                random = scenario.random("workload", index, site)
                arrivals = workload.arrivals(random, senders.index(site), len(senders))
                kind = self.replies if isinstance(workload, Reply) else self.sources
                kind.append(Source(workload, random, arrivals))
        self.application = Application(on_deliver=self.deliver, auto_consume=not self.consume_ns)

    def start(self) -> None:
        for source in self.sources:
            self.schedule(source)

    def done(self) -> bool:
        """Whether this site will submit nothing more, except in answer to what it has not delivered yet."""
        return self.pending_count == 0 and self.now_ns() >= self.end_ns

    def schedule(self, source: Source) -> None:
        arrival = next(source.arrivals, None)
        if arrival is not None and arrival[0] < self.end_ns:
            self.pending_count += 1
            self.at(arrival[0], lambda: self.arrive(source, arrival[1]))

    def arrive(self, source: Source, size: int) -> None:
        self.submit(source, payload(FRESH, size))
        self.schedule(source)

    def submit(self, source: Source, content: bytes) -> None:
        self.pending_count -= 1
        destinations = source.workload.destinations(self.topology, source.random)
        try:
            self.application.cast(content, destinations)
        except Busy:  # traced as refused; an open-loop source does not wait
            self.refused_count += 1
            return
        self.submitted_count += 1
        for site in destinations or range(len(self.sent_to)):
            self.sent_to[site] += 1

    def deliver(self, cast: Cast, finality: Finality) -> None:
        if finality is not Finality.FINAL:
            return
        self.delivered_count += 1
        now = self.now_ns()
        if self.consume_ns:
            self.unread.append(cast)
            if len(self.unread) == 1:
                self.at(now + self.consume_ns, self.consume)
        depth = cast.payload[0] if cast.payload else FRESH
        for source in self.replies:
            reply = source.workload
            assert isinstance(reply, Reply)
            if depth < reply.depth and now < self.end_ns and source.random.random() < reply.probability:
                content = payload(depth + 1, max(1, reply.payload_bytes))
                self.pending_count += 1
                self.at(now + round(reply.delay_ms * NS_PER_MS), lambda s=source, c=content: self.submit(s, c))  # type: ignore[misc]

    def consume(self) -> None:
        self.application.below.consumed(self.unread.popleft())
        if self.unread:
            self.at(self.now_ns() + self.consume_ns, self.consume)


def payload(depth: int, size: int) -> bytes:
    return bytes([depth]) + bytes(size - 1) if size > 0 else b""
