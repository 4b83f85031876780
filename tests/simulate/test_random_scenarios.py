"""Random scenarios keep every promise of their stack; a share here, all of them in `make test-full`.

A failure prints the seed, what broke, and the command that replays it.
"""

from __future__ import annotations

import pytest

from isthmus.sim.fuzz import random_scenario
from isthmus.sim.judge import judge
from isthmus.stacks import STACKS

CHUNK = 25
QUICK = range(0, 100, CHUNK)
FULL = range(100, 2000, CHUNK)


def broken(stack: str, first: int) -> list[str]:
    failures: list[str] = []
    for seed in range(first, first + CHUNK):
        found = judge(random_scenario(stack, seed)).failures()
        failures += [f"isthmus fuzz {stack} --seed {seed}: {failure}" for failure in found]
    return failures


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("first", QUICK)
def test_some_random_scenarios(stack: str, first: int) -> None:
    assert broken(stack, first) == []


@pytest.mark.full
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("first", FULL)
def test_all_random_scenarios(stack: str, first: int) -> None:
    assert broken(stack, first) == []
