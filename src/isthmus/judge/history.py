"""The rows of one run, arranged for judging: which process lived when, in which view, sent and delivered what.

Each process is cut into *lives*, which a RECOVER row separates, and each life into *stays*: stretches of consecutive
views that it installed, among all views that any process of the group installed. A life that stayed from one view to
another missed nothing in between, so it owes what was sent there; no other does.

Invariants: a message, (origin, sender, number), is a small integer here; only its origin group holds lives to its
destinations, views and stays. Before its first VIEW row a life is in the view NONE; without any the group is static,
and who is in it is told by what it did and by the destinations of what was submitted. A domain is a static group in
which no message is its own. Nothing is concluded from what an incomplete trace (RECORD rows) lacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import maxsize
from typing import NamedTuple

import msgspec

from isthmus.core.layer import Kind
from isthmus.judge.witness import LifeKey
from isthmus.trace.domain import Domain
from isthmus.trace.schema import NONE, PAYLOAD, VALUE, MessageKey, Row

SUBMIT, DELIVER, VIEW = int(Kind.SUBMIT), int(Kind.DELIVER), int(Kind.VIEW)
TENTATIVE, REVOKE = int(Kind.TENTATIVE), int(Kind.REVOKE)
SUSPECT, TRUST, CRASH, RECOVER = int(Kind.SUSPECT), int(Kind.TRUST), int(Kind.CRASH), int(Kind.RECOVER)
SEND, RECEIVE, CLOCK, RECORD = int(Kind.SEND), int(Kind.RECEIVE), int(Kind.CLOCK), int(Kind.RECORD)
GAUGE_ROW = int(Kind.GAUGE)
KEPT = frozenset((SUBMIT, TENTATIVE, DELIVER, REVOKE, VIEW, SUSPECT, TRUST, CRASH, RECOVER, CLOCK, RECORD))
KEPT_IN_PART = (SEND, RECEIVE, GAUGE_ROW)  # the first of a process in a group; of some gauges
DIGEST_SHIFT = 32  # a tag holds the payload's bytes below, its digest above; 0 there: not told
BYTES_MASK = (1 << DIGEST_SHIFT) - 1
NEVER = maxsize  # as the first view of a stay: nothing is owed in it


class ViewStay(msgspec.Struct, eq=False):
    """A stretch of consecutive views that one life installed; its first view is NEVER where it owes nothing."""

    first: int
    last: int  # view
    sent: list[int] = []  # the messages it submitted, in order


class Epoch(msgspec.Struct, eq=False):
    """What a life did in one view: its deliveries from `start` up to the next epoch's."""

    view: int
    start: int
    stay: ViewStay


class Life(msgspec.Struct, eq=False):
    """One incarnation of a process in one group."""

    group: GroupHistory
    process: int
    incarnation: int
    epochs: list[Epoch]  # the first one is that before its first view
    up: bool = True  # at the end of the run
    whole: bool = True  # nothing of its trace is missing
    deliveries: list[int] = []
    sent: list[tuple[int, int]] = []  # messages it submitted, each with how many deliveries went before
    reached: int = NONE  # the last place in `sent` of a message that it delivered itself
    tags: list[int] = []  # one per delivery: bytes and digest of the payload
    delivered: set[int] = set()  # the same as a set, once the run is arranged
    marks: list[tuple[int, int, int]] = []  # TENTATIVE or REVOKE, the message, how many deliveries went before

    @property
    def key(self) -> LifeKey:
        return self.process, self.incarnation

    def spans(self) -> Iterator[tuple[Epoch, int, int]]:
        """Each epoch with the bounds of its deliveries."""
        ends = [epoch.start for epoch in self.epochs[1:]] + [len(self.deliveries)]
        for epoch, end in zip(self.epochs, ends, strict=True):
            yield epoch, epoch.start, end


class Submitted(msgspec.Struct, eq=False):
    """What a SUBMIT row said of a message."""

    life: Life
    epoch: Epoch
    index: int  # its place in epoch.stay.sent
    place: int  # its place in life.sent
    destinations: tuple[int, ...] | None
    tag: int


class Installed(NamedTuple):
    """A VIEW row."""

    life: Life
    view: int
    members: tuple[int, ...]
    weights: tuple[int, ...]  # () where each has one vote
    local: int
    again: bool  # the life was in this view already


class RowAfterCrash(NamedTuple):
    """What a process did after it crashed, though it never came back."""

    life: Life
    kind: int
    message: int  # NONE: a view
    local: int


class ClockReading(NamedTuple):
    """A CLOCK row."""

    process: int
    local: int
    time_ns: int
    value: int


class GroupHistory(msgspec.Struct, eq=False):
    """All that happened in one group, or in a domain."""

    number: int  # NONE: a domain
    domain: Domain | None = None
    lives: list[Life] = []
    ids: dict[MessageKey, int] = {}  # to the message's integer
    names: list[MessageKey] = []  # and back
    submitted: list[Submitted | None] = []  # by message, wherever its origin is
    sent_in: dict[int, int] = {}  # the view of messages that were held back beyond the one they were submitted in
    again: list[tuple[Life, int, int]] = []  # messages that were submitted once more, and where (local)
    late: list[RowAfterCrash] = []  # what was done after a crash
    view_rows: list[Installed] = []  # by process, in local order
    readings: list[ClockReading] = []
    clock_bounds: dict[tuple[int, int], int] = {}  # process and time to the least error published then
    suspects: dict[int, set[int]] = {}  # process to whom it suspects at the end
    ended: frozenset[int] = frozenset()  # processes that ever crashed or recovered
    members: dict[int, tuple[int, ...]] = {}  # by view, as the first row has them
    places: dict[int, int] = {}  # view to its place among all views, ascending
    unsettled: str = ""  # why the last view is still in motion at the end, if it is
    missing: frozenset[int] = frozenset()  # processes whose trace is incomplete
    cut: str = ""  # the same as a reason; empty where all is there
    _addressed: dict[int, list[int]] | None = None  # process to what is addressed to it by name
    _everyone: set[int] = set()  # what is addressed to everyone
    _alive: bytearray | None = None  # by message: whether a life that is up delivered it

    @property
    def last_view(self) -> int:
        return max(self.members, default=NONE)

    def message(self, key: MessageKey) -> int:
        """The integer of a message, a new one at first sight."""
        found = self.ids.get(key)
        if found is None:
            found = self.ids[key] = len(self.names)
            self.names.append(key)
            self.submitted.append(None)
        return found

    def own(self, message: int) -> Submitted | None:
        """What was said of a message that was submitted to this group; none of one that was carried into it."""
        return self.submitted[message] if self.names[message][0] == self.number else None

    def addresses(self, message: int, process: int) -> bool:
        """Whether a message is meant for a process of this group; one that was carried into it is for all."""
        source = self.own(message)
        return source is None or source.destinations is None or process in source.destinations

    def lacking(self, life: Life) -> list[int]:
        """What was submitted to this group and is addressed to a life's process, which never delivered it."""
        if self._addressed is None:
            self._addressed = {}
            for message, source in enumerate(self.submitted):
                if source is None or self.names[message][0] != self.number:
                    continue
                if source.destinations is None:
                    self._everyone.add(message)
                else:
                    for process in dict.fromkeys(source.destinations):
                        self._addressed.setdefault(process, []).append(message)
        lacking = list(self._everyone - life.delivered)
        lacking += [message for message in self._addressed.get(life.process, ()) if message not in life.delivered]
        lacking.sort()
        return lacking

    def alive(self, message: int) -> bool:
        if self._alive is None:
            self._alive = bytearray(len(self.names))
            for life in self.lives:
                for one in life.delivered if life.up else ():
                    self._alive[one] = 1
        return bool(self._alive[message])

    def finalists(self) -> list[Life]:
        """The lives that are up at the end and in the last view of the group; in a static group, all that are up."""
        last = self.last_view
        return [life for life in self.lives if life.up and life.epochs[-1].view == last]


def tag_of(row: Row) -> int:
    """Bytes and digest of a row's payload as one number; the digest is 0 where it is not told."""
    return row[PAYLOAD] + (row[VALUE] << DIGEST_SHIFT) if row[VALUE] else row[PAYLOAD]
