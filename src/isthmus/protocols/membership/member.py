"""A member of a group as far as it concerns itself: its view and seat, what it promised, whom it takes for dead.

The base of the agreement (coordinator.py, agreement.py), which says what all this is for.
"""

from __future__ import annotations

from isthmus.core.layer import Layer, Life, View
from isthmus.core.message import SiteId, Targets
from isthmus.protocols.membership.cut import Holding, runs_of
from isthmus.protocols.membership.flush import Flush, frames_of
from isthmus.protocols.membership.home import AgreementOptions, Home, Record
from isthmus.protocols.membership.joining import Requests
from isthmus.protocols.membership.wire import (
    NO_BALLOT,
    Ballot,
    Decide,
    Gone,
    Here,
    Nudge,
    Promise,
    Proposal,
    Said,
    Word,
)
from isthmus.protocols.transport.base import Transport

NOBODY = -1  # as a seat: none


class Member(Layer):
    """The state of one life in the membership of one group."""

    __slots__ = (
        *(
            "accepted",
            "decided",
            "decision",
            "entered_ns",
            "flush",
            "frozen",
            "frozen_ns",
            "heard",
            "home",
            "installing",
            "known",
        ),
        *(
            "leaving",
            "old",
            "options",
            "promised",
            "promised_ns",
            "requests",
            "seat",
            "stateful",
            "told_behind",
            "view",
        ),
    )

    def __init__(self, home: Home, options: AgreementOptions | None = None) -> None:
        self.home = home
        self.options = options or AgreementOptions()
        self.view = View(0, ())  # the last that is decided and known here; 0: none
        self.seat = NOBODY  # the incarnation that sits in it for this site
        self.stateful = False  # the stack is in the view, with the application's state
        self.installing = False  # the host has yet to carry out the installation
        self.frozen = False
        self.frozen_ns = 0  # since when
        self.leaving = False
        self.promised: Ballot = NO_BALLOT
        self.promised_ns = 0  # when
        self.accepted: tuple[Ballot, Proposal] | None = None
        self.decided: Proposal | None = None  # of this view, while its cut is not all here
        self.decision: Proposal | None = None  # that led to this view, or that left the life before this one out
        self.entered_ns = 0  # when this view was entered
        self.flush: Flush | None = None  # of the view that closes
        self.old: Flush | None = None  # of the view before, for those who are behind
        self.heard: dict[SiteId, bool] = {}  # members that were heard in this view: whether they have the state
        self.known: dict[SiteId, int] = {}  # the highest incarnation heard of
        self.told_behind: dict[SiteId, int] = {}  # who was asked for a newer view since the last tick
        self.requests = Requests(self.span_ns(self.options.fresh))

    def span_ns(self, round_trips: float) -> int:
        return round(round_trips * self.home.round_trip_ns)

    def start(self) -> None:
        self.known[self.host.site] = self.host.incarnation
        past, record = self.home.past, self.home.store.load() if self.home.store is not None else None
        if past is not None:
            self.decision, self.old = past.decision, past.flush
        if record is not None:
            self.view, self.seat, self.promised, self.accepted = (
                *(record.view, record.seat, record.promised, record.accepted),
            )
            self.decision = record.decision or self.decision
            self.frozen = True  # and for good: what this seat had handed up is forgotten
            self.flush = Flush(self.view.view_id, {})

    # Who is who

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

    def is_suspected(self, life: Life) -> bool:
        """Whether a life is suspected, or a later one of its site proves it dead."""
        return self.known.get(life[0], NOBODY) > life[1] or (
            life[0] != self.host.site and self.home.is_suspected(life[0])
        )

    def suspects(self) -> Targets:
        return tuple([life[0] for life in self.view.lives() if life != self.sitting and self.is_suspected(life)])

    def is_mutual(self, life: Life) -> bool:
        """Whether a life and this site trust each other; one that suspects us may hear nobody, and wait for ever."""
        return not self.is_suspected(life) and not self.home.suspects_us(life[0])

    def coordinator(self) -> Life | None:
        """The most senior in mutual trust; where nobody has memory, the most senior seat whose site is there."""
        lives = self.view.lives()
        present = [life for life in lives if life[0] == self.host.site or not self.home.is_suspected(life[0])]
        return next((life for life in lives if self.is_mutual(life)), next(iter(present), None))

    def others(self) -> Targets:
        return tuple([site for site in self.view.members if site != self.host.site])

    # Promises

    def promise(self, ballot: Ballot) -> None:
        """Take no lower ballot, and freeze."""
        self.promised, self.promised_ns = ballot, self.host.now_ns
        self.freeze()
        self.save()

    def freeze(self) -> None:
        """Send, hand up, acknowledge and drop nothing more in this view."""
        if self.frozen:
            return
        self.frozen, self.frozen_ns = True, self.host.now_ns
        frames = {}
        if self.stateful:
            for layer in self.stack.turn_layers:  # what was submitted before belongs to this view
                layer.end_turn()
            transport = self.stack.find(Transport)
            transport.freeze()
            self.host.freeze()
            frames = frames_of(transport, self.view)
        self.flush = Flush(self.view.view_id, frames)

    def report(self) -> tuple[Holding, ...] | None:
        """What this member has of the closing view; None where it votes by its file alone."""
        if not self.is_member():
            return None
        if not self.stateful:
            return ()
        transport = self.stack.find(Transport)
        found = []
        for origin in self.view.members:
            floor, handed_up, held = transport.holding(origin)
            found.append(Holding(origin, floor, runs_of(handed_up), runs_of(held)))
        return tuple(found)

    def own_promise(self, ballot: Ballot) -> Promise:
        return Promise(
            *(self.host.incarnation, self.seat, self.view.view_id, ballot, self.accepted, self.report()),
            *(self.suspects(), self.stateful, self.leaving),
        )

    def save(self) -> None:
        """Write down what must not be forgotten."""
        if self.home.store is not None:
            seated = self.is_seated()
            record = Record(self.view, self.seat, self.promised, self.accepted, self.decision) if seated else None
            self.home.store.save(record)

    # Words

    def say(self, targets: Targets, word: Word) -> None:
        if targets:
            self.send(targets, word)

    def hears(self, source: SiteId, word: Word) -> bool:
        """Whether a word counts: it is not of an earlier life; while a view is being installed none does."""
        if self.installing or word.incarnation < self.known.get(source, NOBODY):
            return False
        self.known[source] = word.incarnation
        return True

    def in_view(self, source: SiteId, word: Said) -> bool:
        """Whether a word is about the view that we are in; where not, those who are behind are told."""
        if not self.hears(source, word):
            return False
        if word.view_id == self.view.view_id and self.is_seated():
            return True
        if self.decision is not None and self.decision.view_id == word.view_id:
            if not self.is_on_its_way(word):
                self.say((source,), Decide(self.host.incarnation, self.decision))
        elif word.view_id < self.view.view_id:
            if self.is_member() and (source, word.seat) not in self.view.lives():
                self.say((source,), Gone(self.host.incarnation, self.view.view_id, word.seat))
        else:
            self.tell_behind(source)
        return False

    def is_on_its_way(self, word: Said) -> bool:
        """Whether the decision is still on its way to the author of a word, who asks again with its next tick."""
        recent = self.host.now_ns - self.entered_ns < self.span_ns(self.options.tick)
        return recent and isinstance(word, Here | Nudge) and self.is_member()

    def tell_behind(self, source: SiteId) -> None:
        """Let a site that is further than we are know where we are; once per tick."""
        if self.is_seated() and source not in self.told_behind:
            self.told_behind[source] = self.view.view_id
            self.say((source,), self.here())

    def here(self) -> Here:
        return Here(self.host.incarnation, self.seat, self.view.view_id, self.stateful)
