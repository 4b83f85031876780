"""Runs assigned out to tasks: guesses that are about right, and loads that are about even."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.pipeline.sweep.balance import MOST_PER_CORE, TASK_DELIVERIES, assign_tasks, expected_cost, task_count
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Burst, OnOff, Periodic, Poisson, Recorded, Reply
from isthmus.sim.run import SimRun
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

CHANNEL = Channel(Constant(5.0))
TOPOLOGY = mesh(1, 5, CHANNEL, CHANNEL)
PAIR = tuple(site.name for site in TOPOLOGY.sites[:2])


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=60), st.integers(1, 60))
def test_every_task_has_runs_and_none_is_heavy_for_nothing(costs, tasks):
    tasks = min(tasks, len(costs))
    assigned = assign_tasks(costs, tasks)
    loads = Counter()
    for cost, task in zip(costs, assigned, strict=True):
        loads[task] += cost
    assert sorted(loads) == list(range(tasks))
    assert max(loads.values()) <= sum(costs) / tasks + max(costs)


def test_tasks_are_as_many_as_the_work_is_worth():
    assert task_count([1] * 3, cores=2) == 3  # no more than runs
    assert task_count([1] * 1000, cores=2) == 4  # little work: two a core
    assert task_count([TASK_DELIVERIES] * 10, cores=2) == 10
    assert task_count([TASK_DELIVERIES] * 1000, cores=2) == 2 * MOST_PER_CORE
    assert task_count([], cores=2) == 1
    assert assign_tasks([], 1) == []


@pytest.mark.parametrize(
    "workload",
    [
        Poisson(rate_per_s=40),
        Periodic(rate_per_s=100, sites=PAIR),
        Periodic(rate_per_s=100, to=2, start_ms=500, stop_ms=1500),
        Poisson(rate_per_s=500, count=40),
        Burst(period_ms=200, burst_count=12),
        OnOff(rate_per_s=200, on_ms=50, off_ms=50),
        Recorded(events=((0.1, 0, 10), (0.2, 1, 10), (0.3, 2, 10), (9.0, 3, 10))),
    ],
    ids=lambda workload: type(workload).__name__,
)
def test_the_guess_is_near_what_is_delivered(workload):
    scenario = Scenario(
        topology=TOPOLOGY,
        stack=StackSpec(name="fifo"),
        workloads=(workload, Reply(probability=0.0)),
        duration_ms=2_000,
    )
    delivered = SimRun(scenario).execute().delivered.count
    assert delivered / 2 < expected_cost(scenario) < 2 * delivered + 200
