"""The arithmetic of a congestion window, answer by answer."""

from __future__ import annotations

import pytest

from isthmus.protocols.transport.reliable.congestion import (
    FLOOR_BYTES,
    IDLE_BYTES,
    START_BYTES,
    STUCK_ROUNDS,
    VAIN_CUTS,
    Window,
    target_ns,
)

MS = 1_000_000
FLOOR, MOST = 6_000, 1 << 24


class Link:
    """A path of a rate and an empty round trip, asked once per quarter of a round trip while its window is full."""

    def __init__(self, bytes_per_s: float, base_ms: float, start_ns: int = 0) -> None:
        self.rate = bytes_per_s / 1e9
        self.base_ns = round(base_ms * MS)
        self.now_ns = start_ns
        self.window = Window(MOST)

    def round_ns(self) -> int:
        """By Little's law; a path that is not full has no queue."""
        return max(self.base_ns, round(self.window.size / self.rate))

    def answer(self, repaired: int = 0) -> None:
        window, round_ns = self.window, self.round_ns()
        arrived = round(min(window.size, self.rate * round_ns) / 4)
        self.now_ns += round_ns // 4
        window.repaired += repaired
        window.answered(self.now_ns, self.now_ns - round_ns, arrived, round(window.size), FLOOR)


@pytest.mark.parametrize(
    ("base_ms", "target_ms"), [(1, 50), (50, 50), (80, 80), (250, 250), (600, 250)], ids=lambda value: f"{value}ms"
)
def test_the_queue_aimed_at(base_ms: int, target_ms: int) -> None:
    assert target_ns(base_ms * MS) == target_ms * MS


@pytest.mark.parametrize("start_ns", [0, -100 * MS, 10**18])
def test_a_slow_path_gets_the_window_that_keeps_it_busy_with_a_short_queue(start_ns: int) -> None:
    link = Link(125_000, 40, start_ns)
    link.window.answered(link.now_ns, link.now_ns - link.base_ns, 4_000, 4_000, FLOOR)  # before there is a queue
    sizes = [(link.answer(), link.window.size)[1] for _ in range(400)]
    bounds = [125_000 * milliseconds / 1e3 for milliseconds in (40, 40 + 3 * 50)]
    assert all(bounds[0] < size < bounds[1] for size in sizes[100:])


def test_a_fast_path_doubles_per_round_trip() -> None:
    link = Link(1e9, 10)
    for _ in range(5):
        link.answer()
    assert link.window.size > 1.9 * START_BYTES
    for _ in range(400):
        link.answer()
    assert link.window.size == pytest.approx(1e9 * 0.06, rel=0.2) or link.window.size == MOST


def test_a_window_that_is_not_filled_grows_to_a_bound() -> None:
    window, now_ns = Window(MOST), 0
    for _ in range(1000):
        now_ns += 10 * MS
        window.answered(now_ns, now_ns - 10 * MS, 10_000, 10_000, FLOOR)
    assert IDLE_BYTES <= window.size < IDLE_BYTES + 10_001


def test_random_loss_does_not_shrink_a_window_but_heavy_loss_does() -> None:
    light, heavy = Link(1e7, 20), Link(1e7, 20)
    for _ in range(40):
        light.answer(repaired=round(light.window.size / 4 * 0.3))
        heavy.answer(repaired=round(heavy.window.size / 4 * 1.2))
    assert light.window.size > START_BYTES
    assert heavy.window.size < 2 * FLOOR


def test_answers_from_before_a_cut_do_not_cut_again() -> None:
    window = Window(MOST)
    window.answered(0, -40 * MS, 1, START_BYTES, FLOOR)
    for now_ms in (300, 600):
        window.answered(now_ms * MS, (now_ms - 500) * MS, 10_000, START_BYTES, FLOOR)
    size = window.size
    assert size < START_BYTES
    for now_ms in (700, 800, 900, 1000, 1100):
        window.answered(now_ms * MS, (now_ms - 550) * MS, 10_000, START_BYTES, FLOOR)
    assert window.size == size


def test_a_path_that_has_become_longer_gets_a_new_base() -> None:
    window, now_ns = Window(MOST), 0
    window.answered(now_ns, now_ns - 10 * MS, 1, 1, FLOOR)
    for _ in range(40 * STUCK_ROUNDS):
        now_ns += 100 * MS
        window.answered(now_ns, now_ns - 400 * MS, FLOOR, FLOOR, FLOOR)
    assert window.base_ns == 400 * MS
    assert window.size > FLOOR


def longer(window: Window, round_ms: int, in_flight: int, seconds: float) -> None:
    """A path that takes so long whatever is sent, asked four times in a round trip."""
    now_ns = 0
    window.answered(now_ns, now_ns - 40 * MS, 1, 1, FLOOR)  # as it was before
    for _ in range(round(seconds * 4_000 / round_ms)):
        now_ns += round_ms * MS // 4
        window.answered(now_ns, now_ns - round_ms * MS, in_flight // 4, in_flight, FLOOR)


def test_a_window_that_was_not_filled_is_not_cut_for_long_where_its_path_has_become_longer() -> None:
    """Every cut takes a question and its answer: a path of 400 ms has its window back in two seconds, not in ten."""
    window = Window(MOST)
    longer(window, 400, START_BYTES // 3, 0.4 * (VAIN_CUTS + 3))
    assert window.base_ns == 400 * MS
    assert window.size >= START_BYTES // 3


def test_a_window_that_is_filled_takes_a_long_queue_for_a_queue() -> None:
    """It may be that of others, who fill the path as we do: whoever took it for the path would make it longer."""
    window = Window(MOST)
    longer(window, 400, START_BYTES, 0.4 * (VAIN_CUTS + 3))
    assert window.base_ns == 40 * MS
    assert window.size < START_BYTES // 3


def test_small_frames_do_not_make_a_window_of_a_few_hundred_bytes() -> None:
    window = Window(MOST)
    for _ in range(20):
        window.timed_out(4 * 64)
    assert window.size == FLOOR_BYTES


def test_silence_halves_a_window_and_it_doubles_its_way_back() -> None:
    link = Link(1e9, 10)
    for _ in range(10):
        link.window.timed_out(FLOOR)
    assert link.window.size == FLOOR
    for _ in range(40):
        link.answer()
    assert link.window.size > START_BYTES
