"""The random scenarios find every wrong reading of the hybrid protocol."""

from __future__ import annotations

import msgspec
import pytest
from tests.planted_hybrid import PLANTED_HYBRID

from isthmus.testing.judge import judge
from isthmus.testing.random_scenarios import random_scenario

SEEDS = range(300)
DRAIN_MS = 20_000.0  # a bug may keep a message away for ever; waiting longer would not tell more


@pytest.mark.parametrize("bug", PLANTED_HYBRID)
def test_planted_bug_is_found(bug: str) -> None:
    stack, build = PLANTED_HYBRID[bug]
    for seed in SEEDS:
        judged = judge(msgspec.structs.replace(random_scenario(stack, seed), drain_ms=DRAIN_MS), build)
        if judged.violations():
            print(bug, seed, judged.violations())
            return
    pytest.fail(f"{bug}: not found by seeds {SEEDS.start} to {SEEDS.stop - 1}")
