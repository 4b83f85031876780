"""Views by agreement: the successor of a view is one single-decree consensus among its members (paper 000, section 2).

Problem: sites crash, are cut off and are wrongly suspected; yet all who go on must see the same views in the same
order, with the same messages in each, and of a group that falls apart only one part may go on.

Idea: whoever is the most senior that it does not suspect coordinates. It asks all members for a promise (`Prepare`),
which freezes them: a frozen member sends, hands up and acknowledges nothing, so that what it reports stays true. From
the reports of a quorum the coordinator makes a proposal: the next view and the cut, which is the frames that all who go
on will have handed up. A member accepts once it holds the whole cut. What quorums of the old *and* of the new view have
accepted under one ballot is decided. A later ballot takes over what an earlier one may have got accepted, members and
cut unchanged.

Invariants:
- a member never takes a ballot below the one that it promised, and never unfreezes into the view that it froze in;
- of a view only one successor is decided: any two quorums of it share a member, and the tie-break is part of the view;
- who is in the next view has reported in this one, or joins with a life that was never in any;
- a life that was left out does not come back: the site begins a new one, as after a crash;
- a life takes no place that it has not asked for: one that repeats the incarnation of a life before ends, and goes on
  above it;
- the stack installs a view only with the application's state; a member without it is in the view but hands up nothing.

The file (home.py) lets a site that comes back vote for the seat that it had. It has lost its frames, so it never
reports; it accepts, like everyone, only what it holds. Where nobody has the state any more, the seats of a quorum found
a view of new lives.

Bounds: votes are kept for the ballots of `BALLOTS_MAX` proposals; frames of the old view until all of the new one were
heard in it, or until the next.
"""

from __future__ import annotations

from functools import partial

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler, Kind, View
from isthmus.core.message import Message, SiteId
from isthmus.protocols.membership.acceptor import Acceptor
from isthmus.protocols.membership.flush import Flush
from isthmus.protocols.membership.home import AgreementOptions, Home, Past
from isthmus.protocols.membership.member import NOBODY
from isthmus.protocols.membership.sanity import Standpoint, check_word
from isthmus.protocols.membership.transfer import Arrival, Snapshot, State
from isthmus.protocols.membership.wire import (
    NO_BALLOT,
    Accepted,
    Decide,
    Fetch,
    Frames,
    Gone,
    Here,
    Join,
    JoinAck,
    Nack,
    Nudge,
    Prepare,
    Promise,
    Proposal,
    Propose,
    StateAsk,
    StatePiece,
    Word,
)
from isthmus.protocols.transport.base import Transport
from isthmus.trace.schema import Gauge

TICK = 0
JITTER = 0.2  # ticks differ by this share, so that rivals do not stay in step


class Agreement(Acceptor):
    """Agrees with the other members on views, and carries its own stack from one to the next."""

    __slots__ = ("arrival", "couriers", "restored")
    timer_names = ("tick",)

    def __init__(self, home: Home, options: AgreementOptions | None = None) -> None:
        super().__init__(home, options)
        self.arrival = Arrival()  # of the state, where we lack it
        self.couriers: tuple[SiteId, ...] = ()  # without an application: their state is asked for last
        self.restored: State | None = None  # which the stack takes over once it has installed the view

    def handlers(self) -> dict[type[Message], Handler]:
        return {kind: partial(self.checked, handler) for kind, handler in self.word_handlers().items()}

    def word_handlers(self) -> dict[type[Message], Handler]:
        return {
            Here: self.on_here,
            Prepare: self.on_prepare,
            Promise: self.on_promise,
            Propose: self.on_propose,
            Accepted: self.on_accepted,
            Decide: self.on_decide,
            Nudge: self.on_nudge,
            Nack: self.on_nack,
            Join: self.on_join,
            JoinAck: self.on_join_ack,
            Gone: self.on_gone,
            Fetch: self.on_fetch,
            Frames: self.on_frames,
            StateAsk: self.on_state_ask,
            StatePiece: self.on_state_piece,
        }

    def checked(self, handler: Handler, source: SiteId, word: Word) -> None:
        """Take a word that could be meant."""
        attempted = self.attempt.ballot[0] if self.attempt is not None else 0
        round_known = max(self.promised[0], self.round_seen, attempted)
        here = Standpoint(self.home.contacts, self.view, round_known, self.host.now_ns, self.host.incarnation)
        check_word(source, word, here)
        handler(source, word)

    def start(self) -> None:
        super().start()
        self.host.set_timer(self, TICK, 0)

    # From the host

    def found(self, view: View) -> None:
        """Begin with a first view, which an operator gives to all its members alike."""
        assert not self.is_seated() and self.me in view.lives()
        self.enter(view, None)
        self.become_stateful()

    def leave(self) -> None:
        """Ask to be left out of the next view."""
        self.leaving = True
        if not self.leave_if_alone():
            self.act()

    def leave_if_alone(self) -> bool:
        """Go, where nobody is left to decide on a view without us."""
        alone = not self.is_member() or len(self.view.members) == 1
        if alone:
            self.home.left()
        return alone

    def suspect(self, site: SiteId, suspected: bool) -> None:
        if site in self.home.contacts:
            self.above.suspect(site, suspected)
            if suspected and site in self.view.members and self.coordinator() == self.sitting:
                self.act()

    def settled(self) -> bool:
        """Nothing that is submitted waits here."""
        return True

    def is_idle(self) -> bool:
        """Whether nothing is left to do here: in a view, with the state, without a reason to change it."""
        settled = self.is_member() and self.stateful and not self.frozen and not self.installing
        return settled and not self.has_reason()

    def timer(self, key: int) -> None:
        assert key == TICK
        self.host.set_timer(
            self, TICK, self.span_ns(self.options.tick * (1 + JITTER * (self.host.random.random() - 0.5)))
        )
        if self.installing:
            return
        self.told_behind.clear()
        others = [site for site in self.home.contacts if site != self.host.site]
        if self.is_seated() and others:
            self.say((self.host.random.choice(others),), self.here())
        if not self.is_member():
            now_ns = self.host.now_ns
            self.say(tuple(others), Join(self.host.incarnation, now_ns, self.requests.answered(now_ns)))
        elif not self.stateful:
            self.ask_state()
        if self.flush is not None:
            self.complete()
            self.fetch()
        self.give_up()
        self.act()

    # Deciding

    def on_decide(self, source: SiteId, word: Decide) -> None:
        proposal = word.proposal
        if not self.hears(source, word) or (self.is_seated() and proposal.view_id < self.view.view_id):
            return
        if self.is_seated() and proposal.view_id == self.view.view_id:
            self.learn(proposal)
        elif self.me in proposal.view.lives():
            self.adopt(proposal)
        elif self.is_seated():
            self.end_seat(proposal)  # others are two views ahead: this seat cannot be among them

    def learn(self, proposal: Proposal) -> None:
        """Take the successor of our view for decided."""
        if self.decided is not None:
            return
        lives = proposal.view.lives()
        if self.is_member() and self.me in lives:
            self.freeze()
            self.decided = proposal
            self.aim(proposal)
        elif self.me in lives:
            self.adopt(proposal)
        elif self.sitting in lives and not self.is_member():
            self.enter(proposal.view, proposal, self.seat)
            self.frozen, self.flush = True, Flush(self.view.view_id, {})
        else:
            self.freeze()
            self.end_seat(proposal)

    def end_seat(self, proposal: Proposal) -> None:
        """Begin a new life, as others go on without us; where only an earlier life's seat ends, stay."""
        if self.leaving or self.is_member():
            self.renounce(proposal)
        else:
            self.give_seat_up()

    def give_seat_up(self) -> None:
        self.view, self.seat, self.frozen = View(0, ()), NOBODY, False
        self.attempt, self.accepted, self.promised = None, None, NO_BALLOT
        self.save()

    def renounce(self, decision: Proposal | None, keep_seat: bool = False) -> None:
        """End this life; the next one still tells others what this one knew. One that leaves has no next."""
        if self.installing:
            return
        if self.leaving:
            self.installing = True
            self.home.left()
            return
        if not keep_seat:
            self.seat = NOBODY
            self.save()
        self.installing = True  # nothing counts any more
        self.home.renew(Past(decision or self.decision, self.flush or self.old))

    def give_up(self) -> None:
        """End a life that cannot get hold of a cut; one that has nothing to hand up goes on without."""
        if self.flush is None or not self.flush.lacking():
            return
        now_ns = self.host.now_ns
        if self.lacking_ns is None:
            self.lacking_ns = now_ns
        elif now_ns - self.lacking_ns <= self.span_ns(self.options.give_up):
            return
        elif not self.is_member():
            self.flush.aim(())  # nobody may have those frames any more
            self.complete()
        elif self.decided is not None or self.home.store is not None:
            self.renounce(None, keep_seat=self.home.store is not None)

    def close(self) -> None:
        """Hand up the cut and go on into the next view."""
        proposal, flush = self.decided, self.flush
        assert proposal is not None and flush is not None
        if self.stateful:
            flush.hand_up(self.stack.find(Transport))
        self.enter(proposal.view, proposal)
        if self.stateful or proposal.restart:
            self.become_stateful()
        else:
            self.ask_state()

    def adopt(self, proposal: Proposal) -> None:
        """Join a view."""
        if not self.has_asked(proposal):
            self.renounce(None, keep_seat=True)
            return
        self.enter(proposal.view, proposal)
        if proposal.restart:
            self.become_stateful()
        else:
            self.ask_state()

    def enter(self, view: View, decision: Proposal | None, seat: int | None = None) -> None:
        """Be in a view, with nothing promised or accepted."""
        self.view, self.decision, self.entered_ns = view, decision, self.host.now_ns
        self.seat = self.host.incarnation if seat is None else seat
        self.promised, self.accepted = NO_BALLOT, None
        self.promised_ns = self.round_seen = self.attempt_count = 0
        self.proposed = self.voted = self.decided = self.attempt = self.nudged_ns = self.lacking_ns = None
        self.votes.clear()
        self.heard.clear()
        self.old, self.flush, self.frozen, self.snapshot = self.flush, None, False, None
        self.arrival = Arrival()
        self.requests.forget(view.lives())
        self.save()
        self.say(self.others(), self.here())

    def become_stateful(self) -> None:
        """Have the stack install the view; it has the state, or takes it over then."""
        self.stateful = self.installing = True
        self.host.install(self.view)
        self.host.resume()

    def install(self, view: View) -> None:  # noqa: ARG002
        self.installing = False

    def resume(self) -> None:
        """Take over the state, or take a snapshot of it for those who lack it; then let traffic flow."""
        if self.restored is not None:
            state, self.restored = self.restored, None
            self.host.gauge(Gauge.STATE_BYTES, sum(map(len, state)))
            try:
                self.stack.restore(state)
            except RemoteError:  # no state of ours: this life is of no use, and the next one asks somebody else
                self.host.trace(Kind.REJECT, value=self.arrival.source or 0)
                self.renounce(None)
                return
        elif self.decision is not None and set(self.view.members) - set(self.decision.stateful):
            self.snapshot = Snapshot(self.stack.state())
        self.above.resume()
        if self.leaving:
            self.leave_if_alone()

    def on_here(self, source: SiteId, word: Here) -> None:
        if not self.in_view(source, word) or (source, word.incarnation) not in self.view.lives():
            return
        self.heard[source] = word.stateful or self.heard.get(source, False)
        if len(self.heard) == len(self.view.members) - 1:
            self.old = None
            if all(self.heard.values()):
                self.snapshot = None

    # What is asked of others

    def ask_state(self, again: bool = True) -> None:
        """Ask for the next piece of the state; of another member where the last one does not answer."""
        if self.decision is None:
            return
        if again and self.arrival.stale:
            others = tuple([site for site in self.decision.stateful if site != self.host.site])
            self.arrival.turn_to_next(tuple([site for site in others if site not in self.couriers]) or others)
        self.arrival.stale = True
        if self.arrival.source is not None:
            word = StateAsk(self.host.incarnation, self.view.view_id, self.arrival.size)
            self.say((self.arrival.source,), word)

    def on_state_piece(self, source: SiteId, word: StatePiece) -> None:
        if not self.hears(source, word) or word.view_id != self.view.view_id or self.stateful or self.frozen:
            return
        before = self.arrival.size
        state = self.arrival.take(source, word)
        if state is not None:
            self.restored = state
            self.become_stateful()
        elif self.arrival.size > before:
            self.ask_state(again=False)

    def on_gone(self, source: SiteId, word: Gone) -> None:
        """Learn that others have gone on without us."""
        if not self.hears(source, word) or word.view_id <= self.view.view_id:
            return
        if word.gone_incarnation == self.host.incarnation:
            self.renounce(None)
        elif word.gone_incarnation == self.seat:
            self.give_seat_up()
