"""Participants over random simulated runs: what they are promised holds, and every wrong reading of the rules shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
import pytest
from tests.harness.participant_runs import ParticipantRun, agreed_participant_scenario, participant_scenario
from tests.planted.participants import FIFO, OPTIMISTIC, TOTAL, with_participants

from isthmus.core.layer import Finality
from isthmus.protocols.participants.marked import MarkedParticipants
from isthmus.protocols.participants.wire import ParticipantsOptions, Speech
from isthmus.scenario.model import Scenario
from isthmus.stacks.registry import STACKS

SEEDS, FULL, BLOCK = 150, 3_000, 50
STACKS_WITH = [name for name, stack in STACKS.items() if stack.participants]
MARKED = ["fifo", "causal-vector", "causal-matrix", "causal-history", "causal-separators", "flooding"]
PLANTED = [(stack, bug) for stack in ("fifo", "causal-history", "flooding") for bug in FIFO]
PLANTED += [("token-site", bug) for bug in TOTAL] + [("optimistic", bug) for bug in OPTIMISTIC]
BUGS = {"token-site": TOTAL, "optimistic": OPTIMISTIC}  # and FIFO
SEEN = [("fifo", "applied at delivery"), ("flooding", "applied at delivery"), ("token-site", "nothing is void")]
DRAIN_MS = 20_000.0  # a bug may keep something away for ever; waiting longer would not tell more


def check(stack: str, seed: int, make: Callable[[str, int], Scenario] = participant_scenario) -> None:
    run = ParticipantRun(make(stack, seed))
    found = run.judge() or run.judge_trace()
    assert not found, f"{make.__name__}({stack!r}, {seed}): {found}"


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
@pytest.mark.parametrize("stack", ["fifo", "token-site"])
def test_participants_keep_what_is_promised(stack: str, first: int) -> None:
    for seed in range(first, first + BLOCK):
        check(stack, seed)


@pytest.mark.parametrize("stack", [name for name in STACKS_WITH if name not in ("fifo", "token-site")])
def test_participants_run_over_every_other_order(stack: str) -> None:
    for seed in range(50 if stack in MARKED else 12):
        check(stack, seed)


@pytest.mark.parametrize("stack", [*MARKED, "token-site"])
def test_participants_keep_it_where_sites_agree_on_views(stack: str) -> None:
    for seed in range(15 if stack in ("fifo", "token-site") else 5):
        check(stack, seed, agreed_participant_scenario)


@pytest.mark.full
@pytest.mark.parametrize("first", range(15, 1_000, BLOCK))
@pytest.mark.parametrize("stack", ["fifo", "token-site"])
def test_participants_keep_it_where_sites_agree_on_views_over_many_schedules(stack: str, first: int) -> None:
    for seed in range(first, first + BLOCK):
        check(stack, seed, agreed_participant_scenario)


REGRESSIONS = {
    ("token-site", 51): "each life of a site began with the shortest time-outs: views changed for ever",
    ("token-site", 282): "a wrong suspicion came when the run was about to end",
    ("token-site", 86): "the site group restarted without state, so that participant views were numbered anew",
    ("token-site", 106): "the same",
    ("fifo", 71): "the same, over marks",
}


@pytest.mark.parametrize(("stack", "seed"), REGRESSIONS)
def test_regression(stack: str, seed: int) -> None:
    check(stack, seed, agreed_participant_scenario)


def test_guesses_reach_participants_and_void_ones_are_revoked() -> None:
    told: Counter[Finality] = Counter()
    for seed in range(20):
        run = ParticipantRun(participant_scenario("optimistic", seed))
        run.run.execute()
        told.update(event.what.finality for event in run.run.participant_events if isinstance(event.what, Speech))
    assert 0 < told[Finality.REVOKED] < told[Finality.TENTATIVE] < told[Finality.FINAL]


def test_a_change_after_a_lost_one_is_dropped() -> None:
    """A flush of an order without FIFO channels gave the second change of a dead leader; nobody had the first."""
    check("causal-vector", 1355)


@pytest.mark.full
@pytest.mark.parametrize("first", range(BLOCK, FULL, BLOCK))
@pytest.mark.parametrize("stack", [*MARKED, "token-site"])
def test_participants_keep_it_over_many_schedules(stack: str, first: int) -> None:
    for seed in range(first, min(first + BLOCK, FULL)):
        check(stack, seed)


@pytest.mark.parametrize(("stack", "bug"), PLANTED, ids=lambda one: str(one))
def test_wrong_reading_is_caught(stack: str, bug: str) -> None:
    """Found by a schedule that the right layer passes, under the same limits."""
    kind = BUGS.get(stack, FIFO)[bug]
    for seed in range(60):
        scenario = msgspec.structs.replace(participant_scenario(stack, seed), drain_ms=DRAIN_MS)
        if ParticipantRun(scenario, with_participants(stack, kind)).judge() and not ParticipantRun(scenario).judge():
            return
    pytest.fail(f"{bug} over {stack}: not caught by 60 schedules")


@pytest.mark.parametrize(("stack", "bug"), SEEN)
def test_the_trace_alone_shows_a_wrong_reading(stack: str, bug: str) -> None:
    """Participant groups are groups of the trace: the checks that know nothing of participants find the fault."""
    kind = BUGS.get(stack, FIFO)[bug]
    for seed in range(60):
        scenario = msgspec.structs.replace(participant_scenario(stack, seed), drain_ms=DRAIN_MS)
        run = ParticipantRun(scenario, with_participants(stack, kind))
        run.judge()
        if run.judge_trace():
            return
    pytest.fail(f"{bug} over {stack}: not seen in the traces of 60 schedules")


def tight(options: ParticipantsOptions) -> MarkedParticipants:
    return MarkedParticipants(msgspec.structs.replace(options, ahead_max=1))


@pytest.mark.parametrize("stack", ["fifo", "causal-history"])
def test_tight_bounds_hold_nobody_up(stack: str) -> None:
    """Two messages of credit and one ahead: changes of several groups wait for each other's marks, never for ever."""
    for seed in range(40):
        plain = participant_scenario(stack, seed)
        credit = msgspec.structs.replace(plain.stack.credit, window=2, queue_max=8)
        scenario = msgspec.structs.replace(plain, stack=msgspec.structs.replace(plain.stack, credit=credit))
        found = ParticipantRun(scenario, with_participants(stack, tight)).judge()
        assert not found, f"seed {seed}: {found}"
