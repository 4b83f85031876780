"""The receiver's filter: each message once, identified by author and number.

Problem: a router that takes over from another forwards again what may have arrived already. The courier identifies
nothing: a duplicate comes from another router. Idea: count per author. A message carries the number of its author's
previous message to the same group, so that a receiver knows what is missing although numbers are not consecutive.

Where every protocol on the route is FIFO and nothing overtakes, a message whose predecessor is missing is held until
that has arrived. Elsewhere the order may change, and holding back by author would break the total order that a
composition promises without FIFO; then a message is taken as it arrives.

Invariants, per author, life and domain: `last` and all before it were taken; `ahead` were taken beyond a gap.

Bounds: `AHEAD_MAX` numbers beyond a gap per author; then the oldest gap counts as a loss, as over datagrams.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from isthmus.core.port import INCARNATION_SHIFT
from isthmus.protocols.routing.wire import Routed, StreamKey

AHEAD_MAX = 4096


class Fate(Enum):
    """The fate of a copy that has arrived."""

    TAKEN = 1
    KNOWN = 2  # a duplicate: dropped
    EARLY = 3  # its predecessor is missing


class StreamState(NamedTuple):
    """How far one author's messages were taken, for a member that joins."""

    key: StreamKey
    last: int
    ahead: tuple[tuple[int, int], ...]  # the number before, and the number


def stream_of(copy: Routed, domain: int) -> StreamKey:
    return (copy.origin, copy.sender, copy.number >> INCARNATION_SHIFT, domain)


class AuthorStream:
    """One life of one author."""

    __slots__ = ("ahead", "count", "last")

    def __init__(self) -> None:
        self.last = 0  # the highest number up to which nothing is missing
        self.ahead: dict[int, int] = {}  # by the number before: taken beyond a gap
        self.count = 0  # messages taken here

    def take(self, number: int, before: int, in_order: bool = False) -> Fate:
        """Take a message, unless it is a duplicate, or must wait for its predecessor."""
        if number <= self.last or self.ahead.get(before) == number:
            return Fate.KNOWN
        if before <= self.last:
            self.last = number
        elif in_order:
            return Fate.EARLY
        else:
            self.ahead[before] = max(number, self.ahead.get(before, 0))
            if len(self.ahead) > AHEAD_MAX:
                self.last = min(self.ahead)
        self.close_up()
        self.count += 1
        return Fate.TAKEN

    def skip(self, number: int) -> None:
        """Give up missing messages up to a number."""
        self.last = max(self.last, number)
        self.ahead = {before: one for before, one in self.ahead.items() if one > self.last}
        self.close_up()

    def close_up(self) -> None:
        while self.last in self.ahead:
            self.last = self.ahead.pop(self.last)


class Filter:
    """The messages that a member has taken, or consumed, of all authors."""

    __slots__ = ("streams",)

    def __init__(self) -> None:
        self.streams: dict[StreamKey, AuthorStream] = {}

    def of(self, key: StreamKey) -> AuthorStream:
        stream = self.streams.get(key)
        if stream is None:
            stream = self.streams[key] = AuthorStream()
        return stream

    def has(self, key: StreamKey, number: int) -> bool:
        """Whether a message was taken."""
        stream = self.streams.get(key)
        return stream is not None and (number <= stream.last or number in stream.ahead.values())

    def last(self, key: StreamKey) -> int:
        stream = self.streams.get(key)
        return 0 if stream is None else stream.last

    def count(self, key: StreamKey) -> int:
        stream = self.streams.get(key)
        return 0 if stream is None else stream.count

    def states(self) -> tuple[StreamState, ...]:
        """Return the state with which a joining member takes nothing twice and misses nothing."""
        return tuple(StreamState(key, stream.last, tuple(stream.ahead.items())) for key, stream in self.streams.items())

    def restore(self, states: tuple[StreamState, ...]) -> None:
        for one in states:
            stream = self.streams[one.key] = AuthorStream()
            stream.last, stream.ahead = one.last, dict(one.ahead)
