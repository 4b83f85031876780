"""Random runs of extended histories keep causal order and block nothing; every wrong reading of the rules is found."""

from __future__ import annotations

import pytest

from isthmus.testing.causal_runs import KINDS, CausalWorld, Kind
from planted_causal import HISTORIES, WORLDS

CHUNK = 100
QUICK = range(0, 200, CHUNK)
FULL = range(200, 7000, CHUNK)  # with the above 21,000 runs
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


@pytest.mark.parametrize("name", HISTORIES)
def test_a_wrong_history_is_found(name: str) -> None:
    make, kind = HISTORIES[name]
    assert any(CausalWorld(kind, seed, make).run() for seed in range(TRIES))


@pytest.mark.parametrize("name", WORLDS)
def test_a_wrong_world_is_found(name: str) -> None:
    world, kind = WORLDS[name]
    assert any(world(kind, seed).run() for seed in range(TRIES))
