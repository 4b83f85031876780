"""What optimistic total order sends: messages on their way to be ordered, and their numbers."""

from __future__ import annotations

from isthmus.core.message import Cast, Message, Targets
from isthmus.protocols.total.token_site import MessageId


class Posted(Message, frozen=True, gc=False, array_like=True, tag=25):
    """A message of the application on its way to be ordered."""

    cast: Cast
    place: int  # among the messages that its sender sends in this view: 1, 2, 3 ...
    request_ns: int = 0  # how long the sequencer should hold back its own messages, as far as the sender is concerned
    stamp_ns: int = 0  # the sender's clock

    def payload_bytes(self) -> int:
        return self.cast.payload_bytes()

    def subject(self) -> Cast:
        return self.cast


class Numbers(Message, frozen=True, gc=False, array_like=True, tag=26):
    """Consecutive numbers of a view, from `first` on."""

    view_id: int
    first: int
    ids: tuple[MessageId, ...]
    waits_ns: tuple[int, ...] = ()  # how long each had been given when they were sent; () where not at all
    destinations: tuple[Targets, ...] = ()  # of each message; () where all go to every member
