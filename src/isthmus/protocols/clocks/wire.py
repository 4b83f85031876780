"""Wire types of the clock service, and its requirements on a host."""

from __future__ import annotations

from typing import Annotated, ClassVar, Protocol

import msgspec

from isthmus.core.layer import Host, Reading
from isthmus.core.message import Message
from isthmus.protocols.clocks.agreement import Attempt, Reception, Time

Round = Annotated[int, msgspec.Meta(ge=1, le=2**60)]


class Candidate(Message, frozen=True, gc=False, array_like=True, tag=120):
    """A broadcast that all sites of a LAN receive at nearly the same instant."""

    round: Round
    attempt: Attempt = 0  # counts retransmissions: each is received at another instant

    def again(self) -> Candidate:
        """The candidate for a retransmission."""
        return Candidate(self.round, self.attempt + 1)


class Receptions(Message, frozen=True, gc=False, array_like=True, tag=121):
    """The sender's stamps of the candidates of a round, in the order of the view."""

    round: Round
    table: tuple[Reception | None, ...]


class TableRequest(Message, frozen=True, gc=False, array_like=True, tag=122):
    """Requests the receiver's table of a round again."""

    round: Round


class TimeRequest(Message, frozen=True, gc=False, array_like=True, tag=123):
    """Requests the time, for a LAN without a reference."""

    viewless: ClassVar[bool] = True
    sent_ns: Time  # the requester's hardware clock


class TimeReply(Message, frozen=True, gc=False, array_like=True, tag=124):
    """The interval of true time when the request arrived."""

    viewless: ClassVar[bool] = True
    sent_ns: Time  # of the request
    earliest_ns: Time
    latest_ns: Time


class ClockHost(Host, Protocol):
    """A host with what the clock service needs beyond every layer's needs."""

    received_ns: int  # when the message in hand was received, on the clock of now_ns; as near the wire as can be

    def calendar(self) -> Reading: ...  # the site's own calendar, which the service starts from
    def reference(self) -> Reading | None: ...  # what a reference here read at the reception; None: there is none
