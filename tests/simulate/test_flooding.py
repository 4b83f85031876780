"""Flooding in the simulator: what a broadcast costs, crashes, views, determinism."""

from __future__ import annotations

from collections import Counter

import pytest

from isthmus.core.layer import Kind
from isthmus.fuzz.judge import judge
from isthmus.scenario.faults import Crash, Fault, Recover
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.overlay import OverlaySpec
from isthmus.scenario.workload import Poisson
from isthmus.sim.run import SimRun
from isthmus.topology.delay import Constant, Uniform
from isthmus.topology.model import Channel
from isthmus.topology.overlay.measures import flooding_sends, link_count
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import KIND, NUMBER, SENDER, VALUE, Row


def scenario_of(
    count: int,
    kind: str = "hypercube",
    transport: str = "direct",
    trace: str = "events",
    faults: tuple[Fault, ...] = (),
    loss: float = 0.0,
    ids: str = "numbers",
) -> Scenario:
    lan = Channel(Uniform(1.0, 20.0), loss=loss, fifo=transport == "direct")
    return Scenario(
        topology=mesh(1, count, lan, Channel(Constant(1.0))),
        stack=StackSpec(
            name="flooding",
            transport=transport,  # type: ignore[arg-type]
            overlay=OverlaySpec(kind=kind, ids=ids),  # type: ignore[arg-type]
        ),
        workloads=(Poisson(rate_per_s=20.0, payload_bytes=10),),
        duration_ms=300.0,
        drain_ms=60_000.0,
        faults=faults,
        membership=Membership(detection_ms=20.0),
        trace=trace,  # type: ignore[arg-type]
        payloads="varied",
    )


@pytest.mark.parametrize("kind", ["hypercube", "incomplete", "ring", "clique", "random"])
@pytest.mark.parametrize("count", [2, 3, 5, 8, 12, 17])
def test_a_broadcast_costs_exactly_two_sends_per_link_but_one_per_receiver(kind: str, count: int) -> None:
    scenario = scenario_of(count, kind, trace="wire")
    rows: list[Row] = []
    SimRun(scenario, rows).execute()
    sends: Counter[tuple[int, int]] = Counter()
    for row in rows:
        if row[KIND] == Kind.SEND and row[SENDER] >= 0 and row[NUMBER] > 0:
            sends[row[SENDER], row[NUMBER]] += row[VALUE]
    submitted = [(row[SENDER], row[NUMBER]) for row in rows if row[KIND] == Kind.SUBMIT]
    links = link_count(scenario.stack.overlay.plain().adjacency(count))
    assert submitted and all(sends[key] == flooding_sends(count, links) for key in submitted)
    assert len(sends) == len(submitted)


@pytest.mark.parametrize("transport", ["direct", "reliable"])
def test_crashes_up_to_the_connectivity_leave_it_delivering(transport: str) -> None:
    """A cube of 16 has connectivity 4: three crashes at once, of which two come back."""
    faults: tuple[Fault, ...] = tuple(Crash(at_ms=100.0, site=f"c0-{site}") for site in (1, 2, 4))
    faults += (Recover(at_ms=200.0, site="c0-1"), Recover(at_ms=210.0, site="c0-4"))
    loss = 0.2 if transport == "reliable" else 0.0
    judged = judge(scenario_of(16, transport=transport, faults=faults, loss=loss))
    assert judged.failures() == []


def test_ids_by_topology_keep_the_order_too() -> None:
    assert judge(scenario_of(11, transport="reliable", loss=0.1, ids="topology")).failures() == []


def test_the_same_scenario_gives_the_same_rows() -> None:
    scenario = scenario_of(9, "random", transport="reliable", trace="wire", loss=0.2)
    runs: list[list[Row]] = [[], []]
    for rows in runs:
        SimRun(scenario, rows).execute()
    assert runs[0] == runs[1]
