"""What every transport at the bottom of a stack offers, and what a view-synchronous service asks of it.

A view change needs three things of a transport: `block` (send nothing new, queue it), `unstable` (the frames of this
view that somebody may lack) and `absorb` (take a frame that another survivor holds). Once every survivor absorbed the
union of what the survivors hold, all have handed up the same messages, and the view may be installed.
"""

from __future__ import annotations

from collections.abc import Mapping

from isthmus.core.errors import LocalError, RemoteError
from isthmus.core.layer import Kind, Layer, View
from isthmus.core.message import ALL, Cast, Message, SiteId, Targets


class Transport(Layer):
    """The bottom of a stack: multicasts any message of the layers above it to members of the view."""

    __slots__ = ("blocked", "view", "waiting")

    def __init__(self) -> None:
        self.view = View(0, ())
        self.blocked = True  # until the first view, and while a view changes
        # Submitted while blocked. Bounded: flow control above stops at `writable`, the rest is a few control messages.
        self.waiting: list[tuple[Message, Targets]] = []

    def multicast(self, message: Message, targets: Targets) -> None:
        """Send a message of the current view."""
        raise NotImplementedError

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

    def settled(self) -> bool:
        """Whether all that was submitted is known to be where it should."""
        return not self.waiting

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        if self.blocked:
            self.waiting.append((message, targets))
        else:
            self.multicast(message, targets)

    def writable(self) -> bool:
        return not self.blocked

    def consumed(self, cast: Cast) -> None:
        """The end of the line for what only flow control wants to know."""

    def block(self) -> None:
        """Send nothing new until the next view."""
        self.blocked = True

    def install(self, view: View) -> None:
        assert view.view_id > self.view.view_id and self.host.site in view.members
        self.blocked = True
        self.view = view

    def resume(self) -> None:
        self.blocked = False
        waiting, self.waiting = self.waiting, []
        for message, targets in waiting:
            self.multicast(message, targets)
        self.above.resume()

    def check_body(self, origin: SiteId, body: Message) -> None:
        """Refuse a body that no layer here owns, or that speaks in another's name."""
        subject = body.subject()
        if subject is not None and subject.sender != origin:
            raise RemoteError(f"site {origin} sent a message in the name of site {subject.sender}")
        if type(body) is not Cast and type(body) not in self.owners:
            raise RemoteError(f"no layer owns {type(body).__name__}")

    def hand_up(self, origin: SiteId, body: Message) -> None:
        """Give a body to the layer that owns its type; the application's messages climb by `deliver`."""
        if type(body) is Cast:
            self.above.deliver(body)
            return
        try:
            self.owners[type(body)](origin, body)
        except RemoteError:  # refused by its owner; the stream it came in goes on
            self.host.trace(Kind.REJECT, value=origin)
