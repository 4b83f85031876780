"""Wrong readings of the agreement on views, each planted in a subclass or in the place of one of its pure functions.

Each must be found by random scenarios with agreed membership. A bug is a membership to plant and functions to replace;
`file` says that it needs runs with the small file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from tests.harness.membership_bench import Bench, Site

from isthmus.core.layer import Handler, Life, View
from isthmus.core.message import Message, SiteId
from isthmus.protocols.membership import cut as cuts
from isthmus.protocols.membership.agreement import FROZEN, Agreement
from isthmus.protocols.membership.cut import CutSlice, Holding, numbers_of, runs_of
from isthmus.protocols.membership.flush import flush_of
from isthmus.protocols.membership.home import Past
from isthmus.protocols.membership.ledger import Attempt
from isthmus.protocols.membership.quorum import quorum, weights_of
from isthmus.protocols.membership.succession import Joiner, Reporter, next_view
from isthmus.protocols.membership.wire import (
    Ballot,
    MembershipMessage,
    Nudge,
    Prepare,
    Promise,
    Proposal,
    Propose,
    ViewMessage,
)
from isthmus.protocols.transport.base import Transport
from isthmus.protocols.transport.reliable.frames import Ack, Data, Nak, Repair, Status, Stream, frame_bytes
from isthmus.protocols.transport.reliable.reliable import Reliable
from isthmus.protocols.transport.reliable.stability import Stability
from isthmus.protocols.transport.safe import Safe

replace = msgspec.structs.replace
PATH = "isthmus.protocols.membership."
BENCH = "tests.harness.membership_bench."


class Bug(msgspec.Struct, frozen=True):
    """What is planted."""

    kind: type[Agreement] = Agreement
    patches: Mapping[str, Any] = {}
    file: bool = False


# Quorums


class NewViewOnly(Agreement):
    """A quorum of the new view decides; the old one is not asked."""

    __slots__ = ()

    def is_decided(self, proposal: Proposal, votes: Collection[Life]) -> bool:
        return quorum(proposal.view, votes)


def anybody(_view: View, lives: Collection[Life]) -> bool:
    return bool(lives)


def half(view: View, lives: Collection[Life]) -> bool:
    """Half of the weight is enough, without a tie-break."""
    found = sum(vote for member, vote in zip(view.lives(), weights_of(view), strict=True) if member in lives)
    return 2 * found >= sum(weights_of(view))


class JoinersCount(Agreement):
    """Any site that accepted counts for the old view, too."""

    __slots__ = ()

    def is_decided(self, proposal: Proposal, votes: Collection[Life]) -> bool:
        sites = {life[0] for life in votes}
        return 2 * len(sites) >= len(self.view.members) and quorum(proposal.view, votes)


# The cut


class OwnKnowledge(Agreement):
    """The cut is what the coordinator itself has."""

    __slots__ = ()

    def reports(self, attempt: Attempt, stay: Sequence[Life]) -> list[tuple[SiteId, tuple[Holding, ...]]]:
        return [found for found in super().reports(attempt, stay) if found[0] == self.host.site]


class ReportsOfStayers(Agreement):
    """Only reports of those that go on count."""

    __slots__ = ()

    def reports(self, attempt: Attempt, stay: Sequence[Life]) -> list[tuple[SiteId, tuple[Holding, ...]]]:
        sites = [life[0] for life in stay]
        return [found for found in super().reports(attempt, stay) if found[0] in sites]


class ExcludedDropped(Agreement):
    """Messages of those that do not go on are left out of the cut."""

    __slots__ = ()

    def make_proposal(self, attempt: Attempt) -> Proposal | None:
        made = super().make_proposal(attempt)
        if made is None:
            return None
        kept = tuple(
            part if part.origin in made.view.members else CutSlice(part.origin, part.floor, (), ()) for part in made.cut
        )
        return replace(made, cut=kept)


def what_all_have(origin: SiteId, reports: Sequence[tuple[SiteId, Sequence[Holding]]]) -> CutSlice:
    made = right_slice_of(origin, reports)
    found = [one for _, report in reports for one in report if one.origin == origin]
    common = set(numbers_of(made.numbers))
    for one in found:
        common &= set(numbers_of(one.delivered)) | set(numbers_of(one.held))
    return CutSlice(made.origin, made.floor, runs_of(common), made.holders)


def contiguous_only(origin: SiteId, reports: Sequence[tuple[SiteId, Sequence[Holding]]]) -> CutSlice:
    made = right_slice_of(origin, reports)
    numbers, top = set(numbers_of(made.numbers)), made.floor
    while top + 1 in numbers:
        top += 1
    return CutSlice(origin, made.floor, runs_of(number for number in numbers if number <= top), made.holders)


def everything_held(origin: SiteId, reports: Sequence[tuple[SiteId, Sequence[Holding]]]) -> CutSlice:
    made = right_slice_of(origin, reports)
    held = {
        number for _, report in reports for one in report if one.origin == origin for number in numbers_of(one.held)
    }
    numbers = set(numbers_of(made.numbers)) | {number for number in held if number > made.floor}
    return CutSlice(origin, made.floor, runs_of(numbers), made.holders)


right_slice_of = cuts.slice_of


class UnreportedTakenIn(Agreement):
    """A member that is not suspected stays, whether it has reported or not."""

    __slots__ = ()

    def make_proposal(self, attempt: Attempt) -> Proposal | None:
        made = super().make_proposal(attempt)
        if made is None or made.restart:
            return made
        lives = [life for life in self.view.lives() if life in made.view.lives() or not self.is_suspected(life)]
        joining = [life for life in made.view.lives() if life not in lives]
        stateful = [life for life in lives if life[0] in made.stateful or life not in made.view.lives()]
        view = next_view(self.view, lives, joining, stateful, self.home.weights)
        return replace(made, view=view, stateful=tuple(life[0] for life in stateful))


# Freezing


class Thawed(Agreement):
    """Freezes the agreement, but not all of the stack."""

    __slots__ = ("noted",)

    def freeze(self) -> None:
        if self.is_frozen():
            return
        self.become(FROZEN)
        self.frozen_ns = self.host.now_ns
        self.flush = self.new_flush(self.view.view_id)
        if self.stateful:
            self.noted = super().report()
            transport = self.stack.find(Transport)
            self.flush = flush_of(transport, self.view, self.piece_bytes())
            self.freeze_part(transport)

    def report(self) -> tuple[Holding, ...] | None:
        return self.noted if self.stateful and self.is_frozen() else super().report()

    def freeze_part(self, transport: Transport) -> None:
        raise NotImplementedError


class DeliverAfterReport(Thawed):
    """Frames that come after the report are still handed up."""

    __slots__ = ()

    def freeze_part(self, transport: Transport) -> None:
        transport.block()


class SendWhileFrozen(Thawed):
    """What is submitted after the report still leaves in the old view."""

    __slots__ = ()

    def freeze_part(self, transport: Transport) -> None:
        self.host.freeze()


class AcknowledgeAfterReport(Thawed):
    """Frames that come after the report are kept for later, and acknowledged."""

    __slots__ = ("late",)

    def freeze_part(self, transport: Transport) -> None:
        transport.freeze()
        self.late: dict[SiteId, list[Data[Any]]] = {}

    def on_late(self, source: SiteId, data: Data[Any]) -> None:
        transport = self.stack.find(Reliable)
        if not transport.frozen:
            transport.accept(source, data)
            return
        late = self.late.setdefault(source, [])
        last = late[-1].seq if late else transport.open(source).received
        if data.prev(self.host.site, self.view.members) == last:
            late.append(data)
            received = [
                self.late[site][-1].seq if self.late.get(site) else number
                for site, number in zip(self.view.members, transport.received(), strict=True)
            ]
            transport.send((source,), Ack(tuple(received), transport.stable()))

    def enter(self, view: View, decision: Proposal | None, seat: int | None = None) -> None:
        super().enter(view, decision, seat)
        self.stack.routes[Data] = self.on_late
        for kind in (Ack, Nak, Repair, Status):
            self.stack.routes[kind] = self.unless_frozen(self.stack.find(Reliable).handlers()[kind])

    def unless_frozen(self, handler: Handler) -> Handler:
        def handle(source: SiteId, word: Any) -> None:
            if not self.is_frozen():
                handler(source, word)

        return handle


class UnfreezeAtAccept(Agreement):
    """Traffic flows again in the old view once a proposal is accepted."""

    __slots__ = ()

    def accept(self, ballot: Ballot, proposal: Proposal) -> None:
        if self.stateful and self.is_frozen():
            transport = self.stack.find(Transport)
            transport.frozen = False  # type: ignore[attr-defined]
            self.host.resume()
        super().accept(ballot, proposal)


class TimedOutUnfreezes(Agreement):
    """A ballot that came to nothing lets traffic flow again."""

    __slots__ = ()

    def begin(self) -> None:
        if self.attempt is not None and self.stateful and self.is_frozen():
            self.stack.find(Transport).frozen = False  # type: ignore[attr-defined]
            self.host.resume()
        super().begin()


# Accepting and installing


class AcceptBeforeHolding(Agreement):
    """A proposal is accepted at once; the cut may come later."""

    __slots__ = ()

    def complete(self) -> None:
        proposed = self.ledger.proposed
        if self.decided is None and proposed is not None and self.ledger.voted != proposed[0]:
            if self.may_accept(*proposed):
                self.accept(*proposed)
        else:
            super().complete()


class InstallBeforeCut(Agreement):
    """What is decided is installed with whatever is here."""

    __slots__ = ()

    def complete(self) -> None:
        if self.decided is not None and self.flush is not None:
            self.flush.drop(list(self.flush.lacking))
        super().complete()


class AcceptAndInstallWithout(AcceptBeforeHolding, InstallBeforeCut):
    """Neither accepts nor installs with care for the cut."""

    __slots__ = ()

    def complete(self) -> None:
        if self.decided is not None:
            InstallBeforeCut.complete(self)
        else:
            AcceptBeforeHolding.complete(self)


class OldFramesDropped(Agreement):
    """Frames of the old view go at the installation."""

    __slots__ = ()

    def enter(self, view: View, decision: Proposal | None, seat: int | None = None) -> None:
        super().enter(view, decision, seat)
        self.previous_flush = None


class JoinersHoldNothing(Agreement):
    """A site that joins accepts without the cut."""

    __slots__ = ()

    def aim(self, proposal: Proposal) -> None:
        super().aim(replace(proposal, cut=()) if not self.is_member() else proposal)


def any_view(self: Site, source: SiteId, _view_id: int, message: Message) -> None:
    """A frame is taken for one of the view that is open."""
    if message.viewless or self.open_id >= 0:
        self.stack.receive(source, message)


def majority_is_stable(self: Stability, place: int, kept: dict[int, Data[Any]]) -> int:
    """Frames go once a majority has them."""
    self.news = False
    rows = sorted((row[place] for row in self.rows.values()), reverse=True)
    floor = rows[len(rows) // 2]
    return sum([frame_bytes(kept.pop(seq)) for seq in [seq for seq in kept if seq <= floor]])


def two(_view: View, lives: Collection[Life]) -> bool:
    return len(lives) > 1


def anybody_has_it(self: Safe, stream: Stream, data: Data[Any]) -> bool:
    """Who has acknowledged a later frame counts, although this one was not for it."""
    place = self.index[stream.origin]
    having = [
        life
        for life in self.view.lives()
        if life[0] in (self.host.site, stream.origin) or self.acked.of(life[0], place) >= data.seq
    ]
    return quorum(self.view, having)


# Members


def same_incarnation(self: Bench, site: SiteId, _told: int = -1) -> int:
    """A life that begins takes the place of the one before."""
    return self.at[site].incarnation


def full_weights(
    members: Sequence[Life], _stateful: Collection[Life], configured: Mapping[SiteId, int]
) -> tuple[int, ...]:
    return tuple(configured.get(life[0], 1) for life in members)


def one_way_join(joiners: Sequence[Joiner], stay: Collection[Life], last: Mapping[SiteId, int]) -> list[Life]:
    """Whoever is heard joins, whether it hears or not."""
    sites = {life[0] for life in stay}
    return [
        joiner.life
        for joiner in joiners
        if joiner.life[0] not in sites and joiner.life[1] > last.get(joiner.life[0], -1)
    ]


def no_conflicts(members: Sequence[Reporter], _me: Life) -> list[Reporter]:
    return list(members)


class PatientForEver(Agreement):
    """Waits for every member that is not suspected, however long."""

    __slots__ = ()

    def is_awaited(self, life: Life, attempt: Attempt) -> bool:
        return not self.is_suspected(life)


class AwaitsTheDead(Agreement):
    """Waits for every member."""

    __slots__ = ()

    def is_awaited(self, life: Life, attempt: Attempt) -> bool:
        return True


class StaleUnanswered(Agreement):
    """Those who are behind get no answer."""

    __slots__ = ()

    def concerns_view(self, source: SiteId, word: ViewMessage) -> bool:
        return self.is_current(source, word) and word.view_id == self.view.view_id and self.is_seated()


class NoNudge(Agreement):
    """Only who coordinates acts."""

    __slots__ = ()

    def on_nudge(self, source: SiteId, word: Nudge) -> None:
        """Pass over it."""


class OneBallot(Agreement):
    """A coordinator has one ballot in a view."""

    __slots__ = ()

    def begin(self) -> None:
        if not self.backoff.attempt_count:
            super().begin()


class NeverRevoked(Agreement):
    """Who was suspected once stays so."""

    __slots__ = ("grudges",)

    def start(self) -> None:
        self.grudges: set[SiteId] = set()
        super().start()

    def suspect(self, site: SiteId, suspected: bool) -> None:
        if suspected:
            self.grudges.add(site)
        super().suspect(site, suspected)

    def is_suspected(self, life: Life) -> bool:
        return super().is_suspected(life) or life[0] in self.grudges


class NoGiveUp(Agreement):
    """Waits for a cut for ever."""

    __slots__ = ()

    def give_up(self) -> None:
        """Never."""


# Consensus


class AcceptedUntold(Agreement):
    """Promises do not tell what was accepted."""

    __slots__ = ()

    def own_promise(self, ballot: Ballot) -> Promise:
        return replace(super().own_promise(ballot), accepted=None)


class NewCut(Agreement):
    """Members of an accepted proposal are kept, its cut is made anew."""

    __slots__ = ()

    def bound_proposal(self, attempt: Attempt) -> Proposal | None:
        bound, made = super().bound_proposal(attempt), self.make_proposal(attempt)
        return bound if bound is None or made is None else replace(bound, cut=made.cut)


class LowestBallot(Agreement):
    """The proposal of the lowest ballot that was accepted is taken over."""

    __slots__ = ()

    def bound_proposal(self, attempt: Attempt) -> Proposal | None:
        bound = [word.accepted for word in attempt.promises.values() if word.accepted is not None]
        return min(bound, key=lambda one: one[0])[1] if bound else None


class AcceptBelowPromise(Agreement):
    """A proposal is accepted under any ballot."""

    __slots__ = ()

    def may_accept(self, ballot: Ballot, proposal: Proposal) -> bool:
        return True

    def on_propose(self, source: SiteId, word: Propose) -> None:
        promised = self.ledger.promised
        self.ledger.promised = min(promised, word.ballot)
        super().on_propose(source, word)
        if self.view.view_id == word.view_id:
            self.ledger.promised = max(promised, self.ledger.promised)


class PromiseBelowPromise(Agreement):
    """Any ballot is promised."""

    __slots__ = ()

    def on_prepare(self, source: SiteId, word: Prepare) -> None:
        self.ledger.promised = min(self.ledger.promised, word.ballot)
        super().on_prepare(source, word)


class VoteWithoutMemory(Agreement):
    """A site that comes back votes for its seat, and has forgotten what it promised and accepted."""

    __slots__ = ()

    def start(self) -> None:
        super().start()
        self.ledger.promised, self.ledger.accepted = (0, SiteId(-1), -1), None


class FileWithoutAccepted(Agreement):
    """The file does not tell what was accepted."""

    __slots__ = ()

    def start(self) -> None:
        super().start()
        self.ledger.accepted = None


class Round(tuple[int, SiteId, int]):
    """A ballot that is compared by its round alone."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and self[0] == other[0]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        return self[0] < other[0]

    def __le__(self, other: tuple[Any, ...]) -> bool:
        return self[0] <= other[0]

    def __gt__(self, other: tuple[Any, ...]) -> bool:
        return self[0] > other[0]

    def __ge__(self, other: tuple[Any, ...]) -> bool:
        return self[0] >= other[0]

    def __hash__(self) -> int:
        return self[0]


class RoundAlone(Agreement):
    """A ballot is a round, whoever proposes."""

    __slots__ = ()

    def next_ballot(self) -> Ballot:
        return Round(super().next_ballot())


class WrittenLate(Agreement):
    """The file is written after the answer: what was last to be written is not there if the site crashes now."""

    __slots__ = ("unwritten",)

    def save(self) -> None:
        store, record = self.home.store, None
        if store is None:
            return
        self.write()
        before = store.load()
        super().save()
        record = store.load()
        store.save(before)
        self.unwritten = (record,)

    def write(self) -> None:
        if self.home.store is not None and getattr(self, "unwritten", None):
            self.home.store.save(self.unwritten[0])
        self.unwritten = ()

    def timer(self, key: int) -> None:
        self.write()
        super().timer(key)


class VoterReports(Agreement):
    """A site that votes by its file reports, as if it had handed up nothing."""

    __slots__ = ()

    def report(self) -> tuple[Holding, ...] | None:
        found = super().report()
        return () if found is None else found

    def own_promise(self, ballot: Ballot) -> Promise:
        made = super().own_promise(ballot)
        return made if self.is_member() else replace(made, stateful=True)

    def ended_seats(self, promises: Mapping[Life, Promise]) -> dict[Life, Life]:
        return {}


# Ended seats


class NoMemory(Agreement):
    """A life that ends leaves no seat, but for what is in the file."""

    __slots__ = ()

    def past(self, *args: Any, **options: Any) -> Past:
        return replace(super().past(*args, **options), ended=None)


class OldLifeStays(Agreement):
    """The seat of a life that ended goes on into the next view, as if the life had not ended."""

    __slots__ = ()

    def ended_seats(self, promises: Mapping[Life, Promise]) -> dict[Life, Life]:
        return {}

    def is_suspected(self, life: Life) -> bool:
        return life[0] != self.host.site and self.home.is_suspected(life[0])


class MovedSeatReports(Agreement):
    """A seat that goes on into the next view still reports what its life had in the view before."""

    __slots__ = ()

    def enter(self, view: View, decision: Proposal | None, seat: int | None = None) -> None:
        vectors = self.vectors
        super().enter(view, decision, seat)
        self.vectors = vectors if seat is not None else None


# Numbers


class BelievedAtOnce(Agreement):
    """A higher life counts as soon as a packet claims it."""

    __slots__ = ()

    def is_current(self, source: SiteId, message: MembershipMessage) -> bool:
        self.known.learn([(source, message.incarnation)])
        return super().is_current(source, message)


class LowerLifeUnanswered(Agreement):
    """A life below the known one gets no answer."""

    __slots__ = ()

    def tell_behind(self, source: SiteId, asked: int, known: int) -> None:
        """Say nothing."""


class RoundBound(Agreement):
    """A round more than 2^20 above the highest known is refused."""

    __slots__ = ()

    def checked(self, handler: Handler, source: SiteId, message: Any) -> None:
        ballot = getattr(message, "ballot", None) or getattr(message, "promised", None)
        found = ballot[0] if ballot else getattr(message, "round", 0)
        if found > max(self.ledger.promised[0], self.ledger.round_seen) + (1 << 20):
            return
        super().checked(handler, source, message)


PLANTED_MEMBERSHIP: dict[str, Bug] = {
    "a quorum of the new view decides": Bug(
        NewViewOnly, {PATH + "agreement.quorum": anybody, PATH + "succession.quorum": anybody}
    ),
    "half without a tie-break": Bug(
        patches={PATH + f"{module}.quorum": half for module in ("agreement", "succession")}
    ),
    "joiners count in the old quorum": Bug(JoinersCount),
    "the cut is what the coordinator has": Bug(OwnKnowledge),
    "the cut is what all have": Bug(patches={PATH + "cut.slice_of": what_all_have}),
    "messages of the excluded are dropped": Bug(ExcludedDropped),
    "only reports of those that stay count": Bug(ReportsOfStayers),
    "contiguous numbers only": Bug(patches={PATH + "cut.slice_of": contiguous_only}),
    "everything that is held is in the cut": Bug(patches={PATH + "cut.slice_of": everything_held}),
    "a member that did not report is taken in": Bug(UnreportedTakenIn),
    "deliver after the report": Bug(DeliverAfterReport),
    "send while frozen": Bug(SendWhileFrozen),
    "acknowledge after the report": Bug(AcknowledgeAfterReport),
    "unfreeze at accept": Bug(UnfreezeAtAccept),
    "a timed-out ballot unfreezes": Bug(TimedOutUnfreezes),
    "accept before holding the cut": Bug(AcceptBeforeHolding),
    "install before the cut is here": Bug(AcceptAndInstallWithout),
    "old frames are dropped at the installation": Bug(OldFramesDropped),
    "joiners hold nothing": Bug(JoinersHoldNothing),
    "frames go once a majority has them": Bug(
        patches={"isthmus.protocols.transport.reliable.stability.Stability.collect": majority_is_stable}
    ),
    "no view in frames": Bug(patches={BENCH + "Site.take": any_view}),
    "safe at half": Bug(patches={"isthmus.protocols.transport.safe.quorum": half}),
    "safe at two": Bug(patches={"isthmus.protocols.transport.safe.quorum": two}),
    "safe with those whom it is not for": Bug(
        patches={"isthmus.protocols.transport.safe.Safe.is_safe": anybody_has_it}
    ),
    "recovered under the old incarnation": Bug(
        patches={
            BENCH + "Bench.next_incarnation": same_incarnation,
            PATH + "agreement.Agreement.has_asked": lambda _self, _proposal: True,
        }
    ),
    "joiners have full weight": Bug(patches={PATH + "succession.assigned_weights": full_weights}),
    "joining goes one way": Bug(patches={PATH + "agreement.admitted": one_way_join}),
    "only the coordinator's opinion counts": Bug(patches={PATH + "succession.reconciled": no_conflicts}),
    "wait for ever for those not suspected": Bug(PatientForEver),
    "wait for the suspected, too": Bug(AwaitsTheDead),
    "stale words stay unanswered": Bug(StaleUnanswered),
    "no nudge": Bug(NoNudge),
    "no new ballot": Bug(OneBallot),
    "suspicion is never revoked": Bug(NeverRevoked),
    "no give-up": Bug(NoGiveUp, file=True),
    "accepted is not in promises": Bug(AcceptedUntold),
    "a new cut for accepted members": Bug(NewCut),
    "the lowest ballot's proposal is taken": Bug(LowestBallot),
    "accept below the promise": Bug(AcceptBelowPromise),
    "promise below the promise": Bug(PromiseBelowPromise),
    "a round without the proposer's life": Bug(RoundAlone),
    "the file is written after the answer": Bug(WrittenLate, file=True),
    "vote without memory": Bug(VoteWithoutMemory, file=True),
    "the file lacks what was accepted": Bug(FileWithoutAccepted, file=True),
    "a voter by file reports": Bug(VoterReports, file=True),
    "an ended life leaves no seat": Bug(NoMemory, file=True),
    "an ended seat stays under its old life": Bug(OldLifeStays),
    "a moved seat reports old frames": Bug(MovedSeatReports),
    "a higher life is believed at once": Bug(BelievedAtOnce),
    "a lower life is unanswered": Bug(LowerLifeUnanswered),
    "rounds are bound to 2^20 above the known": Bug(RoundBound),
}
