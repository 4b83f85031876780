"""What happens from outside in a run without sites, in the order in which the scheduler would have it happen.

What is due at one time happens in the order in which it was scheduled. A source schedules its next message after it has
submitted one; the copy that a site sends to itself lies in between; a flow of the background goes on in the same way.
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
    """An entry of the heap: a message or packet of a source that then goes on, or a copy to oneself."""

    time_ns: int
    order: int  # of scheduling; no two are equal
    node: SiteId | None  # None: a packet of the background
    what: int | Roots  # bytes of a message; where a packet begins; the message that comes back
    rest: Iterator[tuple[int, int | Roots]] | None  # None: a copy to oneself


class Schedule:
    """Entries by time: what is submitted, what comes back to its sender, what loads the links."""

    __slots__ = ("crashes", "due", "end_ns", "heap", "messages", "numbers", "order", "senders", "what")

    def __init__(self, end_ns: int) -> None:
        self.end_ns = end_ns
        self.due: list[int] = []
        self.what: list[int] = []  # as twins.py reads it
        self.messages: list[Submission] = []
        self.senders: list[SiteId] = []  # ascending
        self.crashes: dict[SiteId, int] = {}  # when
        self.numbers: dict[SiteId, int] = {}  # of the last message of each sender
        self.heap: list[Due] = []
        self.order = count()

    def plan_next(self, node: SiteId | None, rest: Iterator[tuple[int, int | Roots]]) -> None:
        """Schedule what a source has next, if it has anything before the end."""
        entry = next(rest, None)
        if entry is not None and entry[0] < self.end_ns:
            heappush(self.heap, Due(entry[0], next(self.order), node, entry[1], rest))

    def fill(self, copies: bool) -> None:
        """Let everything happen; `copies`: a message also comes back to its sender, as an event of its own."""
        returned = []  # places of what comes back
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
    """The schedule of a scenario's workloads, faults and background."""
    made = Schedule(round(scenario.duration_ms * NS_PER_MS))
    made.crashes = crashes_of(scenario)
    for site, arrivals in arrivals_of(scenario, group.members):
        made.plan_next(site, arrivals)
    for flow in flows(scenario.network, ways, scenario.random, made.end_ns):
        made.plan_next(None, flow)
    made.fill(copies)
    return made


def arrivals_of(scenario: Scenario, members: Targets) -> list[tuple[SiteId, Iterator[Arrival]]]:
    """The sources of all sites, by site and then by workload, each with its own randomness."""
    found = []
    for index, workload in enumerate(scenario.workloads):
        senders = workload.senders(scenario.topology, members)
        for place, site in enumerate(senders):
            random = scenario.random("workload", index, site)
            found.append((site, index, workload.arrivals(random, place, len(senders))))
    return [(site, arrivals) for site, _, arrivals in sorted(found, key=lambda one: one[:2])]


def crashes_of(scenario: Scenario) -> dict[SiteId, int]:
    """When each site crashes that does."""
    found: dict[SiteId, int] = {}
    for fault in scenario.faults_of_run():
        assert isinstance(fault, Crash)
        found.setdefault(scenario.topology.site_id(fault.site), round(fault.at_ms * NS_PER_MS))
    return found
