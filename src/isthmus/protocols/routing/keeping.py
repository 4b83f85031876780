"""Messages that members keep until all destinations have consumed them.

Problem: a router may crash with messages in its queues. Idea: where a router has replicas, all members of the node from
which it takes messages keep these messages, in the node's delivery order, and the replica that takes over forwards them
again. As every member keeps them, any member can pass them to one that joins.

A message may be dropped once all processes of all its destination groups have consumed it, and not before: that it has
left, or reached the next router, does not say which sites will survive. Where its author awaits its shadow, the
author's group is a destination, too.

Invariants: `copies` are in the node's delivery order. A settled number stays settled.

Bounds: the messages that authors may have under way by their end-to-end credit.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from isthmus.core.message import Author
from isthmus.protocols.routing.filter import stream_of
from isthmus.protocols.routing.wire import Entry, Routed, Steered, StreamKey

KeptKey = tuple[Author, int]  # a message, and which of its copies


class SettledTable:
    """How far groups have consumed messages, by group and author."""

    __slots__ = ("numbers",)

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, StreamKey], int] = {}

    def note(self, group: int, key: StreamKey, number: int) -> bool:
        """Take in what is settled; return whether it is news."""
        if number <= self.numbers.get((group, key), 0):
            return False
        self.numbers[group, key] = number
        return True

    def of(self, group: int, key: StreamKey) -> int:
        return self.numbers.get((group, key), 0)

    def has(self, copy: Routed, domain: int, stops: tuple[int, ...]) -> bool:
        """Whether all groups that a message must reach have consumed it."""
        key = stream_of(copy, domain)
        return all(self.numbers.get((group, key), 0) >= copy.number for group in stops)

    def entries(self) -> dict[int, tuple[Entry, ...]]:
        """Return all settled numbers, by group."""
        found: dict[int, list[Entry]] = {}
        for (group, key), number in self.numbers.items():
            found.setdefault(group, []).append((key, number))
        return {group: tuple(entries) for group, entries in found.items()}


class KeptCopy(NamedTuple):
    """A kept message as it was taken, its domain, and the groups that it must reach."""

    copy: Routed | Steered
    domain: int
    stops: tuple[int, ...]


class KeptTable:
    """The messages of one node that its replicated routers may have to forward again."""

    __slots__ = ("copies", "pending")

    def __init__(self) -> None:
        self.copies: dict[KeptKey, KeptCopy] = {}
        self.pending: deque[KeptKey] = deque()  # at a router with replicas: not passed on yet

    def add(self, kept: KeptCopy) -> bool:
        """Keep a message; return whether it was not kept already."""
        key = (kept.copy.author, kept.copy.copy)
        if key in self.copies:
            return False
        self.copies[key] = kept
        self.pending.append(key)
        return True

    def first_pending(self) -> KeptCopy | None:
        """Return the first kept message that was not passed on."""
        while self.pending and self.pending[0] not in self.copies:
            self.pending.popleft()
        return self.copies[self.pending[0]] if self.pending else None

    def trim(self, settled: SettledTable) -> None:
        """Drop the messages that all destinations have consumed."""
        done = [key for key, kept in self.copies.items() if settled.has(*kept)]
        for key in done:
            del self.copies[key]
        if len(self.pending) > 2 * len(self.copies):
            self.pending = deque(key for key in self.pending if key in self.copies)

    def find(self, author: Author) -> list[KeptCopy]:
        """Return the kept copies of one message."""
        return [kept for (one, _), kept in self.copies.items() if one == author]
