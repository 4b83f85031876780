"""What a live application has been given and has not read: messages, views where wanted, and what is handed on.

A message counts as consumed when it is read, which gives its sender credit. A view takes no credit, nor does a message
that came with the state of another member: it was sent to that one.

The state of a member is what its application says of all that it has read, and what it has not read yet. So a joiner
gets the first at once, and reads the rest in order, as the one that it came from does.

Bounds: what flow control lets through; a life that ends takes all of it along.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import repeat

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import View
from isthmus.core.message import ONLY_GROUP, Carried, Cast, GroupId
from isthmus.live.api.delivered import Delivered, delivered

PLAIN = {Cast}


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """What a member that joins is given."""

    state: bytes  # of the application, from what it has read
    unread: list[Cast | Carried[None]]  # delivered before the view, and not read yet
    positions: list[int]  # of these; 0: none


class Inbox:
    """The unread, in order, and what was read in this turn."""

    __slots__ = ("groups", "handed_over", "names", "own", "positions", "taken", "unread")

    def __init__(self, names: Sequence[str], groups: Sequence[str] = (), own: GroupId = ONLY_GROUP) -> None:
        self.names = names  # of the sites
        self.groups = groups  # names, in a composition
        self.own = own  # the number of this group among them
        self.unread: deque[Cast | View] = deque()
        self.positions: deque[int] = deque()  # of each of these; 0: none
        self.taken: list[Cast] = []  # read in this turn, with credit due
        self.handed_over = 0  # messages at the front that came with the state

    def put(self, event: Cast | View, position: int = 0) -> None:
        self.unread.append(event)
        self.positions.append(position)

    def put_all(self, casts: Sequence[Cast], first: int) -> None:
        """Add messages with positions from the first on, or with none."""
        self.unread.extend(casts)
        self.positions.extend(range(first, first + len(casts)) if first else repeat(0, len(casts)))

    def take(self) -> Delivered | View:
        """Read the next."""
        event, position = self.unread.popleft(), self.positions.popleft()
        if type(event) is View:
            return event
        assert isinstance(event, Cast)
        if self.handed_over:
            self.handed_over -= 1
        else:
            self.taken.append(event)
        return self.named(event, position)

    def take_all(self) -> list[Delivered | View]:
        """Read all that there is."""
        if self.handed_over or set(map(type, self.unread)) != PLAIN:
            return [self.take() for _ in range(len(self.unread))]
        casts, names, groups, own = list(self.unread), self.names, self.groups, self.own
        pairs = zip(casts, self.positions, strict=True)
        events: list[Delivered | View] = [
            delivered(names, cast, position or None, groups, own)  # type: ignore[arg-type]
            for cast, position in pairs
        ]
        self.taken += casts  # type: ignore[arg-type]
        self.unread.clear()
        self.positions.clear()
        return events

    def named(self, cast: Cast, position: int = 0) -> Delivered:
        """A message with names for numbers."""
        return delivered(self.names, cast, position or None, self.groups, self.own)

    def snapshot(self, state: bytes) -> bytes:
        """The state of an application, with what it has not read."""
        pairs = zip(self.unread, self.positions, strict=True)
        unread = [(event, position) for event, position in pairs if isinstance(event, Cast)]
        kept, positions = [event for event, _ in unread], [position for _, position in unread]
        return msgspec.msgpack.encode(Snapshot(state, kept, positions))

    def hand_over(self, snapshot: bytes) -> bytes:
        """Take over what another had not read; the state of its application."""
        try:
            found = msgspec.msgpack.decode(snapshot, type=Snapshot)
        except msgspec.DecodeError as error:
            raise RemoteError(f"a state of {len(snapshot)} bytes that does not decode: {error}") from error
        if len(found.positions) != len(found.unread) or not all(map(self.is_known, found.unread)):
            raise RemoteError(f"a state with {len(found.unread)} messages and {len(found.positions)} positions")
        self.handed_over = len(found.unread)
        self.unread.extendleft(reversed(found.unread))
        self.positions.extendleft(reversed(found.positions))
        return found.state

    def is_known(self, cast: Cast) -> bool:
        """Whether a message names sites and groups that there are."""
        origin, sender, _ = cast.identity(self.own)
        groups = len(self.groups) or self.own + 1
        return max(cast.sender, sender) < len(self.names) and sender >= 0 and 0 <= origin < groups

    def clear(self) -> None:
        """Forget everything: the life that it belongs to is over."""
        self.unread.clear()
        self.positions.clear()
        self.taken, self.handed_over = [], 0
