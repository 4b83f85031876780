"""How the runs of a grid are balanced over tasks, so that all cores end at about the same time.

What each run costs is guessed by the deliveries its workloads ask for; the longest runs go first, each to the task that
has least so far; as many tasks are made as give each two seconds of work, within bounds. Only the balance depends on a
guess, never a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace
from itertools import islice
from random import Random

from isthmus.core.units import NS_PER_MS
from isthmus.scenario.model import Scenario
from isthmus.scenario.workload import Closed, Workload
from isthmus.sim.packets.twin import has_twin
from isthmus.stacks.registry import STACKS

LEAST_PER_CORE, MOST_PER_CORE = 2, 16  # tasks
TASK_DELIVERIES = 100_000  # two seconds of a core, beside which what a task costs is little
RUN_DELIVERIES = 100  # what making a run costs, in deliveries
TWIN_COST = {"": 1.0, "flooding": 0.5, "vector": 0.05}  # of a delivery at compiled end points
SAMPLE = 32  # arrivals by which the rate of a workload is guessed


def task_count(costs: Sequence[int], cores: int) -> int:
    """Return the number of tasks that the work is worth."""
    worth = sum(costs) // TASK_DELIVERIES
    return max(1, min(len(costs), max(LEAST_PER_CORE * cores, min(MOST_PER_CORE * cores, worth))))


def assign_tasks(costs: Sequence[int], tasks: int) -> list[int]:
    """Return the task of each run: the longest run first, to the task with the least cost so far."""
    assert 1 <= tasks <= max(1, len(costs))
    loads = [(0, task) for task in range(tasks)]
    heapify(loads)
    assigned = [0] * len(costs)
    for run in sorted(range(len(costs)), key=lambda run: (-costs[run], run)):
        load, assigned[run] = loads[0]
        heapreplace(loads, (load + max(1, costs[run]), assigned[run]))
    return assigned


def expected_cost(scenario: Scenario) -> int:
    """Estimate the deliveries of a run, without answers to deliveries."""
    end_ns = round(scenario.duration_ms * NS_PER_MS)
    deliveries = 0
    for workload in scenario.workloads:
        places = len(workload.senders(scenario.topology, scenario.members_of(workload.group)))
        members = scenario.members_of(workload.group)
        targets = len(workload.destinations(scenario.topology, members, Random(0))) or len(members)
        deliveries += expected_arrivals(workload, places, end_ns) * places * targets
    return RUN_DELIVERIES + round(deliveries * delivery_cost(scenario))


def delivery_cost(scenario: Scenario) -> float:
    """Return the cost of a delivery, relative to one of a run of layers."""
    twin = STACKS[scenario.stack.name].twin if has_twin(scenario.network) else ""
    return TWIN_COST[twin]


def expected_arrivals(workload: Workload, places: int, end_ns: int) -> int:
    """Estimate the messages of one sender before the end from its first few."""
    if isinstance(workload, Closed):
        return workload.rounds * workload.burst_count
    times = [time_ns for time_ns, _ in islice(workload.arrivals(Random(0), 0, places), SAMPLE)]
    within = [time_ns for time_ns in times if time_ns < end_ns]
    if len(within) < SAMPLE:
        return len(within)
    start_ns = workload.start_ms * NS_PER_MS
    stop_ns = end_ns if workload.stop_ms is None else min(end_ns, workload.stop_ms * NS_PER_MS)
    most = SAMPLE * (stop_ns - start_ns) / max(1, within[-1] - start_ns)
    return round(most if workload.count is None else min(most, workload.count))
