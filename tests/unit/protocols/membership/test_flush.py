"""What a site lacks of a cut, whom it asks, when it gives up, and what it gives away."""

from __future__ import annotations

import pytest

from isthmus.core.errors import RemoteError
from isthmus.core.message import Cast, SiteId, codec_of
from isthmus.protocols.membership.cut import CutSlice
from isthmus.protocols.membership.flush import GIVE_UP_TIMES, Flush
from isthmus.protocols.membership.wire import Fetch, Frame, FramePiece, Frames, WholeFrame
from isthmus.protocols.transport.reliable.frames import Data

S = SiteId
CODEC = codec_of((WholeFrame,), (Cast,))
LATE, GIVE_UP = 100, 1_000
ORIGIN = S(9)


def frame(seq: int, size: int = 1) -> Frame:
    return Data(seq, Cast(ORIGIN, seq, b"x" * size))


def made(*numbers: int, piece_bytes: int = 1 << 14, floor: int = 0) -> Flush:
    return Flush(1, piece_bytes, {ORIGIN: {number: frame(number, 100) for number in numbers}}, {ORIGIN: floor})


def lacking(count: int = 1, holders: tuple[int, ...] = (1,), piece_bytes: int = 1 << 14) -> Flush:
    flush = made(piece_bytes=piece_bytes)
    flush.aim((CutSlice(ORIGIN, 0, ((1, count),), tuple(map(S, holders))),), (S(1), S(2)), 0)
    return flush


def asked(flush: Flush, now_ns: int, usable: tuple[int, ...] = (1, 2)) -> dict[int, list[tuple[int, int, int]]]:
    return {int(site): list(wanted) for site, wanted in flush.requests(now_ns, LATE, tuple(map(S, usable)))}


def given(giver: Flush, *wanted: tuple[int, int], piece_bytes: int = 1 << 14, limit: int = 32_000) -> list[Frames]:
    asked_for = Fetch(0, 1, piece_bytes, tuple((ORIGIN, seq, at) for seq, at in wanted))
    return list(giver.answer(asked_for, 0, limit, CODEC.encode))


def test_what_is_lacking_shrinks_with_what_is_taken() -> None:
    flush = made(1)
    flush.aim((CutSlice(ORIGIN, 0, ((1, 3),), (S(1),)),), (S(1),), 0)
    assert list(flush.lacking) == [(ORIGIN, 2), (ORIGIN, 3)]
    (answer,) = given(made(2, 7), (2, 0), (7, 0), (3, 0))
    assert (answer.stable, answer.lack) == ((), ((ORIGIN, 3),))
    flush.take(5, S(1), answer, CODEC)
    assert list(flush.lacking) == [(ORIGIN, 3)]
    assert 7 not in flush.frames[ORIGIN]  # not in the cut


def test_holders_are_asked_first_then_the_others() -> None:
    flush = lacking(holders=(2,))
    assert asked(flush, 0) == {2: [(9, 1, 0)]}
    flush.window.deny(1, S(2), (ORIGIN, 1))
    assert asked(flush, 1) == {1: [(9, 1, 0)]}
    flush.window.deny(2, S(1), (ORIGIN, 1))
    assert asked(flush, 3) == {}  # both have denied it just now
    assert asked(flush, 1 + LATE) != {}


def test_a_frame_of_several_pieces_comes_from_several_holders() -> None:
    flush, giver = lacking(holders=(1, 2), piece_bytes=40), made(1)
    assert asked(flush, 0) == {1: [(9, 1, 0)]}
    flush.take(1, S(1), *given(giver, (1, 0), piece_bytes=40), CODEC)
    rest = asked(flush, 1)
    assert sorted(piece for found in rest.values() for piece in found) == [(9, 1, 40), (9, 1, 80)]
    for offset in (80, 40):
        flush.take(2, S(2), *given(giver, (1, offset), piece_bytes=40), CODEC)
    assert not flush.lacking and flush.frames[ORIGIN][1] == frame(1, 100)


def test_another_proposal_with_the_same_frames_restarts_nothing() -> None:
    flush = lacking(piece_bytes=40)
    asked(flush, 0)
    flush.take(1, S(1), *given(made(1), (1, 0), piece_bytes=40), CODEC)
    flush.aim((CutSlice(ORIGIN, 0, ((1, 2),), (S(2),)),), (S(1), S(2)), 500)
    assert flush.missed_ns == {(ORIGIN, 1): 0, (ORIGIN, 2): 500}
    assert set(flush.window.items[(ORIGIN, 1)].parts) == {0}
    flush.aim((CutSlice(ORIGIN, 0, ((2, 2),), (S(2),)),), (S(1), S(2)), 600)
    assert list(flush.lacking) == list(flush.window.items) == [(ORIGIN, 2)]


def test_a_stable_frame_is_needed_by_nobody() -> None:
    flush = lacking(3)
    (answer,) = given(made(3, floor=2), (1, 0), (3, 0))
    assert (answer.stable, answer.lack) == (((ORIGIN, 2),), ())
    flush.take(1, S(1), answer, CODEC)
    assert not flush.lacking
    assert given(flush, (1, 0)) == [Frames(0, 1, (), ((ORIGIN, 2),))]  # and it passes that on
    flush.aim(flush.cut, flush.sites, 5)
    assert not flush.lacking


def test_what_is_not_the_frame_is_refused_and_asked_for_again() -> None:
    flush = lacking()
    asked(flush, 0)
    wrong = CODEC.encode(WholeFrame(frame(2)))
    for data in (wrong, b"noise"):
        with pytest.raises(RemoteError):
            flush.take(1, S(1), Frames(0, 1, (FramePiece(ORIGIN, 1, 0, len(data), data),)), CODEC)
        assert flush.lacking and asked(flush, 1 + LATE)


def test_a_frame_is_hopeless_once_all_have_denied_it_late_enough() -> None:
    flush = lacking()
    both, key = (S(1), S(2)), (ORIGIN, 1)
    flush.window.deny(400, S(1), key)
    flush.window.deny(900, S(2), key)
    assert not flush.hopeless(GIVE_UP, GIVE_UP, both)  # the time is not over
    assert not flush.hopeless(GIVE_UP + 1, GIVE_UP, both)  # one denied it in the first half
    assert flush.hopeless(GIVE_UP + 1, GIVE_UP, (S(2),)) == [key]
    flush.window.deny(950, S(1), key)
    assert flush.hopeless(GIVE_UP + 1, GIVE_UP, both) == [key]
    assert flush.hopeless(GIVE_UP_TIMES * GIVE_UP + 1, GIVE_UP, (S(3),)) == [key]  # one that never answers


def test_any_piece_postpones_giving_up() -> None:
    flush = lacking(2)
    flush.take(800, S(1), *given(made(2), (2, 0)), CODEC)
    assert flush.has_moved() and not flush.has_moved()
    for site in (S(1), S(2)):
        flush.window.deny(900, site, (ORIGIN, 1))
    assert not flush.hopeless(GIVE_UP + 500, GIVE_UP, (S(1), S(2)))


def test_answers_come_in_packets() -> None:
    packets = given(made(*range(1, 6)), *[(seq, 0) for seq in range(2, 10)], limit=400)
    assert [[piece.seq for piece in packet.pieces] for packet in packets] == [[2, 3, 4], [5]]
    assert packets[-1].lack == tuple((ORIGIN, seq) for seq in range(6, 10))
    assert given(made(), (1, 0)) == [Frames(0, 1, (), (), ((ORIGIN, 1),))]
