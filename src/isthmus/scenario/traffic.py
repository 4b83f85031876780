"""One site's application: puts its share of a scenario's workloads to the stack, and reads as slowly as it should.

Both hosts use it, each with its own way to do something at a time; the same random sources decide when and to whom, so
that one scenario means the same traffic on both. A site that is down sends nothing, but its sources go on: what a
later incarnation sends does not depend on how long it was away.

Bounds: one arrival is scheduled per workload; unread messages are bounded by flow control; replies wait at most as
long as the scenario's delay, each for a message delivered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
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
    """The applications of one site, one after the other; `at` and `now_ns` count from the start of the run."""

    def __init__(self, scenario: Scenario, site: SiteId, at: At, now_ns: Callable[[], int]) -> None:
        self.topology = scenario.topology
        self.at = at
        self.now_ns = now_ns
        self.end_ns = round(scenario.duration_ms * NS_PER_MS)
        self.application: Application | None = None  # None while the site is down
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

    def boot(self) -> Application:
        """The application of a new incarnation of the site."""
        self.application = Application(on_deliver=self.deliver, auto_consume=not self.consume_ns)
        self.unread = deque()
        return self.application

    def crash(self) -> None:
        """The application is gone, with all that it had not read."""
        self.application = None

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
        if self.application is None:
            return
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
        if self.consume_ns:
            self.read(cast)
        for source in self.replies:
            self.consider(source, cast)

    def consider(self, source: Source, cast: Cast) -> None:
        """Answer a message, if chance will have it and it is not an answer too many."""
        reply, now = source.workload, self.now_ns()
        assert isinstance(reply, Reply)
        depth = cast.payload[0] if cast.payload else FRESH
        if depth < reply.depth and now < self.end_ns and source.random.random() < reply.probability:
            content = payload(depth + 1, max(1, reply.payload_bytes))
            self.pending_count += 1
            self.at(now + round(reply.delay_ms * NS_PER_MS), lambda: self.submit(source, content))

    def read(self, cast: Cast) -> None:
        """Begin to read, where nothing is being read already."""
        self.unread.append(cast)
        if len(self.unread) == 1:
            self.read_on(self.unread)

    def read_on(self, unread: deque[Cast]) -> None:
        self.at(self.now_ns() + self.consume_ns, lambda: self.consume(unread))

    def consume(self, unread: deque[Cast]) -> None:
        if self.application is not None and unread is self.unread:  # the same incarnation
            self.application.below.consumed(unread.popleft())
            if unread:
                self.read_on(unread)


@cache
def payload(depth: int, size: int) -> bytes:
    """The one payload of a depth and a size."""
    return bytes([depth]) + bytes(size - 1) if size > 0 else b""
