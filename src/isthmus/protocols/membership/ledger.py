"""What a site remembers of the ballots of its view: promises, votes, and its own attempts."""

from __future__ import annotations

import msgspec

from isthmus.core.layer import Life
from isthmus.core.message import SiteId
from isthmus.protocols.membership.wire import NO_BALLOT, Accepted, Ballot, Promise, Proposal

BALLOTS_MAX = 16
DOUBLINGS_MAX = 5  # of the patience with others, from one attempt to the next


class Ledger(msgspec.Struct, eq=False):
    """The ballots of one view as one site knows them; the file keeps `promised` and `accepted`."""

    promised: Ballot = NO_BALLOT  # no lower ballot is promised or accepted any more
    accepted: tuple[Ballot, Proposal] | None = None  # the last proposal that was accepted, with its ballot
    promised_ns: int = 0  # when the promise was made; 0: not by this life
    proposed: tuple[Ballot, Proposal] | None = None  # the last that could be considered here
    proposed_ns: int = 0  # when another's proposal last came: its author reaches this site, and a quorum promised
    voted: Ballot | None = None  # the last ballot that an Accepted was sent for
    round_seen: int = 0  # the highest round heard of
    votes: dict[Ballot, dict[Life, bool]] = {}  # the seats and lives that accepted, by ballot

    def note_round(self, round_: int) -> None:
        self.round_seen = max(self.round_seen, round_)

    def note_vote(self, source: SiteId, vote: Accepted) -> dict[Life, bool]:
        """Count a vote, for the seat in this view and for the life in the next; return all votes for its ballot."""
        votes = self.votes.setdefault(vote.ballot, {})
        votes[source, vote.seat] = votes[source, vote.incarnation] = True
        while len(self.votes) > BALLOTS_MAX:
            del self.votes[min(self.votes)]
        return votes


class Attempt(msgspec.Struct, eq=False):
    """A ballot of this site as coordinator."""

    ballot: Ballot
    since_ns: int  # when it began, or when a piece of its cut was last known to have come anywhere
    sent_ns: int  # when all, or all that had not answered, were last asked
    promises: dict[Life, Promise] = {}  # by seat
    proposal: Proposal | None = None  # once it is made


class CoordinatorBackoff(msgspec.Struct, eq=False):
    """How many times a coordinator doubles its waits for others.

    Where packets are often lost, on several links, the usual wait is too short: each view leaves out some member, it
    comes back, and the view that admits it leaves out another. So a view that leaves out an unsuspected member doubles
    the next wait, and one that all have promised in the usual time, others than its author too, takes a doubling back.
    """

    attempt_count: int = 0  # ballots of this site in this view
    backoff_exponent: int = 0  # views of this site that left out a live member, less those that all promised

    def doublings(self) -> int:
        """Doublings of a wait: more with each attempt, as a round trip may take longer than usual."""
        return min(max(0, self.attempt_count - 1) + self.backoff_exponent, DOUBLINGS_MAX)

    def learn(self, left_out: bool, in_time: bool) -> None:
        """Learn from an attempt how long to wait in the next."""
        if left_out:
            self.backoff_exponent = min(self.backoff_exponent + 1, DOUBLINGS_MAX)
        elif self.backoff_exponent and in_time:
            self.backoff_exponent -= 1
