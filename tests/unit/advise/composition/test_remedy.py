"""The cheapest change: it gives what is wanted, and nothing of it can be left out."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from tests.harness.compositions import star
from tests.harness.random_compositions import random_composition

from isthmus.advise.composition.remedy import STEPS, remedy, with_semantics
from isthmus.protocols.routing.calculus.model import Composition
from isthmus.protocols.routing.calculus.semantics import grants

WANTS = ("fifo", "causal", "total", "fifo-total", "causal-total")


def asking(composition: Composition, wants: str, scope: str) -> Composition:
    domain = msgspec.structs.replace(composition.domains[0], wants=wants, scope=scope)  # type: ignore[arg-type]
    return msgspec.structs.replace(composition, domains=(domain, *composition.domains[1:]))


def test_only_what_is_too_weak_is_strengthened() -> None:
    composition = asking(star({"A": "causal", "B": "causal", "C": "fifo"}, "fifo"), "causal", "all")
    found = remedy(composition, composition.domains[0])
    assert found is not None
    assert found.changes == ("make C causal instead of fifo", "make I causal instead of fifo")
    assert found.cost == 4 + 3  # the members of C with its router; the routers of I


def test_another_forwarding_may_be_all() -> None:
    strong = star(dict.fromkeys("ABC", "fifo-total"), "fifo-total")  # type: ignore[arg-type]
    for scope, mode in (("inter", "total"), ("all", "shadow-and-hold")):
        composition = asking(strong, "causal-total", scope)
        found = remedy(composition, composition.domains[0])
        assert found is not None and found.changes == (f"forward d by {mode} instead of plain",)


def test_priorities_are_given_up_where_they_stand_in_the_way() -> None:
    composition = asking(star({"A": "causal", "B": "causal"}, "fifo", prioritised=True), "causal", "all")
    found = remedy(composition, composition.domains[0])
    assert found is not None and found.changes == ("give the messages between groups of d no priority",)


@pytest.mark.parametrize("seed", range(40))
def test_nothing_of_a_change_can_be_left_out(seed: int) -> None:
    random = Random(f"remedy/{seed}")
    composition = asking(random_composition(random), random.choice(WANTS), random.choice(("inter", "all")))
    found = remedy(composition, composition.domains[0])
    if grants(composition, composition.domains[0]):
        assert found is not None and found.changes == () and found.cost == 0
        return
    if found is None:
        return
    after = found.composition
    assert found.changes and grants(after, after.domains[0])
    kinds = {node.name: node.semantics for node in after.nodes}
    for node in composition.nodes:
        if kinds[node.name] != node.semantics and STEPS[kinds[node.name]] > STEPS[node.semantics]:
            less = with_semantics(after, kinds | {node.name: node.semantics})
            assert not grants(less, less.domains[0])
