"""Faults as data: names are checked, and what is drawn follows the rules that scenario.md gives."""

from __future__ import annotations

from random import Random

import pytest

from isthmus.core.validation import BadValue
from isthmus.scenario.faults import (
    ClockJump,
    Crash,
    DelayShift,
    Fault,
    Heal,
    Loss,
    Partition,
    RandomFaults,
    Recover,
)
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

TOPOLOGY = mesh(3, 2, Channel(Constant(1)), Channel(Constant(10)))
DURATION_MS = 4000.0
MANY = RandomFaults(crashes=9, recover=0.5, partitions=3, losses=2, delay_shifts=2, clock_jumps=2)
SEEDS = range(50)


def drawn(seed: int, faults: RandomFaults = MANY) -> list[Fault]:
    return faults.draw(TOPOLOGY, Random(seed), DURATION_MS)


def test_the_seed_decides_what_is_drawn() -> None:
    assert drawn(1) == drawn(1) != drawn(2)
    assert drawn(1, RandomFaults()) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_faults_lie_within_the_duration_in_order_and_name_sites(seed: int) -> None:
    faults = drawn(seed)
    starts = [fault.at_ms for fault in faults]
    assert starts == sorted(starts) and starts[0] >= 0 and starts[-1] <= DURATION_MS
    assert all(fault.until_ms <= DURATION_MS for fault in faults if isinstance(fault, Loss | DelayShift))
    for fault in faults:
        fault.check_names(TOPOLOGY)
    counts = {kind: sum(isinstance(fault, kind) for fault in faults) for kind in (Loss, DelayShift, ClockJump)}
    assert set(counts.values()) == {2}
    assert all(fault.probability <= 0.3 for fault in faults if isinstance(fault, Loss))
    assert all(1 <= fault.factor <= 5 for fault in faults if isinstance(fault, DelayShift))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_majority_stays_up_and_who_comes_back_was_down(seed: int) -> None:
    faults = drawn(seed)
    crashed = [fault.site for fault in faults if isinstance(fault, Crash)]
    assert len(crashed) == len(set(crashed)) == 2  # of six, whatever was asked for
    for fault in faults:
        if isinstance(fault, Recover):
            assert any(isinstance(f, Crash) and f.site == fault.site and f.at_ms < fault.at_ms for f in faults)


@pytest.mark.parametrize("seed", SEEDS)
def test_partitions_follow_each_other_and_each_heals(seed: int) -> None:
    turns = [type(fault) for fault in drawn(seed) if isinstance(fault, Partition | Heal)]
    assert turns == [Partition, Heal] * 3
    for fault in drawn(seed):
        if isinstance(fault, Partition):
            assert 1 <= len(fault.groups[0]) < len(TOPOLOGY.sites), "somebody is on the other side"


def test_the_share_that_comes_back() -> None:
    def back(share: float) -> int:
        faults = [f for seed in SEEDS for f in drawn(seed, RandomFaults(crashes=2, recover=share))]
        return sum(isinstance(fault, Recover) for fault in faults)

    assert back(0) == 0 and back(1) == 2 * len(SEEDS)
    assert back(0.5) == pytest.approx(len(SEEDS), rel=0.2)


def test_one_site_alone_can_be_neither_crashed_nor_cut_off() -> None:
    alone = mesh(1, 1, Channel(Constant(1)), Channel(Constant(1)))
    assert not [f for f in MANY.draw(alone, Random(1), DURATION_MS) if isinstance(f, Crash)]


UNKNOWN = [
    (Crash(at_ms=1, site="c9"), "site"),
    (Crash(at_ms=1, site="c0"), "site"),  # a cluster is no site
    (Recover(at_ms=1, site="x"), "site"),
    (ClockJump(at_ms=1, site="x", by_ms=1), "site"),
    (Partition(at_ms=1, groups=(("c0",), ("c1", "x"))), "groups[1][1]"),
    (Partition(at_ms=1, groups=(("c0",), ("c1", "c0-1"))), "groups[1]"),  # overlap
    (Loss(at_ms=1, until_ms=2, probability=0.1, source=("x",)), "source[0]"),
    (DelayShift(at_ms=1, until_ms=2, target=("c0", "x")), "target[1]"),
]


@pytest.mark.parametrize(("fault", "key"), UNKNOWN)
def test_unknown_names_are_refused_at_their_key(fault: Fault, key: str) -> None:
    with pytest.raises(BadValue) as refused:
        fault.check_names(TOPOLOGY)
    assert refused.value.key == key


WRONG = [
    (lambda: Crash(at_ms=-1, site="x"), "at_ms"),
    (lambda: Heal(at_ms=float("nan")), "at_ms"),
    (lambda: Partition(at_ms=1, groups=()), "groups"),
    (lambda: Partition(at_ms=1, groups=(("a",), ())), "groups"),
    (lambda: Loss(at_ms=5, until_ms=5, probability=0.1), "until_ms"),
    (lambda: Loss(at_ms=5, until_ms=float("inf"), probability=0.1), "until_ms"),
    (lambda: Loss(at_ms=1, until_ms=5, probability=2), "probability"),
    (lambda: DelayShift(at_ms=1, until_ms=5, factor=-1), "factor"),
    (lambda: DelayShift(at_ms=1, until_ms=5, factor=1e308), "factor"),
    (lambda: DelayShift(at_ms=1, until_ms=5, add_ms=float("inf")), "add_ms"),
    (lambda: ClockJump(at_ms=1, site="x", by_ms=float("nan")), "by_ms"),
    (lambda: ClockJump(at_ms=1, site="x", by_ms=float("-inf")), "by_ms"),
    (lambda: RandomFaults(crashes=-1), "crashes"),
    (lambda: RandomFaults(partitions=10**9), "partitions"),
    (lambda: RandomFaults(recover=1.1), "recover"),
    (lambda: RandomFaults(delay_factor_max=0.5), "delay_factor_max"),
    (lambda: RandomFaults(delay_factor_max=float("nan")), "delay_factor_max"),
    (lambda: RandomFaults(jump_max_ms=float("inf")), "jump_max_ms"),
]


@pytest.mark.parametrize(("make", "key"), WRONG)
def test_what_a_fault_cannot_mean_is_refused(make, key: str) -> None:
    with pytest.raises(BadValue) as refused:
        make()
    assert refused.value.key == key
