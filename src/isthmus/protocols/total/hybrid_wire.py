"""What the hybrid protocol says on the wire, and what it leaves open."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from isthmus.core.document import LONGEST_MS, Invalid, show, within
from isthmus.core.message import Cast, Message, SiteId, Targets
from isthmus.protocols.estimator import EstimatorOptions
from isthmus.protocols.total.clocks import ClockName

Number = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Index = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Ticket = tuple[Number, SiteId, Index]  # its number, and the sender and index of the entry that it orders


class HybridPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How the hybrid protocol works, whoever is active."""

    clock: ClockName = "rate"
    null_ms: float = 25.0  # an active process that has nothing to say says so after this time; 0: never
    eager: bool = True  # tickets for others' messages leave at once; otherwise with the next message or null
    threshold: float = 0.2  # by how much a period must differ from the delay before a role changes
    estimator: EstimatorOptions = EstimatorOptions()

    def __post_init__(self) -> None:
        if self.null_ms and not 0.1 <= self.null_ms <= LONGEST_MS:
            raise Invalid("null_ms", show(self.null_ms), f"0, or a number from 0.1 to {LONGEST_MS:g}")
        within("threshold", self.threshold, 0, 10)


class HybridOptions(HybridPolicy, frozen=True, kw_only=True):
    """The same with who is active, sites by their ids."""

    rule: Literal["fixed", "paper", "dynamic", "restless"] = "fixed"
    active: Targets | None = None  # of the fixed rule; None: everybody
    # Where the nearest active process is not what is wanted:
    sequencer_of: dict[SiteId, SiteId] = msgspec.field(default_factory=dict)
    distances: tuple[tuple[float, ...], ...] = ()  # from site to site by the topology: until measured


class Go(Message, frozen=True, gc=False, array_like=True, tag=24):
    """A member asks for another role; ordered like a message, so that all change the configuration at one place."""

    active: bool
    period_ns: float = 0.0  # the reasons: how often its application sends,
    delays_ns: tuple[float, ...] = ()  # and how far each member of the view is from it


class Packet(Message, frozen=True, gc=False, array_like=True, tag=21):
    """Tickets and a promise, and perhaps an entry: one packet of a member's FIFO stream to all."""

    view_id: int
    promise: Number  # later tickets of this issuer are higher; also the ticket of its own entry; 0 of a passive process
    tickets: tuple[Ticket, ...] = ()  # of others' entries, in order
    index: Index = 0  # of the entry among the sender's in this view: 1, 2, 3 ...; 0: there is none
    sequencer: SiteId = SiteId(0)  # who is to ticket the entry,
    role_number: int = 0  # in which of its terms
    body: Cast | Go | None = None  # None also where it went ahead, to those whom it is for

    def payload_bytes(self) -> int:
        return self.body.payload_bytes() if self.body is not None else 0

    def subject(self) -> Cast | None:
        return self.body if type(self.body) is Cast else None


class Ahead(Message, frozen=True, gc=False, array_like=True, tag=32):
    """The body of an entry that is for some members only, sent to them just before the packet that goes to all."""

    view_id: int
    index: Index
    cast: Cast

    def payload_bytes(self) -> int:
        return self.cast.payload_bytes()

    def subject(self) -> Cast:
        return self.cast


class Reassign(Message, frozen=True, gc=False, array_like=True, tag=30):
    """The sender's entries after one index, up to another, are to be ticketed by somebody else."""

    view_id: int
    after: Index
    upto: Index
    sequencer: SiteId
    role_number: int


class Configuration(Message, frozen=True, gc=False, array_like=True, tag=31):
    """Who is active, and in which term each member is: from the eldest member, for those who joined."""

    view_id: int
    active: Targets
    role_numbers: tuple[int, ...]  # in the order of the view's members
