"""Items in pieces: who is asked for what, how much is in flight, and what becomes of silence, loss and denials."""

from __future__ import annotations

import pytest

from isthmus.core.errors import RemoteError
from isthmus.core.message import SiteId
from isthmus.protocols.membership.window import (
    ASKED_MAX,
    PASSED_MAX,
    PIECE_BYTES,
    QUEUED_NS,
    WINDOW_FIRST_BYTES,
    WINDOW_MAX_BYTES,
    PieceWindow,
)

A, B, C = SiteId(1), SiteId(2), SiteId(3)
LATE = 100
LATE_LONG = 10**12
MAX = 1 << 30
PIECE = b"x" * PIECE_BYTES
FIRST_COUNT = WINDOW_FIRST_BYTES // PIECE_BYTES
Window = PieceWindow[str]


def size_of(total: int, offset: int) -> int:
    return min(PIECE_BYTES, total - offset)


def answer(window: Window, now_ns: int, site: SiteId, key: str, offset: int, total: int) -> bytes | None:
    return window.take(now_ns, site, key, offset, total, b"x" * size_of(total, offset))


def test_an_item_of_unknown_size_arrives_in_pieces() -> None:
    window = Window(MAX)
    window.want("f")
    total = 2 * PIECE_BYTES + 7
    assert window.requests(0, LATE, (A,)) == {A: [("f", 0)]}
    assert window.requests(1, LATE, (A,)) == {}  # it is in flight, and nothing more is known of it
    assert window.take(5, A, "f", 0, total, PIECE) is None
    assert window.requests(5, LATE, (A,)) == {A: [("f", PIECE_BYTES), ("f", 2 * PIECE_BYTES)]}
    assert window.take(6, A, "f", 2 * PIECE_BYTES, total, b"the end") is None
    assert window.take(7, A, "f", PIECE_BYTES, total, PIECE) == PIECE + PIECE + b"the end"
    assert window.progress_ns == 7
    assert not window.items and not window.asked_at
    assert window.take(8, A, "f", 0, total, PIECE) is None  # a duplicate of one that nobody wants any more


def test_several_holders_share_an_item_within_their_windows() -> None:
    window = Window(MAX)
    window.want("f", (B, A), total=100 * PIECE_BYTES)
    asked = window.requests(0, LATE, (A, B, C))
    assert set(asked) == {A, B}
    assert len(asked[A]) == len(asked[B]) == FIRST_COUNT
    assert len({piece for found in asked.values() for piece in found}) == 2 * FIRST_COUNT


def test_a_window_grows_by_what_comes_up_to_a_bound() -> None:
    window, total = Window(MAX), 400 * PIECE_BYTES
    window.want("f", (A,), total)
    waiting = window.requests(0, LATE, (A,))[A]
    most = 0
    while waiting:
        most = max(most, len(waiting))
        key, offset = waiting.pop(0)
        answer(window, 1, A, key, offset, total)
        waiting += window.requests(1, LATE, (A,)).get(A, [])
    assert most == WINDOW_MAX_BYTES // PIECE_BYTES
    assert not window.items


def test_small_items_fill_the_window_once_their_size_is_known() -> None:
    window = Window(MAX)
    for number in range(4 * ASKED_MAX):
        window.want(f"{number}", (A,))
    waiting = window.requests(0, LATE, (A,))[A]
    assert len(waiting) == FIRST_COUNT
    most = 0
    while waiting:
        most = max(most, len(waiting))
        window.take(1, A, *waiting.pop(0), 100, b"x" * 100)
        waiting += window.requests(1, LATE, (A,)).get(A, [])
    assert FIRST_COUNT < most <= ASKED_MAX
    assert not window.items


def test_a_late_holder_gives_way_and_its_window_is_halved() -> None:
    window, total = Window(MAX), 2 * PIECE_BYTES
    window.want("f", (A,), total)
    assert window.requests(0, LATE, (A, B)) == {A: [("f", 0), ("f", PIECE_BYTES)]}
    answer(window, 50, A, "f", PIECE_BYTES, total)
    assert window.requests(150, LATE, (A, B)) == {}  # it answered 100 ago
    before = window.holder(A).window_bytes
    assert window.requests(151, LATE, (A, B)) == {B: [("f", 0)]}
    assert window.holder(A).window_bytes == before // 2
    assert answer(window, 152, A, "f", 0, total) is not None  # a late answer is as good


def test_a_late_holder_is_asked_again_where_no_other_is_left() -> None:
    window = Window(MAX)
    window.want("f", (A,), PIECE_BYTES)
    assert window.requests(0, LATE, (A,)) == {A: [("f", 0)]}
    assert window.requests(101, LATE, (A,)) == {A: [("f", 0)]}
    assert window.requests(102, LATE, (A, B)) == {}
    assert window.requests(202, LATE, (A, B)) == {B: [("f", 0)]}
    window.deny(203, B, "f")
    assert window.requests(203, LATE, (A, B)) == {A: [("f", 0)]}


def test_a_suspected_holder_is_left_at_once() -> None:
    window = Window(MAX)
    window.want("f", (A, B), 2 * PIECE_BYTES)
    assert window.requests(0, LATE, (A, B)) == {A: [("f", 0)], B: [("f", PIECE_BYTES)]}
    assert window.requests(1, LATE, (B, C)) == {B: [("f", 0)]}


def test_who_denies_is_asked_again_after_a_while() -> None:
    window = Window(MAX)
    window.want("f", (A,))
    assert window.requests(0, LATE, (A, B)) == {A: [("f", 0)]}
    window.deny(1, A, "f")
    assert window.requests(1, LATE, (A, B)) == {B: [("f", 0)]}
    window.deny(2, B, "f")
    window.deny(3, B, "no such item")
    assert window.requests(100, LATE, (A, B)) == {}
    assert window.requests(101, LATE, (A, B)) == {A: [("f", 0)]}
    assert window.denials("f") == {A: 1, B: 2}
    assert window.denials("h") == {}


def test_all_are_asked_in_turn_for_what_nobody_has() -> None:
    """A known holder was asked again as soon as it might be, and with many sites some never were."""
    window, sites = Window(MAX), tuple(map(SiteId, range(1, 9)))
    window.want("f", (A,))
    found = []
    for now_ns in range(0, 20 * 16, 20):  # a denial takes a fifth of the time after which a site is asked again
        (site,) = window.requests(now_ns, LATE, sites)
        found.append(site)
        window.deny(now_ns + 20, site, "f")
    assert found == [*sites, *sites]


def test_a_lost_piece_is_asked_for_again_once_later_ones_came() -> None:
    window, total = Window(MAX), 64 * PIECE_BYTES
    window.want("f", (A,), total)
    waiting = window.requests(0, LATE, (A,))[A]
    lost = waiting.pop(0)
    for count in range(PASSED_MAX):
        assert window.asked_at.get(lost) == A
        assert window.holder(A).window_bytes == WINDOW_FIRST_BYTES + count * PIECE_BYTES
        answer(window, 1, A, *waiting.pop(0), total)
        waiting += window.requests(1, LATE, (A,)).get(A, [])
    assert window.holder(A).window_bytes == (WINDOW_FIRST_BYTES + (PASSED_MAX - 1) * PIECE_BYTES) // 2 + PIECE_BYTES
    while waiting:
        answer(window, 1, A, *waiting.pop(0), total)
        waiting += window.requests(1, LATE, (A,)).get(A, [])
    assert not window.items


def test_other_holders_restart_nothing() -> None:
    window, total = Window(MAX), 3 * PIECE_BYTES
    window.want("f", (A,), total)
    window.requests(0, LATE, (A, B))
    answer(window, 1, A, "f", 0, total)
    window.want("f", (B,))
    assert window.requests(2, LATE, (A, B)) == {}
    answer(window, 3, A, "f", PIECE_BYTES, total)
    assert answer(window, 3, A, "f", 2 * PIECE_BYTES, total) == 3 * PIECE


def test_a_forgotten_item_leaves_nothing() -> None:
    window = Window(MAX)
    window.want("f", (A,), 9 * PIECE_BYTES)
    window.requests(0, LATE, (A,))
    window.forget("f")
    assert window.holder(A).bytes_in_flight == 0
    assert not window.asked_at
    assert window.requests(1, LATE, (A,)) == {}


@pytest.mark.parametrize(
    ("offset", "total", "size"),
    [
        (0, 0, 0),
        (0, MAX + 1, PIECE_BYTES),
        (0, 2 * PIECE_BYTES, PIECE_BYTES - 1),
        (0, 10, 11),
        (7, 100, 93),
        (-PIECE_BYTES, 100, 100),
        (3 * PIECE_BYTES, 3 * PIECE_BYTES, 0),
    ],
)
def test_pieces_that_no_item_has_are_refused(offset: int, total: int, size: int) -> None:
    window = Window(MAX)
    window.want("f", (A,))
    window.requests(0, LATE, (A,))
    with pytest.raises(RemoteError):
        window.take(1, A, "f", offset, total, b"x" * size)
    assert window.items["f"].total is None


def test_the_size_of_an_item_does_not_change() -> None:
    window = Window(MAX)
    window.want("f", (A,), 2 * PIECE_BYTES)
    with pytest.raises(RemoteError):
        answer(window, 1, A, "f", 0, 3 * PIECE_BYTES)


def test_a_window_does_not_grow_while_pieces_queue() -> None:
    """Heartbeats wait behind what queues."""
    window, total = Window(MAX), 400 * PIECE_BYTES
    window.want("f", (A,), total)
    window.requests(0, LATE_LONG, (A,))
    answer(window, 1_000_000, A, "f", 0, total)
    grown = window.holders[A].window_bytes
    assert grown == WINDOW_FIRST_BYTES + PIECE_BYTES
    answer(window, 3_000_000 + QUEUED_NS + 1, A, "f", PIECE_BYTES, total)
    assert window.holders[A].window_bytes == grown


def test_a_holder_that_was_only_slow_gets_twice_the_time() -> None:
    """On a link of 1 Mbit/s pieces that were on their way were asked for again and again, and filled it."""
    window, total = Window(MAX), 400 * PIECE_BYTES
    window.want("f", (A,), total)
    window.requests(0, LATE, (A, B))
    assert set(window.requests(LATE + 1, LATE, (A, B))) == {B}  # A is late
    answer(window, LATE + 50, A, "f", 0, total)  # it was only slow
    assert window.doublings == 1
    at_ns = LATE + 50
    window.requests(at_ns, LATE, (A, B))
    window.requests(at_ns + 2 * LATE, LATE, (A, B))
    assert not window.holders[A].is_late
    window.requests(at_ns + 2 * LATE + 1, LATE, (A, B))
    assert window.holders[A].is_late


def test_a_holder_whose_pieces_are_lost_gets_no_more_time() -> None:
    """Where each third packet is lost, a cut would take minutes."""
    window, total = Window(MAX), 400 * PIECE_BYTES
    window.want("f", (A,), total)
    now_ns = 0
    for _ in range(5):
        window.requests(now_ns, LATE, (A,))
        now_ns += 10
        answer(window, now_ns, A, "f", window.requests(now_ns, LATE, (A,)).get(A, [("f", 0)])[0][1], total)
        now_ns += LATE + 1  # what else was asked for is lost
        again = window.requests(now_ns, LATE, (A,))[A]
        now_ns += 10
        answer(window, now_ns, A, "f", again[0][1], total)
    assert window.doublings == 0
