"""What a live application was given and has not read: messages, views, gaps, and guesses where they are wanted.

A message counts as consumed when it is read, which gives its sender credit. Other events take no credit, nor does a
message that came with the state of another member: it was sent to that one.

The state of a member is the state of its application, after all that it has read, with the messages that it has not
read yet (program_state.py). A joiner restores the first and reads the second in order, as that member does.

A guess that was read and is not final by the end of a life is revoked: its message, even where it is here already,
is never read in that life.

While the state of the application is taken, reading pauses; while it is restored, what comes is *held*: it counts as
consumed at once, and is read afterwards.

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
from isthmus.protocols.total.positions import PLACE_BITS

PLAIN = {Cast}
EVENTS_MAX = 1_000  # unread views and gaps
LENGTH_BYTES = 8  # of the length of what was not read, at the beginning of a state
HELD_HEAD_BYTES = 100  # of memory, for a message that is held, besides its payload


def nothing() -> None:
    """Do nothing."""


class Guess(msgspec.Struct, frozen=True):
    """A delivery that is not final."""

    cast: Cast
    finality: Finality


class UnreadState(msgspec.Struct, frozen=True, array_like=True):
    """What a member that joins is given besides the state of the application."""

    unread: list[Cast | Carried[None]]  # delivered before the view, and not read yet
    positions: list[
        tuple[int, int]
    ]  # of these, as view and place, as the number may have more than 64 bits; 0, 0: none


class Inbox:
    """The unread events in order, and the messages that were read in this turn."""

    __slots__ = (
        "arrived",
        "arrived_positions",
        "event_count",
        "groups",
        "guessed",
        "handed_over",
        "held_bytes",
        "holding",
        "last",
        "names",
        "own",
        "pause_count",
        "positions",
        "taken",
        "unread",
        "wake",
    )

    def __init__(self, names: Sequence[str], groups: Sequence[str] = (), own: GroupId = ONLY_GROUP) -> None:
        self.names = names  # of the sites
        self.groups = groups  # names, in a composition
        self.own = own  # the number of this group among them
        self.wake = nothing  # called where reading may go on
        self.unread: deque[Cast | View | Gap | Guess] = deque()  # empty while reading pauses
        self.positions: deque[int] = deque()  # of each of these; 0: none
        self.arrived, self.arrived_positions = self.unread, self.positions  # the same, but while reading pauses
        self.pause_count = 0  # reasons for which reading pauses
        self.holding = False  # what comes counts as consumed
        self.held_bytes = 0
        self.taken: list[Cast] = []  # read in this turn, with credit due
        self.handed_over = 0  # messages at the front that came with the state
        self.event_count = 0  # unread views and gaps
        self.guessed: dict[tuple[int, int], Cast] = {}  # read as tentative and not final yet, by sender and number
        self.last = 0  # the position of the last message that was put; 0: none

    def put(self, event: Cast | Guess, position: int = 0) -> None:
        self.arrived.append(event)
        self.arrived_positions.append(position)
        self.last = position or self.last
        if self.holding and isinstance(event, Cast):
            self.note_held((event,))

    def put_all(self, casts: Sequence[Cast], first: int) -> None:
        """Add messages with positions from the first on, or with none."""
        self.arrived.extend(casts)
        if first:
            self.last = first + len(casts) - 1
            self.arrived_positions.extend(range(first, self.last + 1))
        else:
            self.arrived_positions.extend(repeat(0, len(casts)))
        if self.holding:
            self.note_held(casts)

    def note_held(self, casts: Sequence[Cast]) -> None:
        self.taken += casts
        self.held_bytes += sum([len(cast.payload) + HELD_HEAD_BYTES for cast in casts])

    def put_event(self, event: View | Gap) -> None:
        if self.event_count < EVENTS_MAX:
            self.event_count += 1
            self.arrived.append(event)
            self.arrived_positions.append(0)

    def take(self) -> Event:
        """Read the next event."""
        event, position = self.unread.popleft(), self.positions.popleft()
        if isinstance(event, Cast):
            if self.handed_over:
                self.handed_over -= 1
            else:
                self.taken.append(event)
            self.guessed.pop((event.sender, event.number), None)
            return self.named(event, position)
        if isinstance(event, Guess):
            cast = event.cast
            if event.finality is Finality.TENTATIVE:
                self.guessed[cast.sender, cast.number] = cast
                return Tentative(self.named(cast))
            self.guessed.pop((cast.sender, cast.number), None)
            return Revoked(self.named(cast))
        self.event_count -= 1
        return event

    def take_all(self) -> list[Delivered]:
        """Read all that there is; only the messages."""
        if self.handed_over or self.guessed or set(map(type, self.unread)) != PLAIN:
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

    # The application's state

    def pause(self) -> None:
        """Give nothing to the reader until `resume`."""
        self.pause_count += 1
        if self.pause_count == 1:
            self.unread, self.positions = deque(), deque()

    def resume(self) -> None:
        self.pause_count -= 1
        if not self.pause_count:
            self.unread, self.positions = self.arrived, self.arrived_positions
            self.wake()

    def hold(self) -> None:
        """Pause, and count what comes as consumed; messages that are here are part of the state that will come."""
        pairs = zip(self.arrived, self.arrived_positions, strict=True)
        kept = [pair for pair in pairs if isinstance(pair[0], View | Gap)]
        if not self.holding:
            self.holding = True
            self.pause()
        self.arrived, self.arrived_positions = deque(pair[0] for pair in kept), deque(pair[1] for pair in kept)
        self.held_bytes = self.handed_over = 0

    def release(self) -> None:
        """Give what was held."""
        self.holding = False
        self.handed_over = sum([isinstance(event, Cast) for event in self.arrived])
        self.resume()

    def unread_as_bytes(self) -> bytes:
        """What has arrived and was not read, as the beginning of a state."""
        pairs = zip(self.arrived, self.arrived_positions, strict=True)
        unread = [(event, position) for event, position in pairs if isinstance(event, Cast)]
        kept, positions = [event for event, _ in unread], [divmod(position, 1 << PLACE_BITS) for _, position in unread]
        packed = msgspec.msgpack.encode(UnreadState(kept, positions))
        return len(packed).to_bytes(LENGTH_BYTES, "big") + packed

    def split_state(self, state: bytes) -> tuple[UnreadState, bytes]:
        """What another member had not read, and the state of its application."""
        end = LENGTH_BYTES + int.from_bytes(state[:LENGTH_BYTES], "big")
        try:
            found = msgspec.msgpack.decode(memoryview(state)[LENGTH_BYTES:end], type=UnreadState)
        except msgspec.DecodeError as error:
            raise RemoteError(f"a state of {len(state)} bytes that does not decode: {error}") from error
        if len(found.positions) != len(found.unread) or not all(map(self.is_known, found.unread)):
            raise RemoteError(f"a state with {len(found.unread)} messages and {len(found.positions)} positions")
        return found, state[end:]

    def put_before(self, earlier: UnreadState) -> None:
        """Put what another member had not read before what was held here."""
        self.arrived.extendleft(reversed(earlier.unread))
        self.arrived_positions.extendleft([view << PLACE_BITS | place for view, place in reversed(earlier.positions)])

    def is_known(self, cast: Cast) -> bool:
        """Whether the sites and groups that a message names exist."""
        origin, sender, _ = cast.identity(self.own)
        groups = len(self.groups) or self.own + 1
        return max(cast.sender, sender) < len(self.names) and sender >= 0 and 0 <= origin < groups

    def last_read(self) -> int:
        """A position up to which all messages were read; 0: none has a position."""
        unread = next((position for position in self.arrived_positions if position), 0)
        return unread - 1 if unread else self.last

    def clear(self) -> None:
        """Forget what is unread, with the life that it belongs to, and revoke the guesses that were read."""
        self.last = self.last_read()
        revoked = [Guess(cast, Finality.REVOKED) for cast in self.guessed.values()]
        self.unread, self.positions = deque(revoked), deque(repeat(0, len(revoked)))
        self.guessed = {}
        self.arrived, self.arrived_positions = self.unread, self.positions
        self.pause_count = self.held_bytes = self.handed_over = self.event_count = 0
        self.holding, self.taken = False, []
