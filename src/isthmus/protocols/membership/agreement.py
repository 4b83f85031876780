"""Agreement on views: the successor of a view is one single-decree consensus among its members (paper 000, section 2).

Problem: sites crash, are cut off and are wrongly suspected; yet all that go on must see the same views in the same
order, with the same messages in each, and when a group falls apart, only one part may go on.

Idea: the most senior member that a member does not suspect is its coordinator. A coordinator asks all members for a
promise (`Prepare`), which freezes them: a frozen member sends, delivers and acknowledges nothing, so that its report
stays true. From the reports of a quorum the coordinator makes a proposal: the next view and the cut, that is the frames
that all members that go on will have delivered. A member accepts once it holds the whole cut. A proposal is decided
when quorums of the old *and* of the new view have accepted it under one ballot: of the old one so that there is one
successor, of the new one so that its members can go on whatever happens to the others. A later ballot takes over what
an earlier one may have got accepted, members and cut unchanged. Any number of members may coordinate at once: ballots
sort that out. A member that sees a reason to act but does not coordinate nudges its coordinator.

Invariants:
- a member never takes a ballot below the one that it promised, and never unfreezes into the view that it froze in;
- a view has at most one decided successor: any two quorums of it share a member, and the tie-break is part of the view;
- a member of the next view has reported in this one, or joins with a life that was never in any view;
- a life that was left out does not come back: its site begins a new one, as after a crash;
- a life takes no place that it has not asked for: one that repeats the incarnation of an earlier life ends, and the
  next one goes above it;
- the stack installs a view only with the state of its layers; a member without it is in the view but delivers nothing.
  The application's state may come later (transfer.py).

A life that ends while its process lives leaves an *ended seat*: the next life votes for it, reports what the ended one
had and serves its frames until the successor of the view is decided; it acknowledges nothing. A seat that goes on into
the next view has nothing there, and reports that. An ended seat counts for a quorum of those that go on only where its
new life joins. After a crash of the process the file (home.py) lets a site vote for the seat that it had, but it has
lost its frames, so it never reports; it accepts, like all, only what it holds. Where no member has the state any more,
the seats of a quorum found a view of new lives: one goes on with the state of its process, the others restore that.

A number from another site has no lasting effect: a higher life counts once it has returned a challenge, one that asks
to join below a known one is told so and comes back above it, and rounds rise in bounded steps.

Bounds: votes are kept for `BALLOTS_MAX` ballots; frames of the previous view until all members of this one were heard
in it, or until the next view.

The phases of a life, and what moves it (`become` checks the table TRANSITIONS):

| from | event | to |
|---|---|---|
| OUT | the site's file, or the life before, has a seat: it votes for that seat | VOTER |
| VOTER | the seat goes on into the next view | VOTER |
| VOTER | the seat ends, this life goes on asking to join | OUT |
| OUT, VOTER | a view is founded, or decided with this life in it | ENTERED |
| ENTERED | the state of the stack's layers is here, or this life is to begin anew with its own | INSTALLING |
| INSTALLING | the host has installed the view | NORMAL |
| ENTERED, NORMAL | a ballot is promised, or the successor is already decided | FROZEN |
| FROZEN | the successor is decided, with this life in it; the cut may be incomplete | DECIDED |
| DECIDED | the cut is complete and delivered | ENTERED |
| ENTERED, NORMAL, FROZEN, DECIDED | a decision further on has this life in it | ENTERED |
| all but INSTALLING | others go on without this life, it leaves, is behind, or lacks the cut or the state | ENDED |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any, TypeVar

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler, Kind, Layer, Life, View
from isthmus.core.message import Message, SiteId, Targets
from isthmus.core.units import NS_PER_MS, NS_PER_S
from isthmus.protocols.membership.cut import Holding, cut_of, runs_of
from isthmus.protocols.membership.flush import Flush, flush_of
from isthmus.protocols.membership.home import AgreementOptions, EndedSeat, Home, Past, Record
from isthmus.protocols.membership.ledger import Attempt, CoordinatorBackoff, Ledger
from isthmus.protocols.membership.quorum import quorum, weight
from isthmus.protocols.membership.sanity import LocalKnowledge, check_message
from isthmus.protocols.membership.succession import (
    LEAP_MAX,
    Joiner,
    JoinRequests,
    KnownLives,
    Reporter,
    admitted,
    heir_of,
    may_go_on,
    next_view,
    restart_view,
    staying,
)
from isthmus.protocols.membership.transfer import StateTransfer, assign_givers
from isthmus.protocols.membership.window import PIECE_BYTES
from isthmus.protocols.membership.wire import (
    NO_BALLOT,
    Accepted,
    Ballot,
    Behind,
    Decide,
    Fetch,
    Frames,
    Gone,
    Here,
    Join,
    JoinAck,
    MembershipMessage,
    Nack,
    Nudge,
    Prepare,
    Progress,
    Promise,
    Proof,
    Proposal,
    Propose,
    Prove,
    StateAsk,
    StatePiece,
    ViewMessage,
    WholeFrame,
)
from isthmus.protocols.transport.base import Transport

V = TypeVar("V", bound=ViewMessage)
NOBODY = -1  # as a seat: none
NONCE_BITS = 62
TICK = 0
QUIET_NS = 200 * NS_PER_MS  # between two ticks, at least, while nothing is to be done
QUIET_HERE_NS = 2 * NS_PER_S  # between two words to others then
PIECE_HEAD_BYTES = 64  # of a packet with one piece, about
FETCH_MAX = 64  # pieces that one request names
UNHURRIED = 4  # times as long until a deputy acts, where it suspects no member
JITTER = 0.2  # ticks differ by this share, so that rivals do not stay in step


class LifePhase(Enum):
    """How far a life is in the views of its group; the module's docstring has the transitions."""

    OUT = auto()  # in no view; asks to join
    VOTER = auto()  # votes for the seat of an earlier life, which is frozen for good; asks to join
    ENTERED = auto()  # in the view; its stack is not, as it may lack the application's state
    INSTALLING = auto()  # the host has yet to install the view in the stack; messages are dropped
    NORMAL = auto()  # the stack is in the view
    FROZEN = auto()  # sends, delivers, acknowledges and drops nothing more in this view
    DECIDED = auto()  # frozen, and the successor is known
    ENDED = auto()  # nothing counts any more


OUT, VOTER, ENTERED, INSTALLING, NORMAL, FROZEN, DECIDED, ENDED = LifePhase
TRANSITIONS: dict[LifePhase, tuple[LifePhase, ...]] = {
    OUT: (VOTER, ENTERED, ENDED),
    VOTER: (VOTER, OUT, ENTERED, ENDED),
    ENTERED: (INSTALLING, FROZEN, ENTERED, ENDED),
    INSTALLING: (NORMAL,),
    NORMAL: (FROZEN, ENTERED, ENDED),
    FROZEN: (DECIDED, ENTERED, ENDED),
    DECIDED: (ENTERED, ENDED),
    ENDED: (),
}


class Agreement(Layer):
    """Agrees with the other members of a group on views, and moves its own stack from one to the next."""

    __slots__ = (
        "attempt",
        "backoff",
        "couriers",
        "decided",
        "decision",
        "entered_ns",
        "flush",
        "frozen_ns",
        "had_state",
        "heard",
        "home",
        "known",
        "leavers",
        "leaving",
        "ledger",
        "nudged_ns",
        "options",
        "phase",
        "previous_flush",
        "requests",
        "rested_ns",
        "resting",
        "seat",
        "stateful",
        "told_behind",
        "transfer",
        "vectors",
        "view",
    )
    timer_names = ("tick",)

    def __init__(self, home: Home, options: AgreementOptions | None = None) -> None:
        self.home = home
        self.options = options or AgreementOptions()
        self.phase = OUT
        self.view = View(0, ())  # the last that is decided and known here; 0: none
        self.seat = NOBODY  # the incarnation that sits in it for this site
        self.vectors: tuple[Holding, ...] | None = None  # what an earlier life reports from its seat; None: it crashed
        self.stateful = False  # this life has the application's state
        self.had_state = False  # the life before, whose seat this one has, had it when it ended
        self.leaving = False
        self.entered_ns = 0  # when this view was entered
        self.frozen_ns = 0  # since when this view is frozen
        self.resting = False  # ticks are rare, as nothing is left to do
        self.rested_ns: int | None = None  # when others were last told of this view meanwhile; None: not yet
        self.decided: Proposal | None = None  # the successor, in DECIDED
        self.decision: Proposal | None = None  # that led to this view, or that left the previous life out
        # Other sites
        self.heard: dict[SiteId, bool] = {}  # members heard in this view: whether they have the state
        self.leavers: dict[SiteId, bool] = {}  # members of this view that leave
        self.known: KnownLives
        self.told_behind: dict[SiteId, bool] = {}  # sites asked for a newer view since the last tick
        self.requests = JoinRequests(self.span_ns(self.options.fresh))
        self.couriers: tuple[SiteId, ...] = ()  # without an application: their state is asked for last
        # The ballots of this view
        self.ledger = Ledger()
        self.attempt: Attempt | None = None
        self.backoff = CoordinatorBackoff()
        self.nudged_ns: int | None = None  # when this site was last asked to act in this view
        # Frames and the application's state
        self.flush: Flush | None = None  # of the closing view
        self.previous_flush: Flush | None = None  # of the previous view, for members that are behind
        self.transfer = StateTransfer(self)

    def become(self, phase: LifePhase) -> None:
        assert phase in TRANSITIONS[self.phase], f"site {self.host.site} goes from {self.phase} to {phase}"
        self.phase = phase
        self.wake()

    def span_ns(self, round_trips: float) -> int:
        return round(round_trips * self.home.round_trip_ns)

    def handlers(self) -> dict[type[Message], Handler]:
        handlers: dict[type[Message], Handler] = {
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
            Progress: self.on_progress,
            Prove: self.on_prove,
            Proof: self.on_proof,
            Behind: self.on_behind,
            StateAsk: self.on_state_ask,
            StatePiece: self.on_state_piece,
        }
        checked = {kind: partial(self.checked, handler) for kind, handler in handlers.items()}
        return checked | {WholeFrame: self.on_whole_frame}

    def checked(self, handler: Handler, source: SiteId, message: MembershipMessage) -> None:
        """Handle a message that passes the checks of sanity.py."""
        here = LocalKnowledge(self.home.contacts, self.view, self.host.now_ns, self.host.incarnation)
        check_message(source, message, here)
        handler(source, message)

    def start(self) -> None:
        self.known = KnownLives(self.me)
        past, record = self.home.past, self.home.store.load() if self.home.store is not None else None
        self.host.set_timer(self, TICK, 0)
        if past is not None:
            self.decision, self.previous_flush = past.decision, past.flush
            self.known.learn(past.known)
        if past is not None and past.ended is not None:
            self.take_ended_seat(past.ended)
        elif record is not None:
            self.view, self.seat = record.view, record.seat
            self.ledger = Ledger(record.promised, record.accepted)
            self.decision = record.decision or self.decision
            self.known.learn(record.view.lives())
            self.become(VOTER)
            self.flush = self.new_flush(self.view.view_id)

    def take_ended_seat(self, ended: EndedSeat) -> None:
        """Vote, report and serve for the life before, until the successor of its view is decided."""
        self.view, self.seat, self.vectors, self.had_state = ended.view, ended.seat, ended.report, ended.stateful
        self.ledger = Ledger(ended.promised, ended.accepted)
        self.known.learn(ended.view.lives())
        self.become(VOTER)
        self.flush = ended.flush or self.new_flush(self.view.view_id)

    def move_ended_seat(self) -> None:
        """Take what the life before knew to be decided; not from `start`, as a stack sends nothing there."""
        ended = self.home.past and self.home.past.ended
        if ended and ended.decided and self.phase is VOTER and self.view == ended.view:
            self.learn(ended.decided)

    def new_flush(self, view_id: int) -> Flush:
        return Flush(view_id, self.piece_bytes())

    def piece_bytes(self) -> int:
        return min(PIECE_BYTES, self.host.frame_bytes - PIECE_HEAD_BYTES)

    # Lives and members

    @property
    def me(self) -> Life:
        return (self.host.site, self.host.incarnation)

    @property
    def sitting(self) -> Life:
        """The life that votes in the view."""
        return (self.host.site, self.seat)

    def is_member(self) -> bool:
        """Whether this life itself is in the view, not merely the seat of an earlier one."""
        return self.seat == self.host.incarnation

    def is_seated(self) -> bool:
        return self.seat != NOBODY

    def is_frozen(self) -> bool:
        return self.phase in (VOTER, FROZEN, DECIDED)

    def is_idle(self) -> bool:
        """Whether nothing is left to do here: in a view, with the state, without a reason to change it."""
        return self.phase is NORMAL and self.stateful and not self.has_reason()

    def is_quiet(self) -> bool:
        """Whether nothing will be left to do until something comes: all others are known to be in this view, too."""
        return self.is_idle() and len(self.heard) == len(self.view.members) - 1 and all(self.heard.values())

    def wake(self) -> None:
        """Tick as usual, from now on, where ticks are rare: there may be something to do."""
        if self.resting:
            self.resting = False
            self.host.set_timer(self, TICK, self.tick_ns())

    def tick_ns(self) -> int:
        return self.span_ns(self.options.tick * (1 + JITTER * (self.host.random.random() - 0.5)))

    def is_suspected(self, life: Life) -> bool:
        """Whether a life is suspected, or a later one of its site proves it dead."""
        return self.known.of(life[0]) > life[1] or (life[0] != self.host.site and self.home.is_suspected(life[0]))

    def suspects(self) -> Targets:
        return tuple([life[0] for life in self.view.lives() if life != self.sitting and self.is_suspected(life)])

    def is_mutual(self, life: Life) -> bool:
        """Whether a life and this site trust each other; one that suspects this site may wait for it for ever."""
        return not self.is_suspected(life) and not self.home.suspects_us(life[0])

    def coordinator(self) -> Life | None:
        """The most senior life in mutual trust; without any, the most senior seat whose site is up."""
        lives = self.view.lives()
        present = [life for life in lives if life[0] == self.host.site or not self.home.is_suspected(life[0])]
        return next((life for life in lives if self.is_mutual(life)), next(iter(present), None))

    def others(self) -> Targets:
        return tuple([site for site in self.view.members if site != self.host.site])

    # From the host

    def found(self, view: View) -> None:
        """Begin with a first view, which an operator gives to all its members alike."""
        assert not self.is_seated() and self.me in view.lives()
        self.enter(view, None)
        self.install_stack()

    def found_with_all(self) -> bool:
        """Begin with a view of all sites of the group, if all ask to be let in and none has a state to hand over.

        Each of them has answered this life, so it takes no such decision of an earlier one any more; one that had taken
        it would not ask. So no two lives of this site found the group.
        """
        joining = admitted(self.joiners(), [self.me], {})
        if len(joining) < len(self.home.contacts) - 1:
            return False
        lives = [self.me, *joining]
        view = next_view(View(0, ()), lives, [], lives, self.home.weights)
        proposal = Proposal(0, (self.host.site,), view, (), view.members, restart=True)
        self.send_to(self.audience(proposal), Decide(self.host.incarnation, proposal))
        self.enter(view, proposal)
        self.install_stack()
        return True

    def leave(self) -> None:
        """Ask to be left out of the next view."""
        self.leaving = True
        if not self.leave_if_alone():
            self.send_to(self.others(), self.about_view(Here, self.stateful, self.leaving))
            self.host.set_timer(self, TICK, self.tick_ns())  # until then others may leave, too
            self.leave_if_all_do()

    def leave_if_all_do(self) -> None:
        """Leave once all others leave or are gone, and what was sent here has arrived: nobody needs another view."""
        if not self.leaving or self.phase in (INSTALLING, ENDED):
            return
        gone = [site in self.leavers or self.home.is_suspected(site) for site in self.others()]
        if all(gone) and self.stack.layers[0].settled():
            self.send_to(self.others(), self.about_view(Here, self.stateful, self.leaving))
            self.become(ENDED)
            self.home.left()

    def leave_if_alone(self) -> bool:
        """Leave at once if no other member is there to decide on a view without this site."""
        alone = not self.is_member() or len(self.view.members) == 1
        if alone:
            self.home.left()
        return alone

    def suspect(self, site: SiteId, suspected: bool) -> None:
        if site in self.home.contacts:
            self.above.suspect(site, suspected)
            self.wake()
            self.leave_if_all_do()
            if suspected and site in self.view.members and self.coordinator() == self.sitting:
                self.act()

    def settled(self) -> bool:
        """True: nothing that is submitted waits here."""
        return True

    def timer(self, key: int) -> None:
        assert key == TICK
        self.resting, span_ns = self.is_quiet(), self.tick_ns()
        self.host.set_timer(self, TICK, max(span_ns, QUIET_NS) if self.resting else span_ns)
        if self.phase in (INSTALLING, ENDED):
            return
        self.told_behind.clear()
        self.known.challenged.clear()
        self.move_ended_seat()
        others = [site for site in self.home.contacts if site != self.host.site]
        if self.is_seated() and others:
            self.send_to(self.told_at_tick(others), self.about_view(Here, self.stateful, self.leaving))
        if not self.is_member():
            self.ask_to_join()
        else:
            self.transfer.tick()
        self.complete()
        self.fetch()
        self.report_progress()
        self.give_up()
        self.act()
        self.leave_if_all_do()

    def told_at_tick(self, others: Sequence[SiteId]) -> Targets:
        """The sites that this tick tells of the view: once nothing is left to do all members, then one now and then."""
        now_ns = self.host.now_ns
        if self.resting and self.rested_ns is None:
            self.rested_ns = now_ns
            return self.others()
        if self.resting and self.rested_ns is not None:
            if now_ns - self.rested_ns < QUIET_HERE_NS:
                return ()
            self.rested_ns = now_ns
        return (self.host.random.choice(others),)

    # Messages

    def send_to(self, targets: Targets, message: MembershipMessage) -> None:
        if targets:
            self.send(targets, message)

    def about_view(self, kind: type[V], *fields: Any) -> V:
        """Make a message about this site's view, from the seat that it has there."""
        return kind(self.host.incarnation, self.seat, self.view.view_id, *fields)

    def is_current(self, source: SiteId, message: MembershipMessage) -> bool:
        """Whether a message counts: it is of the known life of its author, and no view is being installed.

        A higher life is challenged to show that it is alive.
        """
        if self.phase in (INSTALLING, ENDED):
            return False
        if message.incarnation > self.known.of(source):
            nonce = self.known.challenge(source, self.host.random.getrandbits(NONCE_BITS))
            if nonce is not None:
                self.send_to((source,), Prove(self.host.incarnation, nonce))
        return message.incarnation == self.known.of(source)

    def on_prove(self, source: SiteId, message: Prove) -> None:
        """Show that this life is alive, to any life that asks."""
        if self.phase is not ENDED:
            self.send_to((source,), Proof(self.host.incarnation, message.nonce))
            if self.phase in (OUT, VOTER):
                self.ask_to_join(source)  # what was sent before did not count

    def on_proof(self, source: SiteId, message: Proof) -> None:
        self.known.note_proof(source, message.incarnation, message.nonce)

    def concerns_view(self, source: SiteId, message: ViewMessage) -> bool:
        """Whether a message is about the view that this site is in; an author that is behind is told so."""
        if not self.is_current(source, message):
            return False
        if message.view_id == self.view.view_id and self.is_seated():
            return True
        if self.decision is not None and self.decision.view_id == message.view_id:
            if not self.is_on_its_way(message):
                self.send_to((source,), Decide(self.host.incarnation, self.decision))
        elif message.view_id < self.view.view_id:
            if self.is_member() and (source, message.seat) not in self.view.lives():
                self.send_to((source,), Gone(self.host.incarnation, self.view.view_id, message.seat))
        elif self.is_seated() and source not in self.told_behind:  # this site is behind: it says so once per tick
            self.told_behind[source] = True
            self.send_to((source,), self.about_view(Here, self.stateful, self.leaving))
        return False

    def is_on_its_way(self, message: ViewMessage) -> bool:
        """Whether the decision is still on its way to the author of a message, which asks again at its next tick."""
        recent = self.host.now_ns - self.entered_ns < self.span_ns(self.options.tick)
        return recent and isinstance(message, Here | Nudge) and self.is_member()

    def on_here(self, source: SiteId, message: Here) -> None:
        if not self.concerns_view(source, message) or (source, message.incarnation) not in self.view.lives():
            return
        self.heard[source] = message.stateful or self.heard.get(source, False)
        if message.leaving:
            self.leavers[source] = True
            self.leave_if_all_do()
        if len(self.heard) == len(self.view.members) - 1:
            self.previous_flush = None
            if all(self.heard.values()) and self.stateful:
                self.transfer.release()

    # When to act

    def wants_change(self) -> bool:
        """Whether this member itself sees a reason."""
        underweight = self.stateful and weight(self.view, self.me) < self.home.weights.get(self.host.site, 1)
        lacks = underweight or self.transfer.wants_base()
        return self.is_frozen() or bool(self.suspects()) or self.is_distrusted() or self.can_leave() or lacks

    def can_leave(self) -> bool:
        """Whether this member leaves, and another has the state to go on with."""
        given = self.view.members if self.decision is None else self.decision.stateful
        return self.leaving and any(site in given or self.heard.get(site, False) for site in self.others())

    def is_distrusted(self) -> bool:
        """Whether a member suspects this site: one that hears nothing cannot leave or acknowledge anything."""
        return any(map(self.home.suspects_us, self.others()))

    def has_reason(self) -> bool:
        """Whether a coordinator has one."""
        fresh_ns = self.host.now_ns - self.span_ns(self.options.fresh)
        nudged = self.nudged_ns is not None and self.nudged_ns > fresh_ns
        unsuspected = [life for life in self.view.lives() if not self.is_suspected(life)]
        return self.wants_change() or nudged or bool(self.joining(unsuspected))

    def joining(self, stay: list[Life]) -> list[Life]:
        """The lives that could join some that stay."""
        last = dict(self.view.last) or dict(self.view.lives())
        return admitted(self.joiners(), stay, last)

    def joiners(self) -> list[Joiner]:
        found = self.requests.joiners(self.host.now_ns)
        return [joiner for joiner in found if not self.is_suspected(joiner.life) and joiner.life != self.me]

    def act(self) -> None:
        """Do what is due: begin or repeat an attempt, or ask the coordinator to."""
        if not self.is_seated() or self.phase in (DECIDED, INSTALLING, ENDED):
            return
        first = self.coordinator()
        if first != self.sitting and not self.passes_over():
            self.attempt = None
            if first is not None and self.wants_change():
                self.send_to((first[0],), self.about_view(Nudge, self.suspects(), self.ledger.promised[0]))
            return
        attempt, now_ns = self.attempt, self.host.now_ns
        patience_ns = self.patience_ns(self.options.attempt)
        if attempt is None:
            waits = self.has_rival() and now_ns - self.ledger.promised_ns < patience_ns
            if self.has_reason() and not waits:
                self.begin()
        elif now_ns - attempt.since_ns >= patience_ns:
            self.begin()
        else:
            self.repeat(attempt)

    def passes_over(self) -> bool:
        """Whether all more senior members have had their time: they may not reach a quorum that this member reaches.

        Where sites 0 and 3, and 0 and 4, are cut off from each other, and 1 is dead, 0 coordinates in the eyes of 2 and
        reaches only 2; yet 2, 3 and 4 are a quorum.
        """
        order = [life for life in self.view.lives() if self.is_mutual(life)]
        if not self.is_frozen() or self.sitting not in order:
            return False
        wait_ns = order.index(self.sitting) * self.span_ns(self.options.give_up) * (1 if self.suspects() else UNHURRIED)
        return self.host.now_ns - max(self.frozen_ns, self.ledger.proposed_ns) >= wait_ns

    def has_rival(self) -> bool:
        """Whether the promised ballot is of another member and may succeed."""
        proposer = self.ledger.promised[1:]
        return self.is_frozen() and self.ledger.promised_ns > 0 and proposer != self.me and self.is_mutual(proposer)

    def patience_ns(self, round_trips: float) -> int:
        """How long to wait for others."""
        return self.span_ns(round_trips) << self.backoff.doublings()

    def on_nudge(self, source: SiteId, message: Nudge) -> None:
        if not self.concerns_view(source, message):
            return
        self.ledger.note_round(message.round)
        first = self.coordinator()
        if first == self.sitting:
            self.nudged_ns = self.host.now_ns
            if self.attempt is None:
                self.act()
        elif first is not None and not message.passed_on and first[0] != source:
            self.send_to((first[0],), self.about_view(Nudge, message.suspects, message.round, True))

    # Asking for promises

    def begin(self) -> None:
        """Ask all members for a promise to a new ballot."""
        ballot = self.next_ballot()
        self.attempt = attempt = Attempt(ballot, self.host.now_ns, self.host.now_ns)
        self.backoff.attempt_count += 1
        self.promise(ballot)
        attempt.promises[self.sitting] = self.own_promise(ballot)
        self.send_to(self.others(), self.about_view(Prepare, ballot))
        self.try_propose()

    def next_ballot(self) -> Ballot:
        """Above all rounds heard of, but in steps that others promise: one number must not use up the rounds."""
        promised = self.ledger.promised[0]
        return (min(max(promised, self.ledger.round_seen), promised + LEAP_MAX // 2) + 1, *self.me)

    def repeat(self, attempt: Attempt) -> None:
        """Ask members that have not answered for a round trip again; stop waiting for those whose time is over."""
        late = self.host.now_ns - attempt.sent_ns > self.home.round_trip_ns
        if attempt.proposal is None and not late:
            self.try_propose()
        if not late:
            return
        attempt.sent_ns = self.host.now_ns
        if attempt.proposal is None:
            promised = [life[0] for life in attempt.promises]
            self.send_to(
                tuple([site for site in self.others() if site not in promised]),
                self.about_view(Prepare, attempt.ballot),
            )
            self.try_propose()
            return
        accepted = [life[0] for life in self.ledger.votes.get(attempt.ballot, {})]
        targets = [site for site in self.audience(attempt.proposal) if site not in accepted]
        self.send_to(tuple(targets), self.about_view(Propose, attempt.ballot, attempt.proposal))

    def audience(self, proposal: Proposal) -> Targets:
        """The other members of the new view, then those of the old one."""
        sites = dict.fromkeys((*proposal.view.members, *proposal.electors))
        return tuple([site for site in sites if site != self.host.site])

    def on_promise(self, source: SiteId, message: Promise) -> None:
        if not self.concerns_view(source, message) or self.attempt is None or message.ballot != self.attempt.ballot:
            return
        self.attempt.promises[source, message.seat] = message
        self.try_propose()

    def on_nack(self, source: SiteId, message: Nack) -> None:
        if self.concerns_view(source, message):
            self.ledger.note_round(message.promised[0])
            if self.attempt is not None and self.attempt.ballot < message.promised:
                self.attempt = None

    # The proposal

    def is_awaited(self, life: Life, attempt: Attempt) -> bool:
        """Whether a member that has not promised may still be worth waiting for: longer where none is suspected."""
        now_ns, longest_ns = self.host.now_ns, self.span_ns(self.options.give_up) << self.backoff.backoff_exponent
        patient = now_ns - attempt.since_ns < self.patience_ns(self.options.answer)
        unhurried = not self.suspects() and now_ns - self.frozen_ns < longest_ns
        return (patient or unhurried) and self.is_mutual(life)

    def try_propose(self) -> None:
        """Make a proposal once a quorum has promised and no member is awaited."""
        attempt = self.attempt
        if attempt is None or attempt.proposal is not None or not quorum(self.view, list(attempt.promises)):
            return
        missing = [life for life in self.view.lives() if life not in attempt.promises]
        if any(self.is_awaited(life, attempt) for life in missing):
            return
        proposal = self.bound_proposal(attempt) or self.make_proposal(attempt)
        if proposal is not None:
            in_time = self.host.now_ns - attempt.since_ns < self.span_ns(self.options.answer)
            self.backoff.learn(any(map(self.is_mutual, missing)), in_time and len(attempt.promises) > 1)
            attempt.proposal, attempt.sent_ns = proposal, self.host.now_ns
            self.send_to(self.audience(proposal), self.about_view(Propose, attempt.ballot, proposal))
            self.consider(attempt.ballot, proposal)

    def bound_proposal(self, attempt: Attempt) -> Proposal | None:
        """What may have been decided under an earlier ballot: the accepted proposal of the highest one."""
        bound = [promise.accepted for promise in attempt.promises.values() if promise.accepted is not None]
        return max(bound, key=lambda one: one[0])[1] if bound else None

    def make_proposal(self, attempt: Attempt) -> Proposal | None:
        """The next view and its cut, from the members' reports; None where they must not go on yet."""
        promises = {life: attempt.promises[life] for life in self.view.lives() if life in attempt.promises}
        ended = self.ended_seats(promises)
        reports = {life: one for life, one in promises.items() if one.report is not None and life not in ended}
        anew = not any(one.stateful for one in reports.values())  # one that has the layers goes on with what it has
        reporters = [
            Reporter(life, one.suspects, one.transfer.has_layers if anew else one.stateful, one.leaving)
            for life, one in reports.items()
        ]
        voters = [life for life, promise in promises.items() if promise.report is None]
        if not any(reporter.stateful for reporter in reporters):
            return self.restart(attempt)
        suspected = [life for life in self.view.lives() if self.is_suspected(life)]
        stay, leavers = staying(reporters, suspected, self.sitting)
        lives = [reporter.life for reporter in stay]
        joining = self.joining(lives)
        if not may_go_on(self.view, stay, leavers, voters, ended, joining):
            return None
        stateful = [reporter.life for reporter in stay if reporter.stateful][: 1 if anew else None]
        view = next_view(self.view, lives, joining, stateful, self.home.weights)
        cut = cut_of(self.view.members, self.reports(attempt, lives))
        having = tuple([life[0] for life in stateful])
        bases = {} if anew else {life[0]: promises[life].transfer for life in lives}
        tasks = assign_givers(view, having, bases, self.couriers, self.home.is_near)
        return Proposal(self.view.view_id, self.view.members, view, cut, having, transfers=tasks)

    def ended_seats(self, promises: Mapping[Life, Promise]) -> dict[Life, Life]:
        """The seats of lives that ended, each with the life after it."""
        found = {
            life: (life[0], promise.incarnation) for life, promise in promises.items() if promise.report is not None
        }
        return {seat: life for seat, life in found.items() if life > seat}

    def reports(self, attempt: Attempt, stay: Sequence[Life]) -> list[tuple[SiteId, tuple[Holding, ...]]]:  # noqa: ARG002
        """All reports, also of members that do not stay: they may have acted on what they delivered."""
        return [(life[0], promise.report) for life, promise in attempt.promises.items() if promise.report is not None]

    def restart(self, attempt: Attempt) -> Proposal | None:
        """A view of the voters, where no member has the state any more: new lives, full weights, nothing to flush."""
        view = restart_view(self.view, attempt.promises, self.me, self.home.weights)
        if view is None:
            return None
        heir = (heir_of(view, attempt.promises, self.host.site),)
        tasks = assign_givers(view, heir, {}, self.couriers, self.home.is_near)
        return Proposal(self.view.view_id, self.view.members, view, (), heir, True, tasks)

    # Promising

    def on_prepare(self, source: SiteId, message: Prepare) -> None:
        if self.concerns_view(source, message) and self.yields_to(source, message.ballot):
            self.send_to((source,), self.own_promise(message.ballot))

    def yields_to(self, source: SiteId, ballot: Ballot) -> bool:
        """Promise another's ballot; one that is too low, or too late as the successor is decided, is refused."""
        if self.decided is not None:
            self.send_to((source,), Decide(self.host.incarnation, self.decided))
            return False
        if ballot < self.ledger.promised or ballot[0] > self.ledger.promised[0] + LEAP_MAX:
            self.send_to((source,), self.about_view(Nack, self.ledger.promised))
            return False
        if self.attempt is not None and self.attempt.ballot < ballot:
            self.attempt = None
        if ballot > self.ledger.promised or not self.is_frozen():
            self.promise(ballot)
        return True

    def promise(self, ballot: Ballot) -> None:
        """Take no lower ballot, and freeze."""
        self.ledger.promised, self.ledger.promised_ns = ballot, self.host.now_ns
        self.freeze()
        self.save()

    def freeze(self) -> None:
        """Send, deliver, acknowledge and drop nothing more in this view."""
        if self.is_frozen():
            return
        self.become(FROZEN)
        self.frozen_ns = self.host.now_ns
        if self.transfer.has_layers:
            for layer in self.stack.turn_layers:  # what was submitted before belongs to this view
                layer.end_turn()
            transport = self.stack.find(Transport)
            transport.freeze()
            self.host.freeze()
            self.flush = flush_of(transport, self.view, self.piece_bytes())
        else:
            self.flush = self.new_flush(self.view.view_id)

    def report(self) -> tuple[Holding, ...] | None:
        """The frames of the closing view that this member, or the life before it, has; None after a crash."""
        if not self.is_member():
            return self.vectors
        if not self.transfer.has_layers:
            return ()
        transport = self.stack.find(Transport)
        found = []
        for origin in self.view.members:
            floor, delivered, held = transport.holding(origin)
            found.append(Holding(origin, floor, runs_of(delivered), runs_of(held)))
        return tuple(found)

    def own_promise(self, ballot: Ballot) -> Promise:
        accepted, report = self.ledger.accepted, self.report()
        state = (self.stateful or self.had_state, self.leaving, self.transfer.report())
        return self.about_view(Promise, ballot, accepted, report, self.suspects(), *state)

    def save(self) -> None:
        """Write down what must survive a crash."""
        if self.home.store is not None:
            ledger, record = self.ledger, None
            if self.is_seated():
                record = Record(self.view, self.seat, ledger.promised, ledger.accepted, self.decision)
            self.home.store.save(record)

    # Accepting

    def on_propose(self, source: SiteId, message: Propose) -> None:
        proposal, ballot = message.proposal, message.ballot
        if proposal.view_id == self.view.view_id:
            self.ledger.proposed_ns = self.host.now_ns
        if self.me in proposal.view.lives() and not (self.is_seated() and self.view.view_id >= proposal.view_id):
            if not self.is_current(source, message):
                return
            if not self.has_asked(proposal):
                self.end_life(None, keep_seat=True)
            elif self.supersedes(ballot, proposal):
                self.consider(ballot, proposal)
        elif self.concerns_view(source, message) and self.yields_to(source, ballot):
            self.consider(ballot, proposal)

    def has_asked(self, proposal: Proposal) -> bool:
        """Whether this life itself has asked for its place in a view that it is to join.

        A site without a file that is started twice within a second has the same incarnation in both lives. Others give
        the second the place of the first, whose promises, frames and message numbers it does not know. It can tell: all
        that go on into a view have answered the lives that they admit, and no site answers one that is in already.
        """
        if self.host.site in proposal.electors and proposal.restart:
            return True  # by the seat of an earlier life
        gone_on = [life for life in proposal.view.lives() if life[0] in proposal.stateful]
        return all(life in self.requests.answers for life in gone_on if life[0] in proposal.electors)

    def supersedes(self, ballot: Ballot, proposal: Proposal) -> bool:
        """Whether a joiner takes a proposal in the place of the one that it knows."""
        known = self.ledger.proposed
        return known is None or (proposal.view_id, ballot) >= (known[1].view_id, known[0])

    def consider(self, ballot: Ballot, proposal: Proposal) -> None:
        """Fetch what is lacking of a cut, and accept once it is all here."""
        ledger = self.ledger
        again = ledger.proposed is not None and ledger.proposed[0] == ballot == ledger.voted
        ledger.proposed = (ballot, proposal)
        if again:
            self.send_to((ballot[1],) if ballot[1] != self.host.site else (), self.vote(ballot, proposal))
            return
        self.aim(proposal)

    def aim(self, proposal: Proposal) -> None:
        """Set out to hold a cut."""
        if self.flush is None or self.flush.view_id != proposal.view_id:
            self.previous_flush, self.flush = self.flush or self.previous_flush, self.new_flush(proposal.view_id)
        if self.flush.cut != proposal.cut or not self.flush.sites:
            sites = dict.fromkeys((*proposal.electors, *proposal.view.members))
            others = tuple([site for site in sites if site != self.host.site])
            self.flush.aim(proposal.cut, others, self.host.now_ns)
        self.complete()
        self.fetch()

    def vote(self, ballot: Ballot, proposal: Proposal) -> Accepted:
        seat = self.seat if self.is_seated() else self.host.incarnation
        return Accepted(self.host.incarnation, seat, proposal.view_id, ballot)

    def complete(self) -> None:
        """Accept the proposal, or go on into the decided view, if the cut is all here."""
        if self.flush is None or self.flush.lacking:
            return
        proposed = self.ledger.proposed
        if self.decided is not None:
            self.close()
        elif proposed is not None and self.ledger.voted != proposed[0] and self.may_accept(*proposed):
            self.accept(*proposed)

    def may_accept(self, ballot: Ballot, proposal: Proposal) -> bool:
        """Whether no higher ballot was promised while the cut was on its way."""
        return not self.is_seated() or proposal.view_id != self.view.view_id or ballot >= self.ledger.promised

    def accept(self, ballot: Ballot, proposal: Proposal) -> None:
        self.ledger.voted = ballot
        if self.is_seated() and proposal.view_id == self.view.view_id:
            self.ledger.accepted = (ballot, proposal)
            self.save()
        vote = self.vote(ballot, proposal)
        self.send_to(tuple([site for site in proposal.electors if site != self.host.site]), vote)
        self.note_vote(self.host.site, vote)

    def on_accepted(self, source: SiteId, message: Accepted) -> None:
        """Count a vote; one for a view that is closed needs no answer, as its author will hear of the decision."""
        if message.view_id == self.view.view_id and self.concerns_view(source, message):
            self.note_vote(source, message)

    def note_vote(self, source: SiteId, vote: Accepted) -> None:
        """Count a vote; perhaps it decides."""
        if vote.view_id != self.view.view_id:
            return
        votes, proposed = self.ledger.note_vote(source, vote), self.ledger.proposed
        if proposed is None or proposed[0] != vote.ballot or self.decided is not None:
            return
        proposal = proposed[1]
        if self.is_decided(proposal, votes):
            if self.attempt is not None and self.attempt.ballot == vote.ballot:
                self.send_to(self.audience(proposal), Decide(self.host.incarnation, proposal))
            self.learn(proposal)

    def is_decided(self, proposal: Proposal, votes: Collection[Life]) -> bool:
        """Whether quorums of the old view and of the new one have accepted."""
        return quorum(self.view, votes) and quorum(proposal.view, votes)

    # Holding the cut

    def fetch(self) -> None:
        """Ask for what is missing of the cut, as far as the windows of the holders have room."""
        flush = self.flush
        if flush is None or not flush.lacking:
            return
        late_ns = self.span_ns(2 * self.options.answer)
        for site, wanted in flush.requests(self.host.now_ns, late_ns, self.unsuspected(flush) or flush.sites):
            for start in range(0, len(wanted), FETCH_MAX):
                asked = tuple(wanted[start : start + FETCH_MAX])
                self.send_to((site,), Fetch(self.host.incarnation, flush.view_id, self.piece_bytes(), asked))

    def unsuspected(self, flush: Flush) -> Targets:
        return tuple([site for site in flush.sites if not self.home.is_suspected(site)])

    def on_fetch(self, source: SiteId, message: Fetch) -> None:
        """Answer with frames of a view that closes, or that closed and that others have yet to leave; or deny them."""
        if not self.is_current(source, message):
            return
        found = [one for one in (self.flush, self.previous_flush) if one is not None and one.view_id == message.view_id]
        if not found and self.phase is NORMAL and self.view.view_id == message.view_id:  # it has yet to be asked
            found = [flush_of(self.stack.find(Transport), self.view, self.piece_bytes())]
        flush = found[0] if found else self.new_flush(message.view_id)
        for answer in flush.answer(message, self.host.incarnation, self.host.frame_bytes, self.stack.codec.encode):
            self.send_to((source,), answer)

    def on_frames(self, source: SiteId, message: Frames) -> None:
        flush, now_ns = self.flush, self.host.now_ns
        if not self.is_current(source, message) or flush is None or flush.view_id != message.view_id:
            return
        flush.take(now_ns, source, message, self.stack.codec)
        self.complete()
        self.fetch()

    def on_whole_frame(self, source: SiteId, _message: WholeFrame[Any]) -> None:
        raise RemoteError(f"site {source} sends a frame outside an answer to a request")

    def report_progress(self) -> None:
        """Tell the proposer of pieces that came since the last tick: it does not take a new ballot meanwhile."""
        flush, proposed = self.flush, self.ledger.proposed
        if flush is None or proposed is None or not flush.has_moved():
            return
        (ballot, proposal), incarnation = proposed, self.host.incarnation
        if ballot[1] == self.host.site:
            self.note_progress(ballot)
        elif proposal.view_id == flush.view_id:
            seat = self.seat if self.is_seated() else incarnation
            self.send_to((ballot[1],), Progress(incarnation, seat, proposal.view_id, ballot))

    def on_progress(self, source: SiteId, message: Progress) -> None:
        if self.is_current(source, message) and message.view_id == self.view.view_id:
            self.note_progress(message.ballot)

    def note_progress(self, ballot: Ballot) -> None:
        if self.attempt is not None and self.attempt.ballot == ballot:
            self.attempt.since_ns = self.host.now_ns

    def give_up(self) -> None:
        """Where frames of a cut are nowhere any more: end this life, or accept without them if it has none to deliver.

        Only with files: without one, a site that held a frame and is gone has taken its vote along, so that another
        proposal is made or the view is dead.
        """
        flush = self.flush
        if flush is None or self.home.store is None:
            return
        give_up_ns = self.span_ns(self.options.give_up)
        hopeless = flush.hopeless(self.host.now_ns, give_up_ns, self.unsuspected(flush))
        if hopeless and self.is_member():
            self.end_life(None, keep_seat=True)
        elif hopeless:
            flush.drop(hopeless)
            self.complete()

    # Deciding

    def on_decide(self, source: SiteId, message: Decide) -> None:
        proposal = message.proposal
        if not self.is_current(source, message) or (self.is_seated() and proposal.view_id < self.view.view_id):
            return
        if self.is_seated() and proposal.view_id == self.view.view_id:
            self.learn(proposal)
        elif self.me in proposal.view.lives():
            self.adopt(proposal)
        elif self.is_seated():
            self.end_seat(proposal)  # others are two views ahead: this seat cannot be among them

    def learn(self, proposal: Proposal) -> None:
        """Take the successor of this view for decided."""
        if self.decided is not None:
            return
        lives = proposal.view.lives()
        if self.is_member() and self.me in lives:
            self.freeze()
            self.become(DECIDED)
            self.decided = proposal
            self.aim(proposal)
        elif self.me in lives:
            self.adopt(proposal)
        elif self.sitting in lives and not self.is_member():
            self.enter(proposal.view, proposal, self.seat)
            self.flush = self.new_flush(self.view.view_id)
        else:
            self.freeze()
            self.end_seat(proposal)

    def close(self) -> None:
        """Deliver the cut and go on into the next view."""
        proposal, flush = self.decided, self.flush
        assert proposal is not None and flush is not None
        if self.transfer.has_layers:
            flush.deliver(self.stack.find(Transport))
        self.enter(proposal.view, proposal)
        if self.transfer.has_layers or proposal.begins_at(self.host.site):
            self.install_stack()

    def adopt(self, proposal: Proposal) -> None:
        """Join a view."""
        if not self.has_asked(proposal):
            self.end_life(None, keep_seat=True)
            return
        self.enter(proposal.view, proposal)
        if proposal.begins_at(self.host.site):
            self.install_stack()

    def enter(self, view: View, decision: Proposal | None, seat: int | None = None) -> None:
        """Be in a view, with nothing promised or accepted; `seat` is given for an earlier life, as whose it votes."""
        self.become(ENTERED if seat is None else VOTER)
        self.view, self.decision, self.entered_ns = view, decision, self.host.now_ns
        self.seat = self.host.incarnation if seat is None else seat
        self.vectors = None if self.vectors is None else ()  # a life that is over never had anything in this view
        self.had_state = self.had_state and seat is not None
        self.known.learn((*view.lives(), *view.last))
        self.ledger = Ledger()
        self.backoff.attempt_count = 0
        self.attempt = self.nudged_ns = self.decided = self.rested_ns = None
        self.previous_flush, self.flush = self.flush, None
        self.heard.clear()
        self.leavers.clear()
        self.requests.forget(view.lives())
        self.save()
        self.send_to(self.others(), self.about_view(Here, self.stateful, self.leaving))
        if seat is None:
            self.transfer.enter()

    def on_gone(self, source: SiteId, message: Gone) -> None:
        """Learn that others have gone on without this site."""
        if not self.is_current(source, message) or message.view_id <= self.view.view_id:
            return
        if message.gone_incarnation == self.host.incarnation:
            self.end_life(None)
        elif message.gone_incarnation == self.seat:
            self.give_seat_up()

    def end_seat(self, proposal: Proposal) -> None:
        """End this life, as others go on without it; where only the seat of an earlier life ends, go on asking."""
        if self.leaving or self.is_member():
            self.end_life(proposal)
        else:
            self.give_seat_up()

    def give_seat_up(self) -> None:
        self.become(OUT)
        self.view, self.seat, self.attempt, self.vectors = View(0, ()), NOBODY, None, None
        self.previous_flush, self.flush = self.flush or self.previous_flush, None
        self.ledger.promised, self.ledger.accepted = NO_BALLOT, None
        self.save()

    def end_life(self, decision: Proposal | None, keep_seat: bool = False, told: int = NOBODY) -> None:
        """End this life; the next one still tells others what this one knew. One that leaves has no next."""
        if self.phase in (INSTALLING, ENDED):
            return
        past = self.past(decision, keep_seat, told)
        self.become(ENDED)
        if self.leaving:
            self.home.left()
            return
        if not keep_seat:
            self.seat = NOBODY
            self.save()
        self.home.renew(past)

    def past(self, decision: Proposal | None = None, keep_seat: bool = True, told: int = NOBODY) -> Past:
        """What this life leaves to the next one of the same process."""
        ended = None
        if keep_seat and self.is_seated():
            if self.is_member():
                self.freeze()
            ledger = self.ledger
            had = (self.view, self.seat, ledger.promised, ledger.accepted)
            ended = EndedSeat(*had, self.report(), self.flush, self.decided, self.stateful or self.had_state)
        flush = self.previous_flush if ended is not None else self.flush or self.previous_flush
        return Past(decision or self.decision, flush, ended, told, tuple(self.known.highest.items()))

    # Joiners

    def on_join(self, source: SiteId, message: Join) -> None:
        """Note a request to join; tell one that is in the view already, or is below a known life."""
        known = self.known.of(source)
        if message.incarnation < known and self.phase not in (INSTALLING, ENDED):
            self.tell_behind(source, message.incarnation, known)
        if not self.is_current(source, message):
            return
        seated = self.is_seated() and (source, message.incarnation) in self.view.lives()
        if seated and self.decision is not None:  # also by the file: perhaps no other site knows any more
            self.send_to((source,), Decide(self.host.incarnation, self.decision))
        elif self.is_member() and (seated or message.incarnation <= dict(self.view.last).get(source, -1)):
            # one in the view since the foundation cannot have asked: its author repeats an incarnation
            self.tell_behind(source, message.incarnation, known)
        elif not seated:
            self.requests.note(source, message, self.host.now_ns)
            self.wake()
            self.send_to((source,), JoinAck(self.host.incarnation, message.incarnation, message.asked_ns))
            if self.phase is NORMAL and self.attempt is None and self.can_admit_all():
                self.act()

    def can_admit_all(self) -> bool:
        """Whether this member may admit every site that asks: nothing is gained by waiting for more requests."""
        unsuspected = [life for life in self.view.lives() if not self.is_suspected(life)]
        return self.coordinator() == self.sitting and len(self.joining(unsuspected)) == len(self.joiners())

    def ask_to_join(self, *sites: SiteId) -> None:
        """Ask some sites to be admitted, or all."""
        others = sites or tuple([site for site in self.home.contacts if site != self.host.site])
        now_ns = self.host.now_ns
        self.send_to(others, Join(self.host.incarnation, now_ns, self.requests.answered(now_ns)))

    def tell_behind(self, source: SiteId, asked: int, known: int) -> None:
        self.home.note_behind(source, asked, known)
        self.send_to((source,), Behind(self.host.incarnation, asked, known))

    def on_behind(self, source: SiteId, message: Behind) -> None:
        """Come back above the highest life of this site that others know."""
        incarnation = self.host.incarnation
        if not self.is_current(source, message) or self.is_member() or message.asked_incarnation != incarnation:
            return
        weights = {site: self.home.weights.get(site, 1) for site in self.home.contacts if site != self.host.site}
        told = self.known.note_behind(source, message.highest, incarnation, weights)
        if told is not None and told >= incarnation:
            self.end_life(None, keep_seat=True, told=told)

    def on_join_ack(self, source: SiteId, message: JoinAck) -> None:
        if not self.is_current(source, message) or message.asked_incarnation != self.host.incarnation:
            return
        is_last = (source, message.incarnation) not in self.requests.answers
        self.requests.note_answer(source, message)
        answered = {self.host.site, *[life[0] for life in self.requests.answers]}
        if is_last and not self.is_member() and answered.issuperset(self.home.contacts):
            self.ask_to_join()

    # The application's state

    def install_stack(self) -> None:
        """Have the stack install the view; it has the state of its layers, or takes it over then."""
        self.become(INSTALLING)
        self.host.install(self.view)
        self.host.resume()

    def install(self, view: View) -> None:  # noqa: ARG002
        self.become(NORMAL)

    def resume(self) -> None:
        """Take over the state, or take a snapshot of it for members that lack it; then let traffic flow."""
        try:
            self.transfer.open()
        except RemoteError:  # no valid state: this life is of no use, and the next one asks another member
            self.host.trace(Kind.REJECT, value=self.transfer.giver or 0)
            self.end_life(None)
            return
        self.above.resume()
        if self.leaving:
            self.leave_if_alone()

    def sources(self) -> Targets:
        """The other members that have the state, as far as known, and are not suspected."""
        given = () if self.decision is None else self.decision.stateful
        lives = [life for life in self.view.lives() if life[0] in given or self.heard.get(life[0], False)]
        return tuple([life[0] for life in lives if life[0] != self.host.site and not self.is_suspected(life)])

    def on_state_ask(self, source: SiteId, message: StateAsk) -> None:
        if self.is_current(source, message):
            self.transfer.on_ask(source, message)

    def on_state_piece(self, source: SiteId, message: StatePiece) -> None:
        if self.is_current(source, message) and (self.phase is ENTERED or self.transfer.has_layers):
            self.transfer.on_piece(source, message)

    def stop(self, why: str) -> None:
        """Leave, as the application's state failed here."""
        self.home.fail(why)
        self.leave()
