"""Puts a scenario's workloads to its sites, and reads what they deliver as slowly as the scenario says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from random import Random

from isthmus.core.errors import Busy
from isthmus.core.layer import Finality
from isthmus.core.message import Cast, SiteId, Targets
from isthmus.protocols.application import Application
from isthmus.scenario.model import Scenario
from isthmus.scenario.workload import NS_PER_MS, Arrival, Reply, Workload, named_sites
from isthmus.sim.host import SimHost
from isthmus.sim.scheduler import Scheduler

FRESH = 0  # depth of a message that answers nothing; the first byte of a payload


class Source:
    """One workload at one site; it goes on over the site's incarnations."""

    __slots__ = ("arrivals", "random", "site", "workload")

    def __init__(self, workload: Workload, site: SiteId, random: Random, arrivals: Iterator[Arrival]) -> None:
        self.workload = workload
        self.site = site
        self.random = random
        self.arrivals = arrivals


class Traffic:
    """The applications of all sites."""

    def __init__(self, scenario: Scenario, scheduler: Scheduler) -> None:
        self.scenario = scenario
        self.scheduler = scheduler
        self.end_ns = round(scenario.duration_ms * NS_PER_MS)
        self.applications: dict[SiteId, Application] = {}
        self.sources: list[Source] = []
        self.replies: dict[SiteId, list[Source]] = {}
        self.payloads: dict[tuple[int, int], bytes] = {}  # (depth, size) -> the one payload of that kind
        self.consume_ns: dict[SiteId, int] = {}
        self.free_ns: dict[SiteId, int] = {}  # when a slow reader will be done with all it has been given
        for reader in scenario.readers:
            for site in named_sites(scenario.topology, reader.sites, "sites"):
                self.consume_ns[site] = round(reader.consume_ms * NS_PER_MS)
        for index, workload in enumerate(scenario.workloads):
            senders = workload.senders(scenario.topology)
            for place, site in enumerate(senders):
                random = scenario.random("workload", index, site)
                source = Source(workload, site, random, workload.arrivals(random, place, len(senders)))
                kind = self.replies.setdefault(site, []) if isinstance(workload, Reply) else self.sources
                kind.append(source)

    def start(self) -> None:
        for source in self.sources:
            self.schedule(source)

    def application(self, site: SiteId) -> Application:
        """The application of a new incarnation of a site."""
        slow = site in self.consume_ns
        application = Application(auto_consume=not slow)
        if slow or site in self.replies:
            application.on_deliver = lambda cast, finality: self.delivered(application, cast, finality)
        self.applications[site] = application
        return application

    def schedule(self, source: Source) -> None:
        arrival = next(source.arrivals, None)
        if arrival is not None and arrival[0] < self.end_ns:
            self.scheduler.at(arrival[0], self.arrive, source, arrival[1])

    def arrive(self, source: Source, size: int) -> None:
        destinations = source.workload.destinations(self.scenario.topology, source.random)
        self.cast(self.applications[source.site], self.payload(FRESH, size), destinations)
        self.schedule(source)

    def payload(self, depth: int, size: int) -> bytes:
        if (depth, size) not in self.payloads:
            self.payloads[depth, size] = bytes([depth]) + bytes(size - 1) if size > 0 else b""
        return self.payloads[depth, size]

    def cast(self, application: Application, payload: bytes, destinations: Targets) -> None:
        host = application.host
        assert isinstance(host, SimHost)
        if host.alive:
            host.enter()
            with suppress(Busy):  # traced as refused; an open-loop source does not wait
                application.cast(payload, destinations)

    def delivered(self, application: Application, cast: Cast, finality: Finality) -> None:
        if finality is not Finality.FINAL:
            return
        site = application.host.site
        now = self.scheduler.now_ns
        if site in self.consume_ns:
            self.free_ns[site] = max(now, self.free_ns.get(site, 0)) + self.consume_ns[site]
            self.scheduler.at(self.free_ns[site], self.consume, application, cast)
        depth = cast.payload[0] if cast.payload else FRESH
        for source in self.replies.get(site, ()):
            reply = source.workload
            assert isinstance(reply, Reply)
            if depth < reply.depth and now < self.end_ns and source.random.random() < reply.probability:
                payload = self.payload(depth + 1, max(1, reply.payload_bytes))
                self.scheduler.at(now + round(reply.delay_ms * NS_PER_MS), self.answer, (application, source), payload)

    def answer(self, place: tuple[Application, Source], payload: bytes) -> None:
        application, source = place
        self.cast(application, payload, source.workload.destinations(self.scenario.topology, source.random))

    def consume(self, application: Application, cast: Cast) -> None:
        host = application.host
        assert isinstance(host, SimHost)
        if host.alive:
            host.enter()
            application.below.consumed(cast)
