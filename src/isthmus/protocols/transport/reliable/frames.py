"""Frames of the reliable transport, and the record of one origin's frames at a site.

A frame is addressed to all members or to some. It names the number of the frame before it *that went to the same
receiver*; where that is simply the previous number, for all receivers, the field is empty.
"""

from __future__ import annotations

from typing import Any, Generic

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.message import B, Cast, Message, SiteId, Targets
from isthmus.core.validation import COUNT_MAX, DURATION_MAX_MS, PERIOD_MIN_MS, check_range
from isthmus.protocols.transport.reliable.pacing import Asked, Gaps

GAPS_MAX = 64  # gaps named in one Nak; the rest in the next
REPAIR_MAX = 64  # frames requested by one Nak, by default
FRAME_BYTES = 64  # size of a frame besides its payload, about: headers, numbers, the sender
MAX_BYTES = 2**53  # of all that a stream ever carried


class ReliableOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Times and bounds of the reliable transport."""

    nak_delay_ms: float = 5.0  # a gap this old is not mere reordering
    nak_retry_ms: float = 100.0  # until a repair has shown how long a round trip takes
    ack_period_ms: float = 250.0
    ack_every: int = 256  # frames received that make an Ack due at once
    ack_every_bytes: int = 262_144  # likewise; a frame counts for its share of either, whichever is larger
    status_period_ms: float = 500.0
    keep_max: int = 8192  # own unstable frames; twice as many of each other origin
    keep_max_bytes: int = 16_777_216  # likewise
    hold_max: int = 1024  # frames ahead of a gap, per origin
    repair_max: int = REPAIR_MAX  # frames requested by one Nak, and sent in answer

    def __post_init__(self) -> None:
        check_range("nak_delay_ms", self.nak_delay_ms, 0, DURATION_MAX_MS)
        for key in ("nak_retry_ms", "ack_period_ms", "status_period_ms"):
            check_range(key, getattr(self, key), PERIOD_MIN_MS, DURATION_MAX_MS)
        for key in ("ack_every", "ack_every_bytes", "keep_max", "keep_max_bytes", "hold_max", "repair_max"):
            check_range(key, getattr(self, key), 1, COUNT_MAX, "a whole number")


class Data(Message, Generic[B], frozen=True, gc=False, array_like=True, tag=10):
    """One numbered frame of its sender's stream."""

    seq: int
    body: B  # a Batch where several were submitted in one turn
    targets: Targets = ()  # () for every member
    prevs: tuple[int, ...] = ()  # for each target, the frame before; () where that is seq - 1 for all

    def prev(self, site: SiteId, members: Targets) -> int:
        """The number of the frame before this one that was addressed to a site."""
        targets = self.targets or members
        if not self.prevs and not self.targets:
            prev = self.seq - 1
        elif len(targets) != len(self.prevs) or site not in targets or not set(targets) <= set(members):
            raise RemoteError(f"frame {self.seq} is not addressed to site {site} and members only")
        else:
            prev = self.prevs[targets.index(site)]
        if not 0 <= prev < self.seq:
            raise RemoteError(f"frame {self.seq} cannot follow frame {prev}")
        return prev

    def payload_bytes(self) -> int:
        return self.body.payload_bytes()  # type: ignore[attr-defined,no-any-return]

    def subjects(self) -> tuple[Cast, ...]:
        return self.body.subjects()  # type: ignore[attr-defined,no-any-return]


class Repair(Message, Generic[B], frozen=True, gc=False, array_like=True, tag=11):
    """A frame sent again, by its origin or another member, as opposed to a late one."""

    origin: SiteId
    data: Data[B]
    ask: int = 0  # the request of its receiver that this answers, so that the answer measures a round trip

    def payload_bytes(self) -> int:
        return self.data.payload_bytes()

    def subjects(self) -> tuple[Cast, ...]:
        return self.data.subjects()


class Nak(Message, frozen=True, gc=False, array_like=True, tag=12):
    """Requests missing frames of an origin's stream."""

    origin: SiteId
    gaps: Gaps  # first and last number, both included
    most: int = REPAIR_MAX  # frames that there is room for: the first of those missing
    ask: int = 0  # which request for this stream this is; repairs repeat it


class Status(Message, frozen=True, gc=False, array_like=True, tag=13):
    """Announces the last number sent to this receiver; asks for an Ack."""

    top: int
    stable: int = 0  # every frame of its sender's up to this number is
    ask: int = 0  # the number of this question, so that the answer measures a round trip


class Ack(Message, frozen=True, gc=False, array_like=True, tag=14):
    """Acknowledges every member's stream; an Ack to one member also counts the bytes that arrived from it."""

    cumulative = True

    received: tuple[int, ...]  # in the order of the view's members
    stable: int = 0  # every frame of its sender's up to this number is
    ask: int = 0  # the question that this answers; 0: none
    arrived: int = 0  # bytes of the asker's frames that are here, those ahead of a gap included


def frame_bytes(data: Data[Any]) -> int:
    """The size of a frame, about; the same at every site."""
    body = data.body
    return FRAME_BYTES + (len(body.payload) if type(body) is Cast else body.payload_bytes())


class Stream:
    """The frames of one origin at this site, in this view."""

    __slots__ = (
        "arrived",
        "asked",
        "asking",
        "counted",
        "held",
        "kept",
        "number",
        "origin",
        "patient",
        "received",
        "room_to",
        "stable",
        "top",
        "tries",
    )

    def __init__(self, origin: SiteId, room_to: int = MAX_BYTES) -> None:
        self.origin = origin
        self.received = 0
        self.number = 0  # of the last message of the application that was delivered in order
        self.stable = 0  # the origin has announced that all its targets have the frames up to this number
        self.top = 0  # the last number known to be sent to this site; nothing is missing unless it is above received
        self.arrived = 0  # bytes of all frames that were taken or held, in this view
        self.room_to = room_to  # while less has arrived, kept and held frames are surely within their bound
        self.counted = -1  # frames kept when they were last found to be at their bound
        self.held: dict[int, Data[Any]] = {}  # the number before it -> a frame ahead of a gap
        self.kept: dict[int, Data[Any]] = {}  # number -> a frame delivered and not yet stable
        self.asking = False  # a Nak timer is set
        self.patient = False  # it is set for as long as an answer takes: progress makes it short
        self.asked = Asked()
        self.tries = 0  # Naks since the last progress

    def has_room(self, frames: int, size: int) -> bool:
        """Whether less is kept than a number of frames and bytes; counts bytes only near the bound."""
        if len(self.kept) >= frames:
            return False
        if self.arrived < self.room_to:
            return True
        if len(self.kept) == self.counted:
            return False  # nothing was released since
        ahead = [data for data in self.held.values() if data.seq not in self.kept]
        taken = sum(map(frame_bytes, self.kept.values())) + sum(map(frame_bytes, ahead))
        self.room_to = self.arrived + max(0, size - taken)
        self.counted = -1 if taken < size else len(self.kept)
        return taken < size

    def gaps(self) -> Gaps:
        """The runs of numbers, some of which are addressed here and missing; the first GAPS_MAX."""
        found = []
        cursor = self.received
        for prev in sorted(self.held):
            if prev > cursor:
                found.append((cursor + 1, prev))
            cursor = self.held[prev].seq
        if self.top > cursor:
            found.append((cursor + 1, self.top))
        return tuple(found[:GAPS_MAX])

    def frames(self) -> dict[int, Data[Any]]:
        """All frames here that may be missing elsewhere, by number."""
        return {data.seq: data for data in self.held.values()} | self.kept

    def holding(self, floor: int) -> tuple[int, list[int], list[int]]:
        """The numbers beyond a floor: delivered, and ahead of a gap."""
        held = [data.seq for data in self.held.values() if data.seq not in self.kept and data.seq > floor]
        return floor, [seq for seq in self.kept if seq > floor], held

    def release(self, stable: int, in_order: bool) -> None:
        """Drop the frames that the origin announced as stable; `in_order` ends the search early."""
        done = []
        self.stable = max(self.stable, stable)
        for seq in self.kept:
            if seq <= stable:
                done.append(seq)
            elif in_order:
                break
        for seq in done:
            del self.kept[seq]

    def kept_for(self, site: SiteId, gaps: Gaps, most: int) -> list[Data[Any]]:
        """The kept frames in some gaps that are addressed to a site, oldest first, at most `most`."""
        found: list[Data[Any]] = []
        for first, last in gaps[:GAPS_MAX]:
            wide = last - first > len(self.kept)  # a gap may be as wide as its sender likes, what is kept may not
            inside = sorted(seq for seq in self.kept if first <= seq <= last) if wide else range(first, last + 1)
            for seq in inside:
                data = self.kept.get(seq)
                if data is not None and (not data.targets or site in data.targets):
                    found.append(data)
                    if len(found) >= most:
                        return found
        return found
