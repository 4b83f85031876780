"""Histories that cannot have happened, or that break a promise in a way which is easy to overlook."""

from __future__ import annotations

import pytest
from tests.unit.judge.stories import Story, answers, recorded

from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.judge.oracle import PROPERTIES, Oracle
from isthmus.trace.schema import LOCAL, VALUE, Recording

# Integrity: submitted before, by local order and by causality


def test_a_delivery_before_its_submit_breaks_integrity_even_at_the_sender():
    story = Story().deliver(1, (1, 1)).submit(1, 1).deliver(2, (1, 1))
    verdict = story.verdict("integrity")
    assert (verdict.status, verdict.violation_count) == ("violated", 1)
    assert verdict.witness == "process 1 delivered 1:1 before it was submitted"


def test_a_delivery_in_an_earlier_life_precedes_the_submit_too():
    story = Story().deliver(1, (1, 1)).crash(1).recover(1).submit(1, 1)
    assert story.verdict("integrity").witness == "process 1 delivered 1:1 before it was submitted"


def test_two_messages_that_answer_each_other_break_integrity():
    verdict = answers().verdict("integrity")
    assert (verdict.status, verdict.violation_count) == ("violated", 1)
    assert "2:1 happened before 1:1, 1:1 happened before 2:1" in verdict.witness
    assert {event.process for event in verdict.events} == {1, 2}


def test_the_past_of_what_waits_for_ever_is_not_dropped():
    """Process 3 delivers 4:1 after the answer to a circle that 4:1 happened before."""
    story = Story().submit(4, 1).deliver(1, (4, 1), (2, 1)).submit(1, 1, to=(2,)).deliver(2, (1, 1))
    story.submit(2, 1)
    story.deliver(3, (2, 1), (4, 1))
    assert story.verdict("causal").status == "violated"
    assert "4:1, which happened before it" in story.verdict("causal").witness


def test_each_of_a_circle_is_in_the_past_of_the_other():
    assert answers().deliver(3, (1, 1), (2, 1)).verdict("causal").status == "violated"


# Fifo: what dies with its sender


def test_what_the_sender_itself_passed_over_did_not_die_with_it():
    story = Story().submit(1, 1, 2).deliver(1, (1, 2)).deliver(2, (1, 2)).crash(1)
    assert story.verdict("fifo").status == "violated"
    to_others = Story().submit(1, 1, to=(2, 3)).submit(1, 2).deliver(1, (1, 2)).deliver(2, (1, 2)).deliver(3, (1, 2))
    assert to_others.crash(1).verdict("fifo").violation_count == 0


def test_no_gap_for_a_message_of_a_view_beyond_the_receivers_stay():
    """Process 3 never goes on to view 2, in which 1:1 was submitted; that it has 1:2 is a matter of other checks."""
    story = Story().view(1, 1, 2, 3).view(2, 1, 2, 3, at=(1, 2)).submit(1, 1, 2)
    story.deliver(1, (1, 1), (1, 2)).deliver(2, (1, 1), (1, 2)).deliver(3, (1, 2))
    assert story.verdict("fifo").violation_count == 0
    assert story.verdict("causal").violation_count == 0


# Static groups: who owes


@pytest.mark.parametrize("name", ["validity", "agreement"])
def test_a_process_that_only_receives_owes_deliveries(name):
    story = Story().submit(1, 1).deliver(1, (1, 1)).deliver(2, (1, 1)).add(3, Kind.RECEIVE, (1, 1), value=1)
    verdict = story.verdict(name)
    assert verdict.status == "violated"
    assert "process 3" in verdict.witness
    assert story.crash(3).verdict(name).status == "valid"


@pytest.mark.parametrize("name", ["validity", "agreement"])
def test_a_process_that_is_only_named_in_destinations_owes_deliveries(name):
    story = Story().submit(1, 1, to=(1, 2, 3)).deliver(1, (1, 1)).deliver(2, (1, 1))
    assert "process 3" in story.verdict(name).witness
    crashed = story.crash(3)  # its CRASH row precedes everything it could do
    assert crashed.verdict(name).status == "valid"


def test_a_process_with_tentative_rows_alone_owes_deliveries():
    story = Story().submit(1, 1).deliver(1, (1, 1)).tentative(2, (1, 1))
    assert story.verdict("validity").status == "violated"


def test_the_messages_of_a_recovered_sender_are_owed_in_a_static_group():
    story = Story().submit(1, 1).deliver(1, (1, 1)).deliver(2, (1, 1)).crash(1).recover(1).submit(1, (1 << 32) + 1)
    assert (
        story.verdict("validity").witness == "process 2 never delivered 1:1.1, submitted by process 1 (incarnation 1)"
    )


# Lives


@pytest.mark.parametrize("kind", [Kind.SUBMIT, Kind.DELIVER, Kind.TENTATIVE, Kind.REVOKE])
def test_nothing_is_done_after_a_crash(kind):
    story = Story().submit(1, 1).deliver(1, (1, 1)).deliver(2, (1, 1)).crash(2)
    message = (2, 1) if kind == Kind.SUBMIT else (1, 1)
    after = story.add(2, kind, message)
    verdict = after.verdict("integrity")
    assert verdict.status == "violated"
    if kind not in (Kind.DELIVER,):
        assert verdict.witness.startswith("process 2 ") and "after it crashed" in verdict.witness
    assert after.recover(2).submit(2, 9).verdict("integrity").violation_count == verdict.violation_count


def test_a_crash_before_all_rows_of_a_life_ends_it():
    story = Story().submit(1, 1).deliver(1, (1, 1)).crash(2).deliver(2, (1, 1)).submit(1, 2).deliver(1, (1, 2))
    assert story.verdict("validity").status == "valid"


# Views


def test_a_view_is_installed_by_those_it_lists():
    stranger = Story().view(1, 1, 2, at=(1, 2, 3))
    assert stranger.verdict("views").witness == "process 3 installed view 1 (1, 2), which does not list it"


def test_a_listed_process_that_is_up_installs_the_view_or_a_later_one():
    story = Story().view(1, 1, 2, 3).view(2, 1, 2, 3, at=(1, 2))
    verdict = story.verdict("views")
    assert verdict.witness.startswith("process 3 is listed in view 2")
    assert [event.missing for event in verdict.events] == [False, True]
    assert Story().view(1, 1, 2, 3).view(2, 1, 2, 3, at=(1, 2)).view(3, 1, 2, 3).status("views") == "valid"
    assert Story().view(1, 1, 2, 3).view(2, 1, 2, 3, at=(1, 2)).crash(3).status("views") == "valid"
    suspected = Story().view(1, 1, 2, 3).view(2, 1, 2, 3, at=(1, 2)).add(1, Kind.SUSPECT, value=3)
    assert suspected.status("views") == "valid"


def test_a_view_told_twice_is_one_installation():
    story = Story().view(1, 1, 2).submit(1, 1).view(1, 1, 2).deliver(1, (1, 1)).deliver(2, (1, 1)).view(2, 1, 2)
    for name in ("views", "agreement", "sending-view"):
        assert story.status(name) == "valid", name


# Tentative


def test_what_is_tentative_was_submitted_and_is_settled():
    unsent = Story().tentative(1, (2, 1)).deliver(1, (2, 1))
    assert unsent.verdict("final").witness == "process 1 delivered 2:1 tentatively, which its sender never submitted"
    for_ever = Story().submit(2, 1).tentative(1, (2, 1)).deliver(2, (2, 1))
    assert "neither delivered it for good nor revoked it" in for_ever.verdict("final").witness
    assert for_ever.crash(1).verdict("final").violation_count == 0


# Payloads


def test_digests_are_compared_where_both_are_told():
    story = Story().add(1, Kind.SUBMIT, (1, 1), None, 10, value=77).deliver(1, (1, 1))
    assert story.verdict("integrity").status == "valid"
    story.add(2, Kind.DELIVER, (1, 1), None, 10, value=78)
    assert "another payload" in story.verdict("integrity").witness


# Rows


def test_a_row_that_was_ingested_twice_counts_once():
    rows = Story().view(1, 1, 2).submit(1, 1).deliver(1, (1, 1)).deliver(2, (1, 1)).rows
    assert Oracle(rows + rows).verdicts() == Oracle(rows).verdicts()
    other = [*rows[2][:LOCAL], rows[2][LOCAL], *rows[2][LOCAL + 1 : VALUE], 9, 0]
    with pytest.raises(InputError, match="two rows with"):
        Oracle([*rows, tuple(other)]).verdicts()


# Traces that were cut short


def test_a_trace_that_was_cut_short_is_unknown_where_it_matters():
    whole, cut, killed = (recorded(end) for end in (Recording.ENDED, Recording.CUT, None))
    assert whole.status("validity") == whole.status("agreement") == "violated"
    for story in (cut, killed):
        for name in ("validity", "agreement"):
            verdict = story.verdict(name)
            assert verdict.status == "unknown"
            assert verdict.witness == "the trace of processes 1, 2 was cut short"
        assert story.status("total") == whole.status("total")


def test_a_partial_trace_is_taken_at_the_users_word():
    rows = recorded(Recording.ENDED).rows
    for name in ("validity", "agreement"):
        verdict = Oracle(rows, partial=True).verdicts([name])[0]
        assert (verdict.status, verdict.witness) == ("unknown", "the trace is partial, as --partial says")


def test_a_sender_that_a_partial_trace_has_no_row_of_is_not_called_silent():
    story = Story().submit(1, 1).deliver(1, (1, 1), (3, 1)).deliver(2, (1, 1), (3, 1))
    assert story.status("integrity") == "violated"
    verdict = Oracle(story.rows, partial=True).verdicts(["integrity"])[0]
    assert (verdict.status, verdict.violation_count) == ("unknown", 0)
    assert verdict.witness.startswith("the trace is partial, as --partial says")


def test_messages_of_a_sender_that_was_killed_are_not_called_unsent():
    story = Story().add(1, Kind.RECORD, value=Recording.BEGUN).add(2, Kind.RECORD, value=Recording.BEGUN)
    story.view(1, 1, 2).submit(1, 1).deliver(1, (1, 1)).deliver(2, (1, 1), (1, 2))
    story.add(2, Kind.RECORD, value=Recording.ENDED)
    verdict = story.verdict("integrity")
    assert verdict.status == "unknown"
    assert verdict.witness.startswith("the trace of process 1 was cut short")
    assert story.deliver(2, (2, 9)).status("integrity") == "violated"  # 2 is all there


@pytest.mark.parametrize("name", PROPERTIES)
def test_every_witness_has_events_of_the_process_at_fault(name):
    """The guilty process is among the events, for each planted fault."""
    for story in (answers(), recorded(Recording.ENDED), Story().view(1, 1, 2, at=(1, 2, 3))):
        verdict = story.verdict(name)
        if verdict.status == "violated":
            assert verdict.shown is not None
            assert {life[0] for life in verdict.shown.lives} <= {event.process for event in verdict.events}
