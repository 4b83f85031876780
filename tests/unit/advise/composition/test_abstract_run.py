"""The adversary: it does what a declared order allows, and no more."""

from __future__ import annotations

from random import Random

import pytest
from tests.harness.compositions import star

from isthmus.advise.composition.abstract_run import AbstractRun, Postponed, ScriptedMessage
from isthmus.core.layer import Kind
from isthmus.protocols.routing.calculus.model import Composition
from isthmus.protocols.routing.calculus.walks import WalkNetwork, network_of
from isthmus.trace.schema import KIND, NUMBER, PROCESS, Row

RUNS = 300


def inside(semantics: str) -> WalkNetwork:
    """A group of three with messages of its own; the other group is silent."""
    composition: Composition = star({"A": semantics, "B": "fifo"}, "fifo", flows="B>A", intra=("A",))  # type: ignore[dict-item]
    network = network_of(composition, composition.domains, "all")
    return network._replace(walks=tuple(walk for walk in network.walks if walk.is_intra))


def orders(rows: list[Row]) -> list[list[int]]:
    """What each process delivered, by number."""
    return [[row[NUMBER] for row in rows if row[PROCESS] == at and row[KIND] == Kind.DELIVER] for at in range(3)]


def seen(semantics: str, script: list[ScriptedMessage]) -> tuple[bool, bool, bool]:
    """Whether runs ever break FIFO, causal order (the second message answers the first) and agreement."""
    network = inside(semantics)
    broken = [False, False, False]
    for seed in range(RUNS):
        rows = AbstractRun(network, script, Random(seed)).play()
        found = orders(rows)
        assert all(sorted(one) == list(range(len(script))) for one in found)
        broken[0] |= any(one != sorted(one) for one in found)
        broken[1] |= any(one.index(0) > one.index(1) for one in found)
        broken[2] |= len({tuple(one) for one in found}) > 1
    return broken[0], broken[1], broken[2]


@pytest.mark.parametrize(
    ("semantics", "expected"),
    [("none", True), ("fifo", False), ("causal", False), ("total", True), ("fifo-total", False)],
)
def test_only_what_is_not_fifo_changes_a_sender_s_order(semantics: str, expected: bool) -> None:
    assert seen(semantics, [ScriptedMessage(0, 0), ScriptedMessage(0, 0, following=0)])[0] == expected


@pytest.mark.parametrize(
    ("semantics", "expected"),
    [("none", True), ("fifo", True), ("causal", False), ("total", False), ("fifo-total", False)],
)
def test_only_what_is_not_causal_delivers_an_answer_first(semantics: str, expected: bool) -> None:
    assert seen(semantics, [ScriptedMessage(0, 0), ScriptedMessage(0, 1, after=0)])[1] == expected


@pytest.mark.parametrize(
    ("semantics", "expected"),
    [("none", True), ("fifo", True), ("causal", True), ("total", False), ("fifo-total", False)],
)
def test_only_what_is_not_total_delivers_in_different_orders(semantics: str, expected: bool) -> None:
    assert seen(semantics, [ScriptedMessage(0, 0), ScriptedMessage(0, 1)])[2] == expected


def test_the_same_seed_gives_the_same_run() -> None:
    network = inside("fifo")
    script = [ScriptedMessage(0, place % 3) for place in range(6)]
    assert AbstractRun(network, script, Random(3)).play() == AbstractRun(network, script, Random(3)).play()


def test_a_postponed_copy_comes_last() -> None:
    network = inside("fifo")
    script = [ScriptedMessage(0, 0), ScriptedMessage(0, 1), ScriptedMessage(0, 2)]
    for seed in range(20):
        rows = AbstractRun(network, script, Random(seed), [Postponed(0, 0, (0, 2))]).play()
        late = next(row[NUMBER] for row in rows if row[PROCESS] == 0 and row[KIND] == Kind.SUBMIT)
        assert orders(rows)[2][-1] == late


def test_a_holding_sender_keeps_its_order() -> None:
    """The first goes over the top; the second, inside the group, waits until the first is back."""
    composition = star({"A": "fifo-total", "B": "fifo-total"}, "fifo-total", "shadow-and-hold", flows="A>AB")
    network = network_of(composition, composition.domains, "all")
    inter = next(at for at, walk in enumerate(network.walks) if not walk.is_intra)
    intra = next(at for at, walk in enumerate(network.walks) if walk.is_intra and walk.source == 0)
    for seed in range(100):
        rows = AbstractRun(
            network, [ScriptedMessage(inter, 0), ScriptedMessage(intra, 0, following=0)], Random(seed)
        ).play()
        assert orders(rows) == [[0, 1]] * 3
