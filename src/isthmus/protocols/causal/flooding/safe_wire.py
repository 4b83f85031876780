"""Wire types of a flood whose links are opened and closed while messages flow.

`LinkMessage`, `Ping`, `Close` and `Welcome` go through the FIFO channels of links; the others are packets of their own,
by any route of the network. A life is an incarnation: a message for an earlier life of a site is ignored.
"""

from __future__ import annotations

from typing import Generic

import msgspec

from isthmus.core.message import B, Cast, Message, SiteId
from isthmus.core.validation import COUNT_MAX, DURATION_MAX_MS, PERIOD_MIN_MS, check_range

Vector = tuple[tuple[SiteId, int], ...]  # the last number delivered of each sender


class DynamicOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times and bounds of links that are opened while messages flow."""

    buffer_max: int = 1024  # messages that wait for a new link; beyond, its receiver is asked for its vector
    log_max: int = 4096  # messages kept for receivers that send their vector
    ping_max: int = 3  # attempts by PING before the receiver is asked for its vector
    retry_ms: float = 500.0  # between attempts; doubles up to eight times as long

    def __post_init__(self) -> None:
        for key in ("buffer_max", "log_max", "ping_max"):
            check_range(key, getattr(self, key), 1, COUNT_MAX, "a whole number")
        check_range("retry_ms", self.retry_ms, PERIOD_MIN_MS, DURATION_MAX_MS)


class LinkMessage(Message, Generic[B], frozen=True, gc=False, array_like=True, tag=85):
    """A message on one link; the order needs only its sender and number."""

    forwarded = True

    cast: B

    def payload_bytes(self) -> int:
        return len(self.cast.payload)  # type: ignore[attr-defined]

    def subjects(self) -> tuple[Cast, ...]:
        return (self.cast,)  # type: ignore[return-value]


class Ping(Message, frozen=True, gc=False, array_like=True, tag=100):
    """Follows, over safe links, everything that its origin had delivered when it opened a link to the target."""

    origin: SiteId
    life: int  # of the origin
    target: SiteId
    number: int  # of the origin's attempt
    hops: int  # left
    flooded: bool = False  # to all neighbours; otherwise greedily towards the target's id


class Close(Message, frozen=True, gc=False, array_like=True, tag=101):
    """Ends a link: nothing follows."""


class Welcome(Message, frozen=True, gc=False, array_like=True, tag=88):
    """First message on the link from a joiner's contact: what the contact has delivered."""

    vector: Vector


class Pong(Message, frozen=True, gc=False, array_like=True, tag=89):
    """Answers a Ping."""

    viewless = True

    life: int  # of the origin
    number: int


class VectorRequest(Message, frozen=True, gc=False, array_like=True, tag=94):
    """Requests the vector of a new link's receiver, where no Ping gets through."""

    viewless = True

    life: int  # of the requester
    target_life: int
    number: int


class VectorReply(Message, frozen=True, gc=False, array_like=True, tag=95):
    """Answers a VectorRequest."""

    viewless = True

    life: int  # of the requester
    number: int
    vector: Vector


class Stranded(Message, frozen=True, gc=False, array_like=True, tag=96):
    """The sender no longer has what the receiver lacks."""

    viewless = True

    target_life: int
