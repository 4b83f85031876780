"""The flush of a closing view among its members: the frames of it that one site has, lacks and gives to others.

Problem: before a view is installed, all members that go on must have delivered the same messages of the old one,
although each has different ones, and some of those that have them may die in the meantime. A cut may have megabytes.

Idea: a site accepts a cut only when it holds every frame of it, also those that are not addressed to it. Each acceptor
can then serve all others, so that a decided cut is held wherever it was accepted. Missing frames are fetched in pieces
through a window for each holder (window.py): from the holders that the proposal names, then from any site of the old
and of the new view. Every site that is asked answers: with pieces, with the number up to which frames are stable, so
that nobody needs them any more, or that it lacks them.

A frame may be nowhere any more, where those that had it crashed. It is hopeless once nothing has come for `give_up_ns`,
since it was first missing or the last piece of anything came, and every site that could have it has denied it in the
later half of that time; or after `GIVE_UP_TIMES` times as long. Time alone says little: a link may be slow.

Invariants: nothing is dropped from here while the view closes; frames are delivered per origin in ascending order, over
gaps where the frame in between is not in the cut, once and only at the installation. Another proposal with the same
frames in its cut restarts nothing: neither pieces nor the time for which one has been missing.

Bounds: those of the window; `MISSED_MAX` frames; an answer comes in packets of about `frame_bytes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from isthmus.core.errors import RemoteError
from isthmus.core.layer import View
from isthmus.core.message import Codec, Message, SiteId, Targets
from isthmus.protocols.membership.cut import CutSlice, numbers_of
from isthmus.protocols.membership.window import PieceWindow
from isthmus.protocols.membership.wire import Fetch, Frame, FramePiece, Frames, WholeFrame
from isthmus.protocols.transport.base import Transport, taken

FRAME_MAX_BYTES = 1 << 26  # of an encoded frame
GIVE_UP_TIMES = 4
MISSED_MAX = 1 << 21  # frames, over all proposals of a view; then those of the last one are remembered
FrameKey = tuple[SiteId, int]  # origin and number


class Flush:
    """The frames of one closing view that this site holds, and those of its cut that it still fetches."""

    __slots__ = ("cut", "encoded", "floors", "frames", "lacking", "missed_ns", "moved_ns", "sites", "view_id", "window")

    def __init__(
        self,
        view_id: int,
        piece_bytes: int,
        frames: Mapping[SiteId, Mapping[int, Frame]] | None = None,
        floors: Mapping[SiteId, int] | None = None,
    ) -> None:
        self.view_id = view_id
        self.frames: dict[SiteId, dict[int, Frame]] = {origin: dict(held) for origin, held in (frames or {}).items()}
        self.floors = dict(floors or {})  # by origin: all targets have the frames up to this number
        self.cut: tuple[CutSlice, ...] = ()  # the frames that must be held
        self.sites: Targets = ()  # those that may have them
        self.lacking: dict[FrameKey, None] = {}  # of the cut, missing here
        self.missed_ns: dict[FrameKey, int] = {}  # when a frame was first missing, under any proposal
        self.window: PieceWindow[FrameKey] = PieceWindow(FRAME_MAX_BYTES, piece_bytes)
        self.moved_ns: int | None = None  # `progress_ns` at the last tick
        self.encoded: tuple[Frame, bytes] | None = None  # the last frame that was given in pieces

    # Fetching

    def aim(self, cut: tuple[CutSlice, ...], sites: Targets, now_ns: int) -> None:
        """Set the frames that must be held, and the sites that may have them."""
        self.cut, self.sites = cut, sites
        lacking: dict[FrameKey, None] = {}
        for part in cut:
            held, floor = self.frames.get(part.origin, {}), self.floors.get(part.origin, 0)
            for number in numbers_of(part.numbers):
                if number > floor and number not in held:
                    key = (part.origin, number)
                    lacking[key] = None
                    self.missed_ns.setdefault(key, now_ns)
                    self.window.want(key, part.holders)
        for key in self.lacking:
            if key not in lacking:
                self.window.forget(key)
        self.lacking = lacking
        if len(self.missed_ns) > MISSED_MAX:
            self.missed_ns = {key: self.missed_ns[key] for key in lacking}

    def requests(
        self, now_ns: int, late_ns: int, usable: Targets
    ) -> Iterator[tuple[SiteId, list[tuple[SiteId, int, int]]]]:
        """What to ask for now: a site, and the origin, number and offset of each piece."""
        for site, pieces in self.window.requests(now_ns, late_ns, usable).items():
            yield site, [(*key, offset) for key, offset in pieces]

    def take(self, now_ns: int, source: SiteId, answer: Frames, codec: Codec) -> None:
        """Take an answer to a request."""
        for piece in answer.pieces:
            self.take_piece(now_ns, source, piece, codec)
        for origin, floor in answer.stable:
            self.note_stable(origin, floor)
        for key in answer.lack:
            self.window.deny(now_ns, source, key)

    def take_piece(self, now_ns: int, source: SiteId, piece: FramePiece, codec: Codec) -> None:
        """Take a piece; keep the frame once it is whole."""
        key = (piece.origin, piece.seq)
        whole = self.window.take(now_ns, source, key, piece.offset, piece.total, piece.data)
        if whole is None or key not in self.lacking:
            return
        try:
            found = codec.decode(whole)
            if not isinstance(found, WholeFrame) or found.data.seq != piece.seq:
                raise RemoteError(f"site {source} sends a {type(found).__name__} as frame {key}")
        except RemoteError:
            self.window.want(key)  # once more, from anybody
            raise
        self.frames.setdefault(piece.origin, {})[piece.seq] = found.data
        del self.lacking[key]

    def note_stable(self, origin: SiteId, floor: int) -> None:
        """Learn up to where the frames of an origin are stable: this site has those that are for it."""
        self.floors[origin] = max(floor, self.floors.get(origin, 0))
        self.drop([key for key in self.lacking if key[0] == origin and key[1] <= floor])

    def drop(self, keys: Sequence[FrameKey]) -> None:
        """Fetch some frames no longer."""
        for key in keys:
            self.window.forget(key)
            del self.lacking[key]

    def has_moved(self) -> bool:
        """Whether a piece has come since the last call."""
        before, self.moved_ns = self.moved_ns, self.window.progress_ns
        return before != self.moved_ns

    def hopeless(self, now_ns: int, give_up_ns: int, asked: Targets) -> list[FrameKey]:
        """The frames that nobody seems to have; `asked` are the sites that could."""
        return [key for key in self.lacking if self.is_hopeless(key, now_ns, give_up_ns, asked)]

    def is_hopeless(self, key: FrameKey, now_ns: int, give_up_ns: int, asked: Targets) -> bool:
        since_ns = max(self.missed_ns[key], self.window.progress_ns or 0)
        waited_ns = now_ns - since_ns
        if waited_ns <= give_up_ns:
            return False
        denials = self.window.denials(key)
        denied = all(denials.get(site, since_ns) > since_ns + waited_ns // 2 for site in asked)
        return denied or waited_ns > GIVE_UP_TIMES * give_up_ns

    # Giving

    def answer(
        self, asked: Fetch, incarnation: int, limit_bytes: int, encode: Callable[[Message], bytes]
    ) -> Iterator[Frames]:
        """Answers to a request, in packets: each piece that is asked for, or why it is not given."""
        pieces: list[FramePiece] = []
        stable: dict[SiteId, int] = {}
        lack: dict[FrameKey, None] = {}
        size = 0
        for origin, seq, offset in asked.wanted:
            frame = self.frames.get(origin, {}).get(seq)
            if frame is None:
                if seq <= self.floors.get(origin, 0):
                    stable[origin] = self.floors[origin]
                else:
                    lack[origin, seq] = None
                continue
            if self.encoded is None or self.encoded[0] is not frame:
                self.encoded = (frame, encode(WholeFrame(frame)))
            whole = self.encoded[1]
            data = whole[offset : offset + asked.piece_bytes]
            if pieces and size + len(data) > limit_bytes:
                yield Frames(incarnation, self.view_id, tuple(pieces))
                pieces, size = [], 0
            pieces.append(FramePiece(origin, seq, offset, len(whole), data))
            size += len(data)
        yield Frames(incarnation, self.view_id, tuple(pieces), tuple(stable.items()), tuple(lack))

    def deliver(self, transport: Transport) -> None:
        """Have the transport deliver the rest of the cut, and nothing else.

        The frames that it holds ahead of a gap are dropped first: one of these may follow a frame of the cut and not be
        in it. A frame that is missing here is stable, and not for this site.
        """
        transport.drop_held()
        for part in self.cut:
            held = self.frames.get(part.origin, {})
            for number in numbers_of(part.numbers):
                if number in held and not taken(transport, part.origin, held[number]):
                    taken(transport, part.origin, held[number], over_gap=True)


def flush_of(transport: Transport, view: View, piece_bytes: int) -> Flush:
    """All frames of a view that a transport has."""
    frames = {origin: transport.frames(origin) for origin in view.members}
    floors = {origin: transport.holding(origin)[0] for origin in view.members}
    return Flush(view.view_id, piece_bytes, frames, floors)
