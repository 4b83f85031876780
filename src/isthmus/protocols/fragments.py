"""Large messages: cut into pieces on the way down, reassembled on the way up.

Problem: a frame carries some kilobytes, an application wants to send up to 64 MiB, in any order that a stack keeps and
over any change of views, and no member's memory may grow with what others send.

Idea: a piece is an ordinary message of the stack, with a number, credit and a place in the order of its own. The whole
is handed up where the last of its pieces is delivered, so its position is that piece's: what the stack promises for the
position of one message holds for the whole. Its number is the highest of its pieces'. Messages that fit into a frame
never come here; for them this costs one comparison.

A view change. All pieces that a sender submitted in a view are delivered in that view by all members that survive it,
as any message is. Either those are all pieces, and the whole is delivered there; or some are not submitted yet, and
then it is complete nowhere. So each member drops incomplete messages when it installs a view, and a surviving sender
sends the whole again in the new view, under the same numbers:

    view 1   site 0 submits pieces 1 to 40 of 100; all of {0, 1, 2} get these, and site 2 crashes
    view 2   {0, 1, 3}: 0 and 1 have dropped the 40, 3 never had them; 0 submits 1 to 100, all three deliver

Had site 0 crashed instead, no member would keep a piece of it. A piece submitted in view 1 cannot come in view 2: that
is why a piece leaves here only while it goes directly to the transport (`sends_at_once`) and never waits in between.

Flow control. Pieces take credit like messages, and return it as they are reassembled; the last one when the application
has read the whole. Besides, a sender begins a large message only while its large messages that are under way to each
site, or not read by that site's application, stay within `window_bytes`. A site reports to a sender the bytes that it
has read of what was sent in this view (`BytesRead`, a total, in the transport's reliable
stream). With each view these counts begin anew, as credit's do: what was sent in an earlier one is delivered by now, or
never.

Invariants:
- what an application sends leaves in the order sent: behind a large message all others wait;
- the pieces of one edition of a message are all submitted in one view;
- sent_to and read_by of a site count what was sent in this view.

Bounds, at a sender: what one turn has submitted, of which the stack holds copies within the bounds of its transport.
At a receiver, per sender: `window_bytes` of large messages that are incomplete or not read, or one message where it is
larger, and as much again just after a view change; in all, that times the members. While a message is reassembled it
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
    """The size from which messages are large, and the window for them."""

    piece_bytes: int | None = None  # payloads beyond are cut into pieces of this; None: what fits into a frame
    window_bytes: int = LARGEST_BYTES  # large messages of one sender that a site may have incomplete or unread

    def __post_init__(self) -> None:
        if self.piece_bytes is not None:
            check_range("piece_bytes", self.piece_bytes, PIECE_LEAST, LARGEST_BYTES, "a whole number")
        check_range("window_bytes", self.window_bytes, 1, LARGEST_BYTES, "a whole number")


class Piece(Message, frozen=True, gc=False, array_like=True, tag=90):
    """A part of a large message; the payload is the part, and its number gives that of the whole."""

    index: int  # from 0 on
    count: int  # of all pieces

    def trace_number(self, number: int) -> int:
        return number + self.count - 1 - self.index


class BytesRead(Message, frozen=True, gc=False, array_like=True, tag=91):
    """The bytes of the addressee's large messages that the application here has read."""

    total: int


class Assembly:
    """The received parts of a large message."""

    __slots__ = ("count", "destinations", "parts", "size")

    def __init__(self, count: int, destinations: Targets) -> None:
        self.count = count
        self.destinations = destinations
        self.parts: dict[int, bytes] = {}
        self.size = 0


class Fragments:
    """The large messages of one application, sent and received."""

    __slots__ = (
        "application",
        "assemblies",
        "backlog",
        "consumed_of",
        "held_of",
        "held_over",
        "next_piece",
        "options",
        "piece_bytes",
        "prepared_count",
        "read_by",
        "sent_to",
        "transport",
        "unread",
        "view",
    )

    def __init__(self, application: Application) -> None:
        self.application = application
        self.options = FragmentOptions()
        self.piece_bytes = LARGEST_BYTES
        self.transport: Transport | None = None
        self.reset()

    def reset(self) -> None:
        self.view = View(0, ())
        self.prepared_count = 0  # large messages with numbers that will be submitted in this turn
        self.backlog: deque[Cast] = deque()  # the one being cut, and those submitted behind it
        self.held_over = 0  # how many of these were submitted in an earlier view
        self.next_piece = 0  # of the first of these, in this view
        self.sent_to: dict[SiteId, int] = {}  # bytes of large messages sent to a member
        self.read_by: dict[SiteId, int] = {}  # and those that its application has read
        self.assemblies: dict[MessageKey, Assembly] = {}
        self.held_of: dict[SiteId, int] = {}  # bytes in them, by sender
        self.unread: dict[MessageKey, tuple[int, int]] = {}  # size and view of those handed up and not read
        self.consumed_of: dict[SiteId, int] = {}  # bytes of each sender's large messages that were read here

    def start(self) -> None:
        """Start with the stack."""
        self.reset()
        application = self.application
        layers = reversed(application.stack.layers)
        self.transport = next((layer for layer in layers if isinstance(layer, Transport)), None)  # the lowest
        self.piece_bytes = self.options.piece_bytes or max(PIECE_LEAST, application.host.frame_bytes - SLACK_BYTES)

    def is_busy(self) -> bool:
        """Whether a large message is queued for sending."""
        return bool(self.backlog) or self.prepared_count > 0

    # Sending

    def count_of(self, size: int) -> int:
        """The number of pieces, and of message numbers, that a size takes."""
        return max(1, -(-size // self.piece_bytes))

    def reserve(self, size: int) -> int:
        """Reserve the numbers of a large message's pieces; the last is that of the message."""
        if size > LARGEST_BYTES:
            raise LocalError(f"a payload of {size} bytes; a message carries at most {LARGEST_BYTES}")
        host = self.application.host
        for _ in range(self.count_of(size) - 1):
            host.next_number()
        self.prepared_count += 1
        return host.next_number()

    def submit(self, cast: Cast) -> None:
        """Queue a message behind those that wait here."""
        if self.is_large(cast):
            self.prepared_count -= 1
        self.backlog.append(cast)

    def is_large(self, cast: Cast) -> bool:
        return len(cast.payload) > self.piece_bytes and type(cast) is Cast

    def pump(self) -> None:
        """Send piece by piece, as far as they go directly to the transport."""
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
        """Submit the next pieces of a message; returns whether all are submitted."""
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
        """Whether all targets of a message have read enough of what they were sent before."""
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
        """Take a piece; the last missing one hands up the whole."""
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
        """Refuse a piece that does not fit its message, or exceeds the bound of its sender."""
        name = f"piece {piece.index} of {piece.count} of site {carried.sender}"
        if not 0 <= piece.index < piece.count <= LARGEST_BYTES or piece.count < 2 or not carried.payload:
            raise RemoteError(f"{name}, which no message has")
        if piece.count != assembly.count or carried.destinations != assembly.destinations:
            raise RemoteError(f"{name}, which does not fit the earlier pieces of its message")
        if piece.index in assembly.parts:
            raise RemoteError(f"{name}, a duplicate")
        if carried.destinations and self.application.host.site not in carried.destinations:
            raise RemoteError(f"{name}, which is not addressed to this site")
        if self.held_of.get(carried.sender, 0) + len(carried.payload) > LARGEST_BYTES:
            raise RemoteError(f"{name}: more than {LARGEST_BYTES} bytes of incomplete messages of that site")

    def note_consumed(self, cast: Cast) -> None:
        """Report to a sender that its large message has been read."""
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
        """Drop incomplete messages; our own are sent anew in the new view, and all counts restart."""
        self.view = view
        self.held_over = len(self.backlog)
        self.next_piece = 0
        for counts in (self.assemblies, self.held_of, self.sent_to, self.read_by, self.consumed_of):
            counts.clear()
        if self.backlog:
            self.application.below.sends_at_once(ALL)  # returns False now, so that `resume` will be called

    def resume(self) -> None:
        """Continue sending."""
        self.pump()
