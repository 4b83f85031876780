"""External events of a run without sites, in the order in which the scheduler would execute them.

Events due at one time execute in the order in which they were scheduled. A source schedules its next message after it
has submitted one; the copy that a site sends to itself comes in between; a background flow continues in the same way.
Crashes are scheduled before everything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from isthmus.core.message import SiteId, Targets
from isthmus.core.units import NS_PER_MS
from isthmus.scenario.faults import Crash
from isthmus.scenario.model import GroupOfRun, Scenario
from isthmus.scenario.workload import Arrival
from isthmus.sim.packets.network import flows
from isthmus.sim.packets.ways import Roots, Ways


class Submission(NamedTuple):
    """A message to all."""

    due_ns: int
    node: SiteId
    number: int
    payload_bytes: int


class Due(NamedTuple):
    """A heap entry: a message or packet of a source, which then continues, or a copy to the sender itself."""

    time_ns: int
    order: int  # of scheduling; unique
    node: SiteId | None  # None: a background packet
    what: int | Roots  # bytes of a message; first step of a packet; or the message that returns
    rest: Iterator[tuple[int, int | Roots]] | None  # None: a copy to the sender itself


class Schedule:
    """Entries by time: submitted messages, copies to their senders, background packets."""

    __slots__ = ("crashes", "due", "end_ns", "heap", "messages", "numbers", "order", "senders", "what")

    def __init__(self, end_ns: int) -> None:
        self.end_ns = end_ns
        self.due: list[int] = []
        self.what: list[int] = []  # encoded as in twins.py
        self.messages: list[Submission] = []
        self.senders: list[SiteId] = []  # ascending
        self.crashes: dict[SiteId, int] = {}  # time of the crash
        self.numbers: dict[SiteId, int] = {}  # of the last message of each sender
        self.heap: list[Due] = []
        self.order = count()

    def plan_next(self, node: SiteId | None, rest: Iterator[tuple[int, int | Roots]]) -> None:
        """Schedule the next entry of a source, if it is before the end."""
        entry = next(rest, None)
        if entry is not None and entry[0] < self.end_ns:
            heappush(self.heap, Due(entry[0], next(self.order), node, entry[1], rest))

    def fill(self, copies: bool) -> None:
        """Execute all events; `copies`: a message also returns to its sender, as a separate event."""
        returned = []  # places of returned copies
        while self.heap:
            time_ns, _, node, what, rest = heappop(self.heap)
            self.due.append(time_ns)
            if rest is None:
                assert isinstance(what, int)
                returned.append(len(self.what))
                self.what.append(what)
                continue
            if isinstance(what, tuple):
                self.what.append(-1 - what[0])
            else:
                assert node is not None
                self.what.append(len(self.messages))
                self.numbers[node] = self.numbers.get(node, 0) + 1
                self.messages.append(Submission(time_ns, node, self.numbers[node], what))
                if copies:
                    heappush(self.heap, Due(time_ns, next(self.order), node, self.what[-1], None))
            self.plan_next(node, rest)
        for place in returned:
            self.what[place] += len(self.messages)
        self.senders = sorted(self.numbers)


def schedule_of(scenario: Scenario, group: GroupOfRun, ways: Ways, copies: bool) -> Schedule:
    """Return the schedule of a scenario's workloads, faults and background."""
    made = Schedule(round(scenario.duration_ms * NS_PER_MS))
    made.crashes = crashes_of(scenario)
    for site, arrivals in arrivals_of(scenario, group.members):
        made.plan_next(site, arrivals)
    for flow in flows(scenario.network, ways, scenario.random, made.end_ns):
        made.plan_next(None, flow)
    made.fill(copies)
    return made


def arrivals_of(scenario: Scenario, members: Targets) -> list[tuple[SiteId, Iterator[Arrival]]]:
    """Return the sources of all sites, by site and then by workload, each with its own randomness."""
    found = []
    for index, workload in enumerate(scenario.workloads):
        senders = workload.senders(scenario.topology, members)
        for place, site in enumerate(senders):
            random = scenario.random("workload", index, site)
            found.append((site, index, workload.arrivals(random, place, len(senders))))
    return [(site, arrivals) for site, _, arrivals in sorted(found, key=lambda one: one[:2])]


def crashes_of(scenario: Scenario) -> dict[SiteId, int]:
    """Return the crash time of each site that crashes."""
    found: dict[SiteId, int] = {}
    for fault in scenario.faults_of_run():
        assert isinstance(fault, Crash)
        found.setdefault(scenario.topology.site_id(fault.site), round(fault.at_ms * NS_PER_MS))
    return found
