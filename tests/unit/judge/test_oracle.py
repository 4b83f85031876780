"""Every property: a history that keeps it, each way to break it, and a history that says nothing of it."""

from __future__ import annotations

import random

import pytest
from tests.unit.judge.stories import Story, quiet_run

from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.judge.oracle import PROPERTIES, Oracle


@pytest.mark.parametrize("name", [name for name in PROPERTIES if not name.startswith("clock-")])
def test_quiet_run_is_valid(name):
    verdict = quiet_run().verdict(name)
    assert (verdict.status, verdict.violation_count, verdict.witness) == ("valid", 0, "")
    assert verdict.evidence_count > 0


@pytest.mark.parametrize("name", PROPERTIES)
def test_nothing_seen_is_unknown(name):
    verdict = Oracle().verdicts([name])[0]
    assert verdict.status == "unknown"
    assert verdict.witness


def test_rows_may_come_in_any_order():
    rows = quiet_run().rows
    expected = Oracle(rows).verdicts()
    random.Random(1).shuffle(rows)
    oracle = Oracle()
    for row in rows:
        oracle.feed(row)
    assert oracle.verdicts() == expected


def test_verdicts_follow_what_is_fed_later():
    oracle = Oracle(quiet_run().rows)
    assert oracle.verdicts(["total"])[0].status == "valid"
    for row in Story().deliver(9, (1, 2), (1, 1)).rows:
        oracle.feed(row)
    assert oracle.verdicts(["total"])[0].status == "violated"


def test_unknown_property_is_named():
    with pytest.raises(InputError, match="'totl'; expected one of integrity"):
        Oracle().verdicts(["totl"])


def test_two_rows_in_one_place_are_refused():
    row = quiet_run().rows[0]
    with pytest.raises(InputError, match="two rows with 0"):
        Oracle([row, (*row[:-1], 7)]).verdicts()


def test_view_without_members_is_refused():
    with pytest.raises(InputError, match="no members"):
        Oracle(Story().add(1, Kind.VIEW, value=1).rows).verdicts()


@pytest.mark.parametrize("sites", [(1, 2, 3, 1, 1), (1, 2), (1, 2, 3, 1, 1, 1, 1)])
def test_a_view_with_another_number_of_weights_than_members_is_refused(sites):
    story = Story().add(1, Kind.VIEW, to=sites, value=1, gauge=3)
    with pytest.raises(InputError, match=r"process 1: view 1: .*; expected .*a weight for each member"):
        Oracle(story.rows).verdicts()


def test_groups_are_judged_apart():
    story = Story().submit(1, 1, 2).submit(1, 1, 2, group=1)
    for group, order in ((0, (1, 2)), (1, (2, 1))):
        for process in (1, 2):
            story.deliver(process, *((1, number) for number in order), group=group)
    assert story.status("total") == "valid"
    assert story.verdict("fifo").violation_count == 2
    scoped = Oracle(story.rows).scoped(["fifo", "total"])
    assert [(verdict.group, verdict.property, verdict.status) for verdict in scoped] == [
        (0, "fifo", "valid"),
        (0, "total", "valid"),
        (1, "fifo", "violated"),
        (1, "total", "valid"),
    ]


# integrity


@pytest.mark.parametrize(
    ("story", "witness"),
    [
        (Story().submit(1, 1).deliver(2, (1, 1), (1, 1)), "process 2 delivered 1:1 twice"),
        (Story().submit(1, 1).deliver(2, (1, 2)), "process 2 delivered 1:2, which its sender never submitted"),
        (Story().add(2, Kind.SUBMIT, (1, 1)).deliver(2, (1, 1)), "which its sender never submitted"),
        (Story().submit(1, 1, to=(2, 3)).deliver(4, (1, 1)), "addressed to (2, 3) only"),
        (Story().submit(1, 1, to=(2,)).deliver(1, (1, 1)), "process 1 delivered 1:1, which is addressed to (2) only"),
        (Story().submit(1, 1).deliver(2, (1, 1), payload_bytes=9), "with 9 bytes, submitted with 10"),
        (Story().submit(1, 1, 1).deliver(2, (1, 1)), "process 1 submitted 1:1, which was submitted before"),
    ],
)
def test_integrity_broken(story, witness):
    verdict = story.verdict("integrity")
    assert verdict.status == "violated"
    assert witness in verdict.witness


def test_a_new_incarnation_may_deliver_again():
    story = Story().submit(1, 1).deliver(2, (1, 1)).crash(2).recover(2).deliver(2, (1, 1))
    assert story.status("integrity") == "valid"
    assert "process 2 (incarnation 1) delivered 1:1 twice" in story.deliver(2, (1, 1)).verdict("integrity").witness


# fifo


def test_fifo_broken_by_order():
    verdict = Story().submit(1, 1, 2).deliver(2, (1, 2), (1, 1)).verdict("fifo")
    assert (verdict.status, verdict.violation_count) == ("violated", 1)
    assert verdict.witness == "process 2 delivered 1:1 after 1:2 of the same sender"


def test_fifo_broken_by_a_gap():
    verdict = Story().submit(1, 1, 2, 3).deliver(2, (1, 1), (1, 3)).verdict("fifo")
    assert (verdict.status, verdict.violation_count) == ("violated", 1)
    assert verdict.witness == "process 2 delivered 1:3 but never 1:2, submitted before it"


def test_fifo_broken_by_a_gap_before_the_first_delivery():
    assert Story().submit(1, 1, 2).deliver(2, (1, 2)).status("fifo") == "violated"


def test_fifo_gap_spans_views_that_were_stayed_in():
    story = Story().view(1, 1, 2).submit(1, 1).view(2, 1, 2).submit(1, 2).deliver(2, (1, 2))
    assert story.status("fifo") == "violated"


def test_fifo_one_delivery_a_sender_is_no_evidence():
    assert Story().submit(1, 1).submit(2, 1).deliver(3, (1, 1), (2, 1)).status("fifo") == "unknown"


def test_fifo_leaves_out_what_is_for_others():
    story = Story().submit(1, 1).submit(1, 2, to=(3,)).submit(1, 3).deliver(2, (1, 1), (1, 3))
    assert story.status("fifo") == "valid"


def test_fifo_joiner_owes_nothing_from_before():
    story = Story().view(1, 1, 2).submit(1, 1).view(2, 1, 2, 3).submit(1, 2, 3).deliver(3, (1, 2), (1, 3))
    assert story.status("fifo") == "valid"


def test_fifo_recovered_process_owes_nothing_from_its_former_life():
    story = Story().view(1, 1, 2).submit(1, 1).crash(2).view(2, 1).submit(1, 2).recover(2).view(3, 1, 2)
    assert story.submit(1, 3, 4).deliver(2, (1, 3), (1, 4)).status("fifo") == "valid"
    static = Story().submit(1, 1).crash(2).recover(2).submit(1, 2, 3).deliver(2, (1, 2), (1, 3))
    assert static.status("fifo") == "valid"


def test_fifo_sender_thrown_out_and_back_owes_what_it_submitted_outside_to_nobody():
    story = Story().view(1, 1, 2, 3).submit(1, 1).view(2, 2, 3).view(3, 2, 3, 1).submit(1, 2, 3)
    assert story.deliver(2, (1, 2), (1, 3)).status("fifo") == "valid"


def test_fifo_receiver_thrown_out_and_back_owes_nothing_from_before():
    story = Story().view(1, 1, 2, 3).submit(1, 1).view(2, 1, 3).view(3, 1, 3, 2).submit(1, 2, 3)
    assert story.deliver(2, (1, 2), (1, 3)).status("fifo") == "valid"


def test_fifo_passes_over_a_second_delivery():
    assert Story().submit(1, 1, 2).deliver(2, (1, 1), (1, 2), (1, 1)).status("fifo") == "valid"


# total


def test_total_broken_by_two():
    story = Story().submit(1, 1).submit(2, 1).deliver(3, (1, 1), (2, 1)).deliver(4, (2, 1), (1, 1))
    verdict = story.verdict("total")
    assert (verdict.status, verdict.violation_count) == ("violated", 1)
    assert verdict.witness == "process 3 delivered 1:1 before 2:1, process 4 delivered 2:1 before 1:1"


def test_total_broken_by_a_cycle_of_three():
    a, b, c = (1, 1), (2, 1), (3, 1)
    verdict = Story().deliver(4, a, b).deliver(5, b, c).deliver(6, c, a).verdict("total")
    assert (verdict.status, verdict.violation_count) == ("violated", 1)
    assert verdict.witness.count("before") == 3
    for process in (4, 5, 6):
        assert f"process {process} delivered" in verdict.witness


def test_total_one_message_out_of_place_counts_once():
    order = [(1, number) for number in range(1, 50)]
    story = Story().deliver(1, *order).deliver(2, *order)
    verdict = story.deliver(3, *order[:5], *order[6:20], order[5], *order[20:]).verdict("total")
    assert (verdict.status, verdict.violation_count) == ("violated", 1)


def test_uniform_total_counts_a_crashed_life_and_tells_lives_apart():
    a, b = (1, 1), (2, 1)
    story = Story().deliver(3, a, b).deliver(4, b, a).crash(4)
    assert story.status("uniform-total") == "violated"
    assert story.status("total") == "unknown"
    again = Story().deliver(3, a, b).crash(3).recover(3).deliver(3, b, a)
    assert "process 3 (incarnation 1)" in again.verdict("uniform-total").witness


def test_total_holds_a_crashed_life_to_the_views_it_survived():
    a, b, c, d = (1, 1), (2, 1), (1, 2), (2, 2)
    story = Story().view(1, 3, 4, 5).deliver(3, a, b).deliver(4, a, b).deliver(5, a, b).view(2, 3, 4, 5)
    last = story.deliver(3, c, d).deliver(4, c, d).deliver(5, d, c).crash(5)
    assert (last.status("total"), last.status("uniform-total")) == ("valid", "violated")
    earlier = Story().view(1, 3, 4, 5).deliver(3, a, b).deliver(4, a, b).deliver(5, b, a).view(2, 3, 4, 5).crash(5)
    assert earlier.status("total") == "violated"


def test_total_without_two_shared_messages_is_unknown():
    assert Story().deliver(1, (1, 1), (1, 2)).deliver(2, (1, 2), (1, 3)).status("total") == "unknown"


# agreement


def lost_in_view(*, crash: bool) -> Story:
    """Process 3 misses 1:1 in view 1; it goes on to view 2, or crashes first."""
    story = Story().view(1, 1, 2, 3).submit(1, 1).deliver(1, (1, 1)).deliver(2, (1, 1))
    return story.crash(3).view(2, 1, 2) if crash else story.view(2, 1, 2, 3)


def test_agreement_broken_in_a_view():
    verdict = lost_in_view(crash=False).verdict("agreement")
    assert verdict.violation_count == 1
    assert verdict.witness == ("process 1 delivered 1:1 in view 1; process 3, which went on to view 2 too, never did")


def test_agreement_broken_by_a_delivery_one_view_late():
    verdict = lost_in_view(crash=False).deliver(3, (1, 1)).verdict("agreement")
    assert verdict.status == "violated"
    assert "delivered it in another view" in verdict.witness


def test_agreement_asks_nothing_of_the_crashed():
    assert lost_in_view(crash=True).status("agreement") == "valid"


def test_agreement_asks_nothing_of_those_thrown_out():
    story = Story().view(1, 1, 2, 3).submit(1, 1).deliver(1, (1, 1)).deliver(2, (1, 1)).view(2, 1, 2)
    assert story.status("agreement") == "valid"


def test_agreement_broken_in_the_last_view():
    verdict = Story().view(1, 1, 2).submit(1, 1).deliver(1, (1, 1)).verdict("agreement")
    assert verdict.witness == "process 1 delivered 1:1 in view 1; process 2, which is up at the end too, never did"


def test_agreement_broken_in_a_static_group():
    assert Story().submit(1, 1, 2).deliver(1, (1, 1), (1, 2)).deliver(2, (1, 1)).status("agreement") == "violated"


def test_agreement_waits_for_the_view_change_that_a_crash_calls_for():
    story = Story().view(1, 1, 2, 3).submit(3, 1).deliver(1, (3, 1)).crash(3)
    assert story.status("agreement") == "unknown"
    assert story.status("validity") == "unknown"
    assert "still lists process 3" in story.verdict("validity").witness


def test_agreement_looks_at_what_is_addressed_to_both():
    story = Story().view(1, 1, 2, 3).submit(1, 1, to=(1, 2)).deliver(1, (1, 1))
    assert "process 2" in story.verdict("agreement").witness
    assert story.deliver(2, (1, 1)).status("agreement") == "valid"


# validity


def test_validity_broken():
    verdict = quiet_run().submit(2, 2).verdict("validity")
    assert (verdict.status, verdict.violation_count) == ("violated", 3)
    assert verdict.witness == "process 1 never delivered 2:2, submitted by process 2"


def test_validity_asks_nothing_for_the_crashed_sender():
    story = Story().view(1, 1, 2, 3).submit(3, 1).crash(3).view(2, 1, 2)
    assert story.submit(1, 1).deliver(1, (1, 1)).deliver(2, (1, 1)).status("validity") == "valid"


def test_validity_asks_nothing_of_joiners_and_the_recovered():
    story = Story().view(1, 1, 2).submit(1, 1).deliver(1, (1, 1)).crash(2).view(2, 1).recover(2).view(3, 1, 2, 3)
    assert story.status("validity") == "valid"


def test_validity_asks_nothing_while_members_suspect_one_another():
    story = Story().view(1, 1, 2).submit(1, 1).deliver(1, (1, 1)).add(1, Kind.SUSPECT, value=2)
    assert story.verdict("validity").witness == "process 1 suspects process 2 at the end"
    assert story.status("validity") == "unknown"
    assert story.add(1, Kind.TRUST, value=2).status("validity") == "violated"


def test_validity_in_a_static_group():
    assert Story().submit(1, 1).deliver(1, (1, 1)).deliver(2, (1, 1)).status("validity") == "valid"
    assert Story().submit(1, 1, 2).deliver(1, (1, 1), (1, 2)).deliver(2, (1, 1)).status("validity") == "violated"


# views


@pytest.mark.parametrize(
    ("story", "witness"),
    [
        (Story().view(2, 1, 2).view(1, 1, 2), "process 1 installed view 1 after view 2"),
        (Story().view(1, 1, 2).crash(1).recover(1).view(1, 1, 2, at=(1,)), "installed view 1 after view 1"),
        (Story().view(1, 1, 2, at=(1,)).view(1, 1, 2, 3, at=(2,)), "view 1 is (1, 2, 3) at process 2 and (1, 2) at"),
        (
            Story().view(1, 1, 2, at=(1,)).view(1, 2, 1, at=(2,)),
            "view 1 is (2, 1) at process 2 and (1, 2) at",
        ),
    ],
)
def test_views_broken(story, witness):
    verdict = story.verdict("views")
    assert verdict.status == "violated"
    assert witness in verdict.witness


def test_one_view_at_one_process_says_nothing():
    assert Story().view(1, 1, 2, at=(1,)).status("views") == "unknown"


# final


def optimistic() -> Story:
    return Story().submit(1, 1, 2).submit(2, 1)


def test_a_guess_may_be_wrong_and_a_message_may_be_final_at_once():
    story = optimistic().tentative(1, (1, 2), (1, 1))
    for process in (1, 2):
        story.deliver(process, (1, 1), (2, 1), (1, 2))
    verdict = story.verdict("final")
    assert (verdict.status, verdict.evidence_count) == ("valid", 2)


def test_tentative_after_final_breaks_final():
    verdict = optimistic().deliver(1, (1, 1)).tentative(1, (1, 1)).verdict("final")
    assert (verdict.status, verdict.violation_count) == ("violated", 1)
    assert verdict.witness == "process 1 delivered 1:1 tentatively after it was final"


def test_tentative_twice_breaks_final():
    verdict = optimistic().tentative(1, (1, 1), (1, 1)).deliver(1, (1, 1)).verdict("final")
    assert verdict.witness == "process 1 delivered 1:1 tentatively twice"


def test_revoked_is_never_final():
    story = optimistic().tentative(1, (1, 1), (1, 2)).add(1, Kind.REVOKE, (1, 1)).deliver(1, (1, 2))
    assert story.status("final") == "valid"
    assert story.deliver(1, (1, 1)).verdict("final").witness == "process 1 delivered 1:1 for good, though it revoked it"


def test_a_final_order_that_is_not_total_breaks_final():
    story = optimistic().tentative(1, (1, 1)).deliver(1, (1, 1), (2, 1)).deliver(2, (2, 1), (1, 1))
    verdict = story.verdict("final")
    assert (verdict.status, verdict.violation_count) == ("violated", 1)


def test_a_new_life_may_guess_again():
    story = optimistic().deliver(3, (1, 1)).crash(3).recover(3).tentative(3, (1, 1)).deliver(3, (1, 1))
    assert story.status("final") == "valid"
