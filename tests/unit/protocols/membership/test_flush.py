"""What a site lacks of a cut, whom it asks, and what it gives away."""

from __future__ import annotations

from isthmus.core.message import Cast, SiteId
from isthmus.protocols.membership.cut import CutSlice
from isthmus.protocols.membership.flush import Flush
from isthmus.protocols.membership.wire import Frame
from isthmus.protocols.transport.reliable.frames import Data

S = SiteId


def frame(seq: int, size: int = 1) -> Frame:
    return Data(seq, Cast(S(9), seq, b"x" * size))


def test_what_is_lacking_shrinks_with_what_is_taken() -> None:
    flush = Flush(1, {S(9): {1: frame(1)}})
    flush.aim((CutSlice(S(9), 0, ((1, 3),), (S(1),)),))
    assert flush.lacking() == ((S(9), ((2, 3),)),)
    flush.take([(S(9), frame(2)), (S(9), frame(7))])
    assert flush.lacking() == ((S(9), ((3, 3),)),)
    assert 7 not in flush.frames[S(9)]  # nobody asked for it
    flush.take([(S(9), frame(3))])
    assert flush.lacking() == ()
    assert flush.next_target((S(1), S(2))) is None


def test_holders_are_asked_first_and_everybody_by_turns() -> None:
    flush = Flush(1, {})
    flush.aim((CutSlice(S(9), 0, ((1, 1),), (S(3), S(1))),))
    others = (S(1), S(2), S(3), S(4))
    assert [flush.next_target(others) for _ in range(9)] == [3, 1, 2, 4, 3, 1, 2, 4, 3]


def test_answers_come_in_packets() -> None:
    flush = Flush(1, {S(9): {number: frame(number, 100) for number in range(1, 6)}})
    packets = list(flush.answer([(S(9), ((2, 9),)), (S(8), ((1, 1),))], limit_bytes=400))
    assert [[data.seq for _, data in packet] for packet in packets] == [[2, 3], [4, 5]]
    assert list(flush.answer([(S(8), ((1, 1),))], 400)) == [[]]
