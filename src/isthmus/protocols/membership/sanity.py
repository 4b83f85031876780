"""What a word of the membership must look like before anything is done with it.

Problem: a packet that decodes may still be nonsense: a view whose lists differ in length, a range of 2^60 frames, a
ballot of a round that nobody could have come to. Idea: one place looks at every word before its handler does, and
raises RemoteError; the port then counts it, and nothing has changed.

Three kinds of checks: what can never be meant (sizes, ranges, sites that are not of this group), what cannot be said by
this sender (a ballot or a decision of others), and what does not follow from the view that we are in. A word that
passes all three may still be a lie: who sends it is known by its address and the token of the run alone, so whoever can
forge these can speak for a member. docs/design/membership.md says what that leaves open.

Bounds: reports and cuts name `NUMBERS_MAX` frames at most; a round is at most `LEAP_MAX` above the highest that is
known here, so that no single packet can use up the rounds of a view.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Life, View
from isthmus.core.message import SiteId, Targets
from isthmus.protocols.membership.cut import Runs
from isthmus.protocols.membership.wire import (
    Accepted,
    Ballot,
    Decide,
    Fetch,
    Frames,
    Gone,
    Join,
    JoinAck,
    Nack,
    Nudge,
    Prepare,
    Promise,
    Proposal,
    Propose,
    Said,
    StateAsk,
    Word,
)

NUMBERS_MAX = 1 << 20  # frames that a report or a cut may name
LEAP_MAX = 1 << 20  # rounds; each is an attempt of somebody who could not reach us
COUNT_MAX = (1 << 31) - 1  # of incarnations, views and weights: they fit the columns of a trace
LIVES_PER_SITE = 4  # that a request to join may name


class Standpoint(NamedTuple):
    """From where a word is looked at."""

    contacts: Targets
    view: View
    round_known: int  # the highest of this view
    asked_ns: int  # no request of ours to join is later than this
    incarnation: int  # our own


def check_word(source: SiteId, word: Word, here: Standpoint) -> None:
    """Raise RemoteError for a word that cannot be meant, is not its sender's to say, or does not follow."""
    if source not in here.contacts:
        raise RemoteError(f"site {source} is not of this group")
    counts(word.incarnation)
    if isinstance(word, Said):
        counts(word.seat, word.view_id)
    if isinstance(word, Prepare | Propose | Promise | Accepted):
        check_ballot(word.ballot, word, here)
    if isinstance(word, Prepare | Propose) and word.ballot[1:] != (source, word.incarnation):
        raise RemoteError(f"site {source} speaks under the ballot {word.ballot} of another")
    is_ours = isinstance(word, Said) and word.view_id == here.view.view_id
    if isinstance(word, Prepare | Promise) and is_ours and (source, word.seat) not in here.view.lives():
        raise RemoteError(f"site {source} speaks for a seat {word.seat} that view {word.view_id} does not have")
    if isinstance(word, Promise):
        check_promise(word, here)
    elif isinstance(word, Propose):
        if word.proposal.view_id != word.view_id:
            raise RemoteError(f"site {source} proposes a successor of another view than {word.view_id}")
        check_proposal(word.proposal, here)
    elif isinstance(word, Decide):
        check_proposal(word.proposal, here)
        if source not in word.proposal.electors and source not in word.proposal.view.members:
            raise RemoteError(f"site {source} tells of a decision that it had no part in")
    elif isinstance(word, Nudge):
        check_round(word.round, word.view_id, here)
    elif isinstance(word, Nack):
        check_ballot(word.promised, word, here)
    else:
        check_service(word, here)


def check_service(word: Word, here: Standpoint) -> None:
    """The same for words beside the agreement itself."""
    if isinstance(word, Join):
        check_lives(word.answered, here, LIVES_PER_SITE * len(here.contacts))
    elif isinstance(word, JoinAck):
        counts(word.asked_incarnation)
        if word.asked_incarnation == here.incarnation and word.asked_ns > here.asked_ns:
            raise RemoteError(f"an answer to a request of time {word.asked_ns}, which was never made")
    elif isinstance(word, Gone):
        counts(word.view_id, word.gone_incarnation)
    elif isinstance(word, StateAsk):
        natural(word.offset)
    elif isinstance(word, Fetch):
        check_runs([runs for _, runs in word.wanted])
    elif isinstance(word, Frames):
        check_sites([origin for origin, _ in word.frames], here.contacts)


def counts(*found: int) -> None:
    """Raise unless all are counts that could have come about."""
    for one in found:
        if not 0 <= one <= COUNT_MAX:
            raise RemoteError(f"{one} is no incarnation, view or weight")


def natural(found: int) -> None:
    if found < 0:
        raise RemoteError(f"{found} is below 0")


def check_sites(found: Iterable[SiteId], among: Targets) -> None:
    for site in found:
        if site not in among:
            raise RemoteError(f"site {site} is not among {among}")


def check_distinct(found: Sequence[SiteId], among: Targets) -> None:
    check_sites(found, among)
    if len(set(found)) < len(found):
        raise RemoteError(f"{found} names a site twice")


def check_lives(lives: Sequence[Life], here: Standpoint, most: int) -> None:
    if len(lives) > most:
        raise RemoteError(f"{len(lives)} lives of {len(here.contacts)} sites")
    check_sites([site for site, _ in lives], here.contacts)
    counts(*[incarnation for _, incarnation in lives])


def check_runs(every: Iterable[Runs]) -> None:
    """Runs ascend, do not touch 0, and are not too many."""
    total = 0
    for runs in every:
        before = 0
        for first, last in runs:
            if not before < first <= last:
                raise RemoteError(f"the run ({first}, {last}) after {before}")
            before = last
            total += last - first + 1
            if total > NUMBERS_MAX:
                raise RemoteError(f"more than {NUMBERS_MAX} frames")


# Ballots and promises


def check_round(found: int, view_id: int, here: Standpoint) -> None:
    natural(found)
    known = here.round_known if view_id == here.view.view_id else 0
    if found > known + LEAP_MAX:
        raise RemoteError(f"round {found}, far beyond the {known} that is known here")


def check_ballot(ballot: Ballot, word: Said, here: Standpoint) -> None:
    check_round(ballot[0], word.view_id, here)
    check_sites([ballot[1]], here.contacts)
    counts(ballot[2])


def check_promise(word: Promise, here: Standpoint) -> None:
    report = word.report or ()
    check_distinct([one.origin for one in report], here.contacts)
    for one in report:
        natural(one.floor)
    check_runs([runs for one in report for runs in (one.handed_up, one.held)])
    if word.accepted is not None:
        ballot, proposal = word.accepted
        if ballot > word.ballot or proposal.view_id != word.view_id:
            raise RemoteError(f"a promise to {word.ballot} by one that accepted {ballot} in view {proposal.view_id}")
        check_ballot(ballot, word, here)
        check_proposal(proposal, here)


# Views and proposals


def check_view(view: View, here: Standpoint) -> None:
    """A view is of this group, and its lists belong together."""
    counts(view.view_id, *view.incarnations, *view.weights)
    check_distinct(view.members, here.contacts)
    for column in (view.incarnations, view.weights):
        if column and len(column) != len(view.members):
            raise RemoteError(f"view {view.view_id} of {len(view.members)} members with {len(column)} values")
    check_distinct([site for site, _ in view.last], here.contacts)
    check_lives(view.last, here, len(here.contacts))
    last = dict(view.last)
    if not view.members or any(incarnation > last.get(site, incarnation) for site, incarnation in view.lives()):
        raise RemoteError(f"view {view.view_id} has nobody, or lives that it says were never admitted")


def check_proposal(proposal: Proposal, here: Standpoint) -> None:
    """A successor follows directly; where it is that of our own view, it follows from its members."""
    counts(proposal.view_id)
    check_view(proposal.view, here)
    check_distinct(proposal.electors, here.contacts)
    check_distinct(proposal.stateful, proposal.view.members)
    check_distinct([part.origin for part in proposal.cut], proposal.electors)
    for part in proposal.cut:
        natural(part.floor)
        check_sites(part.holders, here.contacts)
    check_runs([part.numbers for part in proposal.cut])
    if proposal.view.view_id != proposal.view_id + 1:
        raise RemoteError(f"view {proposal.view.view_id} as the successor of view {proposal.view_id}")
    if proposal.view_id == here.view.view_id:
        check_succession(proposal, here.view)


def check_succession(proposal: Proposal, view: View) -> None:
    """Members stay under their incarnation; whoever else comes has one that was never admitted."""
    if proposal.electors != view.members:
        raise RemoteError(f"{proposal.electors} decide on the successor of a view of {view.members}")
    last = dict(view.last)
    for life in proposal.view.lives():
        if life not in view.lives() and life[1] <= last.get(life[0], -1):
            raise RemoteError(f"{life} is to be in view {proposal.view.view_id}, and was in one before")
