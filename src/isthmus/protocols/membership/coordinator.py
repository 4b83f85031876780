"""The coordinator's part of the agreement: when to act, whom to wait for, what to propose.

Any member may find that it coordinates, and several may at the same time: ballots sort that out. One that does not, but
sees a reason to act, nudges the one that should.

A coordinator waits some round trips for the promises of those whom nobody suspects. Where packets are lost often, over
several links, that is too short: somebody is left out of every view, comes back, and the view that takes it in leaves
out another. So each view that leaves out a member which nobody suspects doubles the patience with the next, and each
that all have promised in the usual time takes that back.
"""

from __future__ import annotations

from collections.abc import Sequence

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Life
from isthmus.core.message import SiteId, Targets
from isthmus.protocols.membership.choice import Joiner, Reporter, admitted, next_view, reconciled, staying
from isthmus.protocols.membership.cut import Holding, cut_of
from isthmus.protocols.membership.home import AgreementOptions, Home
from isthmus.protocols.membership.quorum import quorum, weight
from isthmus.protocols.membership.serving import Server
from isthmus.protocols.membership.wire import Ballot, Decide, Nack, Nudge, Prepare, Promise, Proposal, Propose

DOUBLINGS_MAX = 5  # of the patience with others, from one attempt to the next


class Attempt:
    """A ballot of ours."""

    __slots__ = ("ballot", "promises", "proposal", "sent_ns", "since_ns")

    def __init__(self, ballot: Ballot, since_ns: int) -> None:
        self.ballot = ballot
        self.since_ns = since_ns
        self.sent_ns = since_ns  # when all, or all who had not answered, were last asked
        self.promises: dict[Life, Promise] = {}  # by seat
        self.proposal: Proposal | None = None  # once it is made


class Coordinator(Server):
    """A member that may coordinate the change of its view."""

    __slots__ = ("attempt", "attempt_count", "lenience", "nudged_ns", "round_seen", "votes")

    def __init__(self, home: Home, options: AgreementOptions | None = None) -> None:
        super().__init__(home, options)
        self.attempt: Attempt | None = None
        self.attempt_count = 0  # ballots of ours in this view
        self.lenience = 0  # doublings of the patience, whatever the view: views of ours that left out a live member
        self.nudged_ns: int | None = None  # when somebody last asked us to act in this view
        self.round_seen = 0  # the highest round heard of in this view
        self.votes: dict[Ballot, dict[Life, bool]] = {}  # who accepted what

    # When to act

    def wants_change(self) -> bool:
        """Whether this member itself sees a reason."""
        underweight = self.stateful and weight(self.view, self.me) < self.home.weights.get(self.host.site, 1)
        return self.frozen or bool(self.suspects()) or self.is_distrusted() or self.can_leave() or underweight

    def can_leave(self) -> bool:
        """Whether this member leaves, and another has the state to go on with."""
        given = self.view.members if self.decision is None else self.decision.stateful
        return self.leaving and any(site in given or self.heard.get(site, False) for site in self.others())

    def is_distrusted(self) -> bool:
        """Whether a member has said that it suspects us: one that hears nobody cannot leave or acknowledge anything."""
        return any(map(self.home.suspects_us, self.others()))

    def has_reason(self) -> bool:
        """Whether a coordinator has one."""
        fresh_ns = self.host.now_ns - self.span_ns(self.options.fresh)
        nudged = self.nudged_ns is not None and self.nudged_ns > fresh_ns
        return self.wants_change() or nudged or bool(self.joining(self.unsuspected()))

    def unsuspected(self) -> list[Life]:
        return [life for life in self.view.lives() if not self.is_suspected(life)]

    def joining(self, stay: list[Life]) -> list[Life]:
        """The lives that could join some that stay."""
        last = dict(self.view.last) or dict(self.view.lives())
        return admitted(self.joiners(), stay, last)

    def joiners(self) -> list[Joiner]:
        found = self.requests.joiners(self.host.now_ns)
        return [joiner for joiner in found if not self.is_suspected(joiner.life) and joiner.life != self.me]

    def act(self) -> None:
        """Do what is due: begin or repeat an attempt, or ask the coordinator to."""
        if not self.is_seated() or self.decided is not None or self.installing:
            return
        first = self.coordinator()
        if first != self.sitting and not self.passes_over():
            self.attempt = None
            if first is not None and self.wants_change():
                self.say((first[0],), self.nudge(self.suspects(), self.promised[0]))
            return
        attempt, now_ns = self.attempt, self.host.now_ns
        patience_ns = self.patience_ns(self.options.attempt)
        if attempt is None:
            waits = self.has_rival() and now_ns - self.promised_ns < patience_ns
            if self.has_reason() and not waits:
                self.begin()
        elif now_ns - attempt.since_ns >= patience_ns:
            self.begin()
        else:
            self.repeat(attempt)

    def passes_over(self) -> bool:
        """Whether all who are more senior have had their time: they may not reach a quorum that this member reaches.

        Where sites 0 and 3, and 0 and 4, are cut off from each other, and 1 is dead, 0 coordinates in the eyes of 2 and
        reaches only 2; yet 2, 3 and 4 are a quorum.
        """
        order = [life for life in self.view.lives() if self.is_mutual(life)]
        if not self.frozen or self.sitting not in order:
            return False
        return self.host.now_ns - self.frozen_ns >= order.index(self.sitting) * self.span_ns(self.options.give_up)

    def has_rival(self) -> bool:
        """Whether another's ballot was promised that may succeed."""
        proposer = (self.promised[1], self.promised[2])
        return self.frozen and self.promised_ns > 0 and proposer != self.me and self.is_mutual(proposer)

    def patience_ns(self, round_trips: float) -> int:
        """How long to wait for others: longer with each attempt, as a round trip may take longer than is usual."""
        return self.span_ns(round_trips) << min(max(0, self.attempt_count - 1) + self.lenience, DOUBLINGS_MAX)

    def nudge(self, suspects: Targets, round_: int, passed_on: bool = False) -> Nudge:
        return Nudge(self.host.incarnation, self.seat, self.view.view_id, suspects, round_, passed_on)

    def on_nudge(self, source: SiteId, word: Nudge) -> None:
        if not self.in_view(source, word):
            return
        self.round_seen = max(self.round_seen, word.round)
        first = self.coordinator()
        if first == self.sitting:
            self.nudged_ns = self.host.now_ns
            if self.attempt is None:
                self.act()
        elif first is not None and not word.passed_on and first[0] != source:
            self.say((first[0],), self.nudge(word.suspects, word.round, passed_on=True))

    # Promises

    def begin(self) -> None:
        """Ask all members for a promise to a new ballot."""
        ballot = self.next_ballot()
        self.attempt = attempt = Attempt(ballot, self.host.now_ns)
        self.attempt_count += 1
        self.promise(ballot)
        attempt.promises[self.sitting] = self.own_promise(ballot)
        self.say(self.others(), self.prepare(ballot))
        self.try_propose()

    def next_ballot(self) -> Ballot:
        return (max(self.promised[0], self.round_seen) + 1, *self.me)

    def prepare(self, ballot: Ballot) -> Prepare:
        return Prepare(self.host.incarnation, self.seat, self.view.view_id, ballot)

    def repeat(self, attempt: Attempt) -> None:
        """Ask those who have not answered once more, after a round trip; nobody may be awaited any longer."""
        late = self.host.now_ns - attempt.sent_ns > self.home.round_trip_ns
        if attempt.proposal is None and not late:
            self.try_propose()
        if not late:
            return
        attempt.sent_ns = self.host.now_ns
        if attempt.proposal is None:
            promised = [life[0] for life in attempt.promises]
            self.say(tuple([site for site in self.others() if site not in promised]), self.prepare(attempt.ballot))
            self.try_propose()
            return
        accepted = [life[0] for life in self.votes.get(attempt.ballot, {})]
        targets = [site for site in self.audience(attempt.proposal) if site not in accepted]
        self.say(tuple(targets), self.propose(attempt.ballot, attempt.proposal))

    def propose(self, ballot: Ballot, proposal: Proposal) -> Propose:
        return Propose(self.host.incarnation, self.seat, self.view.view_id, ballot, proposal)

    def audience(self, proposal: Proposal) -> Targets:
        """The other members of the new view, then those of the old one."""
        sites = dict.fromkeys((*proposal.view.members, *proposal.electors))
        return tuple([site for site in sites if site != self.host.site])

    def on_prepare(self, source: SiteId, word: Prepare) -> None:
        if not self.in_view(source, word):
            return
        if word.ballot[1:] != (source, word.incarnation) or (source, word.seat) not in self.view.lives():
            raise RemoteError(f"site {source} asks for a promise to the ballot {word.ballot} of another")
        if self.decided is not None:
            self.say((source,), Decide(self.host.incarnation, self.decided))
        elif word.ballot < self.promised:
            self.refuse(source)
        else:
            self.yield_to(word.ballot)
            self.say((source,), self.own_promise(word.ballot))

    def yield_to(self, ballot: Ballot) -> None:
        """Promise a ballot of another's."""
        if self.attempt is not None and self.attempt.ballot < ballot:
            self.attempt = None
        if ballot > self.promised or not self.frozen:
            self.promise(ballot)

    def refuse(self, source: SiteId) -> None:
        self.say((source,), Nack(self.host.incarnation, self.seat, self.view.view_id, self.promised))

    def on_nack(self, source: SiteId, word: Nack) -> None:
        if self.in_view(source, word):
            self.round_seen = max(self.round_seen, word.promised[0])
            if self.attempt is not None and self.attempt.ballot < word.promised:
                self.attempt = None

    def on_promise(self, source: SiteId, word: Promise) -> None:
        if not self.in_view(source, word) or self.attempt is None or word.ballot != self.attempt.ballot:
            return
        if (source, word.seat) not in self.view.lives():
            raise RemoteError(f"site {source} promises for a seat {word.seat} that view {word.view_id} does not have")
        self.attempt.promises[source, word.seat] = word
        self.try_propose()

    # The proposal

    def is_awaited(self, life: Life, attempt: Attempt) -> bool:
        """Whether a member that has not promised may still be worth waiting for."""
        patient = self.host.now_ns - attempt.since_ns < self.patience_ns(self.options.answer)
        return patient and self.is_mutual(life)

    def try_propose(self) -> None:
        """Make a proposal once a quorum has promised and nobody is awaited."""
        attempt = self.attempt
        if attempt is None or attempt.proposal is not None or not quorum(self.view, list(attempt.promises)):
            return
        if any(life not in attempt.promises and self.is_awaited(life, attempt) for life in self.view.lives()):
            return
        proposal = self.bound_proposal(attempt) or self.make_proposal(attempt)
        if proposal is not None:
            self.judge_patience(attempt)
            attempt.proposal, attempt.sent_ns = proposal, self.host.now_ns
            self.say(self.audience(proposal), self.propose(attempt.ballot, proposal))
            self.consider(attempt.ballot, proposal)

    def judge_patience(self, attempt: Attempt) -> None:
        """Learn from an attempt how long to wait in the next."""
        if any(life not in attempt.promises and self.is_mutual(life) for life in self.view.lives()):
            self.lenience = min(self.lenience + 1, DOUBLINGS_MAX)
        elif self.lenience and self.host.now_ns - attempt.since_ns < self.span_ns(self.options.answer):
            self.lenience -= 1

    def bound_proposal(self, attempt: Attempt) -> Proposal | None:
        """What may have been decided under an earlier ballot: the proposal of the highest that anybody accepted."""
        bound = [word.accepted for word in attempt.promises.values() if word.accepted is not None]
        return max(bound, key=lambda one: one[0])[1] if bound else None

    def consider(self, ballot: Ballot, proposal: Proposal) -> None:
        """See to it that a proposal can be accepted."""
        raise NotImplementedError

    def make_proposal(self, attempt: Attempt) -> Proposal | None:
        """The next view and its cut, from what the members have reported; None where they must not go on yet."""
        seats = [life for life in self.view.lives() if life in attempt.promises]
        words = [attempt.promises[life] for life in seats]
        reporters = [
            Reporter(life, word.suspects, word.stateful, word.leaving)
            for life, word in zip(seats, words, strict=True)
            if word.report is not None
        ]
        voters = [life for life, word in zip(seats, words, strict=True) if word.report is None]
        suspected = [life for life in self.view.lives() if self.is_suspected(life)]
        if not any(reporter.stateful for reporter in reporters):
            return self.restart(attempt)
        stay = staying(self.view, reporters, voters, suspected, self.sitting)
        if stay is None:
            return None
        lives = [reporter.life for reporter in stay]
        stateful = [reporter.life for reporter in stay if reporter.stateful]
        view = next_view(self.view, lives, self.joining(lives), stateful, self.home.weights)
        cut = cut_of(self.view.members, self.reports(attempt, lives))
        return Proposal(self.view.view_id, self.view.members, view, cut, tuple([life[0] for life in stateful]))

    def reports(self, attempt: Attempt, stay: Sequence[Life]) -> list[tuple[SiteId, tuple[Holding, ...]]]:  # noqa: ARG002
        """All reports, also of those that do not stay: what they handed up they may have answered to."""
        return [(life[0], word.report) for life, word in attempt.promises.items() if word.report is not None]

    def restart(self, attempt: Attempt) -> Proposal | None:
        """A view of those who voted, where nobody has the state any more: new lives, full weights, nothing to flush."""
        back = [life[0] for life, word in attempt.promises.items() if word.incarnation > life[1]]
        present = [  # who suspects a site that is back means the life that it had
            Reporter(
                (life[0], word.incarnation),
                tuple([site for site in word.suspects if site not in back]),
                stateful=False,
                leaving=word.leaving,
            )
            for life, word in attempt.promises.items()
        ]
        order = {site: place for place, site in enumerate(self.view.members)}
        present.sort(key=lambda one: order[one.life[0]])
        stay = [one.life for one in reconciled([one for one in present if not one.leaving], self.me)]
        sites = [life[0] for life in stay]
        if not quorum(self.view, [life for life in attempt.promises if life[0] in sites]):
            return None
        view = next_view(self.view, stay, [], stay, self.home.weights)
        return Proposal(self.view.view_id, self.view.members, view, (), view.members, restart=True)
