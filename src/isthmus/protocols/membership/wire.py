"""Messages by which the members of a group agree on views.

Each names the incarnation of its sender; those of earlier lives are dropped. A message about a view names the
incarnation under which its sender sits in that view, its *seat*: for a site that came back and votes by its file, that
is an earlier one. None of these messages belongs to a view in the sense of a port: they are what changes it.
"""

from __future__ import annotations

from typing import Any, Generic

import msgspec

from isthmus.core.layer import Life, View
from isthmus.core.message import B, Message, SiteId, Targets
from isthmus.protocols.membership.cut import CutSlice, Holding
from isthmus.protocols.transport.reliable.frames import Data

Ballot = tuple[int, SiteId, int]  # round, proposer's life; ordered
NO_BALLOT: Ballot = (0, SiteId(-1), -1)
LAYERS, APPLICATION = 0, 1  # the parts of a group's state
VIEWS_KEPT = 6  # views for which a snapshot is kept


class StateTask(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A member without the state, the view whose state it fetches, and the member that took it there."""

    site: SiteId
    base: int
    giver: SiteId


class TransferReport(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a member lacks, and can give, of the application's state."""

    has_layers: bool = False  # its stack is in the view
    base: int = 0  # it fetches the state of this view; 0: it may begin with another
    kept: tuple[int, ...] = ()  # the bases whose state it has
    gives: bool = False  # its application has a state to give
    avoided: Targets = ()  # members that gave it a wrong one


class Proposal(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A successor of a view, with the frames that are delivered before it is installed."""

    view_id: int  # of the view that it follows
    electors: Targets  # the members of that view
    view: View  # the successor
    cut: tuple[CutSlice, ...]
    stateful: Targets  # members of the successor that have the application's state
    restart: bool = False  # no member has the state any more: all begin anew, with what those that are stateful have
    transfers: tuple[StateTask, ...] = ()  # to members of the successor that lack the state

    def begins_at(self, site: SiteId) -> bool:
        """Whether a member begins anew, with the state that its process has."""
        return self.restart and site in self.stateful


class MembershipMessage(Message, frozen=True, gc=False, array_like=True):
    """A message of the membership, from one life of a site."""

    viewless = True
    incarnation: int  # of the sender


class ViewMessage(MembershipMessage, frozen=True, gc=False, array_like=True):
    """A message about a view."""

    seat: int  # the incarnation that sits in the view
    view_id: int


class Here(ViewMessage, frozen=True, gc=False, array_like=True, tag=41):
    """Announces the view that its sender is in, whether it has the application's state, and whether it leaves."""

    stateful: bool
    leaving: bool = False


class Prepare(ViewMessage, frozen=True, gc=False, array_like=True, tag=42):
    """Asks a member of a view for its promise."""

    ballot: Ballot


class Promise(ViewMessage, frozen=True, gc=False, array_like=True, tag=43):
    """Promises to take no lower ballot; reports what its sender accepted, holds and suspects."""

    ballot: Ballot
    accepted: tuple[Ballot, Proposal] | None
    report: tuple[Holding, ...] | None  # None: by the file alone; it has nothing to report
    suspects: Targets
    stateful: bool
    leaving: bool
    transfer: TransferReport = TransferReport()


class Propose(ViewMessage, frozen=True, gc=False, array_like=True, tag=44):
    """Asks to accept a successor of the view."""

    ballot: Ballot
    proposal: Proposal


class Accepted(ViewMessage, frozen=True, gc=False, array_like=True, tag=45):
    """Votes for the proposal of a ballot, whose cut its sender holds."""

    ballot: Ballot


class Decide(MembershipMessage, frozen=True, gc=False, array_like=True, tag=46):
    """Announces a decided proposal."""

    proposal: Proposal


class Nudge(ViewMessage, frozen=True, gc=False, array_like=True, tag=47):
    """Asks a coordinator to act."""

    suspects: Targets
    round: int  # of the highest ballot that its sender knows
    passed_on: bool = False


class Nack(ViewMessage, frozen=True, gc=False, array_like=True, tag=48):
    """Refuses a ballot: a higher one was promised."""

    promised: Ballot


class Join(MembershipMessage, frozen=True, gc=False, array_like=True, tag=49):
    """Asks to be admitted; names the lives that have answered lately."""

    asked_ns: int  # by its sender's clock
    answered: tuple[Life, ...]


class JoinAck(MembershipMessage, frozen=True, gc=False, array_like=True, tag=50):
    """Acknowledges a request to join."""

    asked_incarnation: int
    asked_ns: int


class Gone(MembershipMessage, frozen=True, gc=False, array_like=True, tag=51):
    """Announces that others have gone on without this life of the receiver."""

    view_id: int
    gone_incarnation: int


class Behind(MembershipMessage, frozen=True, gc=False, array_like=True, tag=56):
    """Tells a life that asks to join that a higher one of its site is known: it is to come back above that."""

    asked_incarnation: int
    highest: int


class Prove(MembershipMessage, frozen=True, gc=False, array_like=True, tag=57):
    """Challenges a site to show which life it is in; answered to any life."""

    nonce: int


class Proof(MembershipMessage, frozen=True, gc=False, array_like=True, tag=58):
    """Returns the nonce of a challenge; its `incarnation` is the one that is proved."""

    nonce: int


class Fetch(MembershipMessage, frozen=True, gc=False, array_like=True, tag=52):
    """Asks for pieces of frames of a closing view: origin, number and offset of each."""

    view_id: int
    piece_bytes: int
    wanted: tuple[tuple[SiteId, int, int], ...]


class WholeFrame(Message, Generic[B], frozen=True, gc=False, array_like=True, tag=38):
    """A frame as it travels in pieces; never a packet of its own."""

    viewless = True
    data: Data[B]


class FramePiece(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A piece of an encoded frame."""

    origin: SiteId
    seq: int
    offset: int
    total: int  # bytes of the frame
    data: bytes


class Frames(MembershipMessage, frozen=True, gc=False, array_like=True, tag=53):
    """Answers a `Fetch`, with every frame that it names: pieces, or why there are none."""

    bulk = True
    view_id: int
    pieces: tuple[FramePiece, ...]
    stable: tuple[tuple[SiteId, int], ...] = ()  # origin, and up to where all its frames are stable
    lack: tuple[tuple[SiteId, int], ...] = ()  # origin and number of frames that are not here

    def payload_bytes(self) -> int:
        return sum([len(piece.data) for piece in self.pieces])


class Progress(ViewMessage, frozen=True, gc=False, array_like=True, tag=59):
    """Tells the proposer of a ballot that its cut is on the way here."""

    ballot: Ballot


class StateAsk(MembershipMessage, frozen=True, gc=False, array_like=True, tag=54):
    """Asks for pieces of one part of the group's state as of the installation of a view."""

    base: int
    part: int
    digest: bytes  # of the whole part; b"": of any giver
    size: int  # of a piece
    offsets: tuple[int, ...]


class StatePiece(MembershipMessage, frozen=True, gc=False, array_like=True, tag=55):
    """Carries a piece of that part; or says that it is not here, or being taken."""

    bulk = True
    base: int
    part: int
    digest: bytes
    offset: int
    total: int
    piece: bytes

    def payload_bytes(self) -> int:
        return len(self.piece)


Frame = Data[Any]
