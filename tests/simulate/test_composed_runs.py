"""The calculus against runs: real stacks and routers never break an order that a composition is guaranteed."""

from __future__ import annotations

from random import Random

import pytest
from tests.harness.composed_runs import ComposedRun, composed_scenario, run_composed
from tests.harness.random_compositions import random_composition

LIGHT, FULL, CHUNK = 60, 2_000, 250


def run_of(seed: int) -> ComposedRun:
    return run_composed(composed_scenario(random_composition(Random(f"composition/{seed}")), seed))


def check(seeds: range) -> None:
    runs = {seed: run_of(seed) for seed in seeds}
    broken = [f"run_of({seed}): {kept}" for seed, run in runs.items() for kept in run.kept if kept.fault]
    broken += [f"run_of({seed}): {fault}" for seed, run in runs.items() for fault in run.faults]
    assert broken == []
    for order in ("integrity", "fifo", "causal", "total"):
        kept = [one for run in runs.values() for one in run.kept if one.order == order]
        assert sum(one.evidence_count for one in kept) > 1_000, f"hardly any run shows {order}"


def test_no_guarantee_is_broken_by_real_stacks() -> None:
    check(range(LIGHT))


@pytest.mark.full
@pytest.mark.parametrize("start", range(0, FULL, CHUNK))
def test_no_guarantee_of_two_thousand_compositions_is_broken(start: int) -> None:
    check(range(30_000 + start, 30_000 + start + CHUNK))
