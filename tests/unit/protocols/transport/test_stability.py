"""The arithmetic of stability, by tables: who is known to have what, and what may be dropped."""

from __future__ import annotations

import pytest

from isthmus.core.message import Cast, SiteId, Targets
from isthmus.protocols.transport.reliable.frames import Data, frame_bytes
from isthmus.protocols.transport.reliable.stability import Stability

A, B, C, D, E, F, G = (SiteId(site) for site in range(7))
SIX: Targets = (A, B, C, D, E, F)


def sites(numbers: str) -> Targets:
    return tuple(SiteId(int(number)) for number in numbers)


def known(members: Targets, *rows: tuple[SiteId, tuple[int, ...]]) -> Stability:
    stability = Stability(members)
    for site, received in rows:
        stability.note(site, received)
    return stability


@pytest.mark.parametrize(
    ("words", "row"),
    [
        ([], (0, 0, 0)),
        ([(1, 2, 3)], (1, 2, 3)),
        ([(1, 2, 3), (4, 5, 6)], (4, 5, 6)),
        ([(4, 5, 6), (1, 2, 3)], (4, 5, 6)),  # an old word that arrives late
        ([(4, 0, 6), (1, 2, 3)], (4, 2, 6)),  # two words that crossed: each is true
        ([(1, 2, 3), (1, 2, 3)], (1, 2, 3)),
    ],
)
def test_knowledge_only_grows(words: list[tuple[int, ...]], row: tuple[int, ...]) -> None:
    stability = known((A, B, C), *((B, word) for word in words))
    assert tuple(stability.of(B, place) for place in range(3)) == row
    assert stability.of(A, 0) == stability.of(C, 2) == 0, "what one has says nothing of the others"


@pytest.mark.parametrize(
    ("last", "reached"),
    [
        ({B: 5, C: 5}, False),  # C lacks frame 5
        ({B: 5, C: 3}, True),  # which was not sent to it
        ({B: 5, C: 4}, False),
        ({B: 6, C: 3}, False),
        ({B: 0, C: 0}, True),  # nothing was sent at all
    ],
)
def test_a_stream_has_reached_all_when_each_has_its_own_last_frame(last: dict[SiteId, int], reached: bool) -> None:
    stability = known((A, B, C), (B, (5, 0, 0)), (C, (3, 0, 0)))
    assert stability.reached(0, (B, C), last.__getitem__) is reached
    assert stability.reached(0, (), last.__getitem__), "alone there is nobody to wait for"


ALL_HAVE = dict.fromkeys(SIX, 9)


@pytest.mark.parametrize(
    ("frames", "have", "left"),
    [
        # Frames to all: stable up to what the slowest has.
        ({1: "", 2: "", 3: ""}, {A: 3, B: 3, C: 3, D: 3, E: 3, F: 3}, []),
        ({1: "", 2: "", 3: ""}, {A: 3, B: 3, C: 1, D: 3, E: 3, F: 3}, [2, 3]),
        ({1: "", 2: "", 3: ""}, {A: 3, B: 3, C: 3, D: 3, E: 3, F: 0}, [1, 2, 3]),
        # Frames to some wait for those only.
        ({1: "12", 2: "12"}, {A: 0, B: 2, C: 2, D: 0, E: 0, F: 0}, []),
        ({1: "12", 2: "12"}, {A: 0, B: 2, C: 1, D: 0, E: 0, F: 0}, [2]),
        ({1: "12", 2: "34", 3: "5"}, {A: 0, B: 1, C: 1, D: 0, E: 2, F: 3}, [2]),
        # A frame to some behind one to all that somebody lacks: it stays, as frames go in order of numbers.
        ({1: "", 2: "12"}, {A: 1, B: 2, C: 2, D: 1, E: 1, F: 0}, [1, 2]),
        ({1: "", 2: "12"}, {A: 1, B: 2, C: 2, D: 1, E: 1, F: 1}, []),
        # One to some that is not stable holds nothing up behind it.
        ({1: "1", 2: "", 3: "2"}, {A: 2, B: 2, C: 3, D: 2, E: 2, F: 2}, []),
        ({1: "1", 2: "2", 3: "3"}, {A: 0, B: 0, C: 2, D: 3, E: 0, F: 0}, [1]),
        # Below the floor a frame goes, whoever it was for.
        ({1: "15", 2: ""}, {A: 1, B: 1, C: 1, D: 1, E: 1, F: 1}, [2]),
        ({}, ALL_HAVE, []),
    ],
)
def test_what_is_dropped(frames: dict[int, str], have: dict[SiteId, int], left: list[int]) -> None:
    stability = known(SIX, *((site, (count, 0, 0, 0, 0, 0)) for site, count in have.items()))
    kept = {seq: Data(seq, Cast(A, seq), sites(targets), (0,) * len(targets)) for seq, targets in frames.items()}
    sizes = {seq: frame_bytes(data) for seq, data in kept.items()}
    freed = stability.collect(0, kept)
    assert list(kept) == left
    assert freed == sum(sizes.values()) - sum(sizes[seq] for seq in left)


def test_a_row_belongs_to_the_place_of_its_stream() -> None:
    """Members are not always 0, 1, 2: a column is a place in the view."""
    stability = known((G, B), (G, (4, 9)), (B, (5, 1)))
    assert (stability.of(B, 0), stability.of(G, 1)) == (5, 9)
    kept = {seq: Data(seq, Cast(B, seq)) for seq in (1, 2)}
    stability.collect(1, kept)
    assert list(kept) == [2]
