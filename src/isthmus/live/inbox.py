"""What a live application has been given and has not read: messages, views where wanted, and what is handed on.

A message counts as consumed when it is read, which gives its sender credit. A view takes no credit, nor does a message
that came with the state of another member: it was sent to that one.

The state of a member is what its application says of all that it has read, and what it has not read yet. So a joiner
gets the first at once, and reads the rest in order, as the one that it came from does.

Bounds: what flow control lets through; a life that ends takes all of it along.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import View
from isthmus.core.message import Cast


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """What a member that joins is given."""

    state: bytes  # of the application, from what it has read
    unread: list[Cast]  # delivered before the view, and not read yet


class Inbox:
    """The unread, in order, and what was read in this turn."""

    __slots__ = ("handed_over", "taken", "unread")

    def __init__(self) -> None:
        self.unread: deque[Cast | View] = deque()
        self.taken: list[Cast] = []  # read in this turn, with credit due
        self.handed_over = 0  # messages at the front that came with the state

    def take(self) -> Cast | View:
        """Read the next."""
        event = self.unread.popleft()
        if type(event) is Cast and not self.handed_over:
            self.taken.append(event)
        else:
            self.count((event,))
        return event

    def take_all(self) -> list[Cast | View]:
        """Read all that there is."""
        events = list(self.unread)
        self.unread.clear()
        self.count(events)
        return events

    def count(self, events: Iterable[Cast | View]) -> None:
        for event in events:
            if isinstance(event, Cast):
                if self.handed_over:
                    self.handed_over -= 1
                else:
                    self.taken.append(event)

    def snapshot(self, state: bytes) -> bytes:
        """The state of an application, with what it has not read."""
        return msgspec.msgpack.encode(Snapshot(state, [event for event in self.unread if isinstance(event, Cast)]))

    def hand_over(self, snapshot: bytes) -> bytes:
        """Take over what another had not read; the state of its application."""
        try:
            found = msgspec.msgpack.decode(snapshot, type=Snapshot)
        except msgspec.DecodeError as error:
            raise RemoteError(f"a state of {len(snapshot)} bytes that does not decode: {error}") from error
        self.handed_over = len(found.unread)
        self.unread.extendleft(reversed(found.unread))
        return found.state

    def clear(self) -> None:
        """Forget everything: the life that it belongs to is over."""
        self.unread.clear()
        self.taken, self.handed_over = [], 0
