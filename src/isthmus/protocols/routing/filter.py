"""The receiver's filter: each message once, known by the name that its author gave it.

The problem: a message may come twice, when a router takes over from another and forwards again what it cannot know to
have arrived. Who forwarded it says nothing: the second copy comes from another router than the first. The idea: count
per author. A message tells the number of its author's message before it to the same group, so that a receiver knows
which are missing without the numbers being consecutive.

Where every protocol on the way is FIFO and nothing overtakes, a message before whose predecessor is missing is held
until that has come. Elsewhere the order may change lawfully, and holding back by author would break the total order
that a composition promises without FIFO; then a message is taken when it comes.

Invariants, per author, life and domain: `last` and all before it were taken; `ahead` were taken beyond a gap.

Bounds: `AHEAD_MAX` numbers beyond a gap per author; then the oldest gap is taken for a loss, as over datagrams.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from isthmus.core.port import INCARNATION_SHIFT
from isthmus.protocols.routing.wire import Routed, StreamKey

AHEAD_MAX = 4096


class Fate(Enum):
    """What becomes of a copy that has come."""

    TAKEN = 1
    KNOWN = 2  # taken before: dropped
    EARLY = 3  # one before it is missing


class StreamState(NamedTuple):
    """How far one author's messages have come, for a member that joins."""

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
        """Take a message, unless it was taken before, or must wait for the one before it."""
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
        """Miss nothing up to a number any more."""
        self.last = max(self.last, number)
        self.ahead = {before: one for before, one in self.ahead.items() if one > self.last}
        self.close_up()

    def close_up(self) -> None:
        while self.last in self.ahead:
            self.last = self.ahead.pop(self.last)


class Filter:
    """What a member has taken of all authors, or is done with."""

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
        """What a member that joins must know, so that it takes nothing twice and misses nothing."""
        return tuple(StreamState(key, stream.last, tuple(stream.ahead.items())) for key, stream in self.streams.items())

    def restore(self, states: tuple[StreamState, ...]) -> None:
        for one in states:
            stream = self.streams[one.key] = AuthorStream()
            stream.last, stream.ahead = one.last, dict(one.ahead)
