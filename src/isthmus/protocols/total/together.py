"""Messages of one packet that wait together to be ordered: what they have in common is kept once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from isthmus.core.errors import RemoteError
from isthmus.core.layer import ClockState, Host
from isthmus.core.message import Cast, SiteId
from isthmus.protocols.total.optimistic.compensation import MessageArrival
from isthmus.protocols.total.optimistic.wire import Posted

ISSUE = 0  # the timer key of the sequencer's batches; of messages: no timer waits for them


class Together:
    """Messages of one sender, of one size, that came in one packet."""

    __slots__ = ("arrived", "casts", "due_ns", "key", "left", "place", "request_ns")

    def __init__(self, casts: Sequence[Cast], place: int, request_ns: int, arrived: MessageArrival) -> None:
        self.casts = casts
        self.place = place  # of the first
        self.request_ns = request_ns
        self.arrived = arrived
        self.due_ns = arrived.arrival_ns  # when to be tentative, or numbered; kept even if the timer never fires
        self.key = ISSUE  # of the timer that waits for them
        self.left = len(casts)  # while a timer waits: those that are not final


Waiting = tuple[Cast, int, Together]  # a message that is here and not final, and its place


def own_stamp(host: Host, calendar: bool) -> int:
    """Return a sender's stamp: its monotonic clock, or the calendar time where clocks are synchronised."""
    return host.clock().time_ns if calendar else host.now_ns


def stamp_here(stamp_ns: int, host: Host, calendar: bool) -> int:
    """Convert a sender's stamp to the monotonic clock here, where a synchronised clock knows the difference."""
    reading = host.clock() if calendar else None
    if reading is None or reading.state in (None, ClockState.FREE_RUNNING):
        return stamp_ns
    return host.now_ns - (reading.time_ns - stamp_ns)


def arrivals(source: SiteId, posted: Posted[Any], stamp_ns: int, now_ns: int, sizes: bool) -> list[Together]:
    """Return the messages of a packet; where sizes matter, one entry per run of messages of one size."""
    casts, request_ns = posted.casts, posted.request_ns
    if not casts:
        raise RemoteError(f"site {source} posts no message")
    lengths = [len(cast.payload) for cast in casts]
    if not sizes or min(lengths) == max(lengths):
        size = lengths[0] if sizes else 0
        return [Together(casts, posted.place, request_ns, MessageArrival(source, stamp_ns, size, now_ns))]
    found, place = [], posted.place
    for size, alike in groupby(casts, lambda cast: len(cast.payload)):
        some = tuple(alike)
        found.append(Together(some, place, request_ns, MessageArrival(source, stamp_ns, size, now_ns)))
        place += len(some)
    return found
