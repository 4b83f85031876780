"""Random scenarios keep every promise of their stack; a share here, all of them in `make test-full`.

Half of them stagger the installation of views. A failure prints what broke and the command that replays it.
"""

from __future__ import annotations

import pytest

from isthmus.fuzz.judge import judge
from isthmus.fuzz.scenarios import hard_scenario, random_scenario, replay_command
from isthmus.stacks.registry import STACKS

CHUNK = 25
QUICK = range(0, 100, CHUNK)  # of each stack, half of them staggered
FULL = range(100, 1000, CHUNK)
HARD_QUICK = range(0, 25, CHUNK)
HARD_FULL = range(25, 500, CHUNK)


def broken(stack: str, first: int) -> list[str]:
    failures: list[str] = []
    for seed in range(first, first + CHUNK):
        found = judge(random_scenario(stack, seed)).failures()
        failures += [f"{replay_command(stack, seed)}: {failure}" for failure in found]
    return failures


def broken_hard(stack: str, first: int) -> list[str]:
    """Down to one survivor there may be nothing to judge an order by, so unknown is no failure; but some must tell."""
    failures: list[str] = []
    telling = 0
    for seed in range(first, first + CHUNK):
        judged = judge(hard_scenario(stack, seed))
        failures += [f"{replay_command(stack, seed, 'hard')}: {failure}" for failure in judged.violations()]
        telling += all(verdict.status == "valid" for verdict in judged.verdicts)
    return failures if telling >= CHUNK // 3 else [*failures, f"only {telling} of {CHUNK} runs could be judged"]


def test_half_of_the_scenarios_stagger_views_and_all_check_contents() -> None:
    made = [random_scenario(stack, seed) for stack in STACKS for seed in QUICK]
    staggered = sum(scenario.membership.stagger_ms > 0 for scenario in made)
    assert 0.3 < staggered / len(made) < 0.7
    assert {scenario.payloads for scenario in made} == {"varied"}


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("first", QUICK)
def test_some_random_scenarios(stack: str, first: int) -> None:
    assert broken(stack, first) == []


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("first", HARD_QUICK)
def test_some_hard_scenarios(stack: str, first: int) -> None:
    assert broken_hard(stack, first) == []


@pytest.mark.full
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("first", HARD_FULL)
def test_all_hard_scenarios(stack: str, first: int) -> None:
    assert broken_hard(stack, first) == []


@pytest.mark.full
@pytest.mark.parametrize("first", range(FULL.stop, 5000, CHUNK))
def test_thousands_of_changes_of_roles(first: int) -> None:
    """With the above, 5,000 plain scenarios and 500 hard ones for the protocol with the most states."""
    assert broken("dynamic-hybrid", first) == []


@pytest.mark.full
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("first", FULL)
def test_all_random_scenarios(stack: str, first: int) -> None:
    assert broken(stack, first) == []
