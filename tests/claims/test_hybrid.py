"""Total order by tickets against its papers: both ends in isolation, the nine scenarios, roles that follow the load.

The runs are those of the studies, by plain simulation; a few for every change, all of them in the full tests. Expected
figures and tolerances are the studies' own.
"""

from __future__ import annotations

from functools import cache

import pytest
from tests.harness.cells import Measured, measure

from isthmus.studies.dynamic_roles import changes as network_changes
from isthmus.studies.dynamic_roles import setup as dynamic_roles
from isthmus.studies.dynamic_roles.claims import LATENCY_MAX_MS, LINK
from isthmus.studies.dynamic_roles.transients import USUAL
from isthmus.studies.isolation import setup as isolation
from isthmus.studies.nine_scenarios import setup as nine_scenarios
from isthmus.studies.regret import setup as regret
from isthmus.studies.tickets import labels
from isthmus.studies.tickets.labels import NINE, PERIODIC, POISSON, SOURCES

WITHIN = 0.03


# In isolation: 30 processes, 10 messages a second each


@cache
def isolated(protocol: str, source: str, delay_ms: float) -> Measured:
    return measure(isolation.cell(protocol, source, delay_ms, 1, isolation.DURATION_MS["quick"]))


DELAYS_MS = [25.0, 100.0, *(pytest.param(delay, marks=pytest.mark.full) for delay in (50.0, 75.0, 200.0, 500.0))]


@pytest.mark.parametrize("delay_ms", DELAYS_MS)
def test_a_sequencer_takes_1_97_d_and_the_symmetric_protocol_d_and_98_ms(delay_ms: float) -> None:
    assert isolated(labels.TOKEN_SITE, PERIODIC, delay_ms).mean_ms() == pytest.approx(1.97 * delay_ms, rel=WITHIN)
    assert isolated(labels.SYMMETRIC, PERIODIC, delay_ms).mean_ms() - delay_ms == pytest.approx(98, rel=WITHIN)


def test_the_lines_cross_where_the_delay_is_the_period() -> None:
    """The symmetric protocol wins from 2 D = D + t on, here D = 100 ms."""
    gains = {}
    for delay_ms in (95.0, 106.0):
        token, plain = (isolated(name, PERIODIC, delay_ms).mean_ms() for name in (labels.TOKEN_SITE, labels.SYMMETRIC))
        gains[delay_ms] = token - plain
    assert gains[95.0] < 0 < gains[106.0]


@pytest.mark.parametrize("source", [PERIODIC, pytest.param(POISSON, marks=pytest.mark.full)])
def test_nulls_deliver_what_silence_holds_back(source: str) -> None:
    """After its last message a process says no more: without nulls every message that needed one more word is stuck."""
    plain, nulls = isolated(labels.SYMMETRIC, source, 100.0), isolated(labels.SYMMETRIC_NULLS, source, 100.0)
    assert plain.undelivered > 0
    assert nulls.undelivered == 0
    assert nulls.mean_ms() <= 100 + labels.NULL_MS


# The nine scenarios


@cache
def nine(protocol: str, source: str, load: str, seed: int = 101, span_ms: float = 3_000.0) -> Measured:
    return measure(nine_scenarios.cell(protocol, source, load, seed, span_ms))


def symmetric_ms(load: str, seeds: int = 12) -> float:
    """How long it takes depends on how slow senders' messages lie to each other: so over several seeds."""
    runs = [nine(labels.SYMMETRIC, PERIODIC, load, 101 + seed, 2_000.0) for seed in range(seeds)]
    return sum(run.mean_ms() for run in runs) / len(runs)


LOADS = [pytest.param(load, marks=[] if load in NINE[::3] else pytest.mark.full) for load in NINE]


@pytest.mark.parametrize("load", LOADS)
def test_the_hybrid_takes_545_to_557_ms_in_all_nine(load: str) -> None:
    found = nine(labels.HYBRID, PERIODIC, load).mean_ms()
    assert 545 * (1 - WITHIN) <= found <= 557 * (1 + WITHIN)


@pytest.mark.parametrize(("place", "expected"), [(1, 551), (8, 1073)])
def test_token_site_is_good_where_the_load_is_near_the_sequencer(place: int, expected: float) -> None:
    assert nine(labels.TOKEN_SITE, PERIODIC, NINE[place - 1]).mean_ms() == pytest.approx(expected, rel=WITHIN)


@pytest.mark.parametrize(("place", "expected", "seeds"), [(1, 1335, 12), (9, 548, 1)])
def test_the_symmetric_protocol_is_good_where_nobody_is_slow(place: int, expected: float, seeds: int) -> None:
    assert symmetric_ms(NINE[place - 1], seeds) == pytest.approx(expected, rel=WITHIN)


@pytest.mark.full
@pytest.mark.parametrize("load", NINE)
def test_the_hybrid_is_as_fast_as_the_better_of_the_two(load: str) -> None:
    others = nine(labels.TOKEN_SITE, PERIODIC, load).mean_ms(), symmetric_ms(load)
    assert nine(labels.HYBRID, PERIODIC, load).mean_ms() <= min(others) * (1 + WITHIN)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("load", LOADS)
def test_with_nulls_the_hybrid_leaves_nothing_and_is_no_slower(load: str, source: str) -> None:
    plain, nulls = (nine(name, source, load) for name in (labels.HYBRID, labels.HYBRID_NULLS))
    assert nulls.undelivered == 0
    assert nulls.mean_ms() <= plain.mean_ms() * 1.005


# Roles that follow the load

PHASE_MS = dynamic_roles.PHASE_MS["full"]
MOVE = ("LLLHH", "HHHHH")  # the hardest of the nine changes: three become active, all far from any sequencer


@cache
def changing(protocol: str, source: str, seed: int, loads: tuple[str, ...]) -> Measured:
    return measure(dynamic_roles.cell(protocol, source, seed, PHASE_MS, loads))


def phases(measured: Measured, count: int) -> list[float]:
    length = PHASE_MS
    return [measured.mean_ms(place * length, (place + 1) * length) for place in range(count)]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 9))])
def test_the_hardest_change_of_roles_keeps_within_620_ms(source: str, seed: int) -> None:
    found = changing(labels.DYNAMIC, source, seed, MOVE)
    assert found.undelivered == 0
    assert phases(found, 2)[1] <= LATENCY_MAX_MS


@pytest.mark.full
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("seed", range(1, 6))
def test_all_phases_keep_within_620_ms(source: str, seed: int) -> None:
    """Seed 1 of Poisson once took 629 ms in the last phase, for two reasons.

    The gap across the change of load was a sample of the new rate, so that a right request to become active looked
    wrong where it was delivered, and was made again; and a long gap by chance made a busy process passive.
    """
    found = changing(labels.DYNAMIC, source, seed, NINE)
    assert found.undelivered == 0
    assert max(phases(found, 9)) <= LATENCY_MAX_MS


@pytest.mark.full
def test_with_poisson_sources_the_papers_rule_loses_to_a_sequencer() -> None:
    """The paper says it out-performs both others. Means of seven low samples are too low, and roles flicker."""
    names = (labels.DYNAMIC_PAPER, labels.TOKEN_SITE, labels.DYNAMIC)
    paper, token, ours = (changing(name, POISSON, 1, NINE) for name in names)
    lost = [mine > theirs for mine, theirs in zip(phases(paper, 9), phases(token, 9), strict=True)]
    assert any(lost)
    assert paper.undelivered > 0
    assert paper.role_changes > ours.role_changes


# Roles that follow the network


@pytest.mark.parametrize(
    ("seed", "phase_ms"),
    [(1, 9_300.0), *(pytest.param(n, 9_000.0 + 270 * n, marks=pytest.mark.full) for n in range(2, 9))],
)
def test_a_link_that_fails_and_is_mended_is_got_over_in_four_seconds(seed: int, phase_ms: float) -> None:
    """Whenever it fails between two probes: at most 2 s until the next one, and two for two round trips and a plan."""
    (part,) = (part for part in network_changes.parts() if part.name == LINK)
    mine = labels.DYNAMIC
    found = measure(network_changes.cell(part, mine, dynamic_roles.PROTOCOLS[mine], POISSON, seed, phase_ms))
    assert found.undelivered == 0
    for changed_ms in (phase_ms, 2 * phase_ms):
        over, usual = changed_ms + 4_000, changed_ms + phase_ms - 3_000
        assert found.mean_ms(over, over + 2_000) <= USUAL * found.mean_ms(usual, usual + 3_000)


# Regret


@pytest.mark.parametrize("place", [0, 4, pytest.param(7, marks=pytest.mark.full)])
def test_no_fixed_assignment_of_the_study_is_much_better_than_the_planned_one(place: int) -> None:
    instance = list(regret.instances("quick"))[place]
    runs = [(cell.parameters["choice"], measure(cell)) for cell in regret.cells_of(instance, 1, "quick")]
    fixed = [found.mean_ms() for choice, found in runs if choice == regret.FIXED]
    (planned,) = (found for choice, found in runs if choice == labels.PLANNED)
    assert planned.mean_ms() <= 1.02 * min(fixed)
    assert planned.undelivered == 0
