"""Checks of membership messages before anything is done with them.

Problem: a packet that decodes may still be nonsense: a view whose lists differ in length, a range of 2^60 frames, a
ballot of a round that no site could have reached. Idea: every message passes one check before its handler runs; the
check raises RemoteError, the port counts it, and nothing has changed.

Three kinds of checks: for what can never be valid (sizes, ranges, sites outside this group), for what this sender may
not send (a ballot or a decision of others), and for what does not follow from the view that this site is in. A message
that passes all three may still be a lie: its sender is known by its address and the token of the run alone, so a
forger of both can act as a member. docs/design/membership.md says what that leaves open.

Bounds: reports and cuts name `NUMBERS_MAX` frames at most; numbers have 63 bits, so that no packet exhausts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Life, View
from isthmus.core.message import SiteId, Targets
from isthmus.protocols.membership.cut import Runs
from isthmus.protocols.membership.window import ASKED_MAX, PIECE_BYTES
from isthmus.protocols.membership.wire import (
    APPLICATION,
    LAYERS,
    NO_BALLOT,
    VIEWS_KEPT,
    Accepted,
    Ballot,
    Behind,
    Decide,
    Fetch,
    Frames,
    Gone,
    Join,
    JoinAck,
    MembershipMessage,
    Nack,
    Nudge,
    Prepare,
    Progress,
    Promise,
    Proposal,
    Propose,
    StateAsk,
    StatePiece,
    ViewMessage,
)

NUMBERS_MAX = 1 << 20  # frames that a report or a cut may name
COUNT_MAX = (1 << 31) - 1  # of views and weights: they fit the columns of a trace
ROUND_MAX = INCARNATION_MAX = (1 << 62) - 1
DIGEST_BYTES = 32
LIVES_PER_SITE = 4  # that a request to join may name


class LocalKnowledge(NamedTuple):
    """State of this site that a message is checked against."""

    contacts: Targets
    view: View
    asked_ns: int  # no request of this site to join is later than this
    incarnation: int  # of this life


def check_message(source: SiteId, message: MembershipMessage, here: LocalKnowledge) -> None:
    """Raise RemoteError for a message that is malformed, not its sender's to send, or does not follow."""
    if source not in here.contacts:
        raise RemoteError(f"site {source} is not a contact of this group")
    check_incarnations(message.incarnation)
    if isinstance(message, ViewMessage):
        check_incarnations(message.seat)
        check_counts(message.view_id)
    if isinstance(message, Prepare | Propose | Promise | Accepted | Progress):
        check_ballot(message.ballot, here)
    if isinstance(message, Prepare | Propose) and message.ballot[1:] != (source, message.incarnation):
        raise RemoteError(f"site {source} uses the ballot {message.ballot} of another life")
    is_ours = isinstance(message, ViewMessage) and message.view_id == here.view.view_id
    if isinstance(message, Prepare | Promise) and is_ours and (source, message.seat) not in here.view.lives():
        raise RemoteError(f"site {source} claims the seat {message.seat}, which view {message.view_id} does not have")
    if isinstance(message, Promise):
        check_promise(message, here)
    elif isinstance(message, Propose):
        if message.proposal.view_id != message.view_id:
            raise RemoteError(
                f"site {source} proposes a successor of {message.proposal.view_id} in view {message.view_id}"
            )
        check_proposal(message.proposal, here)
    elif isinstance(message, Decide):
        check_proposal(message.proposal, here)
        if source not in message.proposal.electors and source not in message.proposal.view.members:
            raise RemoteError(f"site {source} announces a decision that it had no part in")
    elif isinstance(message, Nudge):
        check_round(message.round)
    elif isinstance(message, Nack):
        if message.promised != NO_BALLOT:
            check_ballot(message.promised, here)
    else:
        check_service(message, here)


def check_service(message: MembershipMessage, here: LocalKnowledge) -> None:
    """Check a message of joiners, of the flush or of the state transfer."""
    if isinstance(message, Join):
        check_lives(message.answered, here, LIVES_PER_SITE * len(here.contacts))
    elif isinstance(message, JoinAck):
        check_incarnations(message.asked_incarnation)
        if message.asked_incarnation == here.incarnation and message.asked_ns > here.asked_ns:
            raise RemoteError(f"an answer to a request made at {message.asked_ns} ns, later than any of this site")
    elif isinstance(message, Gone):
        check_counts(message.view_id)
        check_incarnations(message.gone_incarnation)
    elif isinstance(message, Behind):
        check_incarnations(message.asked_incarnation, message.highest)
    elif isinstance(message, StateAsk | StatePiece):
        check_state(message)
    elif isinstance(message, Fetch):
        check_sites([origin for origin, _, _ in message.wanted], here.contacts)
        if not 0 < message.piece_bytes <= PIECE_BYTES:
            raise RemoteError(f"pieces of {message.piece_bytes} bytes; 1 to {PIECE_BYTES} are possible")
        for _, seq, offset in message.wanted:
            check_natural(seq)
            check_natural(offset)
    elif isinstance(message, Frames):
        check_sites([origin for origin, _ in (*message.stable, *message.lack)], here.contacts)


def check_state(message: StateAsk | StatePiece) -> None:
    """Check a request for the state, or a piece of it; window.py checks pieces against what was asked for."""
    check_counts(message.base)
    offsets = message.offsets if isinstance(message, StateAsk) else (message.offset,)
    if message.part not in (LAYERS, APPLICATION) or len(message.digest) not in (0, DIGEST_BYTES):
        raise RemoteError(f"part {message.part} of a state, with a digest of {len(message.digest)} bytes")
    if len(offsets) > ASKED_MAX or any(offset < 0 for offset in offsets):
        raise RemoteError(f"{len(offsets)} offsets of pieces, or one below 0")
    if isinstance(message, StateAsk) and not 0 < message.size <= PIECE_BYTES:
        raise RemoteError(f"pieces of {message.size} bytes; 1 to {PIECE_BYTES} are possible")
    if isinstance(message, StatePiece) and message.total > 0 and len(message.digest) != DIGEST_BYTES:
        raise RemoteError("a piece of a state without a digest")


def check_counts(*found: int) -> None:
    """Raise unless all are plausible view ids or weights."""
    for one in found:
        if not 0 <= one <= COUNT_MAX:
            raise RemoteError(f"{one} as a view id or weight; 0 to {COUNT_MAX} are possible")


def check_incarnations(*found: int) -> None:
    for one in found:
        if not 0 <= one <= INCARNATION_MAX:
            raise RemoteError(f"{one} as an incarnation; 0 to {INCARNATION_MAX} are possible")


def check_natural(found: int) -> None:
    if found < 0:
        raise RemoteError(f"{found}, a number below 0")


def check_sites(found: Iterable[SiteId], among: Targets) -> None:
    for site in found:
        if site not in among:
            raise RemoteError(f"site {site} is not among {among}")


def check_distinct(found: Sequence[SiteId], among: Targets) -> None:
    check_sites(found, among)
    if len(set(found)) < len(found):
        raise RemoteError(f"{found} names a site twice")


def check_lives(lives: Sequence[Life], here: LocalKnowledge, most: int) -> None:
    if len(lives) > most:
        raise RemoteError(f"{len(lives)} lives of {len(here.contacts)} sites")
    check_sites([site for site, _ in lives], here.contacts)
    check_incarnations(*[incarnation for _, incarnation in lives])


def check_runs(every: Iterable[Runs]) -> None:
    """Check that runs ascend from 1 and cover no more than NUMBERS_MAX numbers."""
    total = 0
    for runs in every:
        before = 0
        for first, last in runs:
            if not before < first <= last:
                raise RemoteError(f"the run ({first}, {last}) after {before}: not ascending from 1")
            before = last
            total += last - first + 1
            if total > NUMBERS_MAX:
                raise RemoteError(f"more than {NUMBERS_MAX} frames")


# Ballots and promises


def check_round(found: int) -> None:
    if not 0 <= found <= ROUND_MAX:
        raise RemoteError(f"{found} as a round; 0 to {ROUND_MAX} are possible")


def check_ballot(ballot: Ballot, here: LocalKnowledge) -> None:
    check_round(ballot[0])
    check_sites([ballot[1]], here.contacts)
    check_incarnations(ballot[2])


def check_promise(message: Promise, here: LocalKnowledge) -> None:
    report = message.report or ()
    check_distinct([one.origin for one in report], here.contacts)
    for one in report:
        check_natural(one.floor)
    check_runs([runs for one in report for runs in (one.delivered, one.held)])
    check_counts(message.transfer.base, *message.transfer.kept)
    check_distinct(message.transfer.avoided, here.contacts)
    if len(message.transfer.kept) > VIEWS_KEPT + 2:
        raise RemoteError(f"{len(message.transfer.kept)} snapshots; {VIEWS_KEPT} are kept at most")
    if message.accepted is not None:
        ballot, proposal = message.accepted
        if ballot > message.ballot or proposal.view_id != message.view_id:
            raise RemoteError(
                f"a promise to {message.ballot} with an accepted ballot {ballot} of view {proposal.view_id}"
            )
        check_ballot(ballot, here)
        check_proposal(proposal, here)


# Views and proposals


def check_view(view: View, here: LocalKnowledge) -> None:
    """Check that a view is of this group, and that its lists agree."""
    check_counts(view.view_id, *view.weights)
    check_incarnations(*view.incarnations)
    check_distinct(view.members, here.contacts)
    for column in (view.incarnations, view.weights):
        if column and len(column) != len(view.members):
            raise RemoteError(f"view {view.view_id} of {len(view.members)} members with {len(column)} values")
    check_distinct([site for site, _ in view.last], here.contacts)
    check_lives(view.last, here, len(here.contacts))
    last = dict(view.last)
    if not view.members or any(incarnation > last.get(site, incarnation) for site, incarnation in view.lives()):
        raise RemoteError(f"view {view.view_id} has no members, or lives above its admitted incarnations")


def check_proposal(proposal: Proposal, here: LocalKnowledge) -> None:
    """Check that a successor follows its view directly, and this site's view also from its members."""
    check_counts(proposal.view_id)
    check_view(proposal.view, here)
    check_distinct(proposal.electors, here.contacts)
    check_distinct(proposal.stateful, proposal.view.members)
    check_distinct([part.origin for part in proposal.cut], proposal.electors)
    check_distinct([task.site for task in proposal.transfers], proposal.view.members)
    check_sites([task.giver for task in proposal.transfers], proposal.view.members)
    if not all(0 <= task.base <= proposal.view.view_id for task in proposal.transfers):
        raise RemoteError(f"a state of a view outside 0 to {proposal.view.view_id}")
    for part in proposal.cut:
        check_natural(part.floor)
        check_sites(part.holders, here.contacts)
    check_runs([part.numbers for part in proposal.cut])
    if proposal.view.view_id != proposal.view_id + 1:
        raise RemoteError(f"view {proposal.view.view_id} as the successor of view {proposal.view_id}")
    if proposal.view_id == here.view.view_id > 0:
        check_succession(proposal, here.view)


def check_succession(proposal: Proposal, view: View) -> None:
    """Check that members stay under their incarnation, and that joiners have one that was never admitted."""
    if proposal.electors != view.members:
        raise RemoteError(f"{proposal.electors} decide on the successor of a view of {view.members}")
    last = dict(view.last)
    for life in proposal.view.lives():
        if life not in view.lives() and life[1] <= last.get(life[0], -1):
            raise RemoteError(f"{life} would join view {proposal.view.view_id} with an incarnation of an earlier view")
