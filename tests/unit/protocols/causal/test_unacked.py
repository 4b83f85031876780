"""Who has yet to acknowledge what, and whom to ask."""

from __future__ import annotations

from isthmus.protocols.causal.histories.unacked import UnackedMessages


def unacked(*destinations: int) -> UnackedMessages:
    made = UnackedMessages()
    for count, mask in enumerate(destinations, 1):
        made.add(count, mask)
    return made


def test_a_message_is_stable_when_all_destinations_and_all_before_it_are() -> None:
    found = unacked(0b01, 0b11, 0b10)
    assert found.note(0b10, 3) == []
    assert found.stable == 0
    assert found.note(0b01, 1) == [1]
    assert found.stable == 1
    assert found.note(0b01, 2) == [2, 3]
    assert found.stable == 3


def test_an_acknowledgement_that_was_overtaken_takes_nothing_back() -> None:
    found = unacked(0b1, 0b1)
    assert found.note(0b1, 2) == [1, 2]
    assert found.note(0b1, 1) == []
    assert found.stable == 2


def test_whom_to_ask_is_who_was_behind_at_the_last_look_too() -> None:
    found = unacked(0b01)
    assert found.overdue() == 0
    found.add(2, 0b10)
    assert found.overdue() == 0b01
    assert found.overdue() == 0b11
    found.note(0b11, 2)
    assert found.overdue() == 0


def test_looks_are_rarer_while_nothing_becomes_stable() -> None:
    found = unacked(0b01, 0b01)
    seen = []
    for _ in range(5):
        found.overdue()
        seen.append(found.backoff())
    assert seen == [1, 2, 4, 4, 4]
    found.note(0b01, 1)
    found.overdue()
    assert found.backoff() == 1
    assert found.everyone() == 0b01


def test_a_counter_that_nobody_acknowledges_holds_nothing_up() -> None:
    found = unacked(0b1)
    found.pass_over(2)
    assert found.stable == 0
    assert found.note(0b1, 1) == [1]
    assert found.stable == 2
    found.pass_over(3)
    assert found.stable == 3
