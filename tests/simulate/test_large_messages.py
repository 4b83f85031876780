"""Messages of all sizes keep every promise of their stack, and every planted bug is found.

A failure prints what broke and the command that replays it.
"""

from __future__ import annotations

import pytest
from tests.planted.fragments import PLANTED, planted

from isthmus.core.layer import Kind
from isthmus.fuzz.judge import judge
from isthmus.fuzz.large import large_scenario
from isthmus.fuzz.scenarios import replay_command
from isthmus.fuzz.watch import Limits, WatchedRun
from isthmus.stacks.registry import STACKS
from isthmus.trace.schema import KIND, NUMBER, PAYLOAD, SENDER, Row

CHUNK = 10
QUICK = range(0, 20, CHUNK)  # of each stack
FULL = range(20, 400, CHUNK)
SEEDS = range(150)
LIMITS = Limits(packets=200_000, events=500_000)
CUTTING = [name for name, known in STACKS.items() if "fragments" in known.options]


def broken(stack: str, first: int) -> list[str]:
    failures: list[str] = []
    for seed in range(first, first + CHUNK):
        found = judge(large_scenario(stack, seed)).violations()
        failures += [f"{replay_command(stack, seed, 'large')}: {failure}" for failure in found]
    return failures


@pytest.mark.parametrize("stack", CUTTING)
@pytest.mark.parametrize("first", QUICK)
def test_some_scenarios_with_large_messages(stack: str, first: int) -> None:
    assert broken(stack, first) == []


@pytest.mark.full
@pytest.mark.parametrize("stack", CUTTING)
@pytest.mark.parametrize("first", FULL)
def test_all_scenarios_with_large_messages(stack: str, first: int) -> None:
    assert broken(stack, first) == []


def test_the_trace_tells_of_whole_messages() -> None:
    """Each number that is sent or delivered is that of a message, never of a piece alone."""
    scenario = large_scenario("token-site", 0)
    rows: list[Row] = []
    WatchedRun(scenario, rows).watch(Limits())
    submitted = {(row[SENDER], row[NUMBER]): row[PAYLOAD] for row in rows if row[KIND] == Kind.SUBMIT}
    delivered = {(row[SENDER], row[NUMBER]): row[PAYLOAD] for row in rows if row[KIND] == Kind.DELIVER}
    assert delivered and delivered.items() <= submitted.items()
    assert max(delivered.values()) > (scenario.stack.fragments.piece_bytes or 0)


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_is_found(bug: str) -> None:
    stack, kind = PLANTED[bug]
    for seed in SEEDS:
        scenario = large_scenario(stack, seed)
        found = judge(scenario, planted(kind, stack), limits=LIMITS).violations()
        if found and not judge(scenario, limits=LIMITS).violations():
            print(f"{bug}: seed {seed}: {found[0]}")
            return
    pytest.fail(f"{bug}: not found by seeds {SEEDS.start} to {SEEDS.stop - 1}")
