"""How many bytes a path takes: the arithmetic of a congestion window.

Problem: a sender that offers more than a path carries fills the queue before it, and every later packet, requests and
repairs included, waits behind what was sent before. Idea: bound what is in flight, and move the bound by what round
trips show. The shortest round trip seen is that of an empty path (`base_ns`); what a round trip takes above it was
spent in queues. The window aims at a queue of `target_ns`: long enough to keep the path busy, short enough to bear.
This is LEDBAT's control (RFC 6817) with the proportional cut of TCP Vegas.

- Up to `threshold` the window doubles per round trip (slow start), above it grows by a sixteenth, less the closer the
  queue comes to its target.
- Above the target it is cut, once per round trip, to what would have met it; by half at the most.
- Loss alone says little: a radio link loses at random. Only where more is repaired than half of what arrives, which is
  a loss of one packet in three, or a receiver without room, the window is halved.
- A path that does not answer at all has its window halved, and doubles its way back.

Round trips are judged by the shortest of the last few, as single ones vary on a path that jitters; two that are far
too long in a row are enough. Only answers to questions put since the last cut count.

A path may become longer, as where a link fails and routes go another way; it then looks like one with a queue. But a
queue of ours is shorter after a cut. Where a window was not even filled when it was cut, and two cuts in a row have not
made round trips shorter by half of what they should have, what is seen counts as the base, and the window is what was
in flight before them. Others that fill the path, too, are no such case: they would all take each other's queue for the
path. At the floor, where nothing is left to cut, what is seen counts after a few round trips.

A cut starts from what is in flight, not from a window that was never filled. A window that is not filled grows up to
`IDLE_BYTES` only.
"""

from __future__ import annotations

import msgspec

START_BYTES = 65_536
IDLE_BYTES = 1_048_576  # a path that was never full is trusted with so much
SEGMENT_BYTES = 1_400  # the least growth per round trip beyond slow start
FLOOR_FRAMES = 4  # of mean size: less than that cannot show a gap
FLOOR_BYTES = 4 * SEGMENT_BYTES  # however small frames are: no link worth a window needs a smaller one
QUEUE_LEAST_NS, QUEUE_MOST_NS = 50_000_000, 250_000_000  # bounds of the queue aimed at
RECENT = 4  # round trips, of which the shortest counts
REPAIRED_SHARE = 0.5  # of what arrives: beyond, loss is congestion
LOSS_FLOORS = 6  # loss is judged after so many times the floor
VAIN_CUTS = 2  # in a row, until the base is taken anew
STUCK_ROUNDS = 8  # at the floor with a queue, until the base is taken anew
WEIGHT = 0.25  # of a new round trip in the mean
NEVER_NS = -(2**62)  # a site's clock may start below 0


def target_ns(base_ns: int) -> int:
    """The queue to aim at: as long as the empty path, within bounds."""
    return min(max(base_ns, QUEUE_LEAST_NS), QUEUE_MOST_NS)


class Window(msgspec.Struct, eq=False):
    """The bytes that one path may have in flight."""

    most: int
    size: float = 0.0
    threshold: float = 0.0  # up to it, slow start
    base_ns: int | None = None  # the shortest round trip; None: none was measured
    round_ns: int = 0  # the mean of round trips, recent ones above all
    recent: list[int] = []  # the last round trips since the last cut, at most RECENT
    cut_ns: int = NEVER_NS  # when that was
    epoch_ns: int = NEVER_NS  # when the present round trip began; one judgement each
    arrived: int = 0  # bytes since loss was last judged
    repaired: int = 0  # likewise
    stuck_count: int = 0  # judgements at the floor that still saw a queue
    hoped_ns: int | None = None  # round trips after a cut are shorter if the queue was ours; None: no cut
    unpushed: bool = False  # the window was not filled when it was first cut, and a queue is seen since then
    vain_count: int = 0  # cuts in a row that did not help,
    uncut: float = 0.0  # and what was in flight before them

    def __post_init__(self) -> None:
        self.size, self.threshold = float(min(START_BYTES, self.most)), float(self.most)

    def answered(self, now_ns: int, asked_ns: int, arrived: int, in_flight: int, floor: int) -> None:
        """Take in an answer: how many bytes have arrived since the one before, of how many that were in flight."""
        floor = self.floor(floor)
        round_ns = now_ns - asked_ns
        if self.base_ns is None:
            self.base_ns = self.round_ns = round_ns
        self.base_ns = min(self.base_ns, round_ns)
        self.round_ns += round((round_ns - self.round_ns) * WEIGHT)
        if asked_ns < self.cut_ns:
            return  # it tells of the time before the cut
        self.recent = [*self.recent[1 - RECENT :], round_ns]
        self.arrived += arrived
        queue, target = min(self.recent[-2:]) - self.base_ns, target_ns(self.base_ns)
        if now_ns - self.epoch_ns >= self.round_ns and (len(self.recent) >= RECENT or queue > 2 * target):
            self.judge(now_ns, self.base_ns, in_flight, floor)
        if self.cut_ns < now_ns and queue <= target:
            self.grow(arrived, 1 - queue / target, 2 * in_flight >= self.size)

    def judge(self, now_ns: int, base_ns: int, in_flight: int, floor: int) -> None:
        """Cut the window where the last round trip shows that it was too large."""
        shortest, target = min(self.recent[-2:]), target_ns(base_ns)
        if shortest - base_ns <= 2 * target:
            shortest = min(self.recent)
        self.epoch_ns, lossy = now_ns, False
        if self.arrived + self.repaired >= LOSS_FLOORS * floor:
            lossy = self.repaired > REPAIRED_SHARE * self.arrived
            self.arrived = self.repaired = 0
        crowded = shortest - base_ns > target
        if self.is_in_vain(shortest, crowded):
            self.base_ns, self.size, self.threshold = shortest, max(self.size, self.uncut), float(self.most)
            return
        self.stuck_count = self.stuck_count + 1 if crowded and self.size <= floor else 0
        if self.stuck_count > STUCK_ROUNDS:
            self.base_ns, self.stuck_count = shortest, 0
        if not crowded and not lossy:
            return
        factor = 0.5 if lossy else max(0.5, (base_ns + target) / shortest)
        before, unfilled = min(self.size, max(in_flight, floor)), 2 * in_flight < self.size
        self.size = max(floor, factor * before)
        self.unpushed = self.unpushed or (crowded and unfilled)
        if self.unpushed and self.size < before:
            self.hoped_ns = round(shortest * (1 + factor) / 2)
            self.uncut = self.uncut if self.vain_count else before
        self.threshold, self.cut_ns, self.recent = self.size, now_ns, []

    def is_in_vain(self, shortest: int, crowded: bool) -> bool:
        """Whether cuts have not made the queue shorter: it is none, or not ours."""
        hoped_ns, self.hoped_ns = self.hoped_ns, None
        if not crowded:
            self.vain_count, self.unpushed = 0, False
        elif hoped_ns is not None:
            self.vain_count = self.vain_count + 1 if shortest > hoped_ns else 0
        if self.vain_count < VAIN_CUTS:
            return False
        self.vain_count, self.stuck_count, self.unpushed = 0, 0, False
        return True

    def grow(self, arrived: int, share: float, filled: bool) -> None:
        """Make room for more; `share` is how much of the aimed queue is still free."""
        if not filled and self.size >= IDLE_BYTES:
            return
        if share < 0.5:
            self.threshold = min(self.threshold, self.size)
        if self.size < self.threshold:
            self.size += arrived
        elif filled:
            self.size += max(SEGMENT_BYTES, self.size / 16) * share * min(1.0, arrived / self.size)
        self.size = min(self.size, self.most)

    def timed_out(self, floor: int) -> None:
        """Nothing came back: send less, but double the way back to what the path once took."""
        self.size = max(self.size / 2, self.floor(floor))

    def floor(self, frames_bytes: int) -> int:
        """The least window: a few frames, and not less than any link is worth; never above the ceiling."""
        return min(max(frames_bytes, FLOOR_BYTES), self.most)
