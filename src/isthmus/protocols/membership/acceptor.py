"""The acceptor's part of the agreement: a proposal is accepted once its cut is held, and decided by quorums of votes.

Both the old view and the new one must have accepted under one ballot: the old one so that there is one successor, the
new one so that its members can go on whatever happens to the others.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Life
from isthmus.core.message import SiteId
from isthmus.protocols.membership.coordinator import Coordinator
from isthmus.protocols.membership.flush import Flush
from isthmus.protocols.membership.home import AgreementOptions, Home
from isthmus.protocols.membership.quorum import quorum
from isthmus.protocols.membership.wire import Accepted, Ballot, Decide, Fetch, Frames, Proposal, Propose

BALLOTS_MAX = 16


class Acceptor(Coordinator):
    """A member, or a site about to join, that votes on proposals."""

    __slots__ = ("lacking_ns", "proposed", "voted")

    def __init__(self, home: Home, options: AgreementOptions | None = None) -> None:
        super().__init__(home, options)
        self.proposed: tuple[Ballot, Proposal] | None = None  # the last that could be considered here
        self.voted: Ballot | None = None  # the last that an Accepted was sent for
        self.lacking_ns: int | None = None  # since when a cut is incomplete

    def close(self) -> None:
        """Go on into the view that is decided: its cut is all here."""
        raise NotImplementedError

    def learn(self, proposal: Proposal) -> None:
        """Take the successor of our view for decided."""
        raise NotImplementedError

    def renounce(self, decision: Proposal | None, keep_seat: bool = False) -> None:
        """End this life."""
        raise NotImplementedError

    def has_asked(self, proposal: Proposal) -> bool:
        """Whether this life itself has asked for its place in a view that it is to join.

        A site without a file that is started twice within a second has the same incarnation in both lives. Others give
        the second the place of the first, whose promises, frames and message numbers it does not know. It can tell: all
        who go on into a view have answered those whom they let in, and nobody answers one that is in already.
        """
        gone_on = [life for life in proposal.view.lives() if life[0] in proposal.stateful]
        return proposal.restart or all(life in self.requests.answers for life in gone_on)

    def on_propose(self, source: SiteId, word: Propose) -> None:
        proposal, ballot = word.proposal, word.ballot
        if ballot[1:] != (source, word.incarnation) or proposal.view_id != word.view_id:
            raise RemoteError(f"site {source} proposes under the ballot {ballot} of another")
        if self.me in proposal.view.lives() and not (self.is_seated() and self.view.view_id >= proposal.view_id):
            if not self.hears(source, word):
                return
            if not self.has_asked(proposal):
                self.renounce(None, keep_seat=True)
            elif self.proposed is None or self.outbids(ballot, proposal):
                self.consider(ballot, proposal)
            return
        if not self.in_view(source, word):
            return
        if self.decided is not None:
            self.say((source,), Decide(self.host.incarnation, self.decided))
        elif ballot < self.promised:
            self.refuse(source)
        else:
            self.yield_to(ballot)
            self.consider(ballot, proposal)

    def outbids(self, ballot: Ballot, proposal: Proposal) -> bool:
        """Whether a joiner takes a proposal in the place of the one that it knows."""
        assert self.proposed is not None
        return (proposal.view_id, ballot) >= (self.proposed[1].view_id, self.proposed[0])

    def consider(self, ballot: Ballot, proposal: Proposal) -> None:
        """Fetch what is lacking of a cut, and accept once it is all here."""
        again = self.proposed is not None and self.proposed[0] == ballot == self.voted
        self.proposed = (ballot, proposal)
        if again:
            self.say((ballot[1],) if ballot[1] != self.host.site else (), self.accepted_word())
            return
        self.aim(proposal)

    def aim(self, proposal: Proposal) -> None:
        """Set out to hold a cut."""
        if self.flush is None or self.flush.view_id != proposal.view_id:
            self.flush = Flush(proposal.view_id, {})
        if self.flush.cut != proposal.cut:
            self.flush.aim(proposal.cut)
            self.lacking_ns = None
        self.complete()
        self.fetch()

    def accepted_word(self) -> Accepted:
        assert self.proposed is not None
        ballot, proposal = self.proposed
        seat = self.seat if self.is_seated() else self.host.incarnation
        return Accepted(self.host.incarnation, seat, proposal.view_id, ballot)

    def complete(self) -> None:
        """Accept what is proposed, or install what is decided, if the cut is all here."""
        if self.flush is None or self.flush.lacking():
            return
        self.lacking_ns = None
        if self.decided is not None:
            self.close()
        elif self.proposed is not None and self.voted != self.proposed[0] and self.may_accept(*self.proposed):
            self.accept(*self.proposed)

    def may_accept(self, ballot: Ballot, proposal: Proposal) -> bool:
        """Whether no higher ballot was promised while the cut was on its way."""
        return not self.is_seated() or proposal.view_id != self.view.view_id or ballot >= self.promised

    def accept(self, ballot: Ballot, proposal: Proposal) -> None:
        self.voted = ballot
        if self.is_seated() and proposal.view_id == self.view.view_id:
            self.accepted = (ballot, proposal)
            self.save()
        word = self.accepted_word()
        self.say(tuple([site for site in proposal.electors if site != self.host.site]), word)
        self.note_vote(self.host.site, word)

    def note_vote(self, source: SiteId, word: Accepted) -> None:
        """Count a vote, for the seat in this view and for the life in the next; perhaps it decides."""
        if word.view_id != self.view.view_id:
            return
        votes = self.votes.setdefault(word.ballot, {})
        votes[source, word.seat] = votes[source, word.incarnation] = True
        while len(self.votes) > BALLOTS_MAX:
            del self.votes[min(self.votes)]
        if self.proposed is None or self.proposed[0] != word.ballot or self.decided is not None:
            return
        proposal = self.proposed[1]
        if self.is_decided(proposal, votes):
            if self.attempt is not None and self.attempt.ballot == word.ballot:
                self.say(self.audience(proposal), Decide(self.host.incarnation, proposal))
            self.learn(proposal)

    def is_decided(self, proposal: Proposal, votes: Collection[Life]) -> bool:
        """Whether quorums of the old view and of the new one have accepted."""
        return quorum(self.view, votes) and quorum(proposal.view, votes)

    def on_accepted(self, source: SiteId, word: Accepted) -> None:
        """Count a vote; one for a view that is closed needs no answer, as its author will hear of the decision."""
        if word.view_id == self.view.view_id and self.in_view(source, word):
            self.note_vote(source, word)

    def fetch(self) -> None:
        """Ask somebody for what a cut lacks here."""
        flush = self.flush
        if flush is None or not (lacking := flush.lacking()):
            return
        proposal = self.decided or (self.proposed[1] if self.proposed is not None else None)
        if proposal is None:
            return
        sites = dict.fromkeys((*proposal.electors, *proposal.view.members))
        target = flush.whom(tuple([site for site in sites if site != self.host.site]))
        if target is not None:
            self.say((target,), Fetch(self.host.incarnation, flush.view_id, lacking))

    def on_frames(self, source: SiteId, word: Frames[Any]) -> None:
        flush = self.flush
        if not self.hears(source, word) or flush is None or flush.view_id != word.view_id or not flush.lacking():
            return
        flush.take(word.frames)
        self.complete()
        if word.is_last and self.flush is flush:
            self.fetch()
