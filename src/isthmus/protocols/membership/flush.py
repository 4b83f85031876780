"""The flush of a closing view among its members: the frames of it that one site has, lacks and gives to others.

Problem: before a view is installed, all members that go on must have delivered the same messages of the old one,
although each has different ones, and some of those that have them may die in the meantime.

Idea: a site accepts a cut only when it holds every frame of it, also those that are not addressed to it. Each acceptor
can then serve all others, so that a decided cut is held wherever it was accepted. Missing frames are requested from the
holders that the proposal names, then from any site, one at a time.

Invariants: nothing is dropped from here while the view closes; frames are delivered per origin in ascending order, over
gaps where the frame in between is not in the cut, once and only at the installation.

Bounds: an answer has at most `ANSWER_MAX` frames, in packets of about `frame_bytes`; the rest is requested again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from isthmus.core.layer import View
from isthmus.core.message import SiteId, Targets
from isthmus.protocols.membership.cut import CutSlice, Runs, numbers_of, runs_of
from isthmus.protocols.membership.wire import Frame
from isthmus.protocols.transport.base import Transport, taken
from isthmus.protocols.transport.reliable.frames import frame_bytes

ANSWER_MAX = 256


class Flush:
    """The frames of one closing view that this site holds."""

    __slots__ = ("asked_count", "cut", "frames", "view_id")

    def __init__(self, view_id: int, frames: Mapping[SiteId, Mapping[int, Frame]]) -> None:
        self.view_id = view_id
        self.frames: dict[SiteId, dict[int, Frame]] = {origin: dict(held) for origin, held in frames.items()}
        self.cut: tuple[CutSlice, ...] = ()  # the frames that must be held
        self.asked_count = 0  # requests since the cut was set, so that each goes to another site

    def aim(self, cut: tuple[CutSlice, ...]) -> None:
        """Set the frames that must be held."""
        self.cut = cut
        self.asked_count = 0

    def lacking(self) -> tuple[tuple[SiteId, Runs], ...]:
        """The frames of the cut that are missing here."""
        found = []
        for part in self.cut:
            held = self.frames.get(part.origin, {})
            missing = runs_of([number for number in numbers_of(part.numbers) if number not in held])
            if missing:
                found.append((part.origin, missing))
        return tuple(found)

    def next_target(self, others: Targets) -> SiteId | None:
        """The site to ask next: the holders of the first missing frame, then all others, in turn."""
        lacking = self.lacking()
        if not lacking or not others:
            return None
        holders: Targets = next((part.holders for part in self.cut if part.origin == lacking[0][0]), ())
        ready = [site for site in holders if site in others]
        order = ready + [site for site in others if site not in ready]
        self.asked_count += 1
        return order[(self.asked_count - 1) % len(order)]

    def take(self, frames: Sequence[tuple[SiteId, Frame]]) -> None:
        """Keep those of some frames that were missing."""
        wanted = {(part.origin, number) for part in self.cut for number in numbers_of(part.numbers)}
        for origin, frame in frames:
            if (origin, frame.seq) in wanted and frame.seq not in self.frames.get(origin, {}):
                self.frames.setdefault(origin, {})[frame.seq] = frame
                self.asked_count = 0  # the best holder of the next missing frame comes first again

    def answer(self, wanted: Sequence[tuple[SiteId, Runs]], limit_bytes: int) -> Iterator[list[tuple[SiteId, Frame]]]:
        """The requested frames that are here, in packets."""
        packet: list[tuple[SiteId, Any]] = []
        size = count = 0
        for origin, runs in wanted:
            held = self.frames.get(origin, {})
            inside = [number for number in sorted(held) if any(first <= number <= last for first, last in runs)]
            for number in inside[: ANSWER_MAX - count]:
                if packet and size + frame_bytes(held[number]) > limit_bytes:
                    yield packet
                    packet, size = [], 0
                packet.append((origin, held[number]))
                size += frame_bytes(held[number])
                count += 1
        yield packet

    def deliver(self, transport: Transport) -> None:
        """Have the transport deliver the rest of the cut, and nothing else.

        The frames that it holds ahead of a gap are dropped first: one of these may follow a frame of the cut and not be
        in it.
        """
        transport.drop_held()
        for part in self.cut:
            held = self.frames.get(part.origin, {})
            for number in numbers_of(part.numbers):
                if not taken(transport, part.origin, held[number]):
                    taken(transport, part.origin, held[number], over_gap=True)


def frames_of(transport: Transport, view: View) -> dict[SiteId, Mapping[int, Frame]]:
    """All frames of a view that a transport has."""
    return {origin: transport.frames(origin) for origin in view.members}
