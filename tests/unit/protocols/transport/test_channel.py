"""One channel between two ends: whatever the network does, all is handed up once and in order."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.core.message import Cast, SiteId
from isthmus.protocols.transport.links.channel import Inbound, Outbound
from isthmus.protocols.transport.reliable.congestion import Window

MS = 1_000_000


def carried(seed: int, count: int, hold_max: int, loss: float) -> tuple[list[int], int]:
    """Send messages over a channel that loses, repeats and reorders; what was handed up, and the most in flight."""
    random = Random(seed)
    out, inbound = Outbound(SiteId(1), Window(4_000)), Inbound()
    for number in range(1, count + 1):
        out.offer(Cast(SiteId(0), number, bytes(100)))
    got: list[int] = []
    under_way: list[tuple[int, Cast]] = []
    most = 0
    for step in range(20_000):
        now_ns = step * MS
        while (found := out.next(now_ns)) is not None:
            under_way.append((found[0], found[1]))  # type: ignore[arg-type]
        most = max(most, out.in_flight)
        random.shuffle(under_way)
        for seq, body in under_way[: random.randint(0, 4)]:
            if random.random() >= loss:
                got += [cast.number for cast in inbound.take(seq, body, now_ns, hold_max)]  # type: ignore[attr-defined]
            if random.random() >= 0.1:  # otherwise it comes again
                under_way.remove((seq, body))
        if random.random() < 0.3:
            out.acknowledge(inbound.received)
            for first, last in inbound.gaps():
                bodies = [(seq, out.again(seq, now_ns)) for seq in range(first, last + 1)]
                under_way += [(seq, again) for seq, again in bodies if again is not None]  # type: ignore[misc]
        if not under_way and out.unacked and (again := out.again(next(iter(out.unacked)), now_ns)) is not None:
            under_way.append((next(iter(out.unacked)), again))  # type: ignore[arg-type]
        if not out.backlog:
            break
    assert out.size == out.in_flight == 0
    return got, most


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.sampled_from([1, 3, 64]), st.sampled_from([0.0, 0.3, 0.6]))
def test_all_arrives_once_and_in_order(seed: int, count: int, hold_max: int, loss: float) -> None:
    got, most = carried(seed, count, hold_max, loss)
    assert got == list(range(1, count + 1))
    assert most <= 4_000


def test_a_frame_that_was_sent_again_tells_no_round_trip() -> None:
    out = Outbound(SiteId(1), Window(10_000))
    out.offer(Cast(SiteId(0), 1))
    out.offer(Cast(SiteId(0), 2))
    assert out.next(0) and out.next(0)
    assert out.sample(1, 10 * MS, 50 * MS) == 40 * MS
    assert out.sample(1, 60 * MS, 50 * MS) is None  # it cannot have waited so long
    out.again(1, 20 * MS)
    assert out.sample(1, 0, 50 * MS) is None
    assert out.sample(2, 0, 50 * MS) == 50 * MS
    assert out.sample(3, 0, 50 * MS) is None


@pytest.mark.parametrize(
    ("held", "gaps"), [((), ()), ((2,), ((1, 1),)), ((2, 3, 7), ((1, 1), (4, 6))), ((5, 9), ((1, 4), (6, 8)))]
)
def test_gaps(held: tuple[int, ...], gaps: tuple[tuple[int, int], ...]) -> None:
    inbound = Inbound()
    for seq in held:
        inbound.take(seq, Cast(SiteId(0), seq), 0, 10)
    assert inbound.gaps() == gaps


def test_the_nearer_frame_takes_the_place_of_the_furthest() -> None:
    inbound = Inbound()
    for seq in (9, 5, 7):
        inbound.take(seq, Cast(SiteId(0), seq), 0, 2)
    assert sorted(inbound.held) == [5, 7]


def test_one_large_frame_may_leave_whatever_the_window() -> None:
    out = Outbound(SiteId(1), Window(100))
    out.offer(Cast(SiteId(0), 1, bytes(5_000)))
    out.offer(Cast(SiteId(0), 2))
    assert out.next(0) is not None
    assert out.next(0) is None
    assert out.acknowledge(1) and out.next(0) is not None
