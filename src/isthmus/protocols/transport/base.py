"""Interface of every transport at the bottom of a stack, to the layers above and to the view-synchronous service.

A view change needs three things of a transport: `block` (send nothing new), `unstable` (the frames of this view that
another member may lack) and `absorb` (take a frame that another survivor holds). Once every survivor has absorbed the
union of what the survivors hold, all have delivered the same messages, and the view may be installed.

Where the members agree on the view themselves they first `freeze`: from then on until the next view a transport sends,
delivers, acknowledges and drops nothing, so that its report stays true. `holding` is that report, `frames` all that it
has, also frames ahead of a gap.

While a transport is blocked it is not `writable`, and flow control above holds the application's messages back. What
ordering layers still submit belongs to a closing view: no member would accept it in the next one, so it is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from isthmus.core.errors import LocalError, RemoteError
from isthmus.core.layer import Kind, Layer, View
from isthmus.core.message import Batch, Carried, Cast, Message, SiteId, Targets

M = TypeVar("M", bound=Message)
PLAIN = {Cast}
LIST_MAX = 1 << 20  # messages in one list: no bound
BODY_BYTES = 24  # what a body takes in a frame besides its payload, about


class Transport(Layer):
    """The bottom of a stack: multicasts any message of the layers above it to members of the view."""

    __slots__ = ("blocked", "view")

    def __init__(self) -> None:
        self.view = View(0, ())
        self.blocked = True  # until the first view, and while a view changes

    def unstable(self, origin: SiteId) -> Mapping[int, Message]:  # noqa: ARG002
        """The frames of an origin delivered here that may be missing elsewhere, by number."""
        return {}

    def absorb(self, origin: SiteId, frame: Message, over_gap: bool = False) -> bool:
        """Take a frame that another survivor delivered; whether it is delivered here now, or is not for this site.

        It is not while an earlier one is missing. It goes over the gap if no survivor has the missing frame: its origin
        died, and the missing frame was not addressed to the members that delivered this one.
        """
        raise LocalError(
            f"{type(self).__name__} holds no frames: it cannot take {frame} of site {origin} ({over_gap=})"
        )

    def freeze(self) -> None:
        """Send, hand up, acknowledge and drop nothing until the next view, but for what is absorbed."""
        raise LocalError(f"{type(self).__name__} keeps no frames, so its members cannot agree on views")

    def frames(self, origin: SiteId) -> Mapping[int, Any]:
        """All frames of an origin that are here and may be missing elsewhere, by number."""
        return self.unstable(origin)

    def holding(self, origin: SiteId) -> tuple[int, list[int], list[int]]:  # noqa: ARG002
        """Up to where frames of an origin are stable, which later ones were delivered, which are ahead of a gap."""
        return 0, [], []

    def drop_held(self) -> None:
        """Drop the undelivered frames ahead of a gap: those of the cut will be absorbed."""

    def allowance(self) -> int:
        return LIST_MAX

    def settled(self) -> bool:
        """Whether all targets are known to have what was submitted."""
        return True

    def lagging(self) -> Targets:
        """The members not known to have all frames sent to them."""
        return ()

    def writable(self) -> bool:
        return not self.blocked

    def sends_at_once(self, destinations: Targets) -> bool:  # noqa: ARG002
        return self.writable()

    def consumed(self, cast: Cast) -> None:
        """Ignore the call, which is meant for flow control."""

    def consumed_all(self, casts: Sequence[Cast]) -> None:
        """Ignore the call, which is meant for flow control."""

    def block(self) -> None:
        """Send nothing new until the next view."""
        self.blocked = True

    def install(self, view: View) -> None:
        self.blocked = True
        self.view = view

    def resume(self) -> None:
        self.blocked = False
        self.above.resume()

    def check_body(self, origin: SiteId, body: Message) -> None:
        """Refuse a body that no layer here owns, or that names another author."""
        if type(body) is Batch:
            for one in body.bodies:
                if type(one) is not Cast or one.sender != origin:
                    if type(one) is Batch:
                        raise RemoteError(f"site {origin} sent a batch within a batch")
                    self.check_body(origin, one)
            return
        if body.forwarded and type(body) in self.stack.owners:
            return
        for cast in body.subjects():
            if type(cast) is Cast and cast.sender == origin:
                continue
            if not isinstance(cast, Cast) or cast.sender != origin:
                raise RemoteError(f"site {origin} sent a message of another author: {cast}")
            if isinstance(cast, Carried) and not self.stack.accepts_author(origin, cast):
                raise RemoteError(f"site {origin} carries a message that no layer here accepts from it: {cast}")
        if not isinstance(body, Cast) and type(body) not in self.stack.owners:
            raise RemoteError(f"no layer owns {type(body).__name__}")

    def hand_up(self, origin: SiteId, body: Message) -> None:
        """Give a body to the layer that owns its type; the application's messages go up by `deliver`."""
        if isinstance(body, Cast):
            self.above.deliver(body)
            return
        try:
            self.stack.owners[type(body)](origin, body)
        except RemoteError:  # refused by its owner; the stream it came in goes on
            self.host.trace(Kind.REJECT, value=origin)

    def hand_up_batch(self, origin: SiteId, bodies: Sequence[Message]) -> None:
        """Give the bodies of a batch to their owners, messages that follow each other as one list."""
        if PLAIN.issuperset(map(type, bodies)):
            if bodies:
                self.above.deliver_all(bodies)  # type: ignore[arg-type]
            return
        run: list[Cast] = []
        for body in bodies:
            if isinstance(body, Cast):
                run.append(body)
                continue
            if run:
                self.above.deliver_all(run)
                run = []
            self.hand_up(origin, body)
        if run:
            self.above.deliver_all(run)


def cut(bodies: Sequence[M], limit_bytes: int) -> list[Sequence[M]]:
    """The same bodies in parts, each within a limit unless one body alone exceeds it."""
    sizes = [BODY_BYTES + (len(one.payload) if isinstance(one, Cast) else one.payload_bytes()) for one in bodies]
    if sum(sizes) <= limit_bytes:
        return [bodies]
    parts: list[Sequence[M]] = []
    size, start = 0, 0
    for place, taken in enumerate(sizes):
        if size + taken > limit_bytes and place > start:
            parts.append(bodies[start:place])
            size, start = 0, place
        size += taken
    parts.append(bodies[start:])
    return parts


# The flush of a view change by an ideal service, which has all transports in one place, as golden scripts have


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
