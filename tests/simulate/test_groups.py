"""Two groups with different stacks at the same sites, and a courier between them, in random scenarios.

Each group is judged by what its own stack promises, messages that were carried into it included: to the group, they are
the courier's. Together: what is delivered anywhere was submitted by its author in the group it is said to be of.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.bridged import bridged_scenario, judge_bridged, key_of
from tests.harness.courier import BridgedRun, Courier, ForgedRun

from isthmus.core.layer import Kind
from isthmus.core.message import Carried, SiteId
from isthmus.fuzz.judge import judge
from isthmus.fuzz.watch import Limits
from isthmus.stacks.registry import STACKS
from isthmus.trace.schema import GROUP, KIND, ORIGIN, PROCESS, VALUE, Row

CHUNK = 5
NAMES = [name for name, known in STACKS.items() if not known.steady]
PAIRS = [(first, NAMES[(place + 1 + place % 3) % len(NAMES)]) for place, first in enumerate(NAMES)]
ALL_PAIRS = [(first, second) for first in NAMES for second in NAMES]


def of_the_first_group(seed: int, first: str, second: str) -> list[str]:
    found = judge(bridged_scenario(first, second, seed)).violations()
    return [f"bridged_scenario({first!r}, {second!r}, {seed}): {sentence}" for sentence in found]


@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("start", range(0, 10, CHUNK))
def test_two_groups_do_not_disturb_each_other(first: str, second: str, start: int) -> None:
    assert [bad for seed in range(start, start + CHUNK) for bad in of_the_first_group(seed, first, second)] == []


@pytest.mark.full
@pytest.mark.parametrize(("first", "second"), ALL_PAIRS)
@pytest.mark.parametrize("start", range(10, 50, CHUNK))
def test_two_groups_do_not_disturb_each_other_in_more_runs(first: str, second: str, start: int) -> None:
    assert [bad for seed in range(start, start + CHUNK) for bad in of_the_first_group(seed, first, second)] == []


def carried_in(rows: list[Row]) -> int:
    """How many deliveries were of messages from another group."""
    return sum(row[KIND] == Kind.DELIVER and row[ORIGIN] != row[GROUP] for row in rows)


def bridged(first: str, second: str, seed: int) -> tuple[list[str], int]:
    rows: list[Row] = []
    judged = judge_bridged(BridgedRun(bridged_scenario(first, second, seed), rows), rows)
    found = [f"BridgedRun(bridged_scenario({first!r}, {second!r}, {seed})): {bad}" for bad in judged.violations()]
    return found, carried_in(rows)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_what_a_courier_carries_keeps_its_author_and_every_promise(first: str, second: str) -> None:
    runs = [bridged(first, second, seed) for seed in range(100, 108)]
    assert [bad for found, _ in runs for bad in found] == []
    assert sum(carried for _, carried in runs) > 100


@pytest.mark.full
@pytest.mark.parametrize(("first", "second"), ALL_PAIRS)
@pytest.mark.parametrize("start", range(200, 230, CHUNK))
def test_what_a_courier_carries_in_more_runs(first: str, second: str, start: int) -> None:
    assert [bad for seed in range(start, start + CHUNK) for bad in bridged(first, second, seed)[0]] == []


def forgeries(first: str, second: str, seed: int, run_type: type[ForgedRun] = ForgedRun) -> tuple[int, int, int]:
    """Messages forged, packets of the forger that were refused, and forgeries that others delivered."""
    rows: list[Row] = []
    run = run_type(bridged_scenario(first, second, seed), rows)
    run.watch(Limits(packets=50_000, events=200_000))  # its own stream may end there, so it need not come to rest
    refused = [row for row in rows if row[KIND] == Kind.REJECT and row[VALUE] == run.forger]
    others = [row for row in rows if row[PROCESS] != run.forger]
    delivered = [row for row in others if row[KIND] == Kind.DELIVER and key_of(row) in run.forged]
    return len(run.forged), len(refused), len(delivered)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_forged_author_is_refused_and_never_delivered(first: str, second: str) -> None:
    tried = [forgeries(first, second, seed) for seed in range(8)]
    assert sum(refused for _, refused, _ in tried) >= 6
    assert sum(delivered for _, _, delivered in tried) == 0


class Credulous(Courier):
    """Does not check who carries a message, nor whose it is."""

    __slots__ = ()

    def accepts_author(self, courier: SiteId, carried: Carried[Any]) -> bool:
        return carried.author is not None


class CredulousRun(ForgedRun):
    """A run in which an author is not checked."""

    courier_type = Credulous


def test_an_author_that_is_not_checked_is_found() -> None:
    assert any(forgeries(first, second, seed, CredulousRun)[2] for first, second in PAIRS for seed in range(2))
