"""The receiver's filter: each message once, known by the name that its author gave it.

The problem: a message may come twice, when a router takes over from another and forwards again what it cannot know to
have arrived. Who forwarded it says nothing: the second copy comes from another router than the first. The idea: count
per author. A message tells the number of its author's message before it to the same group, so that a receiver knows
which are missing without the numbers being consecutive.

Invariants, per author and life: `last` and all before it were taken; `ahead` were taken beyond a gap.

Bounds: `AHEAD_MAX` numbers beyond a gap per author; then the oldest gap is taken for a loss, as over datagrams.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from isthmus.core.port import INCARNATION_SHIFT

AHEAD_MAX = 4096
StreamKey = tuple[int, int, int]  # group and sender of a message, and the sender's life


class Progress(NamedTuple):
    """How far one author's messages have come."""

    key: StreamKey
    last: int
    ahead: tuple[tuple[int, int], ...]  # the number before, and the number


def stream_of(origin: int, sender: int, number: int) -> StreamKey:
    return (origin, sender, number >> INCARNATION_SHIFT)


class Stream:
    """One life of one author."""

    __slots__ = ("ahead", "last")

    def __init__(self) -> None:
        self.last = 0  # the highest number up to which nothing is missing
        self.ahead: dict[int, int] = {}  # by the number before: taken beyond a gap

    def takes(self, number: int, before: int) -> bool:
        """Take a message, unless it was taken before."""
        if number <= self.last or self.ahead.get(before) == number:
            return False
        self.ahead[before] = number
        if len(self.ahead) > AHEAD_MAX:
            self.last = min(self.ahead)
        while self.last in self.ahead:
            self.last = self.ahead.pop(self.last)
        return True


class Filter:
    """What a member has taken of all authors."""

    __slots__ = ("streams",)

    def __init__(self) -> None:
        self.streams: dict[StreamKey, Stream] = {}

    def takes(self, key: StreamKey, number: int, before: int) -> bool:
        """Take a message, unless it was taken before."""
        stream = self.streams.get(key)
        if stream is None:
            stream = self.streams[key] = Stream()
        return stream.takes(number, before)

    def state(self) -> bytes:
        """What a member that joins must know, so that it takes nothing twice and misses nothing."""
        return msgspec.msgpack.encode(
            [Progress(key, stream.last, tuple(stream.ahead.items())) for key, stream in self.streams.items()]
        )

    def restore(self, state: bytes) -> None:
        for one in msgspec.msgpack.decode(state, type=list[Progress]):
            stream = self.streams[one.key] = Stream()
            stream.last, stream.ahead = one.last, dict(one.ahead)
