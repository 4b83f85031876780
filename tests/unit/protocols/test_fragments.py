"""Large messages: cut, put together in any order, refused where they make no sense, bounded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.recording import RecordingSite

from isthmus.core.errors import LocalError
from isthmus.core.layer import View
from isthmus.core.message import ALL, Carried, Cast, SiteId, Targets
from isthmus.protocols.application import Application
from isthmus.protocols.fragments import LARGEST_BYTES, BytesRead, FragmentOptions, Piece
from isthmus.protocols.transport.credit import CreditOptions
from isthmus.stacks.registry import STACKS, StackOptions

PIECE = 16


class Bench:
    """A member of a group of two, whose peer is played by the test."""

    def __init__(self, window: int = LARGEST_BYTES, auto_consume: bool = True) -> None:
        self.taken: list[Cast] = []
        self.resumed = 0
        self.application = Application(
            on_deliver=lambda cast, _finality: self.taken.append(cast),
            on_resume=self.note_resume,
            auto_consume=auto_consume,
        )
        self.site = RecordingSite(SiteId(0))
        options = StackOptions(
            credit=CreditOptions(window=4),
            fragments=FragmentOptions(piece_bytes=PIECE, window_bytes=window),
        )
        self.site.attach(STACKS["unordered"].build(self.site.host, self.application, options))
        self.install(1)

    def note_resume(self) -> None:
        self.resumed += 1

    def install(self, view_id: int) -> None:
        self.site.run(lambda: self.site.host.install(View(view_id, (SiteId(0), SiteId(1)))))
        self.site.run(self.site.host.resume)
        self.site.drain()

    def receive(self, number: int, piece: Piece, payload: bytes, destinations: Targets = ALL) -> list[str]:
        """Take a piece as the layers below hand it up."""
        carried: Carried[Any] = Carried(SiteId(1), number, payload, destinations, None, piece)
        self.site.run(lambda: self.application.below.deliver(carried))
        return self.site.drain()


def pieces_of(payload: bytes) -> list[bytes]:
    return [payload[at : at + PIECE] for at in range(0, len(payload), PIECE)]


@given(st.binary(min_size=PIECE + 1, max_size=10 * PIECE), st.randoms(use_true_random=False))
def test_pieces_come_together_in_any_order(payload: bytes, random: Any) -> None:
    bench, parts = Bench(), pieces_of(payload)
    places = list(range(len(parts)))
    random.shuffle(places)
    for place in places:
        assert bench.taken == []
        bench.receive(place + 1, Piece(place, len(parts)), parts[place])
    assert bench.taken == [Cast(SiteId(1), len(parts), payload)]
    fragments = bench.application.fragments
    assert not fragments.assemblies and not fragments.unread and fragments.held_of == {SiteId(1): 0}


@pytest.mark.parametrize(
    ("piece", "payload", "destinations"),
    [
        (Piece(2, 2), b"x", ALL),
        (Piece(-1, 2), b"x", ALL),
        (Piece(0, 1), b"x", ALL),
        (Piece(0, LARGEST_BYTES + 1), b"x", ALL),
        (Piece(1, 3), b"", ALL),
        (Piece(0, 3), b"x", ALL),  # a duplicate
        (Piece(1, 3), b"x", (SiteId(0),)),  # the others are for all
        (Piece(1, 3), bytes(LARGEST_BYTES), ALL),  # together beyond the bound
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    piece: Piece, payload: bytes, destinations: Targets
) -> None:
    bench = Bench()
    bench.receive(1, Piece(0, 3), b"a")
    number = piece.index + 1 if piece.count == 3 else 50
    assert "reject 1" in bench.receive(number, piece, payload, destinations)
    bench.receive(2, Piece(1, 3), b"b")
    bench.receive(3, Piece(2, 3), b"c")
    assert bench.taken == [Cast(SiteId(1), 3, b"abc")]


def test_a_view_drops_what_is_incomplete() -> None:
    bench = Bench()
    bench.receive(1, Piece(0, 2), b"a")
    bench.install(2)
    assert not bench.application.fragments.assemblies
    bench.receive(2, Piece(1, 2), b"b")
    assert bench.taken == []
    bench.receive(1, Piece(0, 2), b"a")
    assert bench.taken == [Cast(SiteId(1), 2, b"ab")]


def test_a_large_message_takes_the_numbers_of_its_pieces_and_holds_up_others() -> None:
    """With a window of four messages, four pieces leave; a second message is refused until the last has left."""
    bench = Bench()
    bench.site.run(lambda: setattr(bench, "sent", bench.application.cast(bytes(6 * PIECE))))
    assert bench.sent.number == 6  # type: ignore[attr-defined]
    fragments = bench.application.fragments
    assert fragments.next_piece == 4 and not bench.application.writable() and not bench.application.settled()
    bench.install(2)
    assert fragments.next_piece == 4, "the whole begins anew in the new view"
    assert [cast.number for cast in fragments.backlog] == [6]


def test_the_next_one_waits_until_enough_is_read() -> None:
    bench = Bench(window=2 * PIECE)
    bench.site.run(lambda: setattr(bench, "one", bench.application.cast(bytes(2 * PIECE))))
    bench.site.run(lambda: setattr(bench, "two", bench.application.cast(bytes(PIECE + 1))))
    fragments = bench.application.fragments
    assert [cast.number for cast in fragments.backlog] == [4] and fragments.next_piece == 0
    before = bench.resumed
    bench.site.run(lambda: fragments.on_read(SiteId(1), BytesRead(10**9)))
    assert fragments.read_by[SiteId(1)] == 2 * PIECE, "no more than was sent"
    assert not fragments.backlog and bench.resumed > before


def test_a_reader_tells_what_it_has_read() -> None:
    bench = Bench(auto_consume=False)
    bench.receive(1, Piece(0, 2), b"a")
    bench.receive(2, Piece(1, 2), b"b")
    assert bench.application.fragments.unread == {(SiteId(1), 2): (2, 1)}
    bench.site.run(lambda: bench.application.consumed_all(bench.taken))
    assert any("Read" in line for line in bench.site.drain())
    assert bench.application.fragments.consumed_of == {SiteId(1): 2}
    bench.install(2)
    assert bench.application.fragments.consumed_of == {}, "counts begin anew"


def test_what_is_too_large_is_refused_in_a_sentence_and_takes_no_number() -> None:
    bench = Bench()
    with pytest.raises(LocalError, match=r"a payload of 67108865 bytes; a message carries at most 67108864"):
        bench.site.run(lambda: setattr(bench, "sent", bench.application.cast(bytes(LARGEST_BYTES + 1))))
    bench.site.run(lambda: setattr(bench, "sent", bench.application.cast(b"x")))
    assert bench.sent.number == 1  # type: ignore[attr-defined]
