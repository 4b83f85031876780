"""Random runs of extended histories keep causal order and block nothing; every wrong reading of the rules is found."""

from __future__ import annotations

import pytest
from tests.harness.causal_runs import KINDS, CausalWorld, Kind
from tests.harness.causal_views import ChangingWorld
from tests.planted.causal import HISTORIES, WORLDS

from isthmus.topology.gateways.lans import Lans

CHUNK = 100
QUICK = range(0, 200, CHUNK)
FULL = range(200, 5000, CHUNK)  # with the above 25,000 runs, and 20,000 whose views change
CHANGING: tuple[Kind, ...] = ("lan-ring", "lan-tree", "nodes", "routed")
TRIES = 400  # within which a planted bug must show


def broken(kind: Kind, first: int) -> list[str]:
    found = {seed: CausalWorld(kind, seed).run() for seed in range(first, first + CHUNK)}
    return [f"{kind} {seed}: {sentences[0]}" for seed, sentences in found.items() if sentences]


@pytest.mark.parametrize("first", QUICK)
@pytest.mark.parametrize("kind", KINDS)
def test_some_runs_keep_the_order(kind: Kind, first: int) -> None:
    assert broken(kind, first) == []


@pytest.mark.full
@pytest.mark.parametrize("first", FULL)
@pytest.mark.parametrize("kind", KINDS)
def test_all_runs_keep_the_order(kind: Kind, first: int) -> None:
    assert broken(kind, first) == []


@pytest.mark.parametrize(
    ("kind", "seed"), [("lan-ring", 235), ("lan-ring", 5107), ("lan-ring", 1_001_736), ("nodes", 1_003_696)]
)
def test_relays_do_not_wait_for_each_other(kind: Kind, seed: int) -> None:
    """They did where empty messages told a part of the past: two gateways heard of two messages in either order."""
    assert CausalWorld(kind, seed).run() == []


def broken_by_views(kind: Kind, first: int, world: type[ChangingWorld] = ChangingWorld) -> list[str]:
    found = {seed: world(kind, seed).run() for seed in range(first, first + CHUNK)}
    return [f"{kind} {seed}: {sentences[0]}" for seed, sentences in found.items() if sentences]


@pytest.mark.parametrize("kind", CHANGING)
def test_some_runs_with_views_keep_the_order(kind: Kind) -> None:
    assert broken_by_views(kind, 0) == []


@pytest.mark.full
@pytest.mark.parametrize("first", range(CHUNK, 5000, CHUNK))
@pytest.mark.parametrize("kind", CHANGING)
def test_all_runs_with_views_keep_the_order(kind: Kind, first: int) -> None:
    assert broken_by_views(kind, first) == []


class KeepsThePast(ChangingWorld):
    """Goes on with the histories of the view before."""

    def open_view(self, lans: Lans) -> None:
        past = self.histories
        super().open_view(lans)
        self.histories = {site: past[site] for site in self.sites}


def test_histories_that_outlive_their_view_are_found() -> None:
    assert broken_by_views("lan-ring", 0, KeepsThePast)


@pytest.mark.parametrize("name", HISTORIES)
def test_a_wrong_history_is_found(name: str) -> None:
    make, kind = HISTORIES[name]
    assert any(CausalWorld(kind, seed, make).run() for seed in range(TRIES))


@pytest.mark.parametrize("name", WORLDS)
def test_a_wrong_world_is_found(name: str) -> None:
    world, kind = WORLDS[name]
    assert any(world(kind, seed).run() for seed in range(TRIES))
