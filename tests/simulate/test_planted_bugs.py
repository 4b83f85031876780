"""The random scenarios find what they are for: every planted bug shows up within the first few dozen seeds."""

from __future__ import annotations

import msgspec
import pytest
from tests.planted import PLANTED

from isthmus.testing.judge import judge
from isthmus.testing.random_scenarios import random_scenario
from isthmus.trace.oracle import Verdict

SEEDS = range(100)
DRAIN_MS = 20_000.0  # a bug may keep a message away for ever; waiting longer would not tell more


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_is_found(bug: str) -> None:
    stack, build = PLANTED[bug]
    for seed in SEEDS:
        scenario = msgspec.structs.replace(random_scenario(stack, seed), drain_ms=DRAIN_MS)
        judged = judge(scenario, build)
        if judged.error or any(is_violation(verdict) for verdict in judged.verdicts):
            return
    pytest.fail(f"{bug}: not found by seeds {SEEDS.start} to {SEEDS.stop - 1}")


def is_violation(verdict: Verdict) -> bool:
    return verdict.status == "violated" and verdict.witness != ""
