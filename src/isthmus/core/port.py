"""A port: the host that one group's stack sees, but for time, timers and the network.

Problem: every host must carry out the same effects in the same order: ends of turns, views, and early messages.
Idea: one base class does that; a host adds a clock, timers and a network.

Invariants:
- a packet carries the number of the installed view; a `viewless` one carries none;
- a message reaches the stack only in its own view, between `resume` and the next freeze, unless its type is `viewless`;
  one of a later view, or of this one before it is resumed, waits in `early`; one of an earlier view is dropped;
- an event is followed by the ends of turns that it made due, then by the view that it installed, then by `resume`, then
  by the messages that waited for that view, each an event of its own.

Bounds: `EARLY_MAX` messages wait; any further one is dropped and counted, as by a lossy network.
"""

from __future__ import annotations

from collections import deque
from random import Random

from isthmus.core.layer import Stack, View
from isthmus.core.message import GroupId, Message, SiteId

EARLY_MAX = 4096
NO_OPEN_VIEW = -1  # as `open_id`
INCARNATION_SHIFT = 32  # numbers of incarnation i start above i << 32
INCARNATION_MASK = (1 << 31) - 1  # the part of an incarnation that fits above them in 63 bits


class Port:
    """One site's end of one group."""

    __slots__ = (
        "early",
        "frame_bytes",
        "group",
        "incarnation",
        "installing",
        "now_ns",
        "number",
        "open_id",
        "overflow_count",
        "random",
        "resuming",
        "site",
        "stack",
        "traces",
        "turn_due",
        "view_id",
    )

    def __init__(self, site: SiteId, group: GroupId, incarnation: int, random: Random, frame_bytes: int) -> None:
        self.site = site
        self.group = group
        self.incarnation = incarnation
        self.random = random
        self.frame_bytes = frame_bytes
        self.now_ns = 0
        self.number = (incarnation & INCARNATION_MASK) << INCARNATION_SHIFT  # of the last message
        self.traces = True
        self.turn_due = False  # work is left for the end of the event
        self.installing: View | None = None
        self.resuming = False
        self.view_id = 0  # of the installed view
        self.open_id = NO_OPEN_VIEW  # of the view whose messages are accepted
        self.early: deque[tuple[SiteId, int, Message]] = deque()  # source, view, message; its view is not open yet
        self.overflow_count = 0  # messages dropped because `early` was full
        self.stack: Stack

    # Effects

    def next_number(self) -> int:
        self.number += 1
        return self.number

    def install(self, view: View) -> None:
        """Install a view after this event."""
        assert view.view_id > self.view_id and self.site in view.members
        self.installing = view
        self.turn_due = True

    def resume(self) -> None:
        """Resume traffic after this event."""
        self.resuming = True
        self.turn_due = True

    def freeze(self) -> None:
        """Accept no more messages of this view: its survivors exchange what they hold."""
        self.open_id = NO_OPEN_VIEW

    # Events

    def take(self, source: SiteId, view_id: int, message: Message) -> None:
        """Give a message to the stack if its view is open; one of a later view waits."""
        if view_id == self.open_id or (not view_id and message.viewless):
            self.stack.receive(source, message)
        elif view_id > self.view_id or (view_id == self.view_id and self.open_id == NO_OPEN_VIEW):
            if len(self.early) < EARLY_MAX:
                self.early.append((source, view_id, message))
            else:
                self.overflow_count += 1

    def finish(self) -> None:
        """Carry out the work that an event has left for its end."""
        while self.turn_due:
            self.turn_due = False
            for layer in self.stack.turn_layers:
                layer.end_turn()
            if self.installing is not None:
                view, self.installing = self.installing, None
                self.view_id, self.open_id = view.view_id, NO_OPEN_VIEW
                self.early = deque(kept for kept in self.early if kept[1] >= view.view_id)
                self.stack.install(view)
            if self.resuming:
                self.resuming = False
                self.open_id = self.view_id
                self.stack.resume()
            if not self.turn_due and self.early and self.open_id != NO_OPEN_VIEW:
                self.take_early()

    def take_early(self) -> None:
        """Take the first message that has waited for this view."""
        for place, (source, view_id, message) in enumerate(self.early):
            if view_id == self.open_id:
                del self.early[place]
                self.turn_due = True
                self.stack.receive(source, message)
                return
