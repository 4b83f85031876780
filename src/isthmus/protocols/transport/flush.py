"""The flush of a view change, done from outside: what the survivors' transports have handed up is made equal.

It needs all of them in one place, so only an ideal service can do it: the simulator's, and that of golden scripts.
"""

from __future__ import annotations

from collections.abc import Sequence

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Kind
from isthmus.core.message import Message, SiteId
from isthmus.protocols.transport.base import Transport


def flush(members: tuple[SiteId, ...], transports: Sequence[Transport]) -> None:
    """Make what the transports of the survivors have handed up equal."""
    for origin in members:
        while spread(origin, transports):
            pass


def spread(origin: SiteId, transports: Sequence[Transport]) -> bool:
    """Give every transport what any of them handed up of an origin; whether that made a difference.

    A frame given to one may complete what it held behind a gap, and so be new to the others: hence again and again,
    until nothing moves. Then the lowest frame that somebody cannot take goes over the gap before it, and so on. In this
    order no frame below it can turn up any more: whoever could hand one up would have to get past a gap first, and for
    that needs a frame above it.
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
    """Give a transport a frame; whether nothing is left to do with it: it is handed up, not for us, or refused.

    What one survivor refuses all do, as they go by the same rules, so that they stay equal without it.
    """
    try:
        return transport.absorb(origin, frame, over_gap)
    except RemoteError:
        transport.host.trace(Kind.REJECT, value=origin)
        return True


def handed_up(origin: SiteId, transports: Sequence[Transport]) -> int:
    return sum(len(transport.unstable(origin)) for transport in transports)
