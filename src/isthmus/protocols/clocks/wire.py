"""What the clock services of sites send each other, and what they need of a host."""

from __future__ import annotations

from typing import Annotated, ClassVar, Protocol

import msgspec

from isthmus.core.layer import Host, Reading
from isthmus.core.message import Message
from isthmus.protocols.clocks.agreement import Attempt, Reception, Time

Round = Annotated[int, msgspec.Meta(ge=1, le=2**60)]


class Candidate(Message, frozen=True, gc=False, array_like=True, tag=120):
    """A transmission that all of a LAN receive at nearly the same instant; what counts is when."""

    round: Round
    attempt: Attempt = 0  # a copy that had to be sent again says so: it was received at another instant

    def again(self) -> Candidate:
        """The same as it is sent again."""
        return Candidate(self.round, self.attempt + 1)


class Receptions(Message, frozen=True, gc=False, array_like=True, tag=121):
    """When its sender received the candidates of a round, in the order of the view."""

    round: Round
    table: tuple[Reception | None, ...]


class TableRequest(Message, frozen=True, gc=False, array_like=True, tag=122):
    """The receiver's table of a round has not come: it is to be sent again."""

    round: Round


class TimeRequest(Message, frozen=True, gc=False, array_like=True, tag=123):
    """What time is it? From a LAN without a reference."""

    viewless: ClassVar[bool] = True
    sent_ns: Time  # the asker's hardware clock


class TimeReply(Message, frozen=True, gc=False, array_like=True, tag=124):
    """True time lay within this when the question came."""

    viewless: ClassVar[bool] = True
    sent_ns: Time  # of the question
    earliest_ns: Time
    latest_ns: Time


class ClockHost(Host, Protocol):
    """What the clock service needs of a host beside what every layer does."""

    received_ns: int  # when the message in hand was received, on the clock of now_ns; as near the wire as can be

    def calendar(self) -> Reading: ...  # the site's own calendar, which the service starts from
    def reference(self) -> Reading | None: ...  # what a reference here read at the reception; None: there is none
