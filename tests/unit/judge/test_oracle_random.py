"""The oracle against checkers of ten lines that try everything, on small random histories."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
from brute import breaks_causality, broken_in
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pipeline.histories import DOMAINS, random_groups, random_rows
from tests.unit.judge.stories import Story

from isthmus.core.layer import Kind
from isthmus.judge.oracle import Oracle
from isthmus.trace.schema import KIND

MESSAGES = [(sender, number) for sender in (1, 2) for number in (1, 2, 3)]
orders = st.lists(st.lists(st.sampled_from(MESSAGES), unique=True, max_size=6), min_size=1, max_size=4)
destinations = st.lists(
    st.one_of(st.none(), st.sets(st.integers(11, 14), min_size=1).map(lambda found: tuple(sorted(found)))),
    min_size=len(MESSAGES),
    max_size=len(MESSAGES),
)


def told(lists: list[list[tuple[int, int]]], to: list[tuple[int, ...] | None] | None = None) -> Story:
    """Senders 1 and 2 submit all messages in order; processes 11, 12 ... deliver what the lists say."""
    story = Story()
    for message, addressed in zip(MESSAGES, to or [None] * len(MESSAGES), strict=True):
        story.submit(message[0], message[1], to=addressed)
    for process, deliveries in enumerate(lists, start=11):
        story.deliver(process, *deliveries)
    return story


def has_total_order(lists: list[list[tuple[int, int]]]) -> bool:
    """Whether some order of all messages has every list as a part."""
    present = sorted({message for order in lists for message in order})
    return any(all(sorted(order, key=whole.index) == order for order in lists) for whole in permutations(present))


def fifo_violations(lists: list[list[tuple[int, int]]], to: list[tuple[int, ...] | None]) -> bool:
    """Whether some process delivers b, owes an earlier a of the same sender, and has no a before b."""
    addressed = dict(zip(MESSAGES, to, strict=True))
    for process, order in enumerate(lists, start=11):
        for a, b in combinations(MESSAGES, 2):
            if a[0] != b[0] or b not in order:
                continue
            owed = addressed[a] is None or process in addressed[a]
            if (a in order and order.index(a) > order.index(b)) or (owed and a not in order):
                return True
    return False


@settings(max_examples=300, deadline=None)
@given(orders)
def test_total_agrees_with_trying_every_order(lists):
    verdict = told(lists).verdict("total")
    shares = any(len(set(one) & set(other)) > 1 for one, other in combinations(lists, 2))
    assert verdict.status == ("violated" if not has_total_order(lists) else "valid" if shares else "unknown")


@settings(max_examples=300, deadline=None)
@given(orders, destinations)
def test_fifo_agrees_with_trying_every_pair(lists, to):
    verdict = told(lists, to).verdict("fifo")
    pairs = any(len(order) > len({sender for sender, _ in order}) for order in lists)
    assert verdict.status == ("violated" if fifo_violations(lists, to) else "valid" if pairs else "unknown")


@settings(max_examples=100, deadline=None)
@given(st.permutations(MESSAGES), st.lists(st.sets(st.sampled_from(MESSAGES)), min_size=2, max_size=4))
def test_total_has_no_false_alarm_for_parts_of_one_order(whole, parts):
    lists = [[message for message in whole if message in part] for part in parts]
    assert told(lists).status("total") != "violated"


def test_causal_agrees_with_trying_every_pair():
    made = [random_rows(seed, ("none", "none", "drop", "swap", "unflushed", "unsent")) for seed in range(1000, 1600)]
    runs = [rows for rows in made if rows and not any(row[KIND] in (Kind.VIEW, Kind.RECOVER) for row in rows)]
    wrong = [breaks_causality(rows) for rows in runs]
    assert [Oracle(rows).verdicts(["causal"])[0].status == "violated" for rows in runs] == wrong
    assert 10 < sum(wrong) < len(runs) - 10


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_domains_agree_with_trying_everything(domain):
    found: list[set[str]] = []
    for seed in range(300):
        rows = random_groups(seed)
        verdicts = [verdict for verdict in Oracle(rows, [domain]).scoped() if verdict.domain]
        broken = {verdict.property for verdict in verdicts if verdict.status == "violated"}
        found.append(broken - {"fifo-total"})
        assert found[-1] == broken_in(domain, rows), (seed, verdicts)
    for name in ("integrity", "fifo", "causal", "total"):
        assert 10 < sum(name in broken for broken in found) < 290
