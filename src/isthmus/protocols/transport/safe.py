"""Safe delivery: a frame is delivered only once enough members have it that it cannot be lost.

Problem: a member may deliver a message that no other member ever gets, and crash: it has acted on a message that the
group does not have. To exclude that, agreement and order must be uniform: what any member has delivered, even one that
then crashed or was cut off, all members that go on deliver, in the same order.

Idea: members acknowledge what they have received anyway. A frame waits here until a quorum of the view is known to have
it, its origin and this site included, or all its targets do. The next view is agreed on by a quorum, too, so at least
one of the reporters has the frame, and it is in the cut. As an ordering layer's own frames wait likewise, its order is
uniform as well.

A layer may take some bodies on arrival, to guess at their order, and again once they are safe
(`Layer.unsafe_bodies`): an optimistic order is tentative at once and final when numbers and messages are safe.

Acknowledgements come sooner than without safe delivery, as each message waits for them. A member that has waited for
long asks all others what they have: an acknowledgement may have been lost.

Invariants: frames are delivered in the order in which they were taken, per origin, if the transport is FIFO; waiting
frames are `kept`, and so part of every report; at the installation of a view they are delivered first, as the flush has
given them to all.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from isthmus.core.layer import Handler, View
from isthmus.core.message import Batch, Message, SiteId
from isthmus.protocols.membership.quorum import quorum
from isthmus.protocols.transport.reliable.frames import Ack, Data, ReliableOptions, Status, Stream
from isthmus.protocols.transport.reliable.reliable import Reliable

ASK = 1 << 30  # timer key: beyond those of all origins
ACK_MS = 5.0  # an acknowledgement waits this long for others to leave with it


class Safe(Reliable):
    """A reliable transport that delivers what a quorum has: in each origin's order, or as it becomes safe."""

    __slots__ = ("again", "ask_armed", "waiting")

    def __init__(self, options: ReliableOptions | None = None, fifo: bool = True) -> None:
        given = options or ReliableOptions()
        quick = msgspec.structs.replace(given, ack_period_ms=min(given.ack_period_ms, ACK_MS))
        self.waiting: dict[SiteId, deque[Data[Any]]] = {}  # by origin: taken, not delivered
        self.again: dict[type[Message], Handler] = {}  # called once bodies that were delivered on arrival are safe
        self.ask_armed = False
        super().__init__(quick, fifo)
        self.at_once = False

    def start(self) -> None:
        super().start()
        for layer in self.stack.layers:
            self.again |= layer.unsafe_bodies()

    def timer_name(self, key: int) -> str:
        return "Safe.ask" if key == ASK else super().timer_name(key)

    def give(self, stream: Stream, data: Data[Any]) -> None:
        origin = stream.origin
        self.waiting.setdefault(origin, deque()).append(data)
        if self.again:
            self.hand_up_batch(origin, [body for body in bodies_of(data) if type(body) in self.again])
        self.hand_up_safe(stream)
        if not self.ask_armed and not self.frozen and self.waiting[origin]:
            self.arm_ask()

    def arm_ask(self) -> None:
        self.ask_armed = True
        self.host.set_timer(self, ASK, round(self.options.status_period_ms * 1e6))

    def is_safe(self, stream: Stream, data: Data[Any]) -> bool:
        """Whether a quorum, or all targets, have a frame.

        A member that is no target may have acknowledged later frames, and does not have this one.
        """
        if data.seq <= stream.stable:
            return True
        place, here, targets = self.index[stream.origin], self.host.site, data.targets or self.view.members
        having = [
            life
            for life in self.view.lives()
            if life[0] in (here, stream.origin) or (life[0] in targets and self.acked.of(life[0], place) >= data.seq)
        ]
        sites = [life[0] for life in having]
        return all(site in sites for site in targets) or quorum(self.view, having)

    def hand_up_safe(self, stream: Stream) -> None:
        """Deliver the safe frames of a stream, in order if it is FIFO."""
        waiting = self.waiting.get(stream.origin)
        if not waiting or self.frozen:
            return
        if self.fifo:
            while waiting and self.is_safe(stream, waiting[0]):
                self.finish(stream, waiting.popleft())
            return
        ready = [data for data in waiting if self.is_safe(stream, data)]
        for data in ready:
            waiting.remove(data)
        for data in ready:
            self.finish(stream, data)

    def finish(self, stream: Stream, data: Data[Any]) -> None:
        """Deliver a safe frame; for bodies delivered on arrival, notify their owner."""
        if not self.again:
            super().give(stream, data)
            return
        for body in bodies_of(data):
            again = self.again.get(type(body))
            if again is None:
                self.hand_up(stream.origin, body)
            else:
                again(stream.origin, body)

    def review(self) -> None:
        for stream in self.streams.values():
            self.hand_up_safe(stream)

    def on_ack(self, source: SiteId, ack: Ack) -> None:
        super().on_ack(source, ack)
        self.review()

    def on_status(self, source: SiteId, status: Status) -> None:
        super().on_status(source, status)
        self.review()

    def timer(self, key: int) -> None:
        if key != ASK:
            super().timer(key)
            return
        self.ask_armed = False
        if any(self.waiting.values()):
            self.ask(list(self.paths.all()))
            self.arm_ask()

    def settled(self) -> bool:
        return super().settled() and not any(self.waiting.values())

    def freeze(self) -> None:
        super().freeze()
        self.forget_asking()

    def forget_asking(self) -> None:
        self.ask_armed = False
        self.host.cancel_timer(self, ASK)

    def install(self, view: View) -> None:
        for origin, waiting in self.waiting.items():
            while waiting:
                self.finish(self.streams[origin], waiting.popleft())
        self.forget_asking()
        super().install(view)
        self.waiting = {}


def bodies_of(data: Data[Any]) -> tuple[Message, ...]:
    body = data.body
    return body.bodies if type(body) is Batch else (body,)
