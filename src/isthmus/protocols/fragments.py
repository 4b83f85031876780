"""Large messages: cut into pieces on their way down, put together on their way up.

Problem: a frame carries some kilobytes, an application wants to send up to 64 MiB, in any order that a stack keeps and
over any change of views, and nobody's memory may grow with what others send.

Idea: a piece is an ordinary message of the stack, with a number, credit and a place in the order of its own. The whole
is handed up where the last of its pieces is delivered, so its place is that piece's: what the stack promises of the
place of one message holds for the whole. Its number is the highest of its pieces'. Messages that fit into a frame never
come here; for them this costs one comparison.

A view change. All pieces that a sender submitted in a view are delivered in that view by all who go on to the next one,
as any message is. Either those are all pieces, and the whole is delivered there; or some are not submitted yet, and
then it is complete nowhere. So each member drops what is incomplete when it installs a view, and a sender that goes on
sends the whole again in the new view, under the same numbers:

    view 1   site 0 submits pieces 1 to 40 of 100; all of {0, 1, 2} get these, and site 2 crashes
    view 2   {0, 1, 3}: 0 and 1 have dropped the 40, 3 never had them; 0 submits 1 to 100, all three deliver

Had site 0 crashed instead, nobody would have a piece of it left. A piece submitted in view 1 cannot come in view 2:
that is why a piece leaves here only while it goes straight to the transport (`passes`) and never waits in between.

Flow control. Pieces take credit like messages, and give it back as they are put together; the last one when the
application has read the whole. Besides, a sender begins a large message only while what it has under way to each site
of large messages, and what that site's application has not read of them, stays within `window_bytes`. A site tells a
sender the bytes that it has read of what was sent in this view (`BytesRead`, a total, in the transport's reliable
stream). With each view these counts begin anew, as credit's do: what was sent in an earlier one is delivered by now, or
never.

Invariants:
- what an application sends leaves in the order sent: behind a large message all others wait;
- the pieces of one edition of a message are all submitted in one view;
- sent_to and read_by of a site count what was sent in this view.

Bounds, at a sender: what one turn has submitted, of which the stack holds copies within the bounds of its transport.
At a receiver, per sender: `window_bytes` of large messages that are incomplete or not read, or one message where it is
larger, and as much again just after a view change; in all, that times the members. While a message is put together it
takes its size twice.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from isthmus.core.errors import LocalError, RemoteError
from isthmus.core.layer import View
from isthmus.core.message import ALL, Carried, Cast, Message, SiteId, Targets
from isthmus.core.validation import check_range
from isthmus.protocols.transport.base import Transport
from isthmus.trace.schema import Gauge

if TYPE_CHECKING:
    from isthmus.protocols.application import Application

LARGEST_BYTES = 64 * 1024 * 1024  # of a payload
PIECE_LEAST = 16  # bytes: a piece is more than its head
SLACK_BYTES = 64  # what a piece has besides its payload in a frame, about
MessageKey = tuple[SiteId, int]  # sender, number


class FragmentOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What counts as large, and how much of it may be under way."""

    piece_bytes: int | None = None  # payloads beyond are cut into pieces of this; None: what fits into a frame
    window_bytes: int = LARGEST_BYTES  # large messages of one sender that a site may have incomplete or unread

    def __post_init__(self) -> None:
        if self.piece_bytes is not None:
            check_range("piece_bytes", self.piece_bytes, PIECE_LEAST, LARGEST_BYTES, "a whole number")
        check_range("window_bytes", self.window_bytes, 1, LARGEST_BYTES, "a whole number")


class Piece(Message, frozen=True, gc=False, array_like=True, tag=90):
    """Which part of a large message a message is; its payload is the part, its number tells the whole's."""

    index: int  # from 0 on
    count: int  # of all pieces

    def trace_number(self, number: int) -> int:
        return number + self.count - 1 - self.index


class BytesRead(Message, frozen=True, gc=False, array_like=True, tag=91):
    """How many bytes of the addressee's large messages the application here has read."""

    total: int


class Assembly:
    """What has come of a large message."""

    __slots__ = ("count", "destinations", "parts", "size")

    def __init__(self, count: int, destinations: Targets) -> None:
        self.count = count
        self.destinations = destinations
        self.parts: dict[int, bytes] = {}
        self.size = 0


class Fragments:
    """The large messages of one application: those that it sends, and those that come."""

    __slots__ = (
        *(
            "application",
            "assemblies",
            "backlog",
            "consumed_of",
            "held_of",
            "held_over",
            "next_piece",
            "options",
            "piece_bytes",
        ),
        *("piece_bytes", "prepared_count", "read_by", "sent_to", "transport", "unread", "view"),
    )

    def __init__(self, application: Application) -> None:
        self.application = application
        self.options = FragmentOptions()
        self.piece_bytes = LARGEST_BYTES
        self.transport: Transport | None = None
        self.reset()

    def reset(self) -> None:
        self.view = View(0, ())
        self.prepared_count = 0  # large messages that have their numbers and are to be submitted in this turn
        self.backlog: deque[Cast] = deque()  # the one being cut, and what was submitted behind it
        self.held_over = 0  # how many of these were submitted in an earlier view
        self.next_piece = 0  # of the first of these, in this view
        self.sent_to: dict[SiteId, int] = {}  # bytes of large messages sent to a member
        self.read_by: dict[SiteId, int] = {}  # and what its application has read of them
        self.assemblies: dict[MessageKey, Assembly] = {}
        self.held_of: dict[SiteId, int] = {}  # bytes in them, by sender
        self.unread: dict[MessageKey, tuple[int, int]] = {}  # of what was handed up and is not read: its size and view
        self.consumed_of: dict[SiteId, int] = {}  # bytes of each sender's large messages that were read here

    def start(self) -> None:
        """Begin a life of the stack."""
        self.reset()
        application = self.application
        layers = reversed(application.stack.layers)
        self.transport = next((layer for layer in layers if isinstance(layer, Transport)), None)  # the lowest
        self.piece_bytes = self.options.piece_bytes or max(PIECE_LEAST, application.host.frame_bytes - SLACK_BYTES)

    def is_busy(self) -> bool:
        """Whether a large message is to go out first."""
        return bool(self.backlog) or self.prepared_count > 0

    # Sending

    def count_of(self, size: int) -> int:
        """How many numbers a message of a size takes."""
        return max(1, -(-size // self.piece_bytes))

    def reserve(self, size: int) -> int:
        """The number of a large message: the last of those that its pieces will have."""
        if size > LARGEST_BYTES:
            raise LocalError(f"a payload of {size} bytes; a message carries at most {LARGEST_BYTES}")
        host = self.application.host
        for _ in range(self.count_of(size) - 1):
            host.next_number()
        self.prepared_count += 1
        return host.next_number()

    def submit(self, cast: Cast) -> None:
        """Send a message behind those that wait here."""
        if self.is_large(cast):
            self.prepared_count -= 1
        self.backlog.append(cast)

    def is_large(self, cast: Cast) -> bool:
        return len(cast.payload) > self.piece_bytes and type(cast) is Cast

    def pump(self) -> None:
        """Send on, piece by piece, as far as they go straight to the transport."""
        below, backlog = self.application.below, self.backlog
        while backlog:
            cast = backlog[0]
            if self.is_large(cast):
                if not self.cut(cast):
                    return
                self.next_piece = 0
                for site in self.targets(cast):
                    self.sent_to[site] = self.sent_to.get(site, 0) + len(cast.payload)
            elif below.writable():
                below.submit(cast, cast.destinations)
            else:
                return
            backlog.popleft()
            if self.held_over:
                self.held_over -= 1
                self.application.host.gauge(Gauge.SENT_VIEW, self.view.view_id, cast)

    def cut(self, cast: Cast) -> bool:
        """Submit the next pieces of a message; whether that was all of it."""
        if not self.next_piece and not self.has_window(cast):
            return False
        below, size, count = self.application.below, self.piece_bytes, self.count_of(len(cast.payload))
        while self.next_piece < count:
            if not below.sends_at_once(cast.destinations):
                return False
            index = self.next_piece
            self.next_piece += 1
            chunk = cast.payload[index * size : (index + 1) * size]
            number = cast.number - count + 1 + index
            piece: Carried[Any] = Carried(cast.sender, number, chunk, cast.destinations, None, Piece(index, count))
            below.submit(piece, cast.destinations)
        return True

    def targets(self, cast: Cast) -> Targets:
        members = self.view.members
        return tuple(site for site in members if site in cast.destinations) if cast.destinations else members

    def has_window(self, cast: Cast) -> bool:
        """Whether all whom a message is for have read enough of what they were sent before."""
        most = self.options.window_bytes - len(cast.payload)
        waits = [self.sent_to.get(site, 0) - self.read_by.get(site, 0) for site in self.targets(cast)]
        return all(unread == 0 or unread <= most for unread in waits)

    def on_read(self, source: SiteId, read: BytesRead) -> None:
        if read.total < 0:
            raise RemoteError(f"site {source} has read {read.total} bytes")
        self.note_read(source, read.total)

    def note_read(self, site: SiteId, total: int) -> None:
        known = self.read_by.get(site, 0)
        self.read_by[site] = max(known, min(total, self.sent_to.get(site, 0)))
        if self.backlog:
            self.application.resume()

    # Receiving

    def take(self, carried: Carried[Any], piece: Piece) -> None:
        """Take a piece; the whole is handed up with the last that was missing."""
        sender, count = carried.sender, piece.count
        key = (sender, piece.trace_number(carried.number))
        assembly = self.assemblies.get(key) or Assembly(count, carried.destinations)
        self.check(carried, piece, assembly)
        self.assemblies[key] = assembly
        assembly.parts[piece.index] = carried.payload
        assembly.size += len(carried.payload)
        self.held_of[sender] = self.held_of.get(sender, 0) + len(carried.payload)
        if len(assembly.parts) < count:
            self.application.below.consumed(carried)
            return
        del self.assemblies[key]
        self.held_of[sender] -= assembly.size
        self.unread[key] = (assembly.size, self.view.view_id)
        payload = b"".join([assembly.parts.pop(index) for index in range(count)])
        self.application.deliver(Cast(*key, payload, assembly.destinations))

    def check(self, carried: Carried[Any], piece: Piece, assembly: Assembly) -> None:
        """Refuse what does not fit into a message, or is more than a sender may have under way."""
        name = f"piece {piece.index} of {piece.count} of site {carried.sender}"
        if not 0 <= piece.index < piece.count <= LARGEST_BYTES or piece.count < 2 or not carried.payload:
            raise RemoteError(f"{name}, which no message has")
        if piece.count != assembly.count or carried.destinations != assembly.destinations:
            raise RemoteError(f"{name}, whose others are pieces of something else")
        if piece.index in assembly.parts:
            raise RemoteError(f"{name}, which is here already")
        if carried.destinations and self.application.host.site not in carried.destinations:
            raise RemoteError(f"{name}, which is for others")
        if self.held_of.get(carried.sender, 0) + len(carried.payload) > LARGEST_BYTES:
            raise RemoteError(f"{name}: {LARGEST_BYTES} bytes of it are here that are incomplete")

    def note_consumed(self, cast: Cast) -> None:
        """Tell a sender that a large message of its has been read."""
        size, view_id = self.unread.pop((cast.sender, cast.number), (0, 0))
        if size and view_id == self.view.view_id:
            self.consumed_of[cast.sender] = self.consumed_of.get(cast.sender, 0) + size
            self.tell(cast.sender)

    def tell(self, sender: SiteId) -> None:
        if sender == self.application.host.site:
            self.note_read(sender, self.consumed_of[sender])
        elif self.transport is not None:
            self.transport.submit(BytesRead(self.consumed_of[sender]), (sender,))

    # View change

    def install(self, view: View) -> None:
        """Drop what is incomplete; what is ours begins anew in the new view, and so do all counts."""
        self.view = view
        self.held_over = len(self.backlog)
        self.next_piece = 0
        for counts in (self.assemblies, self.held_of, self.sent_to, self.read_by, self.consumed_of):
            counts.clear()
        if self.backlog:
            self.application.below.sends_at_once(ALL)  # not now: so `resume` will come here

    def resume(self) -> None:
        """Send on."""
        self.pump()
