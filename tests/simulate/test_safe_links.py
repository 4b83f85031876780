"""Members that come and go while messages flow: no order is broken and nothing is lost, and wrong readings show."""

from __future__ import annotations

import msgspec
import pytest
from tests.harness.safe_link_runs import (
    FOUNDERS,
    SITES,
    failures_of,
    grown_and_shrunk,
    ring_that_grows,
    ring_with_crashes,
    scenario_of,
)
from tests.planted.safe_links import PLANTED_SAFE_LINKS

from isthmus.core.layer import Kind
from isthmus.protocols.causal.flooding.safe_wire import DynamicOptions
from isthmus.scenario.faults import Crash, Fault, Leave, Recover
from isthmus.scenario.model import Scenario
from isthmus.sim.run import SimRun
from isthmus.trace.schema import DESTINATIONS, KIND, Row

QUICK = range(2)
FULL = range(2, 40)


@pytest.mark.parametrize("seed", QUICK)
def test_a_ring_with_links_that_come_and_go(seed: int) -> None:
    assert failures_of(ring_with_crashes(seed), seed, chords=True) == []


@pytest.mark.parametrize("seed", QUICK)
def test_a_cube_that_grows_and_shrinks(seed: int) -> None:
    assert failures_of(grown_and_shrunk(seed), seed) == []


@pytest.mark.full
@pytest.mark.parametrize("seed", FULL)
def test_all_rings_with_links_that_come_and_go(seed: int) -> None:
    assert failures_of(ring_with_crashes(seed), seed, chords=True) == []


@pytest.mark.full
@pytest.mark.parametrize("seed", FULL)
def test_all_cubes_that_grow_and_shrink(seed: int) -> None:
    assert failures_of(grown_and_shrunk(seed), seed) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_ring_that_grows(seed: int) -> None:
    assert failures_of(ring_that_grows(seed), seed) == []


@pytest.mark.parametrize("seed", range(2))
def test_founders_that_begin_at_different_times(seed: int) -> None:
    """What a founder heard before its first view was not sent on: lost in a ring, and overtaken by its answer."""
    scenario = ring_with_crashes(seed)
    membership = msgspec.structs.replace(scenario.membership, stagger_ms=300.0)
    brief = msgspec.structs.replace(scenario, duration_ms=1_500.0, faults=(), membership=membership)
    assert failures_of(brief, seed) == []


def test_the_cube_does_grow_and_shrink_while_messages_flow() -> None:
    """Otherwise the runs above would show little; and two runs of one seed are the same, row by row."""
    runs: list[list[Row]] = [[], []]
    for rows in runs:
        SimRun(grown_and_shrunk(0), rows).execute()
    assert runs[0] == runs[1]
    rows = runs[0]
    sizes = [len(row[DESTINATIONS] or ()) for row in rows if row[KIND] == Kind.VIEW]
    assert max(sizes) == SITES and sizes[0] == FOUNDERS and sizes[-1] <= FOUNDERS + 1
    at_most = max(place for place, row in enumerate(rows) if len(row[DESTINATIONS] or ()) == SITES)
    assert sum(row[KIND] == Kind.DELIVER for row in rows[at_most:]) > 1_000


def by_ping_alone(scenario: Scenario) -> Scenario:
    """The same without the way by vector, which would mend what is closed too early."""
    dynamic = DynamicOptions(retry_ms=150.0, ping_max=10**6)
    return msgspec.structs.replace(scenario, stack=msgspec.structs.replace(scenario.stack, dynamic=dynamic))


@pytest.mark.parametrize("bug", PLANTED_SAFE_LINKS)
def test_a_wrong_reading_is_found(bug: str) -> None:
    build = PLANTED_SAFE_LINKS[bug]
    for seed in range(5):
        for scenario, chords in ((ring_with_crashes(seed), True), (by_ping_alone(ring_that_grows(seed)), False)):
            brief = msgspec.structs.replace(scenario, drain_ms=20_000.0)
            if failures_of(brief, seed, build, chords) and not failures_of(brief, seed, None, chords):
                return
    pytest.fail(f"{bug} was not found")


def test_who_is_cut_off_by_crashes_is_sent_what_it_lacks() -> None:
    """All neighbours of one site crash at once: no PING can reach it, so its new neighbours ask for its vector."""
    faults: tuple[Fault, ...] = tuple(Crash(at_ms=2_000.0, site=f"c0-{site}") for site in (1, 2, 4, 8, 16, 32))
    assert failures_of(scenario_of(1, "hypercube", faults), 1) == []


def test_who_lacks_more_than_anybody_kept_begins_a_new_life() -> None:
    """The same with a log of a single message; nothing is dropped silently."""
    faults: tuple[Fault, ...] = tuple(Crash(at_ms=2_000.0, site=f"c0-{site}") for site in (1, 2, 4, 8, 16, 32))
    scenario = scenario_of(1, "hypercube", faults)
    dynamic = DynamicOptions(retry_ms=150.0, ping_max=1, log_max=1)
    scenario = msgspec.structs.replace(scenario, stack=msgspec.structs.replace(scenario.stack, dynamic=dynamic))
    rows: list[Row] = []
    SimRun(scenario, rows).execute()
    assert [row[KIND] for row in rows].count(Kind.RECOVER) >= 1
    assert failures_of(scenario, 1) == []


def test_a_full_buffer_is_replaced_by_the_vector() -> None:
    scenario = grown_and_shrunk(1)
    dynamic = DynamicOptions(retry_ms=150.0, buffer_max=1)
    scenario = msgspec.structs.replace(scenario, stack=msgspec.structs.replace(scenario.stack, dynamic=dynamic))
    assert failures_of(scenario, 1) == []


def test_all_but_one_may_go_and_others_come() -> None:
    faults: list[Fault] = [Leave(at_ms=200.0 + 10 * site, site=f"c0-{site}") for site in range(1, 8)]
    faults += [Recover(at_ms=4_000.0 + 10 * site, site=f"c0-{site}") for site in range(8, 12)]
    absent = tuple(f"c0-{site}" for site in range(8, SITES))
    assert failures_of(scenario_of(3, "hypercube", tuple(faults), absent), 3) == []
