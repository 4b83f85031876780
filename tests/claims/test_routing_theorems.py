"""The theorems of paper 003, section 3 and 4, each with what we found of it: docs/design/routing.md has the table.

Where one holds, executions drawn at random keep the order; where it does not, one that breaks it is found, and the
trace's own checks say so.
"""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from tests.harness.compositions import domain, group, star, tree

from isthmus.advise.composition.abstract_run import AbstractRun
from isthmus.advise.composition.counterexample import counterexample, drawn_script, is_fault, judge_domain
from isthmus.protocols.routing.calculus.model import Composition, DomainScope, Igp, RouterSpec, StaticRoute
from isthmus.protocols.routing.calculus.semantics import Guarantee, Part, decide
from isthmus.protocols.routing.calculus.walks import network_of

EXECUTIONS = 60


def holds(composition: Composition, scope: DomainScope, order: Part) -> Guarantee:
    """Assert that an order is guaranteed and kept."""
    found = decide(composition, composition.domains, scope).of(order)
    assert found.holds, found.reason
    network = network_of(composition, composition.domains, scope)
    random = Random(f"{composition.name}/{scope}/{order}")
    for _ in range(EXECUTIONS):
        rows = AbstractRun(network, drawn_script(network, random, 6), random).play()
        verdict = judge_domain(network, rows, scope, order)
        assert not is_fault(verdict), verdict.witness
    return found


def fails(composition: Composition, scope: DomainScope, order: Part) -> Guarantee:
    """Assert that an order is refused and broken."""
    found = decide(composition, composition.domains, scope).of(order)
    assert not found.holds
    network = network_of(composition, composition.domains, scope)
    assert counterexample(network, scope, order, Random(f"{scope}/{order}")) is not None, found.reason
    return found


def test_theorem_1_holds_for_fifo_and_for_what_one_group_sends() -> None:
    one_to_many = star({"A": "causal", "B": "fifo", "C": "fifo"}, "fifo", flows="A>BC, A>B, A>C")
    assert holds(one_to_many, "inter", "fifo").rule == "theorem 1"
    holds(one_to_many, "inter", "causal")
    published = star({"A": "fifo-total", "B": "fifo", "C": "fifo"}, "fifo", flows="A>BC, A>ABC, A>C")
    holds(published, "inter", "total")


def test_theorem_1_fails_for_causal_order_with_two_routers() -> None:
    """Everything is causal; B answers what it has by one router, and C has not had it by the other."""
    groups = tuple(group(name, "causal") for name in "ABC")
    routers = tuple(RouterSpec(f"r{name}", ("A" if name in "12" else name, "I")) for name in "12BC")
    routes = (StaticRoute("A", "B", ("r1", "rB")), StaticRoute("A", "C", ("r2", "rC")))
    two = Composition("two", groups, routers, (domain("ABC", flows="A>BC, B>C"),), (Igp("I", "causal"),), routes)
    holds(two, "inter", "fifo")
    fails(two, "inter", "causal")


def test_any_to_fifo_fails_where_a_protocol_is_total_but_not_fifo() -> None:
    for semantics, igp in (("total", "fifo"), ("fifo", "total")):
        composition = star({"A": semantics, "B": "fifo"}, igp)  # type: ignore[dict-item, arg-type]
        assert fails(composition, "inter", "fifo").rule == "not FIFO"


def test_theorem_2_holds() -> None:
    paired = star({"A": "causal", "B": "causal"}, "fifo")
    assert holds(paired, "all", "causal").rule == "theorem 2"
    holds(paired, "inter", "causal")
    fails(star({"A": "causal", "B": "fifo"}, "fifo"), "all", "causal")


def test_theorem_3_holds() -> None:
    for igp in ("total", "fifo-total"):
        paired = star({"A": "fifo-total", "B": "fifo-total"}, igp, "total")  # type: ignore[arg-type]
        assert holds(paired, "all", "total").rule == "theorem 3"
    fails(star({"A": "fifo-total", "B": "fifo-total"}, "fifo-total"), "inter", "total")
    fails(star({"A": "total", "B": "fifo-total"}, "fifo-total", "total"), "inter", "total")


def test_theorem_4_holds_between_groups_only() -> None:
    """C and D only receive, and are FIFO; that is enough between groups, not with messages inside C."""
    senders = star({"A": "causal", "B": "causal", "C": "fifo", "D": "fifo"}, "causal", flows="A>ABCD, B>ABC, A>C, B>CD")
    assert holds(senders, "inter", "causal").rule == "theorem 4"
    assert fails(senders, "all", "causal").rule == "group not causal"
    quiet = msgspec.structs.replace(senders, domains=(msgspec.structs.replace(senders.domains[0], intra=("A", "B")),))
    holds(quiet, "all", "causal")


def test_theorem_5_fails_as_stated() -> None:
    """A sends and receives, B only sends: overlap 1. A delivers its own first, C what B sent."""
    stated = star({"A": "fifo-total", "B": "total", "C": "fifo-total"}, "fifo-total", flows="A>AC, B>AC")
    assert fails(stated, "inter", "total").rule == "both ways"


@pytest.mark.parametrize(
    ("flows", "forwarding"),
    [("A>C, B>AC", "plain"), ("A>AC", "plain"), ("A>AC, B>AC", "total")],
    ids=["no own copies", "one sender", "total forwarding"],
)
def test_theorem_5_holds_under_its_true_condition(flows: str, forwarding: str) -> None:
    semantics = {"A": "fifo-total", "B": "total", "C": "fifo-total"}
    holds(star(semantics, "fifo-total", forwarding, flows), "inter", "total")  # type: ignore[arg-type]


def test_theorem_6_holds_and_claims_no_more_than_total() -> None:
    composition = star(dict.fromkeys("ABC", "fifo-total"), "fifo-total", "total")  # type: ignore[arg-type]
    assert holds(composition, "all", "total").rule == "theorem 6"
    holds(composition, "inter", "causal")
    for order in ("fifo", "causal"):
        assert fails(composition, "all", order).rule == "overtaking"  # type: ignore[arg-type]


def test_theorem_7_holds() -> None:
    composition = tree("causal", "causal")
    assert holds(composition, "all", "causal").rule == "theorem 7"
    holds(composition, "inter", "causal")


def test_theorem_8_holds_and_claims_no_more_than_total() -> None:
    composition = tree("fifo-total", "fifo-total", "hierarchical")
    assert holds(composition, "all", "total").rule == "theorem 8"
    for scope in ("inter", "all"):
        assert fails(composition, scope, "fifo").rule == "overtaking"  # type: ignore[arg-type]


def test_shadow_and_hold_is_causal_and_total_over_all_traffic() -> None:
    for composition in (
        tree("fifo-total", "fifo-total", "shadow-and-hold"),
        star(dict.fromkeys("ABC", "fifo-total"), "fifo-total", "shadow-and-hold"),  # type: ignore[arg-type]
    ):
        assert decide(composition, composition.domains, "all").gets == "causal-total"
        for order in ("fifo", "causal", "total"):
            holds(composition, "all", order)  # type: ignore[arg-type]
