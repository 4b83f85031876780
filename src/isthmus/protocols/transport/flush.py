"""The flush of a view change by an ideal service: makes the messages delivered by the survivors' transports equal.

It needs all transports in one place, so only the simulator's ideal membership and golden scripts can do it.
"""

from __future__ import annotations

from collections.abc import Sequence

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Kind
from isthmus.core.message import Message, SiteId
from isthmus.protocols.transport.base import Transport


def flush(members: tuple[SiteId, ...], transports: Sequence[Transport]) -> None:
    """Make the messages that the survivors' transports have delivered equal."""
    for origin in members:
        while spread(origin, transports):
            pass


def spread(origin: SiteId, transports: Sequence[Transport]) -> bool:
    """Give every transport the frames of an origin that any of them delivered; whether that made a difference.

    A frame given to one may complete what it held behind a gap, and so be new to the others: repeat until nothing
    changes. Then the lowest frame that a transport cannot take goes over the gap before it, and so on. In this order no
    frame below it can appear any more: a transport that could deliver one would have to pass a gap first, and for that
    needs a frame above it.
    """
    frames: dict[int, Message] = {}
    for transport in transports:
        frames |= transport.unstable(origin)
    count = handed_up(origin, transports)
    stuck = [
        (frame, transport)
        for _, frame in sorted(frames.items(), key=lambda item: item[0])
        for transport in transports
        if not taken(transport, origin, frame)
    ]
    if handed_up(origin, transports) > count:
        return True
    for frame, transport in stuck[:1]:
        taken(transport, origin, frame, over_gap=True)
    return bool(stuck)


def taken(transport: Transport, origin: SiteId, frame: Message, over_gap: bool = False) -> bool:
    """Give a transport a frame; whether it is done with it: delivered, not for its site, or refused.

    A frame that one survivor refuses, all refuse by the same rules, so they stay equal without it.
    """
    try:
        return transport.absorb(origin, frame, over_gap)
    except RemoteError:
        transport.host.trace(Kind.REJECT, value=origin)
        return True


def handed_up(origin: SiteId, transports: Sequence[Transport]) -> int:
    return sum(len(transport.unstable(origin)) for transport in transports)
