"""Random scenarios keep every promise of their stack; a share here, all of them in `make test-full`.

A failure prints the seed, what broke, and the command that replays it.
"""

from __future__ import annotations

import pytest

from isthmus.stacks import STACKS
from isthmus.testing.judge import judge
from isthmus.testing.random_scenarios import hard_scenario, random_scenario

CHUNK = 25
QUICK = range(0, 100, CHUNK)
FULL = range(100, 2000, CHUNK)


def broken(stack: str, first: int) -> list[str]:
    failures: list[str] = []
    for seed in range(first, first + CHUNK):
        found = judge(random_scenario(stack, seed)).failures()
        failures += [f"isthmus fuzz {stack} --seed {seed}: {failure}" for failure in found]
    return failures


def broken_hard(stack: str, first: int) -> list[str]:
    """Down to one survivor there may be nothing to judge an order by, so unknown is no failure; but some must tell."""
    failures: list[str] = []
    telling = 0
    for seed in range(first, first + CHUNK):
        judged = judge(hard_scenario(stack, seed))
        failures += [f"isthmus fuzz {stack} --seed {seed} --hard: {failure}" for failure in judged.violations()]
        telling += all(verdict.status == "valid" for verdict in judged.verdicts)
    return failures if telling >= CHUNK // 3 else [*failures, f"only {telling} of {CHUNK} runs could be judged"]


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("first", QUICK)
def test_some_random_scenarios(stack: str, first: int) -> None:
    assert broken(stack, first) == []


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("first", range(0, 50, CHUNK))
def test_some_hard_scenarios(stack: str, first: int) -> None:
    assert broken_hard(stack, first) == []


@pytest.mark.full
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("first", range(50, 1000, CHUNK))
def test_all_hard_scenarios(stack: str, first: int) -> None:
    assert broken_hard(stack, first) == []


@pytest.mark.full
@pytest.mark.parametrize("first", range(FULL.stop, 9000, CHUNK))
def test_ten_thousand_changes_of_roles(first: int) -> None:
    """With the above, 9,000 plain scenarios and 1,000 hard ones for the protocol with the most states."""
    assert broken("dynamic-hybrid", first) == []


@pytest.mark.full
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("first", FULL)
def test_all_random_scenarios(stack: str, first: int) -> None:
    assert broken(stack, first) == []
