"""Optimistic order under what its delay rules depend on: clocks, sizes, joins, silence, a new sequencer; 5,000 seeds.

Guesses may be wrong for a while; the order may not. Figures are of whole runs, a few seconds of virtual time each.
"""

from __future__ import annotations

import msgspec
import pytest
from tests.harness.optimism import optimism

from isthmus.core.layer import Kind
from isthmus.core.message import ONLY_GROUP
from isthmus.fuzz.judge import judge
from isthmus.fuzz.scenarios import random_scenario
from isthmus.judge.oracle import Oracle
from isthmus.protocols.total.optimistic.compensation import DELAY_RULES, PolicyName
from isthmus.protocols.total.optimistic.optimistic import Optimistic
from isthmus.scenario.faults import ClockJump, Crash, Fault, Heal, Partition, Recover
from isthmus.scenario.membership import Membership
from isthmus.scenario.model import Clocks, Scenario
from isthmus.scenario.workload import Poisson
from isthmus.sim.run import SimRun
from isthmus.stacks.registry import STACKS
from isthmus.studies.optimistic.setup import DISTANT, NEAR, SEQUENCER, narrow_scenario, paper_scenario
from isthmus.trace.schema import KIND, PROCESS, TIME_NS, Row

S = 1_000_000_000
LEARNING: list[PolicyName] = ["compensation", "open-loop", "stamped"]
CHUNK = 50


def scenario(policy: PolicyName, *faults: Fault, seed: int = 1, **more) -> Scenario:
    """The paper's network at sigma 3 %, with the stack that keeps each sender's order."""
    made = paper_scenario(0.03, 100.0, policy, seed, duration_ms=more.pop("duration_ms", 20_000))
    transport = more.pop("transport", made.stack.transport)
    stack = msgspec.structs.replace(made.stack, name="optimistic", transport=transport)
    return msgspec.structs.replace(made, stack=stack, faults=faults, **more)


def run(made: Scenario) -> list[Row]:
    rows: list[Row] = []
    SimRun(made, rows).execute()
    assert {v.status for v in Oracle(rows).verdicts(STACKS["optimistic"].properties)} == {"valid"}
    return rows


def hit(rows: list[Row], site: int, start_s: float, end_s: float = 1e9) -> float:
    """The share of right guesses at a site, of messages submitted from a time on and final before another."""
    kept = [row for row in rows if row[KIND] == Kind.SUBMIT or row[TIME_NS] < end_s * S]
    return optimism(kept, round(start_s * S))[site].hit


@pytest.mark.parametrize("policy", LEARNING)
def test_clocks_that_drift_and_differ_cost_little(policy: PolicyName) -> None:
    right = run(scenario(policy))
    wrong = run(scenario(policy, clocks=Clocks(offset_ms=5_000, drift_ppm=100)))
    for site in (NEAR, DISTANT):
        assert hit(wrong, site, 10) > hit(right, site, 10) - 0.03


JUMPS: list[tuple[PolicyName, float]] = [
    ("stamped", -5_000.0),
    ("stamped", 200.0),
    ("open-loop", 5_000.0),
    ("compensation", -5_000.0),
    ("compensation", 200.0),
]


@pytest.mark.parametrize(("policy", "by_ms"), JUMPS)
def test_a_clock_that_jumps_breaks_no_order_and_guesses_recover(policy: PolicyName, by_ms: float) -> None:
    """A second jump, the sequencer's, strikes when estimates have just begun anew: a mean of both once stayed wrong."""
    jumps = [ClockJump(at_ms=8_000, site=f"c{cluster}-1", by_ms=by_ms) for cluster in (0, 1)]
    rows = run(scenario(policy, *jumps, ClockJump(at_ms=8_500, site="c0-0", by_ms=-by_ms)))
    assert hit(rows, 6, 14) > 0.75, "the site whose own clock jumped"
    assert hit(rows, DISTANT, 14) > 0.75, "a site that hears from them"


def test_guesses_are_revoked_where_others_went_on_without_a_site() -> None:
    """It is cut off, and guesses the places of its own messages, which nobody orders; then it begins a new life."""
    cut = [Partition(at_ms=4_000, groups=(("c1-4",),)), Heal(at_ms=7_000)]
    agreed = Membership(kind="agreed")
    made = scenario("stamped", *cut, duration_ms=10_000, membership=agreed, transport="reliable")
    rows = run(made)
    revoked = [row for row in rows if row[KIND] == Kind.REVOKE]
    ends_ns = [row[TIME_NS] for row in rows if row[KIND] == Kind.CRASH]
    assert revoked and {row[TIME_NS] for row in revoked} <= set(ends_ns)
    assert {row[PROCESS] for row in revoked} == {9}


@pytest.mark.parametrize("policy", DELAY_RULES)
def test_the_next_sequencer_takes_over_without_loss_and_guesses_recover(policy: PolicyName) -> None:
    rows = run(scenario(policy, Crash(at_ms=6_000, site="c0-0")))
    alive = [row for row in rows if row[PROCESS] != SEQUENCER]
    assert hit(alive, DISTANT, 14) > (0.75 if policy != "none" else 0.0)


@pytest.mark.parametrize("policy", LEARNING)
def test_a_late_joiner_guesses_well_within_seconds_and_disturbs_nobody(policy: PolicyName) -> None:
    """It joins after about 10.5 s; from zero, the paper's rule would take some 60 messages of each sender: 6 s."""
    faults = (Crash(at_ms=5_000, site="c1-1"), Recover(at_ms=10_000, site="c1-1"))
    rows = run(scenario(policy, *faults, duration_ms=20_000))
    assert hit(rows, 6, 13, 16) > 0.7, "the joiner"
    assert hit(rows, DISTANT, 13, 16) > 0.7, "one that stayed"


@pytest.mark.parametrize("policy", LEARNING)
def test_who_falls_silent_asks_for_nothing_in_the_end(policy: PolicyName) -> None:
    """The distant cluster stops at 5 s. Its wishes held back the sequencer's messages; those are void 10 s later."""
    made = scenario(policy)
    near = Poisson(rate_per_s=10, sites=("c0",))
    distant = Poisson(rate_per_s=10, sites=("c1",), stop_ms=5_000)
    started = SimRun(msgspec.structs.replace(made, workloads=(near, distant)))
    started.execute()
    requests = started.sites[SEQUENCER].ports[ONLY_GROUP].stack.find(Optimistic).requests
    assert set(requests.asked) <= {0, 1, 2, 3, 4}, "what the distant ones asked for is gone"


def test_a_crashed_sites_wish_goes_with_it() -> None:
    faults = [Crash(at_ms=5_000, site=f"c1-{place}") for place in range(4)]
    started = SimRun(scenario("compensation", *faults, duration_ms=8_000))
    started.execute()
    assert set(started.sites[SEQUENCER].ports[ONLY_GROUP].stack.find(Optimistic).requests.asked) <= {0, 1, 2, 3, 4, 9}


@pytest.mark.full
@pytest.mark.parametrize("policy", LEARNING)
def test_allowing_for_sizes_leaves_fewer_wrong_guesses(policy: PolicyName) -> None:
    misses = {}
    for sizes in (False, True):
        rows = run(narrow_scenario(policy, sizes, seed=1, duration_ms=60_000))
        found = optimism(rows, 10 * S)
        misses[sizes] = sum(1 - found[site].hit for site in range(1, 10))
    assert misses[True] < misses[False]


@pytest.mark.full
@pytest.mark.parametrize("first", range(2000, 5000, CHUNK))  # those below 2000 are tried with every other stack's
def test_the_rest_of_five_thousand_random_scenarios(first: int) -> None:
    failures: list[str] = []
    for seed in range(first, first + CHUNK):
        found = judge(random_scenario("optimistic", seed)).failures()
        failures += [f"isthmus fuzz optimistic --seed {seed}: {failure}" for failure in found]
    assert failures == []
