"""Members that agree on views keep every promise of their stack, and come to rest once faults end.

A failure prints what broke and the command that replays it.
"""

from __future__ import annotations

import pytest

from isthmus.stacks import STACKS
from isthmus.testing.agreed_scenarios import agreed_scenario
from isthmus.testing.judge import judge
from isthmus.testing.random_scenarios import replay_command

AGREEING = [name for name, stack in STACKS.items() if stack.agrees]

REGRESSIONS = {
    ("hybrid", 5): "a frame held ahead of a gap followed on one of the cut, was not in it, and was handed up with it",
    ("hybrid", 77): "the one holder of a frame was asked once, and by an unlucky rhythm of turns never again",
}
CHUNK = 25
QUICK = range(0, 25, CHUNK)  # of each stack
FULL = range(25, 2500, CHUNK)


def broken(stack: str, first: int) -> list[str]:
    failures: list[str] = []
    telling = 0
    for seed in range(first, first + CHUNK):
        judged = judge(agreed_scenario(stack, seed))
        failures += [f"{replay_command(stack, seed, 'agreed')}: {failure}" for failure in judged.violations()]
        telling += all(verdict.status == "valid" for verdict in judged.verdicts)
    return failures if telling >= CHUNK // 3 else [*failures, f"only {telling} of {CHUNK} runs could be judged"]


@pytest.mark.parametrize("stack", AGREEING)
@pytest.mark.parametrize("first", QUICK)
def test_some_agreed_scenarios(stack: str, first: int) -> None:
    assert broken(stack, first) == []


@pytest.mark.full
@pytest.mark.parametrize("stack", AGREEING)
@pytest.mark.parametrize("first", FULL)
def test_all_agreed_scenarios(stack: str, first: int) -> None:
    assert broken(stack, first) == []


@pytest.mark.parametrize(("stack", "seed"), REGRESSIONS)
def test_regression(stack: str, seed: int) -> None:
    assert judge(agreed_scenario(stack, seed)).violations() == [], REGRESSIONS[stack, seed]
