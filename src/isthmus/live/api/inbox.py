"""What a live application was given and has not read: messages, views, gaps, and guesses where they are wanted.

A message counts as consumed when it is read, which gives its sender credit. Other events take no credit, nor does a
message that came with the state of another member: it was sent to that one.

The state of a member is the state of its application, after all that it has read, with the messages that it has not
read yet. A joiner restores the first and reads the second in order, as the member that they came from does.

Bounds: messages, and guesses of them, by flow control; `EVENTS_MAX` others, beyond which the latest are dropped. All
is dropped with the life that it belongs to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import repeat

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Finality, View
from isthmus.core.message import ONLY_GROUP, Carried, Cast, GroupId
from isthmus.live.api.events import Delivered, Event, Gap, Revoked, Tentative, delivered

PLAIN = {Cast}
EVENTS_MAX = 1_000  # unread views and gaps


class Guess(msgspec.Struct, frozen=True):
    """A delivery that is not final."""

    cast: Cast
    finality: Finality


class UnreadState(msgspec.Struct, frozen=True, array_like=True):
    """What a member that joins is given."""

    state: bytes  # of the application, after what it has read
    unread: list[Cast | Carried[None]]  # delivered before the view, and not read yet
    positions: list[int]  # of these; 0: none


class Inbox:
    """The unread events in order, and the messages that were read in this turn."""

    __slots__ = ("event_count", "groups", "handed_over", "last", "names", "own", "positions", "taken", "unread")

    def __init__(self, names: Sequence[str], groups: Sequence[str] = (), own: GroupId = ONLY_GROUP) -> None:
        self.names = names  # of the sites
        self.groups = groups  # names, in a composition
        self.own = own  # the number of this group among them
        self.unread: deque[Cast | View | Gap | Guess] = deque()
        self.positions: deque[int] = deque()  # of each of these; 0: none
        self.taken: list[Cast] = []  # read in this turn, with credit due
        self.handed_over = 0  # messages at the front that came with the state
        self.event_count = 0  # unread views and gaps
        self.last = 0  # the position of the last message that was put; 0: none

    def put(self, event: Cast | Guess, position: int = 0) -> None:
        self.unread.append(event)
        self.positions.append(position)
        self.last = position or self.last

    def put_all(self, casts: Sequence[Cast], first: int) -> None:
        """Add messages with positions from the first on, or with none."""
        self.unread.extend(casts)
        if first:
            self.last = first + len(casts) - 1
            self.positions.extend(range(first, self.last + 1))
        else:
            self.positions.extend(repeat(0, len(casts)))

    def put_event(self, event: View | Gap) -> None:
        if self.event_count < EVENTS_MAX:
            self.event_count += 1
            self.unread.append(event)
            self.positions.append(0)

    def take(self) -> Event:
        """Read the next event."""
        event, position = self.unread.popleft(), self.positions.popleft()
        if isinstance(event, Cast):
            if self.handed_over:
                self.handed_over -= 1
            else:
                self.taken.append(event)
            return self.named(event, position)
        if isinstance(event, Guess):
            message = self.named(event.cast)
            return Tentative(message) if event.finality is Finality.TENTATIVE else Revoked(message)
        self.event_count -= 1
        return event

    def take_all(self) -> list[Delivered]:
        """Read all that there is; only the messages."""
        if self.handed_over or set(map(type, self.unread)) != PLAIN:
            events = [self.take() for _ in range(len(self.unread))]
            return [event for event in events if isinstance(event, Delivered)]
        casts, names, groups, own = list(self.unread), self.names, self.groups, self.own
        pairs = zip(casts, self.positions, strict=True)
        messages = [
            delivered(names, cast, position or None, groups, own)  # type: ignore[arg-type]
            for cast, position in pairs
        ]
        self.taken += casts  # type: ignore[arg-type]
        self.unread.clear()
        self.positions.clear()
        return messages

    def named(self, cast: Cast, position: int = 0) -> Delivered:
        """A message with names for numbers."""
        return delivered(self.names, cast, position or None, self.groups, self.own)

    def snapshot(self, state: bytes) -> bytes:
        """The state of an application, with what it has not read."""
        pairs = zip(self.unread, self.positions, strict=True)
        unread = [(event, position) for event, position in pairs if isinstance(event, Cast)]
        kept, positions = [event for event, _ in unread], [position for _, position in unread]
        return msgspec.msgpack.encode(UnreadState(state, kept, positions))

    def hand_over(self, snapshot: bytes) -> bytes:
        """Take over what another member had not read; the state of its application."""
        try:
            found = msgspec.msgpack.decode(snapshot, type=UnreadState)
        except msgspec.DecodeError as error:
            raise RemoteError(f"a state of {len(snapshot)} bytes that does not decode: {error}") from error
        if len(found.positions) != len(found.unread) or not all(map(self.is_known, found.unread)):
            raise RemoteError(f"a state with {len(found.unread)} messages and {len(found.positions)} positions")
        self.handed_over = len(found.unread)
        self.unread.extendleft(reversed(found.unread))
        self.positions.extendleft(reversed(found.positions))
        return found.state

    def is_known(self, cast: Cast) -> bool:
        """Whether the sites and groups that a message names exist."""
        origin, sender, _ = cast.identity(self.own)
        groups = len(self.groups) or self.own + 1
        return max(cast.sender, sender) < len(self.names) and sender >= 0 and 0 <= origin < groups

    def last_read(self) -> int:
        """A position up to which all messages were read; 0: none has a position."""
        unread = next((position for position in self.positions if position), 0)
        return unread - 1 if unread else self.last

    def clear(self) -> None:
        """Forget what is unread, with the life that it belongs to."""
        self.last = self.last_read()
        self.unread.clear()
        self.positions.clear()
        self.taken, self.handed_over, self.event_count = [], 0, 0
