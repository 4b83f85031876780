"""The calculus, point by point; executions for all of them are drawn in tests/simulate/test_random_compositions.py."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.compositions import domain, group, star, tree
from tests.harness.random_compositions import random_composition

from isthmus.advise.composition.counterexample import counterexample
from isthmus.advise.composition.remedy import LADDER, STEPS, with_semantics
from isthmus.core.validation import BadValue
from isthmus.protocols.routing.calculus.model import (
    Composition,
    GroupFlow,
    Igp,
    OrderingDomain,
    ProcessGroup,
    RouterSpec,
)
from isthmus.protocols.routing.calculus.semantics import ORDERS, decide
from isthmus.protocols.routing.calculus.shape import Shape
from isthmus.protocols.routing.calculus.walks import network_of, walk_of


def gets(composition: Composition, scope: str = "inter") -> str:
    return decide(composition, composition.domains, scope).gets  # type: ignore[arg-type]


def rule(composition: Composition, order: str, scope: str = "inter") -> str:
    return decide(composition, composition.domains, scope).of(order).rule  # type: ignore[arg-type]


def ordered_in(composition: Composition, source: str, to: str) -> str:
    """The ordering node of a class."""
    shape = Shape(composition, composition.domains[0])
    number = {node.name: at for at, node in enumerate(composition.nodes)}
    walk = walk_of(shape, 0, number[source], tuple(number[name] for name in to))
    return composition.nodes[walk.ordering_node].name


@pytest.mark.parametrize(
    ("forwarding", "source", "to", "node"),
    [
        ("plain", "A", "BC", "A"),
        ("total", "A", "AB", "root"),
        ("total", "A", "A", "A"),
        ("hierarchical", "A", "B", "left"),
        ("hierarchical", "A", "C", "right"),
        ("hierarchical", "A", "CD", "right"),
        ("hierarchical", "A", "BC", "root"),
        ("shadow-and-hold", "A", "CD", "root"),
        ("shadow-and-hold", "A", "B", "left"),
        ("shadow-and-hold", "A", "A", "A"),
    ],
)
def test_every_class_has_an_ordering_node(forwarding: str, source: str, to: str, node: str) -> None:
    assert ordered_in(tree("fifo-total", "fifo-total", forwarding), source, to) == node  # type: ignore[arg-type]


def test_what_is_tunnelled_passes_the_sender_s_own_group_twice() -> None:
    composition = star({"A": "fifo-total", "B": "fifo-total"}, "fifo-total", "total")
    walk = walk_of(Shape(composition, composition.domains[0]), 0, 0, (0, 1))
    assert [(copy.node, copy.for_application) for copy in walk.copies] == [(0, False), (2, False), (0, True), (1, True)]


def test_a_fifo_igp_is_causal_enough_without_third_parties() -> None:
    causal = {"A": "causal", "B": "causal", "C": "causal"}
    assert rule(star(causal, "fifo"), "causal") == "third-party relay"  # type: ignore[arg-type]
    for enough in (
        star(causal, "fifo", flows="A>BC, B>A"),  # type: ignore[arg-type]  # no third group that both send to
        star(causal, "fifo", flows="A>ABC"),  # type: ignore[arg-type]  # one injector
        star({"A": "causal", "B": "causal"}, "fifo"),  # two routers
    ):
        assert decide(enough, enough.domains, "inter").of("causal").holds


def test_an_originating_group_may_be_fifo_where_no_colleague_answers() -> None:
    fifo = {"A": "fifo", "B": "fifo", "C": "fifo"}
    assert gets(star(fifo, "causal", flows="A>B, B>C, A>C"), "inter").startswith("causal")  # type: ignore[arg-type]
    assert rule(star(fifo, "causal", flows="A>AB"), "causal") == "group not causal"  # type: ignore[arg-type]


def test_a_node_with_several_injectors_must_be_total() -> None:
    assert rule(star({"A": "fifo", "B": "fifo", "C": "fifo"}, "fifo", flows="A>BC, B>BC"), "total") == "both ways"
    two = {"A": "fifo", "B": "fifo", "C": "fifo", "D": "fifo"}
    assert rule(star(two, "fifo", flows="A>CD, B>CD"), "total") == "several injectors"  # type: ignore[arg-type]
    assert "total" in gets(star(two, "fifo-total", flows="A>CD, B>CD"))  # type: ignore[arg-type]
    assert "total" in gets(star(two, "total", flows="A>CD, B>CD"))  # type: ignore[arg-type]  # nothing ordered above it
    assert "total" in gets(star(two, "fifo", flows="A>CD"))  # type: ignore[arg-type]  # a single injector
    assert rule(star(two, "none", flows="A>CD"), "total") == "no order"  # type: ignore[arg-type]


def test_what_was_ordered_before_must_stay_in_order() -> None:
    mixed = {"A": "fifo", "B": "total", "C": "total"}
    assert rule(star(mixed, "fifo-total", "total"), "total") == "not FIFO"  # type: ignore[arg-type]


def test_messages_that_nobody_compares_need_no_order() -> None:
    semantics = {"A": "fifo", "B": "fifo", "C": "fifo", "D": "fifo"}
    apart = star(semantics, "fifo", flows="A>B, C>D")  # type: ignore[arg-type]
    assert "total" in gets(apart)


def test_without_a_tree_there_is_fifo_and_only_by_plain_forwarding() -> None:
    groups = tuple(group(name, "causal") for name in "AB")
    routers = (RouterSpec("r1", ("A", "I")), RouterSpec("r2", ("A", "I")), RouterSpec("rB", ("B", "I")))
    plain = Composition("twice", groups, routers, (domain("AB"),), (Igp("I", "causal"),))
    assert gets(plain) == "fifo" and rule(plain, "causal") == "no tree"
    other = msgspec.structs.replace(plain, domains=(domain("AB", "total"),))
    with pytest.raises(BadValue, match="on a cycle of groups and IGPs"):
        gets(other)


def pipeline(shared: str, ring: bool = False, forwarding: str = "plain") -> Composition:
    """A, B, C in a row, or in a ring; B is in two domains."""
    groups = (group("A", "fifo-total"), group("B", shared), group("C", "fifo-total"))  # type: ignore[arg-type]
    pairs = ["AB", "BC"] + (["CA"] if ring else [])
    routers = tuple(RouterSpec(f"r{name}{pair}", (name, pair)) for pair in pairs for name in pair)
    domains = tuple(domain(pair, forwarding, name=pair, flows=f"{pair[0]}>{pair}") for pair in pairs)  # type: ignore[arg-type]
    return Composition("pipeline", groups, routers, domains, tuple(Igp(pair, "fifo-total") for pair in pairs))


def test_domains_combine_where_the_group_they_share_is_strong_enough() -> None:
    assert gets(pipeline("fifo-total")) == "causal-total"
    causal = pipeline("causal")
    assert gets(causal) == "causal"
    assert rule(causal, "total") == "several injectors"
    assert gets(pipeline("fifo")) == "fifo"


def test_domains_in_a_ring_do_not_combine() -> None:
    ring = pipeline("fifo-total", ring=True)
    for one in ring.domains:
        assert decide(ring, [one], "inter").gets == "causal-total"
    together = decide(ring, ring.domains, "inter")
    assert together.of("total").rule == "no tree" and not together.of("causal").holds
    network = network_of(ring, ring.domains, "inter")
    assert counterexample(network, "inter", "total", Random("ring")) is not None


def test_shadow_and_hold_needs_strong_parts() -> None:
    assert gets(tree("fifo-total", "fifo-total", "shadow-and-hold"), "all") == "causal-total"
    assert rule(tree("fifo-total", "causal", "shadow-and-hold"), "total", "all") == "several injectors"
    weak = tree("fifo", "fifo-total", "shadow-and-hold")
    assert rule(weak, "causal", "all") == "group not causal"  # own copies beside messages inside the group
    silent = tree("fifo", "fifo-total", "shadow-and-hold", intra=())
    assert gets(silent, "all") == "causal-total"  # everything comes from the one router


@pytest.mark.parametrize("order", ORDERS)
def test_bare_datagrams_give_nothing_and_lose(order: str) -> None:
    groups = tuple(group(name, "causal") for name in "AB")
    routers = (RouterSpec("rA", ("A", "I")), RouterSpec("rB", ("B", "I")))
    bare = Composition("bare", groups, routers, (domain("AB"),), (Igp("I", "none", "datagrams"),))
    assert gets(bare) == "none" and rule(bare, order) == "datagrams"
    found = counterexample(network_of(bare, bare.domains, "inter"), "inter", order, Random(1))  # type: ignore[arg-type]
    assert found is not None and found.missing and found.verdict is None


def test_a_router_may_join_three_nodes_and_groups_directly() -> None:
    groups = tuple(group(name, "causal") for name in "ABC")
    hub = Composition("hub", groups, (RouterSpec("hub", ("A", "B", "C")),), (domain("ABC"),))
    assert gets(hub, "all") == "causal"
    with pytest.raises(BadValue, match="without an IGP"):
        gets(msgspec.structs.replace(hub, domains=(domain("ABC", "total"),)))


def test_a_closed_group_sends_and_is_not_sent_to() -> None:
    groups = (group("A", "fifo"), ProcessGroup("B", ("b0", "b1"), "fifo", open=False))
    routers = (RouterSpec("rA", ("A", "I")), RouterSpec("rB", ("B", "I")))
    closed = Composition("closed", groups, routers, (domain("AB"),), (Igp("I", "fifo"),))
    walks = network_of(closed, closed.domains, "inter").walks
    assert [(walk.source, walk.to) for walk in walks] == [(1, (0,)), (1, (0, 1))]


def test_priorities_forfeit_all_orders_between_the_two_kinds() -> None:
    composition = star({"A": "fifo-total", "B": "fifo-total"}, "fifo-total", prioritised=True, flows="A>AB")
    assert gets(composition, "inter") == "causal-total"
    assert {rule(composition, order, "all") for order in ORDERS} == {"priorities"}


def test_a_long_chain_of_answers_is_followed() -> None:
    """A answers nobody; its message to E is late while B, C and D pass the word on."""
    semantics = dict.fromkeys("ABCDE", "causal")
    composition = star(semantics, "fifo", flows="A>BE, B>C, C>D, D>E")  # type: ignore[arg-type]
    assert rule(composition, "causal") == "third-party relay"
    found = counterexample(network_of(composition, composition.domains, "inter"), "inter", "causal", Random(1))
    assert found is not None and found.verdict is not None and "through" in found.verdict.witness


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_a_stronger_protocol_never_loses_a_guarantee(seed: int) -> None:
    """What the search for the cheapest change rests on."""
    random = Random(f"stronger/{seed}")
    composition = random_composition(random)
    node = random.choice(composition.nodes)
    if node.semantics == "total" or (isinstance(node, Igp) and node.kind == "datagrams"):
        return
    stronger = LADDER[min(STEPS[node.semantics] + 1, len(LADDER) - 1)]
    other = with_semantics(composition, {one.name: one.semantics for one in composition.nodes} | {node.name: stronger})
    for scope in ("inter", "all"):
        before = decide(composition, composition.domains, scope)  # type: ignore[arg-type]
        after = decide(other, other.domains, scope)  # type: ignore[arg-type]
        assert [one.order for one in before.guarantees if one.holds and not after.of(one.order).holds] == []


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_pairs_of_destinations_stand_for_all_sets(seed: int) -> None:
    """Where any group may send to any groups, sets of three and more change no verdict."""
    random = Random(f"pairs/{seed}")
    composition = random_composition(random)
    one = composition.domains[0]
    if len(composition.domains) > 1 or len(one.groups) < 3:
        return
    anything = msgspec.structs.replace(one, flows=())
    names = [name for name in one.groups if composition.group(name).open]
    sets = [[name for at, name in enumerate(names) if bits >> at & 1] for bits in range(1, 1 << len(names))]
    flows = [GroupFlow(source, tuple(to)) for source in one.groups for to in sets if to != [source]]
    flows += [GroupFlow(source, (source, *to)) for source in one.groups if source not in names for to in sets]
    verdicts = []
    for changed in (anything, msgspec.structs.replace(one, flows=tuple(flows))):
        other: OrderingDomain = changed
        whole = msgspec.structs.replace(composition, domains=(other,))
        for scope in ("inter", "all"):
            found = decide(whole, whole.domains, scope)  # type: ignore[arg-type]
            verdicts.append([guarantee.holds for guarantee in found.guarantees])
    assert verdicts[:2] == verdicts[2:]
