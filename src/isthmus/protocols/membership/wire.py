"""What the members of a group say to agree on views.

Every word names the incarnation of its sender; those of earlier lives are dropped. A word about a view names the
incarnation under which its sender sits in that view, its *seat*: for a site that came back and votes by its file, that
is an earlier one. None of these words belongs to a view in the sense of a port: they are what changes it.
"""

from __future__ import annotations

from typing import Any, Generic

import msgspec

from isthmus.core.layer import Life, View
from isthmus.core.message import B, Message, SiteId, Targets
from isthmus.protocols.membership.cut import Holding, Runs, Slice
from isthmus.protocols.transport.reliable.frames import Data

Ballot = tuple[int, SiteId, int]  # round, proposer's life; ordered
NO_BALLOT: Ballot = (0, SiteId(-1), -1)


class Proposal(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A successor of a view, with what is handed up before it is installed."""

    view_id: int  # of the view that it follows
    electors: Targets  # the members of that view
    view: View  # the successor
    cut: tuple[Slice, ...]
    stateful: Targets  # members of the successor that have the application's state
    restart: bool = False  # nobody has the state any more: all begin anew, with what they have


class Word(Message, frozen=True, gc=False, array_like=True):
    """What all words share."""

    viewless = True
    incarnation: int  # of the sender


class Said(Word, frozen=True, gc=False, array_like=True):
    """A word about a view."""

    seat: int  # the incarnation that sits in the view
    view_id: int


class Here(Said, frozen=True, gc=False, array_like=True, tag=41):
    """Which view its sender is in, and whether it has the application's state."""

    stateful: bool


class Prepare(Said, frozen=True, gc=False, array_like=True, tag=42):
    """Asks the members of a view for their promise."""

    ballot: Ballot


class Promise(Said, frozen=True, gc=False, array_like=True, tag=43):
    """No lower ballot will be taken; what was accepted, what is held, whom its sender suspects."""

    ballot: Ballot
    accepted: tuple[Ballot, Proposal] | None
    report: tuple[Holding, ...] | None  # None: by the file alone; it has nothing to report
    suspects: Targets
    stateful: bool
    leaving: bool


class Propose(Said, frozen=True, gc=False, array_like=True, tag=44):
    """Asks to accept a successor."""

    ballot: Ballot
    proposal: Proposal


class Accepted(Said, frozen=True, gc=False, array_like=True, tag=45):
    """Its sender holds the cut and has accepted the proposal of a ballot."""

    ballot: Ballot


class Decide(Word, frozen=True, gc=False, array_like=True, tag=46):
    """A proposal that is decided."""

    proposal: Proposal


class Nudge(Said, frozen=True, gc=False, array_like=True, tag=47):
    """Asks a coordinator to act."""

    suspects: Targets
    round: int  # of the highest ballot that its sender knows
    passed_on: bool = False


class Nack(Said, frozen=True, gc=False, array_like=True, tag=48):
    """A ballot came too late: a higher one was promised."""

    promised: Ballot


class Join(Word, frozen=True, gc=False, array_like=True, tag=49):
    """Asks to be let in; tells which lives have answered lately."""

    asked_ns: int  # by its sender's clock
    answered: tuple[Life, ...]


class JoinAck(Word, frozen=True, gc=False, array_like=True, tag=50):
    """Its sender has heard a request to join."""

    asked_incarnation: int
    asked_ns: int


class Gone(Word, frozen=True, gc=False, array_like=True, tag=51):
    """Others have gone on without this life of the receiver."""

    view_id: int
    gone_incarnation: int


class Fetch(Word, frozen=True, gc=False, array_like=True, tag=52):
    """Asks for frames of a closing view."""

    view_id: int
    wanted: tuple[tuple[SiteId, Runs], ...]


class Frames(Word, Generic[B], frozen=True, gc=False, array_like=True, tag=53):
    """Frames of a closing view, each with its origin."""

    view_id: int
    frames: tuple[tuple[SiteId, Data[B]], ...]
    is_last: bool  # of this answer

    def payload_bytes(self) -> int:
        return sum([data.payload_bytes() for _, data in self.frames])


class StateAsk(Word, frozen=True, gc=False, array_like=True, tag=54):
    """Asks for a piece of the group's state as of the installation of a view."""

    view_id: int
    offset: int


class StatePiece(Word, frozen=True, gc=False, array_like=True, tag=55):
    """A piece of that state."""

    view_id: int
    offset: int
    total: int
    piece: bytes


Frame = Data[Any]
