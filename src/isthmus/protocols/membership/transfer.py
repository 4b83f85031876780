"""The state of a group on its way to a member that joined, in bounded pieces.

The state is that of all layers as of the installation of a view; members that have it take a snapshot there if another
member needs it, and keep it until all have it or the next view comes. A joiner asks one of them, piece by piece, and
begins anew with the next if an answer does not come: two snapshots of a view mean the same, but need not be the same
bytes.
"""

from __future__ import annotations

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.message import SiteId, Targets
from isthmus.protocols.membership.wire import StatePiece

State = tuple[bytes, ...]
TOTAL_MAX = 1 << 36  # bytes of a plausible state
DECODER = msgspec.msgpack.Decoder(State)


class StateSnapshot:
    """An encoded state, for members that lack it."""

    __slots__ = ("data",)

    def __init__(self, state: State) -> None:
        self.data = msgspec.msgpack.encode(state)

    def piece(self, offset: int, size: int) -> bytes:
        return self.data[offset : offset + size]


class IncomingState(msgspec.Struct, eq=False):
    """A state on its way here."""

    asked_count: int = 0  # members tried
    source: SiteId | None = None  # the member asked now
    pieces: list[bytes] = []
    size: int = 0  # of the pieces
    stale: bool = True  # nothing came since the last tick

    def turn_to_next(self, stateful: Targets) -> None:
        """Ask another member, from the beginning."""
        if stateful:
            self.source = stateful[self.asked_count % len(stateful)]
            self.asked_count += 1
            self.pieces, self.size = [], 0

    def take(self, source: SiteId, message: StatePiece) -> State | None:
        """Take a piece; the state once it is complete."""
        if source != self.source or message.offset != self.size:
            return None
        if not 0 < message.total <= TOTAL_MAX or self.size + len(message.piece) > message.total or not message.piece:
            raise RemoteError(f"site {source} sends {len(message.piece)} bytes at {message.offset} of {message.total}")
        self.pieces.append(message.piece)
        self.size += len(message.piece)
        self.stale = False
        if self.size < message.total:
            return None
        try:
            return DECODER.decode(b"".join(self.pieces))
        except msgspec.DecodeError as error:
            raise RemoteError(f"the state that site {source} sends does not decode: {error}") from error
