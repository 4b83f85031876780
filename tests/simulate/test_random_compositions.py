"""Random compositions: no guaranteed order is ever broken, nearly every refusal has a counterexample.

The share without one are ways that form a cycle and are never compared by the traffic: there the calculus promises FIFO
only, whatever else may hold.
"""

from __future__ import annotations

from random import Random

import pytest
from tests.harness.random_compositions import Tried, random_composition, try_composition

from isthmus.protocols.routing.calculus import orientation, overtaking
from isthmus.protocols.routing.calculus.walks import WalkNetwork

REFUTED_MIN = 0.99
LIGHT, FULL = 100, 2_000


def tried(seeds: range, executions: int) -> list[Tried]:
    found: list[Tried] = []
    for seed in seeds:
        composition = random_composition(Random(f"composition/{seed}"))
        found += try_composition(composition, Random(f"executions/{seed}"), executions)
    return found


def check(found: list[Tried]) -> None:
    broken = [one for one in found if one.guaranteed and one.fault]
    assert broken == []
    refused = [one for one in found if not one.guaranteed]
    refuted = [one for one in refused if not one.fault]
    assert len(refuted) >= REFUTED_MIN * len(refused), [one for one in refused if one.fault][:5]
    for order in ("fifo", "causal", "total"):
        for scope in ("inter", "all"):
            verdicts = {one.guaranteed for one in found if (one.order, one.scope) == (order, scope)}
            assert verdicts == {True, False}, f"{order} over {scope} is always or never guaranteed here"


def test_verdicts_stand_up_to_executions() -> None:
    check(tried(range(LIGHT), 10))


@pytest.mark.full
@pytest.mark.parametrize("start", range(0, FULL, 500))
def test_verdicts_of_two_thousand_compositions_stand_up_to_executions(start: int) -> None:
    check(tried(range(10_000 + start, 10_000 + start + 500), 30))


def planted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Break the calculus in a way that looks right."""
    held_up, delivered = overtaking.OvertakingSearch.held_up, overtaking.OvertakingSearch.delivered
    late_copies = overtaking.late_copies
    conflict_at, span = orientation.conflict_at, orientation.span
    if name == "FIFO is taken for causal":

        def lenient(self, place, walk, number, taker, is_sender):  # type: ignore[no-untyped-def]
            keeps = self.network.keeps[place.node]
            hit = walk.copies[number].node == place.node and (place.at_all or taker == place.taker)
            return held_up(self, place, walk, number, taker, is_sender) or (hit and keeps.fifo and not place.at_all)

        monkeypatch.setattr(overtaking.OvertakingSearch, "held_up", lenient)
    elif name == "answers are forgotten":
        monkeypatch.setattr(overtaking.OvertakingSearch, "delivered", lambda self, late: delivered(self, late)[:0])
    elif name == "a copy is late at one member only":
        monkeypatch.setattr(
            overtaking, "late_copies", lambda *asked: [one for one in late_copies(*asked) if not one.at_all]
        )
    elif name == "processes count as one injector":

        def single(network: WalkNetwork, node, entering):  # type: ignore[no-untyped-def]
            return conflict_at(network._replace(sizes=tuple(min(1, size) for size in network.sizes)), node, entering)

        monkeypatch.setattr(orientation, "conflict_at", single)
    elif name == "edges have no direction":

        def aimless(network, number, groups):  # type: ignore[no-untyped-def]
            return [(node, [], feed) for node, _, feed in span(network, number, groups)]

        monkeypatch.setattr(orientation, "span", aimless)


@pytest.mark.parametrize(
    "name",
    [
        *("FIFO is taken for causal", "answers are forgotten", "a copy is late at one member only"),
        *("processes count as one injector", "edges have no direction"),
    ],
)
def test_a_wrong_calculus_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(name, monkeypatch)
    for seed in range(200):
        found = tried(range(seed, seed + 1), 20)
        if any(one.guaranteed and one.fault for one in found):
            return
    pytest.fail("no guarantee was broken")
