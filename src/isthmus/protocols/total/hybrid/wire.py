"""The wire types of the hybrid protocol, and its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Generic, Literal

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.message import B, Carried, Cast, Message, SiteId, Targets
from isthmus.core.validation import DURATION_MAX_MS, BadValue, check_range, show
from isthmus.protocols.estimator import EstimatorOptions
from isthmus.protocols.total.hybrid.clocks import ClockName

Number = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Index = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
RANGE_MAX = 1024  # entries that one range of tickets orders
Count = Annotated[int, msgspec.Meta(ge=1, le=RANGE_MAX)]
Ticket = tuple[Number, SiteId, Index, Count]  # first number, sender and first index of the entries, how many


RuleName = Literal["fixed", "paper", "dynamic", "planned", "restless"]


class HybridPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the hybrid protocol that do not depend on roles."""

    clock: ClockName = "rate"
    null_ms: float = 25.0  # silence of an active process after which it sends a null; 0: never
    eager: bool = True  # tickets for others' messages leave at once; otherwise with the next message or null
    threshold: float = 0.2  # by how much a period must differ from the delay before a role changes
    estimator: EstimatorOptions = EstimatorOptions()

    def __post_init__(self) -> None:
        if self.null_ms and not 0.1 <= self.null_ms <= DURATION_MAX_MS:
            raise BadValue("null_ms", show(self.null_ms), f"0, or a number from 0.1 to {DURATION_MAX_MS:g}")
        check_range("threshold", self.threshold, 0, 10)


class HybridOptions(HybridPolicy, frozen=True, kw_only=True):
    """The same with the active sites, by their ids."""

    rule: RuleName | None = None  # None: as the stack has it (stacks/assembly.py); fixed in a layer by itself
    active: Targets | None = None  # of the fixed rule; None: as the stack has it; all sites in a layer by itself
    sequencer_of: dict[SiteId, SiteId] = msgspec.field(default_factory=dict)  # where not the nearest active site
    distances: tuple[tuple[float, ...], ...] = ()  # ms between sites by the topology, used until measured


class RoleRequest(Message, frozen=True, gc=False, array_like=True, tag=24):
    """A request for another role; ordered like a message, so that all members change at one place."""

    active: bool
    period_ns: float = 0.0  # the reasons: the period of its application,
    delays_ns: tuple[float, ...] = ()  # and its delay to each member of the view


class RolePlan(Message, frozen=True, gc=False, array_like=True, tag=34):
    """A role for each member, proposed by the eldest; ordered like a message, so that all adopt it at one place."""

    sequencers: Targets  # of the members, in the order of the view; itself where it is to be active

    def fits(self, members: Targets) -> bool:
        """Whether it is a plan for these members: each sequencer is active."""
        of = dict(zip(members, self.sequencers, strict=False))
        return len(self.sequencers) == len(members) and all(of.get(other) == other for other in self.sequencers)


ENTRY_TYPES = {Cast, Carried, RoleRequest, RolePlan, type(None)}


class TicketPacket(Message, Generic[B], frozen=True, gc=False, array_like=True, tag=21):
    """Tickets and a promise, and perhaps entries: one packet of a member's FIFO stream to all.

    The entries have the indices from `index` on. Those of an active process have the tickets up to `promise`.
    """

    promise: Number  # later tickets of this issuer are higher; 0 of a passive process
    tickets: tuple[Ticket, ...] = ()  # of others' entries, in order
    index: Index = 0  # of the first entry among the sender's in this view: 1, 2, 3 ...; 0: there is none
    sequencer: SiteId = SiteId(0)  # is to ticket the entries,
    role_number: int = 0  # in which of its terms
    bodies: tuple[B | None, ...] = ()  # Cast, Carried, RoleRequest or RolePlan; None: sent ahead to its destinations

    def payload_bytes(self) -> int:
        return sum([body.payload_bytes() for body in self.bodies if body is not None])  # type: ignore[attr-defined]

    def subjects(self) -> tuple[Cast, ...]:
        return tuple([body for body in self.bodies if isinstance(body, Cast)])

    def check(self, source: SiteId, received: Mapping[SiteId, int]) -> None:
        """Refuse a packet that breaks the protocol; `received` is the last index of each member."""
        tickets, bodies = self.tickets, self.bodies
        if source not in received or any(ticket[1] not in received for ticket in tickets):
            raise RemoteError(f"a packet of site {source} with others than members")
        if tickets and tickets[-1][0] + tickets[-1][3] - 1 > self.promise:
            raise RemoteError(f"site {source} promises {self.promise}, below a ticket it issues")
        if bool(self.index) != bool(bodies) or len(bodies) > RANGE_MAX:
            raise RemoteError(f"{len(bodies)} entries of site {source} from index {self.index} on")
        if not self.index:
            return
        if self.sequencer == source and self.promise < len(bodies):
            raise RemoteError(f"entry {self.index} of site {source} has no ticket, nor a sequencer to issue one")
        if self.index <= received[source]:  # some may be missing, where their sender died
            raise RemoteError(f"entry {self.index} of site {source}; the last was {received[source]}")
        if not ENTRY_TYPES.issuperset(map(type, bodies)):
            raise RemoteError(f"entry {self.index} of site {source} is neither a message nor a request")


class BodyAhead(Message, Generic[B], frozen=True, gc=False, array_like=True, tag=32):
    """The body of an entry that is for some members only, sent to them just before the packet that goes to all."""

    index: Index
    cast: B  # Cast, or Carried

    def payload_bytes(self) -> int:
        return self.cast.payload_bytes()  # type: ignore[attr-defined,no-any-return]

    def subjects(self) -> tuple[Cast, ...]:
        return (self.cast,)  # type: ignore[return-value]


class ReassignEntries(Message, frozen=True, gc=False, array_like=True, tag=30):
    """Another process is to ticket the sender's entries after one index, up to another."""

    after: Index
    upto: Index
    sequencer: SiteId
    role_number: int


class RoleState(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The active members and the term of each member: the state for a member that joins."""

    active: Targets
    role_numbers: tuple[int, ...]  # in the order of the view's members
