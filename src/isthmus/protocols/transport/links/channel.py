"""A reliable FIFO channel from one site to another: the arithmetic of its two ends, without timers or sends.

Problem: a flood needs each neighbour to deliver, once and in order, what it was sent, over a network that loses,
duplicates and reorders; and the cost must grow with the number of neighbours, not of members.

Idea: frames are numbered per channel. The receiver acknowledges how far it has got and which frames are missing before
those that it holds; the frames of the other direction carry the first half of that. The sender repeats frames reported
missing, once per round trip, and frames not acknowledged for as long as an acknowledgement takes; if all frames in
flight are lost, the receiver cannot report that, and each answer has the next frames repeated, twice as many. What is
in flight is bounded by a window (congestion.py); a frame that fills half of it asks for an acknowledgement at once.

Invariants:
- `unacked` has the frames from the first that is not acknowledged to the last sent, by number, without a gap;
- the receiver's `received` is the highest number such that all up to it were delivered; held frames are above it;
- a frame that was sent again is no sample of a round trip.

Bounds: the layer above sees `backlog` and must not offer more than it may (links.py); `hold_max` frames are held, then
the furthest is dropped and comes again.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Generic, NamedTuple

import msgspec

from isthmus.core.message import B, Cast, Message, SiteId
from isthmus.protocols.transport.reliable.congestion import FLOOR_FRAMES, Window
from isthmus.protocols.transport.reliable.frames import FRAME_BYTES
from isthmus.protocols.transport.reliable.pacing import Gaps

GAPS_MAX = 64  # named in one acknowledgement


class Frame(Message, Generic[B], frozen=True, gc=False, array_like=True, tag=97):
    """One numbered frame of a channel; `received` acknowledges the other direction."""

    seq: int
    body: B  # a Batch where several were submitted in one turn
    received: int = 0
    ask: bool = False  # acknowledge at once
    lives: int = 0  # of sender and receiver, if no view names them (links.py)

    def payload_bytes(self) -> int:
        return self.body.payload_bytes()  # type: ignore[attr-defined,no-any-return]

    def subjects(self) -> tuple[Cast, ...]:
        return self.body.subjects()  # type: ignore[attr-defined,no-any-return]


class LinkAck(Message, frozen=True, gc=False, array_like=True, tag=98):
    """Acknowledges the frames of a channel up to a number, and names the gaps before held frames."""

    received: int
    gaps: Gaps = ()
    seq: int = 0  # the frame that made this due; 0: none
    waited_ns: int = 0  # since that frame came
    lives: int = 0


class FreeFrame(Frame[B], Generic[B], frozen=True, gc=False, array_like=True, tag=92):
    """The same, for channels that outlive views."""

    viewless = True


class FreeAck(LinkAck, frozen=True, gc=False, array_like=True, tag=93):
    """The same, for channels that outlive views."""

    viewless = True


class Sent(NamedTuple):
    """A frame that is not acknowledged yet."""

    body: Message
    size: int
    sent_ns: int  # last
    once: bool


class Outbound(msgspec.Struct, eq=False):
    """The sending end."""

    peer: SiteId
    window: Window
    seq: int = 0  # of the last frame sent
    unacked: dict[int, Sent] = {}
    waiting: deque[tuple[Message, int]] = msgspec.field(default_factory=deque)  # without room in the window; with size
    in_flight: int = 0  # bytes of unacknowledged frames
    size: int = 0  # bytes of these and of waiting ones
    asked_bytes: int = 0  # sent since an acknowledgement was last asked for
    quiet_count: int = 0  # unanswered waits since the last progress
    doubted: int = 0  # the last frame sent before the last unanswered wait: up to here all may be lost
    run: int = 1  # how many of these go again at the next answer

    @property
    def backlog(self) -> int:
        """Frames that are not acknowledged or not sent yet."""
        return len(self.unacked) + len(self.waiting)

    def offer(self, body: Message) -> None:
        size = FRAME_BYTES + body.payload_bytes()
        self.waiting.append((body, size))
        self.size += size

    def next(self, now_ns: int) -> tuple[int, Message, bool] | None:
        """The next frame to send, if the window has room: its number, its body, whether to ask for an answer."""
        if not self.waiting:
            return None
        body, size = self.waiting[0]
        if self.in_flight and self.in_flight + size > self.window.size:
            return None
        self.waiting.popleft()
        self.seq += 1
        self.unacked[self.seq] = Sent(body, size, now_ns, True)
        self.in_flight += size
        self.asked_bytes += size
        half = 2 * self.in_flight >= self.window.size
        ask = half and (bool(self.waiting) or 4 * self.asked_bytes >= self.window.size)
        if ask:
            self.asked_bytes = 0
        return self.seq, body, ask

    def acknowledge(self, received: int) -> bool:
        """Drop acknowledged frames; whether there were any."""
        news = False
        while self.unacked and (first := next(iter(self.unacked))) <= received:
            size = self.unacked.pop(first).size
            self.in_flight -= size
            self.size -= size
            news = True
        if news:
            self.quiet_count = 0
        return news

    def sample(self, seq: int, waited_ns: int, now_ns: int) -> int | None:
        """The round trip of an acknowledged frame, less the receiver's wait; None if it is no valid sample."""
        sent = self.unacked.get(seq)
        if sent is None or not sent.once or not 0 <= waited_ns <= now_ns - sent.sent_ns:
            return None
        return now_ns - sent.sent_ns - waited_ns

    def again(self, seq: int, now_ns: int) -> Message | None:
        """The body of a frame that is to be sent again; None if it has arrived."""
        sent = self.unacked.get(seq)
        if sent is None:
            return None
        self.unacked[seq] = sent._replace(sent_ns=now_ns, once=False)
        self.window.repaired += sent.size
        return sent.body

    def doubt(self) -> None:
        """Note an unanswered wait: a receiver that got none of the frames cannot report them missing."""
        self.doubted, self.run = self.seq, 1

    def doubtful(self, most: int) -> Gaps:
        """The doubtful frames to send again at an answer; twice as many each time."""
        first = next(iter(self.unacked), self.seq + 1)
        if first > self.doubted:
            return ()
        self.run = min(2 * self.run, most)
        return ((first, min(self.doubted, first + self.run - 1)),)

    def floor(self) -> int:
        """The least window: a few frames of mean size."""
        return max(1, FLOOR_FRAMES * self.in_flight // max(1, len(self.unacked)))


class Inbound(msgspec.Struct, eq=False):
    """The receiving end."""

    received: int = 0
    held: dict[int, Any] = {}  # bodies ahead of a gap, by number
    due_count: int = 0  # frames since the last acknowledgement
    came_seq: int = 0  # the first of them,
    came_ns: int = 0  # and when it came

    def take(self, seq: int, body: Message, now_ns: int, hold_max: int) -> list[Message]:
        """Take a frame; return the bodies to deliver now, in order."""
        if not self.due_count:
            self.came_seq, self.came_ns = seq, now_ns
        self.due_count += 1
        if seq <= self.received:
            return []
        if seq > self.received + 1:
            if len(self.held) >= hold_max and (furthest := max(self.held)) > seq:
                del self.held[furthest]
            if len(self.held) < hold_max:
                self.held[seq] = body
            return []
        ready = [body]
        self.received = seq
        while (following := self.held.pop(self.received + 1, None)) is not None:
            self.received += 1
            ready.append(following)
        return ready

    def gaps(self) -> Gaps:
        """The gaps before held frames."""
        found: list[tuple[int, int]] = []
        expected = self.received + 1
        for seq in sorted(self.held):
            if seq > expected:
                found.append((expected, seq - 1))
            expected = seq + 1
        return tuple(found[:GAPS_MAX])

    def answered(self) -> tuple[int, int]:
        """Note that an acknowledgement leaves; return the frame that made it due, and when that came."""
        self.due_count = 0
        return self.came_seq, self.came_ns
