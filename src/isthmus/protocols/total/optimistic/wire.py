"""The wire types of optimistic total order: messages to be ordered, and their numbers."""

from __future__ import annotations

from typing import Generic

from isthmus.core.message import B, Cast, Message, Targets
from isthmus.protocols.total.token_site import Range


class Posted(Message, Generic[B], frozen=True, gc=False, array_like=True, tag=25):
    """Messages of one turn on their way to be ordered, all to the same destinations."""

    casts: tuple[B, ...]  # Cast, or Carried
    place: int  # of the first among the messages that its sender sends in this view: 1, 2, 3 ...
    request_ns: int = 0  # how long the sender asks the sequencer to hold back its own messages
    stamp_ns: int = 0  # the sender's monotonic clock

    def payload_bytes(self) -> int:
        return sum([cast.payload_bytes() for cast in self.casts])  # type: ignore[attr-defined]

    def subjects(self) -> tuple[Cast, ...]:
        return self.casts  # type: ignore[return-value]


class Numbers(Message, frozen=True, gc=False, array_like=True, tag=26):
    """Consecutive numbers of a view, from `first` on."""

    first: int
    ranges: tuple[Range, ...]
    waits_ns: tuple[int, ...] = ()  # from numbering to sending of each range; () where 0
    destinations: tuple[Targets, ...] = ()  # of each range; () where all go to every member
