"""Safe delivery: a frame is handed up only once so many have it that it cannot be lost.

Problem: a member may hand up a message that nobody else ever gets, and crash: it has acted on something that the group
knows nothing of. Where that must not be, agreement and order have to be uniform: what any member has handed up, even
one that then crashed or was cut off, all who go on hand up, in the same order.

Idea: members tell each other what they have received anyway. A frame waits here until members that are a quorum of the
view are known to have it, its origin and this one included, or all its targets do. The next view is agreed on by a
quorum, too, so at least one of those who report has the frame, and it is in the cut. As an ordering layer's own frames
wait likewise, its order is uniform as well.

Acknowledgements come sooner than without, as each message waits for them. A member that has waited for long asks all
others what they have: an acknowledgement may have been lost.

Invariants: frames are handed up in the order in which they were taken, per origin; what waits is `kept`, and so part of
every report; at the installation of a view what still waits is handed up first, as the flush has made it common.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from isthmus.core.layer import View
from isthmus.core.message import SiteId
from isthmus.protocols.membership.quorum import quorum
from isthmus.protocols.transport.frames import Ack, Data, ReliableOptions, Status, Stream
from isthmus.protocols.transport.reliable import Reliable

ASK = 1 << 30  # timer key: beyond those of all origins
ACK_MS = 5.0  # an acknowledgement waits this long for others to leave with it


class Safe(Reliable):
    """A reliable transport in each origin's order that hands up what a quorum has."""

    __slots__ = ("ask_armed", "waiting")

    def __init__(self, options: ReliableOptions | None = None) -> None:
        given = options or ReliableOptions()
        quick = msgspec.structs.replace(given, ack_period_ms=min(given.ack_period_ms, ACK_MS))
        self.waiting: dict[SiteId, deque[Data[Any]]] = {}  # by origin: taken, not handed up
        self.ask_armed = False
        super().__init__(quick)
        self.at_once = False

    def timer_name(self, key: int) -> str:
        return "Safe.ask" if key == ASK else super().timer_name(key)

    def give(self, stream: Stream, data: Data[Any]) -> None:
        self.waiting.setdefault(stream.origin, deque()).append(data)
        self.hand_up_safe(stream)
        if not self.ask_armed and not self.frozen and self.waiting[stream.origin]:
            self.arm_ask()

    def arm_ask(self) -> None:
        self.ask_armed = True
        self.host.set_timer(self, ASK, round(self.options.status_period_ms * 1e6))

    def is_safe(self, stream: Stream, data: Data[Any]) -> bool:
        """Whether a quorum, or everybody whom it is for, has a frame."""
        if data.seq <= stream.stable:
            return True
        place, here = self.index[stream.origin], self.host.site
        having = [
            life
            for life in self.view.lives()
            if life[0] in (here, stream.origin) or self.acked.of(life[0], place) >= data.seq
        ]
        sites = [life[0] for life in having]
        return all(site in sites for site in data.targets or self.view.members) or quorum(self.view, having)

    def hand_up_safe(self, stream: Stream) -> None:
        """Hand up, in order, what has become safe of a stream."""
        waiting = self.waiting.get(stream.origin)
        while waiting and not self.frozen and self.is_safe(stream, waiting[0]):
            super().give(stream, waiting.popleft())

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
                super().give(self.streams[origin], waiting.popleft())
        self.forget_asking()
        super().install(view)
        self.waiting = {}
