"""Paths: what each member was sent of this site's stream, and what it may be sent now.

Problem: paths differ. A frame to all may leave on a fast path at once and must wait on one that is full, and neither
may hold up the other. Idea: a path counts the bytes that were sent over it and those that its member has acknowledged
(`Ack.arrived`); the difference is in flight, and bounded by a window (congestion.py). A frame without room is kept,
as all are until they are stable, and its number is noted as *deferred* for that path alone; it follows in order.

Once half of a window is in flight, and every quarter of it until there is an answer, the member is asked what has
arrived (`Status.ask`). The answers measure round trips, and make room at the pace of the path.

As long as no path is near its window, nothing is done per path: `budget` is how many bytes may still be sent, to
any member, before a path needs a look. It is spent by each frame and set by `review`.

Invariants:
- sent - arrived = in flight >= 0; frames sent again are not counted again: they replace what was lost;
- deferred numbers rise, and no frame leaves on a path while an earlier one is deferred there;
- where nothing is in flight, one frame may leave, however large.

Bounds: deferred numbers are those of kept frames; `ASKS_MAX` questions are remembered per path, then the oldest is
forgotten and its answer is no sample; what was repaired is remembered for one round trip, in which no more is repaired
than the window holds, or `REPAIRS_LEAST` frames.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from isthmus.core.message import SiteId, Targets
from isthmus.protocols.transport.reliable.congestion import FLOOR_FRAMES, Window
from isthmus.protocols.transport.reliable.frames import FRAME_BYTES, Data

FIRST_ASK_BYTES = 4_096  # sent between questions until the first answer: the sooner, the shorter is the queue it sees
ASKS_MAX = 8
REPAIRS_LEAST = 16  # frames that are sent again within a round trip, however small the window is
LEAST_WAIT_NS, FIRST_WAIT_NS, LONGEST_WAIT_NS = 50_000_000, 1_000_000_000, 30_000_000_000  # for an answer
UNLIMITED = 2**53


class Path(msgspec.Struct, eq=False):
    """The path to one member."""

    site: SiteId
    window: Window
    extra: int = 0  # bytes of frames to some that were for this member
    arrived: int = 0  # bytes that it has acknowledged
    deferred: dict[int, int] = {}  # number and size of frames that wait for room, in order
    deferred_bytes: int = 0
    sent: int = 0  # the last number sent; only while some are deferred
    mark: int = 0  # the last number that had been sent at the last tick of the status timer
    asks: dict[int, int] = {}  # unanswered questions: when each was sent
    asked_bytes: int = 0  # what had been sent at the last question
    asked_ns: int = 0  # when that was
    quiet_count: int = 0  # waits that ended without an answer
    repaired: dict[tuple[SiteId, int], tuple[int, int]] = {}  # origin, number: when, and its size
    repaired_bytes: int = 0

    def in_flight(self, sent: int) -> int:
        return sent - self.arrived

    def has_room(self, in_flight: int, size: int) -> bool:
        """Whether a frame of a size may join what is in flight."""
        return in_flight == 0 or in_flight + size <= self.window.size

    def until_ask(self, sent: int) -> float:
        """How many bytes more may be sent before the member is asked what has arrived."""
        if self.deferred and not self.asks:
            return 0
        if self.window.base_ns is None:
            return self.asked_bytes + FIRST_ASK_BYTES - sent
        if self.asks:
            return self.asked_bytes + self.window.size / 4 - sent
        return self.window.size / 2 - self.in_flight(sent)

    def note_ask(self, ask: int, sent: int, now_ns: int) -> None:
        self.asks[ask] = now_ns
        if len(self.asks) > ASKS_MAX:
            del self.asks[next(iter(self.asks))]
        self.asked_bytes = sent
        self.asked_ns = now_ns

    def wait_ns(self) -> int:
        """How long to wait for an answer before asking again."""
        known = self.window.round_ns
        wait = max(LEAST_WAIT_NS, 2 * known) if known else FIRST_WAIT_NS
        return int(min(wait << min(self.quiet_count, 10), LONGEST_WAIT_NS))

    def answered(self, ask: int, arrived: int, sent: int, floor: int, now_ns: int) -> None:
        """Note an answer; one that was overtaken takes nothing back."""
        asked_ns = self.asks.get(ask)
        fresh, in_flight = max(0, arrived - self.arrived), self.in_flight(sent)
        self.arrived += fresh
        if asked_ns is not None:
            self.asks = {number: when for number, when in self.asks.items() if number > ask}
            self.quiet_count = 0
            self.window.answered(now_ns, asked_ns, fresh, in_flight, floor)

    def repairs_since(self, since_ns: int, origin: SiteId) -> set[int]:
        """The frames of an origin that were sent to this member again since a time; forgets earlier ones."""
        for key, (when, size) in list(self.repaired.items()):
            if when >= since_ns:
                break
            del self.repaired[key]
            self.repaired_bytes -= size
        return {number for of, number in self.repaired if of == origin}

    def note_repair(self, origin: SiteId, number: int, size: int, now_ns: int) -> bool:
        """Count a frame to be sent again; whether the window has room for it, or few are in flight."""
        if len(self.repaired) >= REPAIRS_LEAST and self.repaired_bytes + size > self.window.size:
            return False
        self.repaired[origin, number] = (now_ns, size)
        self.repaired_bytes += size
        return True


class Paths:
    """The paths to the other members of one view."""

    __slots__ = ("ask", "budget", "fresh", "most", "of", "others", "to_all", "to_some")

    def __init__(self, others: Targets, most: int) -> None:
        self.others = others
        self.most = most  # bytes in flight on a path
        self.of: dict[SiteId, Path] = {}  # made on first use
        self.fresh = Path(SiteId(-1), Window(most))  # as is each of the others
        self.to_all = 0  # bytes of frames to every member
        self.to_some = 0  # bytes of the other frames
        self.ask = 0  # the last question
        self.budget: float = 0
        self.review()

    def to(self, site: SiteId) -> Path | None:
        """The path to a member; None where it is not another member."""
        path = self.of.get(site)
        if path is None and site in self.others:
            path = self.of[site] = Path(site, Window(self.most))
        return path

    def all(self) -> Iterable[Path]:
        """The paths to all others."""
        if len(self.of) < len(self.others):
            self.of = {site: self.of.get(site) or Path(site, Window(self.most)) for site in self.others}
        return self.of.values()

    def sent(self, path: Path) -> int:
        """Bytes that were sent over a path."""
        return self.to_all + path.extra - path.deferred_bytes

    def round_ns(self, site: SiteId) -> int:
        """The mean round trip to a member; 0 if none was measured."""
        path = self.of.get(site)
        return path.window.round_ns if path else 0

    def floor(self, frames: int) -> int:
        """The least window: a few frames of mean size, given how many there were; also where there were none."""
        return FLOOR_FRAMES * max(FRAME_BYTES, (self.to_all + self.to_some) // max(1, frames))

    def limited(self) -> list[Path]:
        """The paths on which something is deferred."""
        return [path for path in self.of.values() if path.deferred]

    def count_some(self, targets: Targets, size: int) -> None:
        """Count a frame that goes to some members only."""
        self.to_some += size
        for site in targets:
            path = self.to(site)
            if path is not None:
                path.extra += size

    def admits(self, site: SiteId, data: Data[Any], size: int, members: Targets) -> bool:
        """Whether a frame, already counted, may leave for a member now; otherwise it is deferred there."""
        path = self.to(site)
        if path is None or (not path.deferred and path.has_room(self.sent(path) - size - path.arrived, size)):
            return True
        if not path.deferred:
            path.sent = data.prev(site, members)
        path.deferred[data.seq] = size
        path.deferred_bytes += size
        return False

    def next_deferred(self, path: Path) -> int | None:
        """The number of the deferred frame that may leave now, if there is one; it counts as sent then."""
        if not path.deferred:
            return None
        number, size = next(iter(path.deferred.items()))
        if not path.has_room(path.in_flight(self.sent(path)), size):
            return None
        del path.deferred[number]
        path.deferred_bytes -= size
        path.sent = number
        return number

    def due(self) -> list[Path]:
        """The paths whose members should be asked what has arrived."""
        return [path for path in self.all() if path.until_ask(self.sent(path)) <= 0]

    def review(self) -> None:
        """Compute how much may be sent before any path needs a look."""
        budget: float = UNLIMITED
        for path in (*self.of.values(), self.fresh) if len(self.of) < len(self.others) else self.of.values():
            sent = self.sent(path)
            room = -1 if path.deferred else path.window.size - path.in_flight(sent)
            budget = min(budget, room, path.until_ask(sent))
        self.budget = budget
