"""The random scenarios find what they are for: every planted bug shows up within a bounded number of seeds.

A scenario counts only if the stack without the bug passes it, under the same limits. For a bug that needs a rare thing
to happen, scenarios in which it cannot are passed over without a run.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from tests.planted.contract import PLANTED_CONTRACT
from tests.planted.flooding import PLANTED_FLOODING
from tests.planted.hybrid import PLANTED_HYBRID
from tests.planted.optimistic import PLANTED as PLANTED_OPTIMISTIC
from tests.planted.optimistic import with_order
from tests.planted.ring import PLANTED_RING
from tests.planted.transport import PLANTED

from isthmus.fuzz.judge import FuzzResult, judge
from isthmus.fuzz.scenarios import random_scenario
from isthmus.fuzz.watch import Limits
from isthmus.protocols.total.hybrid.hybrid import TICKETS_MAX
from isthmus.scenario.faults import Crash, Recover
from isthmus.scenario.model import Scenario
from isthmus.scenario.workload import Burst
from isthmus.stacks.registry import Build

SEEDS = range(300)
MANY = range(4_000)  # for rare things
DRAIN_MS = 20_000.0  # a bug may keep a message away for ever; waiting longer would not tell more
LIMITS = Limits(packets=200_000, events=500_000)
BUGS: dict[str, dict[str, tuple[str, Build]]] = {
    "": PLANTED,
    "contract: ": PLANTED_CONTRACT,
    "hybrid: ": PLANTED_HYBRID,
    "ring: ": PLANTED_RING,
    "flooding: ": PLANTED_FLOODING,
}


def floods(scenario: Scenario) -> bool:
    """Whether more is submitted at once than one packet of tickets orders."""
    return any(isinstance(load, Burst) and load.burst_count > TICKETS_MAX for load in scenario.workloads)


def leaves_the_late(scenario: Scenario) -> bool:
    """Whether views may change while the last words of the dead are on their way."""
    return (
        scenario.membership.hasty
        and scenario.membership.stagger_ms > 0
        and any(isinstance(fault, Crash | Recover) for fault in scenario.faults_of_run())
    )


def is_restless(scenario: Scenario) -> bool:
    """Whether roles change for no reason, again and again."""
    return scenario.stack.hybrid.rule == "restless"


RARE: dict[str, Callable[[Scenario], bool]] = {
    "hybrid: a promise beyond unsent tickets": floods,
    "hybrid: a change of sequencer ends with an own delivery only": is_restless,
    "contract: a frozen port that takes messages": leaves_the_late,
}
ALL_BUGS = {prefix + name: bug for prefix, bugs in BUGS.items() for name, bug in bugs.items()}


def attempt(stack: str, seed: int, build: Build | None) -> FuzzResult:
    scenario = msgspec.structs.replace(random_scenario(stack, seed), drain_ms=DRAIN_MS)
    return judge(scenario, build, limits=LIMITS)


@pytest.mark.parametrize("bug", ALL_BUGS)
def test_planted_bug_is_found(bug: str) -> None:
    stack, build = ALL_BUGS[bug]
    possible = RARE.get(bug)
    seeds = MANY if possible else SEEDS
    for seed in seeds:
        if possible is not None and not possible(random_scenario(stack, seed)):
            continue
        found = attempt(stack, seed, build).violations()
        if found and not attempt(stack, seed, None).violations():
            print(f"{bug}: seed {seed}: {found[0]}")
            return
    pytest.fail(f"{bug}: not found by seeds {seeds.start} to {seeds.stop - 1}")


@pytest.mark.parametrize("bug", PLANTED_OPTIMISTIC)
def test_bug_planted_in_the_optimistic_order_breaks_what_it_should(bug: str) -> None:
    order, breaks = PLANTED_OPTIMISTIC[bug]
    for seed in SEEDS:
        judged = attempt("optimistic", seed, with_order(order))
        if {verdict.property for verdict in judged.verdicts if verdict.status == "violated"} & {*breaks}:
            return
    pytest.fail(f"{bug}: {' or '.join(breaks)} not seen to break by seeds {SEEDS.start} to {SEEDS.stop - 1}")
