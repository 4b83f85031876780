"""What every transport at the bottom of a stack offers, and what a view-synchronous service asks of it.

A view change needs three things of a transport: `block` (send nothing new), `unstable` (the frames of this view that
somebody may lack) and `absorb` (take a frame that another survivor holds). Once every survivor absorbed the union of
what the survivors hold, all have handed up the same messages, and the view may be installed.

Where the members agree on the view themselves they first `freeze`: from then on until the next view a transport sends,
hands up, acknowledges and drops nothing, so that what it reported stays true. `holding` is that report, `frames` all
that it has, also what waits ahead of a gap.

While a transport is blocked it is not `writable`, and flow control above holds the application's messages back. What
ordering layers still submit belongs to a view that is closing: nobody would take it in the next one, so it is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from isthmus.core.errors import LocalError, RemoteError
from isthmus.core.layer import Kind, Layer, View
from isthmus.core.message import Batch, Carried, Cast, Message, SiteId, Targets

M = TypeVar("M", bound=Message)
PLAIN = {Cast}
LIST_MAX = 1 << 20  # messages in one list: as many as anybody has
BODY_BYTES = 24  # what a body takes in a frame besides its payload, about


class Transport(Layer):
    """The bottom of a stack: multicasts any message of the layers above it to members of the view."""

    __slots__ = ("blocked", "view")

    def __init__(self) -> None:
        self.view = View(0, ())
        self.blocked = True  # until the first view, and while a view changes

    def unstable(self, origin: SiteId) -> Mapping[int, Message]:  # noqa: ARG002
        """The frames of an origin handed up here that may be missing elsewhere, by number."""
        return {}

    def absorb(self, origin: SiteId, frame: Message, over_gap: bool = False) -> bool:
        """Take a frame that another survivor handed up; whether it is handed up here now, or is not for us.

        It is not while one before it is missing. Over the gap it goes where the missing one is nowhere: its origin died
        and nobody who is left has it. Those who handed this frame up were not addressed by the missing one.
        """
        raise LocalError(
            f"{type(self).__name__} holds no frames, so {frame} of site {origin} is not for it: {over_gap}"
        )

    def freeze(self) -> None:
        """Send, hand up, acknowledge and drop nothing until the next view, but for what is absorbed."""
        raise LocalError(f"{type(self).__name__} keeps no frames, so its members cannot agree on views")

    def frames(self, origin: SiteId) -> Mapping[int, Any]:
        """All frames of an origin that are here and may be missing elsewhere, by number."""
        return self.unstable(origin)

    def holding(self, origin: SiteId) -> tuple[int, list[int], list[int]]:  # noqa: ARG002
        """Up to where frames of an origin are stable, which later ones were handed up, which are ahead of a gap."""
        return 0, [], []

    def drop_held(self) -> None:
        """Drop the frames ahead of a gap that were not handed up: those that count will be absorbed."""

    def allowance(self) -> int:
        return LIST_MAX

    def settled(self) -> bool:
        """Whether all that was submitted is known to be where it should."""
        return True

    def lagging(self) -> Targets:
        """The members that are not known to have all that they were sent."""
        return ()

    def writable(self) -> bool:
        return not self.blocked

    def sends_at_once(self, destinations: Targets) -> bool:  # noqa: ARG002
        return self.writable()

    def consumed(self, cast: Cast) -> None:
        """The end of the line for what only flow control wants to know."""

    def consumed_all(self, casts: Sequence[Cast]) -> None:
        """The same."""

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
        """Refuse a body that no layer here owns, or that speaks in another's name."""
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
                raise RemoteError(f"site {origin} sent a message in another's name: {cast}")
            if isinstance(cast, Carried) and not self.stack.accepts_author(origin, cast):
                raise RemoteError(f"site {origin} carries a message that no layer here accepts from it: {cast}")
        if not isinstance(body, Cast) and type(body) not in self.stack.owners:
            raise RemoteError(f"no layer owns {type(body).__name__}")

    def hand_up(self, origin: SiteId, body: Message) -> None:
        """Give a body to the layer that owns its type; the application's messages climb by `deliver`."""
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
