"""The common base of all simulated runs: rows, figures, virtual time.

There are two kinds of runs: `run.SimRun` boots every site and its stacks; `packets.twin.CompiledRun` replaces them with
compiled end points. Callers of `simulate.make_run` need not distinguish them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Protocol

from isthmus.core.message import SiteId, Targets
from isthmus.core.units import NS_PER_MS
from isthmus.measure.summary import RunSummary
from isthmus.scenario.model import Scenario
from isthmus.scenario.participants.traffic import ParticipantEvent
from isthmus.sim.packets.figures import DelaySummary
from isthmus.sim.scheduler import Scheduler
from isthmus.sim.site import Meter
from isthmus.trace.log import SiteLog
from isthmus.trace.schema import Recording, Sink

SETTLE_NS = 1_000_000_000  # how long a run continues once nothing is owed, to detect late duplicate deliveries
Progress = Callable[[int], None]  # called with the virtual time in ns


class Counts(Protocol):
    """Counters of the traffic in a network."""

    packet_count: int  # copies sent, including copies to the sender itself
    dropped_count: int
    wan_count: int  # copies sent to another LAN
    wan_bytes: int  # of these; 0 where sizes are not measured


class Simulation(ABC):
    """A run of one scenario."""

    network: Counts

    def __init__(self, scenario: Scenario, sink: Sink | None, run: int) -> None:
        self.scenario = scenario
        self.groups = scenario.groups_of_run()
        self.scheduler = Scheduler()
        self.site_ids = [SiteId(number) for number in range(len(scenario.topology.sites))]
        members: dict[int, Targets] = {group.id: group.processes for group in self.groups}
        couriers = frozenset(scenario.couriers())
        composed = scenario.composition is not None
        plain = scenario.network.kind == "delays"
        self.summary: RunSummary = RunSummary(members, composed) if plain else DelaySummary(members)
        self.sink = sink if scenario.trace != "none" else None
        self.logs = [SiteLog(site, self.sink, self.summary, run, couriers) for site in self.site_ids]
        self.meter: Meter | None = None
        self.participant_events: list[ParticipantEvent] = []  # messages, views, deliveries; in order of time
        self.end_ns = round(scenario.duration_ms * NS_PER_MS)

    @abstractmethod
    def steps(self) -> Iterator[int]:
        """Run to the end with stops in between; yield the virtual time in ns at each."""

    @abstractmethod
    def figures(self) -> dict[str, float]:
        """Return the measurements specific to a network, by name."""

    @abstractmethod
    def last_view(self) -> int:
        """Return the number of the last view of the first group."""

    def execute(self, progress: Progress | None = None) -> RunSummary:
        """Run to the end."""
        for now_ns in self.steps():
            if progress is not None:
                progress(now_ns)
        return self.summary

    def record(self, how: Recording) -> None:
        """Record in the log of every site whether the trace is complete."""
        for log in self.logs:
            log.record(self.scheduler.now_ns, how)
