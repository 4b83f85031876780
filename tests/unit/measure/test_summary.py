"""A run in a few figures: latencies, what is owed, what a crash forgives."""

from __future__ import annotations

from isthmus.core.layer import Kind
from isthmus.measure.summary import RunSummary
from isthmus.trace.schema import NONE, Row


class Told:
    """A summary that is told rows."""

    def __init__(self, groups: int | dict[int, tuple[int, ...]] = 3) -> None:
        self.summary = RunSummary(groups)

    def row(self, time: int, process: int, kind: Kind, message=(NONE, NONE), to=None, group=0, origin=None) -> Told:
        born = group if origin is None else origin
        row: Row = (0, process, 0, time, kind, born, *message, group, 1, to, 0, 0, 0, 0)
        self.summary.append(row)
        return self

    def submit(self, time: int, sender: int, number: int, to: tuple[int, ...] | None = None) -> Told:
        return self.row(time, sender, Kind.SUBMIT, (sender, number), to)

    def deliver(self, time: int, process: int, sender: int, number: int) -> Told:
        return self.row(time, process, Kind.DELIVER, (sender, number))


def test_latency_counts_for_each_delivery_and_to_the_last() -> None:
    told = Told().submit(100, 0, 1).deliver(100, 0, 0, 1).deliver(130, 2, 0, 1)
    assert told.summary.undelivered_count() == 1 and told.summary.per_message.count == 0
    summary = told.deliver(120, 1, 0, 1).summary
    assert (summary.delivered.count, round(3 * summary.delivered.mean()), summary.delivered.maximum) == (3, 50, 30)
    assert (summary.per_message.count, summary.per_message.mean()) == (1, 30)
    assert summary.undelivered_count() == 0 and not summary.open


def test_a_message_to_some_is_owed_to_them_alone() -> None:
    told = Told().submit(0, 0, 1, to=(1, 2)).deliver(5, 1, 0, 1)
    assert told.summary.undelivered_count() == 1
    assert told.deliver(9, 2, 0, 1).summary.per_message.maximum == 9


def test_clocks_of_two_machines_make_no_negative_latency() -> None:
    summary = Told(1).submit(100, 0, 1).deliver(90, 0, 0, 1).summary
    assert summary.delivered.maximum == summary.per_message.maximum == 0
    assert summary.delivered.count == summary.per_message.count == 1


def test_a_crash_forgives_what_was_owed_to_it() -> None:
    told = Told().submit(0, 0, 1).deliver(1, 0, 0, 1).deliver(7, 1, 0, 1)
    assert told.summary.undelivered_count() == 1
    summary = told.row(9, 2, Kind.CRASH).summary
    assert summary.undelivered_count() == 0 and summary.crash_count == 1
    assert summary.per_message.maximum == 7, "the last who could deliver it did so"
    assert told.submit(10, 0, 2).summary.undelivered_count() == 2, "and nothing new is owed to it"


def test_a_message_that_nobody_delivered_has_no_latency() -> None:
    summary = Told().submit(5, 0, 1, to=(2,)).row(9, 2, Kind.CRASH).summary
    assert summary.per_message.count == 0 and not summary.open
    assert Told().row(1, 2, Kind.CRASH).submit(5, 0, 1, to=(2,)).summary.open == {}


def test_what_dies_with_its_sender_is_not_owed_also_when_the_sender_comes_back() -> None:
    told = Told().submit(0, 0, 1).submit(0, 1, 1).row(1, 0, Kind.CRASH)
    assert told.summary.undelivered_count() == 2, "of sender 1, to 1 and 2"
    told.row(2, 0, Kind.VIEW)
    assert told.summary.undelivered_count() == 2
    told.deliver(3, 1, 0, 1)  # it may still be delivered, and then counts
    assert told.summary.delivered.count == 1
    assert told.submit(4, 0, 1 << 32 | 1).summary.undelivered_count() == 2 + 3


def test_one_that_comes_back_is_owed_messages_from_its_view_on() -> None:
    told = Told().row(0, 2, Kind.CRASH).submit(1, 0, 1).row(2, 2, Kind.VIEW).submit(3, 0, 2)
    assert told.summary.undelivered_count() == 2 + 3


def test_a_second_delivery_of_what_is_settled_counts_nothing() -> None:
    summary = Told(1).submit(0, 0, 1).deliver(1, 0, 0, 1).deliver(2, 0, 0, 1).summary
    assert summary.delivered.count == 1
    assert Told().deliver(2, 0, 1, 9).summary.delivered.count == 0, "nor one of a message that nobody submitted"


def test_refusals_and_rejections_are_counted() -> None:
    told = Told().row(0, 1, Kind.REFUSE).row(0, 1, Kind.REJECT).row(0, 2, Kind.REJECT).row(0, 0, Kind.ROLE)
    assert (told.summary.refused_count, told.summary.rejected_count) == (1, 2)


def test_memory_holds_only_what_is_owed() -> None:
    told = Told(2)
    for number in range(1000):
        told.submit(number, 0, number).deliver(number, 0, 0, number).deliver(number + 1, 1, 0, number)
        assert len(told.summary.open) == 0
    assert told.summary.submitted_count == 1000


def test_a_message_is_owed_in_the_group_it_was_submitted_to() -> None:
    told = Told({0: (0, 1), 1: (1, 2)}).row(0, 0, Kind.SUBMIT, (0, 1)).row(0, 1, Kind.SUBMIT, (1, 1), group=1)
    assert told.summary.undelivered_count() == 4
    told.row(3, 0, Kind.DELIVER, (0, 1)).row(4, 1, Kind.DELIVER, (0, 1))
    told.row(5, 1, Kind.SUBMIT, (0, 1), group=1, origin=0)  # carried over, and submitted there by the router
    told.row(9, 2, Kind.DELIVER, (0, 1), group=1, origin=0)
    assert (told.summary.submitted_count, told.summary.delivered.count, told.summary.per_message.maximum) == (2, 2, 4)
    told.row(20, 1, Kind.CRASH)
    assert told.summary.undelivered_count() == 0, "its sender crashed"
    told.row(30, 1, Kind.VIEW, group=1).row(31, 2, Kind.SUBMIT, (2, 1), group=1).row(32, 0, Kind.SUBMIT, (0, 2))
    assert told.summary.undelivered_count() == 2 + 1, "process 1 is back in group 1 only"


def test_a_delivery_counts_once_and_only_where_it_is_owed() -> None:
    summary = Told().submit(0, 0, 1, to=(1, 2)).deliver(3, 1, 0, 1).deliver(4, 1, 0, 1).deliver(5, 0, 0, 1).summary
    assert (summary.delivered.count, summary.delivered.maximum) == (1, 3)
