"""Every bug planted in the optimistic order shows up within the first few dozen random scenarios, and as what it is."""

from __future__ import annotations

import msgspec
import pytest
from tests.planted_optimistic import PLANTED, with_order

from isthmus.testing.judge import judge
from isthmus.testing.random_scenarios import random_scenario

SEEDS = range(100)
DRAIN_MS = 20_000.0  # a bug may keep a message away for ever; waiting longer would not tell more


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_is_found(bug: str) -> None:
    order, breaks = PLANTED[bug]
    for seed in SEEDS:
        scenario = msgspec.structs.replace(random_scenario("optimistic", seed), drain_ms=DRAIN_MS)
        judged = judge(scenario, with_order(order))
        if {verdict.property for verdict in judged.verdicts if verdict.status == "violated"} & {*breaks}:
            return
    pytest.fail(f"{bug}: {' or '.join(breaks)} not seen to break by seeds {SEEDS.start} to {SEEDS.stop - 1}")
