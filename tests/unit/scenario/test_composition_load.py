"""Compositions from TOML: the examples, the way back, and one sentence for each mistake."""

from __future__ import annotations

import tomllib
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.harness.random_compositions import random_composition

from isthmus.core.errors import InputError
from isthmus.protocols.routing.calculus.model import connected_domains
from isthmus.protocols.routing.calculus.semantics import decide, decide_wanted
from isthmus.scenario.composition.load import (
    composition_from_tables,
    composition_tables,
    load_composition,
    semantics_of_stack,
)
from isthmus.stacks.registry import STACKS

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("composition-*.toml"))
GOOD = """
name = "good"
groups = [
  { name = "A", members = ["a0", "a1"], stack = "causal-vector" },
  { name = "B", members = 2, semantics = "causal" },
  { name = "C", members = 2, stack = "token-site" },
]
igps = [{ name = "I", stack = "token-site" }, { name = "L", kind = "link" }]
routers = [
  { name = "rA", joins = ["A", "I"] },
  { name = "rB", joins = ["B", "I"] },
  { name = "rBL", joins = ["B", "L"] },
  { name = "rC", joins = ["C", "L"], replicas = 2 },
]
domains = [{ name = "d", wants = "causal" }]
"""


def load(text: str) -> Any:
    return composition_from_tables(tomllib.loads(text), "net.toml")


def test_what_is_left_out_is_filled_in() -> None:
    composition = load(GOOD)
    assert composition.group("B").members == ("B-0", "B-1") and composition.group("A").semantics == "causal"
    assert composition.domains[0].groups == ("A", "B", "C") and composition.domains[0].scope == "inter"
    assert composition.node("L").semantics == "fifo" and composition.node("I").semantics == "fifo-total"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_give_what_they_want(path: Path) -> None:
    composition = load_composition(path)
    for domain in composition.domains:
        assert decide_wanted(composition, domain).gives(domain.wants)
    for part in connected_domains(composition.domains):
        assert decide(composition, part, "inter").gives(part[0].wants)
    assert composition_from_tables(composition_tables(composition), "again") == composition


def test_there_are_four_examples() -> None:
    names = [path.stem.removeprefix("composition-") for path in EXAMPLES]
    assert names == ["hierarchical", "multi-group", "paired", "pipeline"]


@pytest.mark.parametrize("seed", range(40))
def test_what_is_written_loads_as_the_same(seed: int) -> None:
    composition = random_composition(Random(f"written/{seed}"))
    assert composition_from_tables(composition_tables(composition), "again") == composition


def test_every_stack_has_semantics() -> None:
    found = {name: semantics_of_stack(name) for name in STACKS}
    assert found["unordered"] == "none" and found["fifo"] == "fifo" and found["causal-history"] == "causal"
    assert found["optimistic-arrival"] == "total" and found["symmetric"] == "fifo-total"


@pytest.mark.parametrize(
    ("was", "becomes", "told"),
    [
        ('stack = "token-site" },\n]', 'stack = "token-sight" },\n]', "groups[2].stack: found 'token-sight'"),
        ('joins = ["A", "I"]', 'joins = ["A"]', "routers[0].joins: found only 'A'; expected two or more"),
        ('joins = ["A", "I"]', 'joins = ["A", "J"]', "routers[0].joins[1]: found 'J'; expected a group or an IGP"),
        ('["a0", "a1"]', '["B-0", "a1"]', "domains[0].groups: found 'B-0' in both A and B; expected groups"),
        ('["a0", "a1"]', '["a0", "a0"]', "groups[0].members: found 'a0' twice; expected each member once"),
        ('["a0", "a1"]', "[]", "groups[0].members: found no member; expected at least one"),
        ('["a0", "a1"]', '["a0", "rB"]', "groups[0].members: found 'rB', already the name of one of the routers"),
        ("members = 2, sem", "members = 0, sem", "groups[1].members: found 0; expected a number from 1 to 10000"),
        ('semantics = "causal"', 'semantics = "casual"', "groups[1].semantics: found 'casual'; expected"),
        ('semantics = "causal"', 'semantics = "causal", stack = "fifo"', "groups[1]: found both a stack and semantics"),
        ('kind = "link"', 'kind = "link", stack = "fifo"', "igps[1].stack: found 'fifo'; expected nothing"),
        ('["C", "L"]', '["C", "L", "A"]', ""),  # a cycle is allowed by plain forwarding
        ('joins = ["B", "L"]', 'joins = ["B", "A"]', "igps[1]: found 'L' with 1 router; expected two routers"),
        ("replicas = 2", "replicas = 0", "routers[3].replicas: found 0; expected a number from 1 to 100"),
        ('name = "rB",', 'name = "rA",', "routers[1].name: found 'rA', already one of the routers; expected"),
        ('wants = "causal" ', 'wants = "order" ', "domains[0].wants: found 'order'; expected one of causal"),
        ('wants = "causal" ', 'wants = "causal", groups = ["A"] ', "domains[0].groups: found ['A']; expected two"),
        ('wants = "causal" ', 'wants = "causal", groups = ["A", "X"] ', "domains[0].groups[1]: found 'X'; expected a"),
        ('wants = "causal" ', 'wants = "causal", root = "A" ', "domains[0].root: found 'A'; expected an IGP"),
        ('wants = "causal" ', 'wants = "causal", flows = [{ from = "A", to = ["A"] }] ', "domains[0].flows[0].to:"),
        ('wants = "causal" ', 'wants = "causal", intra = ["X"] ', "domains[0].intra: found 'X'; expected a"),
        ('wants = "causal" ', 'wants = "causal", colour = 1 ', "domains[0].colour: found an unknown key"),
        (
            'wants = "causal" ', 'wants = "causal", forwarding = "hierarchical" ',
            "domains[0].groups: found 'B' with 2 routers under 'hierarchical'; expected groups at the leaves",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_one_sentence(was: str, becomes: str, told: str) -> None:
    assert was in GOOD
    text = GOOD.replace(was, becomes, 1)
    if not told:
        load(text)
        return
    with pytest.raises(InputError) as caught:
        load(text)
    assert str(caught.value).startswith(f"net.toml: {told}"), caught.value
    assert "\n" not in str(caught.value)


def test_a_cycle_is_refused_where_a_tree_is_needed() -> None:
    cycle = GOOD.replace('["C", "L"]', '["C", "L", "A"]').replace(
        'wants = "causal"', 'wants = "total", forwarding = "total"'
    )
    with pytest.raises(InputError, match="found 'total' on a cycle of groups and IGPs; expected a tree, or plain"):
        load(cycle)


def test_groups_that_nothing_joins_are_refused() -> None:
    apart = GOOD.replace(', { name = "L", kind = "link" }', "")
    apart = apart.replace('  { name = "rBL", joins = ["B", "L"] },\n', "")
    apart = apart.replace('  { name = "rC", joins = ["C", "L"], replicas = 2 },\n', "")
    with pytest.raises(InputError, match="found 'C', which no routers join to 'A'"):
        load(apart)


def test_closed_groups_are_not_sent_to() -> None:
    closed = GOOD.replace('members = 2, semantics = "causal"', 'members = 2, semantics = "causal", open = false')
    flow = closed.replace('wants = "causal" ', 'wants = "causal", flows = [{ from = "A", to = ["B"] }] ')
    with pytest.raises(InputError, match="found 'B', which is closed; expected open groups"):
        load(flow)


def test_a_process_may_be_in_groups_of_disjoint_domains() -> None:
    both = GOOD.replace('["a0", "a1"]', '["a0", "C-0"]')
    pair = '{ name = "d", wants = "fifo", groups = ["A", "B"] }, { name = "e", wants = "fifo", groups = ["C", "D"] }'
    more = both.replace('{ name = "d", wants = "causal" }', pair)
    more = more.replace("igps = [", 'igps = [{ name = "K", kind = "link" }, ')
    more = more.replace("groups = [\n", 'groups = [\n  { name = "D", members = 2, semantics = "fifo" },\n', 1)
    more = more.replace(
        "routers = [\n", 'routers = [\n  { name = "k1", joins = ["C", "K"] },\n  { name = "k2", joins = ["D", "K"] },\n'
    )
    assert len(load(more).domains) == 2
    with pytest.raises(InputError, match="'C-0' in both A and C; expected groups without a common process, as d is"):
        load(more.replace('groups = ["C", "D"]', 'groups = ["B", "C"]'))


def test_static_routes_are_checked() -> None:
    routed = GOOD + 'routes = [{ from = "A", to = "B", via = ["rA", "rB"] }]\n'
    load(routed)
    with pytest.raises(InputError, match=r"routes\[0\].via\[0\]: found 'rC'; expected routers that lead from"):
        load(routed.replace('via = ["rA", "rB"]', 'via = ["rC", "rB"]'))
    with pytest.raises(InputError, match=r"routes\[0\].via\[1\]: found 'rX'; expected a router"):
        load(routed.replace('via = ["rA", "rB"]', 'via = ["rA", "rX"]'))


def test_the_form_in_the_documentation_loads() -> None:
    page = Path(__file__).parents[3] / "docs" / "design" / "routing.md"
    text = page.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    whole = text.replace("\n# ", "\n")  # the lines that are commented out
    composition = load(whole)
    assert composition.domains[0].prioritised and composition.domains[0].root == "cable" and composition.routes
    assert load(text).name == "two-offices"
