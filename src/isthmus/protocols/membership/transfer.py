"""The state of a group on its way to a member that joined, in bounded pieces.

The state is that of all layers as of the installation of a view; members that have it take a snapshot there if somebody
in the view needs it, and keep it until all have it or the next view comes. A joiner asks one of them, piece by piece,
and begins anew with the next where an answer stays out: two snapshots of a view mean the same, but need not be the same
bytes.
"""

from __future__ import annotations

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.message import SiteId, Targets
from isthmus.protocols.membership.wire import StatePiece

State = tuple[bytes, ...]
TOTAL_MAX = 1 << 36  # bytes of a state that is taken for one
DECODER = msgspec.msgpack.Decoder(State)


class Snapshot:
    """A state to give away."""

    __slots__ = ("data",)

    def __init__(self, state: State) -> None:
        self.data = msgspec.msgpack.encode(state)

    def piece(self, offset: int, size: int) -> bytes:
        return self.data[offset : offset + size]


class Arrival:
    """A state on its way here."""

    __slots__ = ("asked_count", "pieces", "size", "source", "stale")

    def __init__(self) -> None:
        self.asked_count = 0  # members tried
        self.source: SiteId | None = None  # who is asked now
        self.pieces: list[bytes] = []
        self.size = 0  # of the pieces
        self.stale = True  # nothing came since the last tick

    def turn_to_next(self, stateful: Targets) -> None:
        """Ask another member, from the beginning."""
        if stateful:
            self.source = stateful[self.asked_count % len(stateful)]
            self.asked_count += 1
            self.pieces, self.size = [], 0

    def take(self, source: SiteId, word: StatePiece) -> State | None:
        """Take a piece; the state once it is complete."""
        if source != self.source or word.offset != self.size:
            return None
        if not 0 < word.total <= TOTAL_MAX or self.size + len(word.piece) > word.total or not word.piece:
            raise RemoteError(f"site {source} sends {len(word.piece)} bytes at {word.offset} of {word.total}")
        self.pieces.append(word.piece)
        self.size += len(word.piece)
        self.stale = False
        if self.size < word.total:
            return None
        try:
            return DECODER.decode(b"".join(self.pieces))
        except msgspec.DecodeError as error:
            raise RemoteError(f"the state that site {source} sends does not decode: {error}") from error
