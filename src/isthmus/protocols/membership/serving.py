"""What a member does for others beside the agreement itself: answers joiners, gives frames and state away."""

from __future__ import annotations

from isthmus.core.message import SiteId
from isthmus.protocols.membership.home import AgreementOptions, Home
from isthmus.protocols.membership.member import Member
from isthmus.protocols.membership.transfer import Snapshot
from isthmus.protocols.membership.wire import Decide, Fetch, Frames, Gone, Join, JoinAck, StateAsk, StatePiece


class Server(Member):
    """A member that serves others."""

    __slots__ = ("snapshot",)

    def __init__(self, home: Home, options: AgreementOptions | None = None) -> None:
        super().__init__(home, options)
        self.snapshot: Snapshot | None = None  # of the state, for members that lack it

    def on_join(self, source: SiteId, word: Join) -> None:
        """Note a request to join; one that is in the view already, or can never be, is told."""
        if not self.hears(source, word):
            return
        if self.is_seated() and (source, word.incarnation) in self.view.lives():
            if self.decision is not None:  # also by the file: perhaps nobody else is left that knows
                self.say((source,), Decide(self.host.incarnation, self.decision))
            elif self.is_member():  # we began with it, so that it cannot have asked: it repeats an incarnation
                self.say((source,), Gone(self.host.incarnation, self.view.view_id, word.incarnation))
            return
        if self.is_member() and word.incarnation <= dict(self.view.last).get(source, -1):
            self.say((source,), Gone(self.host.incarnation, self.view.view_id, word.incarnation))
            return
        self.requests.note(source, word, self.host.now_ns)
        self.say((source,), JoinAck(self.host.incarnation, word.incarnation, word.asked_ns))

    def on_join_ack(self, source: SiteId, word: JoinAck) -> None:
        if self.hears(source, word) and word.asked_incarnation == self.host.incarnation:
            self.requests.note_answer(source, word)

    def on_fetch(self, source: SiteId, word: Fetch) -> None:
        """Give away frames of a view that closes, or that closed and that others have yet to leave."""
        if not self.hears(source, word):
            return
        for flush in (self.flush, self.old):
            if flush is not None and flush.view_id == word.view_id:
                packets = list(flush.answer(word.wanted, self.host.frame_bytes))
                for number, packet in enumerate(packets, 1):
                    is_last = number == len(packets)
                    self.say((source,), Frames(self.host.incarnation, word.view_id, tuple(packet), is_last))
                return

    def on_state_ask(self, source: SiteId, word: StateAsk) -> None:
        if self.hears(source, word) and word.view_id == self.view.view_id and self.snapshot is not None:
            total, piece = len(self.snapshot.data), self.snapshot.piece(word.offset, self.host.frame_bytes)
            if piece:
                answer = StatePiece(self.host.incarnation, word.view_id, word.offset, total, piece)
                self.say((source,), answer)
