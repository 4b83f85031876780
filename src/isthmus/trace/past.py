"""The causal past of every delivery, in one pass over a group's events: what q should have delivered before.

The idea. Number the deliveries of each life q from 1. Behind every event and every message stands a vector with one
entry per life: the greatest number that q gave to any message in the past which is addressed to q. A message takes the
vector of its sender when it is submitted; a delivery takes the maximum of its process's and the message's. When q
delivers m as its number r, an entry for q in m's vector of r or more is a message that should have come before. A
message that q owes and never delivers is entered as if it came last of all that it should have preceded.

    code      number << 20 for a delivery; a message that is never delivered adds an index, so that it can be named

A message that was carried into the group has no submit there and so no past, but it is in the past of what follows its
deliveries: it enters with its own codes alone.

Events of one life come in its order. A life whose next event is the delivery of a message that has not been submitted
yet waits, and its events with it, until it is; so those of different lives may come in any order.

Where messages answer one another in a circle, each is in the past of the others, and lives would wait for ever: at the
end the first of them goes on with as much of the message's past as is known, and the pass is made again, with what was
learnt, until nothing is added. `closed` does that.

Invariants: memory holds the vectors of the lives and of messages on their way, and the events that wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isthmus.trace.latency import MessageKey

CODE_BITS = 20
CODE_INDEX = (1 << CODE_BITS) - 1  # the bits of a code that are 0 for a delivery
NOWHERE = -1  # as the slot of a carried message's entry: no life's
Vector = NDArray[np.int64]


class PastEvent(NamedTuple):
    """A submit, with the codes of all addressees, or a delivery, with its own code."""

    slot: int  # of the life
    submit: bool
    message: MessageKey
    local: int
    code: int  # of a delivery
    known: bool  # whether the message has a submit, here or elsewhere
    to: Vector  # slots of those that a submitted message is addressed to
    codes: Vector  # and what they made of it


class Flight:
    """A message that some have yet to deliver."""

    __slots__ = ("after", "before", "left")

    def __init__(self, before: Vector, after: Vector, left: int) -> None:
        self.before = before  # the past when it was submitted
        self.after = after  # the same and the message itself
        self.left = left  # deliveries to come


class Past:
    """One group of one run under way."""

    __slots__ = ("count", "first", "flying", "guesses", "learnt", "lives", "waiting", "wanted")

    def __init__(self, slots: int, guesses: dict[MessageKey, tuple[Vector, Vector]] | None = None) -> None:
        self.guesses = guesses or {}  # the past of messages that some wait for in a circle, as far as it is known
        self.learnt: dict[MessageKey, tuple[Vector, Vector]] = dict(self.guesses)
        self.lives = np.zeros((slots, slots), dtype=np.int64)  # one row per life: its vector
        self.flying: dict[MessageKey, Flight] = {}
        self.waiting: dict[int, deque[PastEvent]] = {}  # slot to its events from the one that cannot be taken yet
        self.wanted: dict[MessageKey, list[int]] = {}  # message to the slots that wait for it
        self.count = 0
        self.first: tuple[PastEvent, int] | None = None  # a delivery, and the code of what it should not precede

    def take(self, event: PastEvent) -> None:
        """Take the next event of a life, or put it behind those that wait."""
        queue = self.waiting.get(event.slot)
        if queue is None:
            self.go(event.slot, deque([event]))
        else:
            queue.append(event)

    def go(self, slot: int, queue: deque[PastEvent]) -> None:
        """Take events of a life as far as possible, and then those of the lives that waited for them."""
        ready = [(slot, queue)]
        while ready:
            slot, queue = ready.pop()
            while queue:
                freed = self.step(queue[0])
                if freed is None:
                    self.waiting[slot] = queue
                    break
                queue.popleft()
                ready += [(other, self.waiting.pop(other)) for other in freed]

    def step(self, event: PastEvent) -> list[int] | None:
        """Take an event and say which slots waited for it; none if it cannot be taken yet."""
        if event.submit:
            return self.submit(event)
        if not event.known:
            return []
        flight = self.flying.get(event.message)
        if flight is None and event.message not in self.guesses:
            self.wanted.setdefault(event.message, []).append(event.slot)
            return None
        before, after = (flight.before, flight.after) if flight is not None else self.guesses[event.message]
        own = self.lives[event.slot]
        due = int(before[event.slot])
        if due > event.code:  # equal: the message itself, which is in its own past where there is a circle
            self.count += 1
            if self.first is None:
                self.first = (event, due)
        np.maximum(own, after, out=own)
        if flight is not None:
            flight.left -= 1
            if flight.left == 0:
                del self.flying[event.message]
        return []

    def submit(self, event: PastEvent) -> list[int]:
        own = self.lives[event.slot] if event.slot != NOWHERE else np.zeros(len(self.lives), dtype=np.int64)
        before = own.copy()
        np.maximum.at(own, event.to, event.codes)
        deliveries = int(np.count_nonzero(event.codes & CODE_INDEX == 0))
        if deliveries:
            self.flying[event.message] = Flight(before, own.copy(), deliveries)
        if event.message in self.learnt:
            self.learnt[event.message] = (before, own.copy())
        return self.wanted.pop(event.message, [])

    def finish(self) -> None:
        """Let those that would wait for ever go on, and note the messages that they wait for."""
        while self.waiting:
            slot = min(self.waiting)
            queue = self.waiting.pop(slot)
            message = queue.popleft().message
            self.wanted[message].remove(slot)
            self.learnt.setdefault(message, (nothing := np.zeros(len(self.lives), dtype=np.int64), nothing))
            self.go(slot, queue)


def closed(slots: int, events: Callable[[], Iterable[PastEvent]]) -> Past:
    """The pass over a group, made until the past of messages that answer one another in a circle is whole."""
    past = Past(slots)
    while True:
        for event in events():
            past.take(event)
        past.finish()
        same = len(past.learnt) == len(past.guesses) and all(
            np.array_equal(one, other)
            for message, known in past.learnt.items()
            for one, other in zip(known, past.guesses[message], strict=True)
        )
        if same:
            return past
        past = Past(slots, past.learnt)
