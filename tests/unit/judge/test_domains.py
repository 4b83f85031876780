"""Groups and domains: what is carried from one to another keeps its name, and is judged end to end."""

from __future__ import annotations

import pytest
from tests.unit.judge.stories import Story

from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.judge.oracle import Oracle
from isthmus.judge.verdict import Verdict
from isthmus.trace.domain import DOMAIN_PROPERTIES, JOINT, Domain, parse_domain, parse_domains
from isthmus.trace.schema import NONE

BOTH = Domain("both", (0, 1))
INTER = Domain("between", (0, 1), "inter")


def judged(story: Story, *domains: Domain) -> dict[tuple[int | str, str], Verdict]:
    """(group or domain, property) to its verdict."""
    found = Oracle(story.rows, domains or (BOTH,)).scoped()
    return {(verdict.domain or verdict.group, verdict.property): verdict for verdict in found}


def violated(story: Story, *domains: Domain, also: str = "") -> set[tuple[int | str, str]]:
    """What is violated of the properties that domains have."""
    found = judged(story, *domains).items()
    wanted = (*DOMAIN_PROPERTIES, also)
    return {key for key, verdict in found if verdict.status == "violated" and key[1] in wanted}


def carried() -> Story:
    """Process 1 of group 0 submits two messages; router 2 is in both groups and carries them to process 3."""
    story = Story().submit(1, 1, 2).deliver(1, (1, 1), (1, 2)).deliver(2, (1, 1), (1, 2))
    story.add(2, Kind.SUBMIT, (1, 1), group=1, origin=0).add(2, Kind.SUBMIT, (1, 2), group=1, origin=0)
    return story.deliver(3, (1, 1), (1, 2), group=1, origin=0).deliver(4, (1, 1), (1, 2), group=1, origin=0)


def test_a_carried_message_was_submitted_where_it_comes_from():
    found = judged(carried())
    assert violated(carried(), also="agreement") == set()
    assert found[1, "integrity"].evidence_count == 4 and found["both", "integrity"].evidence_count == 8
    for name in ("integrity", "fifo", "total"):
        assert {found[place, name].status for place in (0, 1, "both")} == {"valid"}
    assert (found["both", "total"].group, found["both", "total"].domain) == (NONE, "both")
    assert not any(place == "both" and name not in JOINT for place, name in found)


def test_a_message_that_no_group_submitted_is_found_in_the_group_and_the_domain():
    story = carried().deliver(3, (1, 9), group=1, origin=0)
    assert violated(story) >= {(1, "integrity"), ("both", "integrity")}
    assert judged(story)[1, "integrity"].witness == "process 3 delivered 0/1:9, which its sender never submitted"
    other = Story().submit(1, 1).deliver(3, (1, 1), group=1)  # of the same name, but submitted to group 0
    assert (1, "integrity") in violated(other)


def test_one_group_is_judged_on_the_rows_of_all():
    verdicts = Oracle(carried().rows).in_group(1, ["total", "integrity", "views"])
    assert [(verdict.property, verdict.group, verdict.status) for verdict in verdicts] == [
        ("total", 1, "valid"),
        ("integrity", 1, "valid"),
        ("views", 1, "unknown"),
    ]
    assert Oracle(carried().rows).in_group(7, ["fifo"])[0].status == "unknown"


def test_destinations_count_in_the_origin_group_only():
    story = Story().submit(1, 1, to=(1, 2)).deliver(3, (1, 1), group=1, origin=0)
    assert violated(story) == set()
    assert violated(story.deliver(3, (1, 1))) == {(0, "integrity"), ("both", "integrity")}, "and twice in the domain"


def test_two_routers_bring_a_duplicate():
    story = Story().submit(1, 1).deliver(1, (1, 1)).deliver(2, (1, 1), group=1, origin=0)
    story.deliver(2, (1, 1), group=2, origin=0)  # process 2 is in the groups 1 and 2
    domain = Domain("all", (0, 1, 2))
    assert violated(story, domain) == {("all", "integrity")}
    verdict = judged(story, domain)["all", "integrity"]
    assert verdict.witness == "process 2 delivered 0/1:1 twice"
    assert [(event.process, event.message, event.group) for event in verdict.events] == [
        (2, (0, 1, 1), 1),
        (2, (0, 1, 1), 2),
    ]


def test_fifo_across_groups():
    story = Story().submit(1, 1, 2, group=5).deliver(1, (1, 1), (1, 2), group=5)
    story.deliver(2, (1, 2), group=0, origin=5).deliver(2, (1, 1), group=1, origin=5)
    assert violated(story) == {("both", "fifo")}
    assert judged(story)["both", "fifo"].witness == "process 2 delivered 5/1:1 after 5/1:2 of the same sender"


def test_numbers_of_different_groups_are_not_compared():
    story = Story().submit(1, 7).submit(1, 1, group=1).deliver(1, (1, 7)).deliver(1, (1, 1), group=1)
    story.deliver(2, (1, 7)).deliver(2, (1, 1), group=1)
    assert violated(story) == set()


def test_a_router_may_leave_messages_out():
    story = Story().submit(1, 1, 2, 3).deliver(1, (1, 1), (1, 2), (1, 3))
    story.deliver(3, (1, 1), (1, 3), group=1, origin=0).deliver(4, (1, 1), (1, 3), group=1, origin=0)
    assert violated(story, BOTH, INTER) == set()


def test_total_across_groups():
    """Two messages cross each other: each group agrees in itself, and the two groups with each other do not."""
    story = Story().submit(1, 1).submit(3, 1, group=1)
    for process in (1, 2):
        story.deliver(process, (1, 1)).deliver(process, (3, 1), origin=1)
    for process in (3, 4):
        story.deliver(process, (3, 1), group=1).deliver(process, (1, 1), group=1, origin=0)
    assert violated(story) == {("both", "total"), ("both", "uniform-total")}
    assert judged(story)["both", "total"].witness == (
        "process 1 delivered 0/1:1 before 1/3:1, process 3 delivered 1/3:1 before 0/1:1"
    )
    assert [event.local for event in judged(story)["both", "total"].events] == [0, 0, 1, 2, 1, 2]
    crashed = story.crash(3).crash(4)
    assert violated(crashed) == {("both", "uniform-total")}


def test_causal_across_groups():
    """Process 3 answers in group 1 what came from group 0; process 5 is in both, and gets the answer first."""
    story = Story().submit(1, 1).deliver(1, (1, 1)).deliver(3, (1, 1), group=1, origin=0).submit(3, 1, group=1)
    story.deliver(5, (3, 1), group=1).deliver(5, (1, 1))
    assert violated(story) == {("both", "causal")}
    assert "which happened before it" in judged(story)["both", "causal"].witness


def test_a_carried_message_is_in_the_past_of_what_follows_it_in_the_group():
    story = Story().submit(1, 1).deliver(3, (1, 1), group=1, origin=0).submit(3, 1, group=1)
    story.deliver(3, (3, 1), group=1).deliver(4, (3, 1), group=1).deliver(4, (1, 1), group=1, origin=0)
    assert (1, "causal") in violated(story)


def test_inter_passes_over_what_stays_in_a_group():
    """A message of group 1 alone is out of order at process 2, which is in both groups; those that cross are not."""
    story = Story().submit(1, 1).submit(2, 1, 2).deliver(1, (1, 1)).deliver(3, (1, 1), group=1, origin=0)
    story.deliver(1, (2, 2), (2, 1))
    assert violated(story, BOTH, INTER) == {(place, name) for place in (0, "both") for name in ("fifo", "causal")}
    story.deliver(3, (2, 1), (2, 2), group=1, origin=0)
    assert ("between", "fifo") in violated(story, BOTH, INTER)


def test_agreement_holds_for_carried_messages_too():
    story = carried().deliver(3, (1, 3), group=1, origin=0).submit(1, 3)
    assert (1, "agreement") in violated(story, also="agreement")


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("a=0,1", Domain("a", (0, 1))),
        (" campus-2=2,0,1:inter ", Domain("campus-2", (0, 1, 2), "inter")),
        ("x=1,2:all", Domain("x", (1, 2))),
    ],
)
def test_domains_are_read(text, domain):
    assert parse_domain(text) == domain


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a", "'a'; expected NAME=0,1,2"),
        ("a=0", "expected NAME=0,1,2 with two groups or more"),
        ("=0,1", "expected NAME"),
        ("a=0,x", "expected NAME"),
        ("a=0,1:some", "the scope 'some'; expected inter or all"),
        ("a=0,1,0", "a group twice in 0,1,0"),
    ],
)
def test_bad_domains_are_one_sentence(text, words):
    with pytest.raises(InputError, match="--domain.*" + words):
        parse_domains([text])


def test_two_domains_of_one_name_are_refused():
    with pytest.raises(InputError, match="two domains of that name"):
        parse_domains(["a=0,1", "a=1,2"])
