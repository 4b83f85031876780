"""Up to where a process is done with an author's messages, where some never come."""

from __future__ import annotations

from isthmus.protocols.routing.done import GAP_ENQUIRIES, DoneTable
from isthmus.protocols.routing.filter import StreamState

KEY = (0, 1, 0, 0)
WAIT_NS = GAP_ENQUIRIES * 1_000_000


def consume(table: DoneTable, number: int, before: int, final: bool = False, complete: bool = False) -> None:
    table.note_consumed(KEY, number, table.note_handed(KEY, number, before, final, complete))


def test_where_nothing_is_sent_again_a_later_message_tells_of_a_loss() -> None:
    table = DoneTable(1.0)
    consume(table, 1, 0, final=True)
    consume(table, 3, 2, final=True)
    assert table.advance(KEY, 0) == 3


def test_what_is_handed_up_and_not_consumed_is_not_done_with() -> None:
    """A slow reader is no loss: its author must not be given credit for what it has not read."""
    table = DoneTable(1.0)
    first = table.note_handed(KEY, 1, 0, final=True, complete=False)
    consume(table, 3, 2, final=True)
    assert table.advance(KEY, 0) == 0
    table.note_consumed(KEY, 1, first)
    assert table.advance(KEY, 0) == 3


def test_a_gap_is_waited_for_where_it_may_be_filled() -> None:
    table = DoneTable(1.0)
    consume(table, 1, 0)
    consume(table, 3, 2)
    assert table.advance(KEY, 5) == 1 and table.advance(KEY, 4 + WAIT_NS) == 1
    consume(table, 2, 1)
    assert table.advance(KEY, 5) == 3


def test_a_gap_that_stays_is_taken_for_a_loss() -> None:
    table = DoneTable(1.0)
    for number in (1, 3, 5):
        consume(table, number, number - 1)
    assert [table.advance(KEY, turn * WAIT_NS) for turn in range(4)] == [1, 3, 3, 5]


def test_where_nothing_is_lost_a_gap_is_waited_for_for_ever() -> None:
    table = DoneTable(1.0)
    consume(table, 1, 0, complete=True)
    consume(table, 3, 2, complete=True)
    assert [table.advance(KEY, turn * WAIT_NS) for turn in range(4)] == [1] * 4


def test_one_that_joins_does_not_wait_for_what_was_lost_before() -> None:
    table = DoneTable(1.0)
    table.restore((StreamState(KEY, 1, ((2, 3),)),))
    assert [table.advance(KEY, turn * WAIT_NS) for turn in range(2)] == [1, 3]
    table.restore((StreamState(KEY, 1, ((2, 3),)),))
    consume(table, 4, 3, final=True)
    assert table.advance(KEY, 0) == 4
