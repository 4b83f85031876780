"""The rows of one run, arranged for judging: who lived when, was in which view, sent what and delivered what.

The problem: rows of different processes come in any order, a process may crash and come back, join late, or be thrown
out of the group and let in again; a checker that forgets one of these raises false alarms. The idea: cut each process
into *lives*, which a RECOVER row separates, and each life into *stays*: stretches of consecutive views that it
installed, among all views that anyone in the group installed. Whoever stayed from one view to another missed nothing
in between, so that he owes what was sent there; nobody else does.

Invariants: a group is judged by itself, and (sender, number) names a message within it; here it is a small integer.
An epoch of a life is what it did between two of its VIEW rows, by local order alone. Before its first VIEW row a life
is in the view NONE, and if no life of the group has any, the group is static: view NONE is all there is, and a life
that is not the first of its process may have missed things there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from operator import itemgetter, lt
from sys import maxsize

from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.trace.schema import (
    DESTINATIONS,
    GROUP,
    KIND,
    LOCAL,
    NONE,
    NUMBER,
    PAYLOAD,
    PROCESS,
    SENDER,
    VALUE,
    Row,
    message_name,
)

SUBMIT, DELIVER, VIEW = int(Kind.SUBMIT), int(Kind.DELIVER), int(Kind.VIEW)
TENTATIVE, REVOKE = int(Kind.TENTATIVE), int(Kind.REVOKE)
SUSPECT, TRUST, CRASH, RECOVER = int(Kind.SUSPECT), int(Kind.TRUST), int(Kind.CRASH), int(Kind.RECOVER)
NEVER = maxsize  # as the first view of a stay: nothing is owed in it


class Stay:
    """A stretch of consecutive views that one life installed; its first view is NEVER where it owes nothing."""

    __slots__ = ("first", "sent")

    def __init__(self, first: int) -> None:
        self.first = first
        self.sent: list[int] = []  # the messages it submitted, in order


class Epoch:
    """What a life did in one view: its deliveries from `start` up to the next epoch's."""

    __slots__ = ("start", "stay", "view")

    def __init__(self, view: int, start: int, stay: Stay) -> None:
        self.view = view
        self.start = start
        self.stay = stay


class Life:
    """One incarnation of a process in one group."""

    __slots__ = ("delivered", "deliveries", "epochs", "group", "incarnation", "marks", "payloads", "process", "up")

    def __init__(self, group: Group, process: int, incarnation: int, first: int) -> None:
        self.group = group
        self.process = process
        self.incarnation = incarnation
        self.up = True  # at the end of the run
        self.deliveries: list[int] = []
        self.payloads: list[int] = []  # bytes, one a delivery
        self.delivered: set[int] = set()  # the same as a set, once the run is arranged
        self.marks: list[tuple[int, int, int]] = []  # TENTATIVE or REVOKE, the message, how many deliveries went before
        self.epochs = [Epoch(NONE, 0, Stay(first))]

    def spans(self) -> Iterator[tuple[Epoch, int, int]]:
        """Each epoch with the bounds of its deliveries."""
        ends = [epoch.start for epoch in self.epochs[1:]] + [len(self.deliveries)]
        for epoch, end in zip(self.epochs, ends, strict=True):
            yield epoch, epoch.start, end

    def __str__(self) -> str:
        return f"process {self.process}" + (f" (incarnation {self.incarnation})" if self.incarnation else "")


class Submitted:
    """What a SUBMIT row said of a message."""

    __slots__ = ("destinations", "epoch", "index", "life", "payload_bytes")

    def __init__(self, life: Life, row: Row, index: int) -> None:
        self.life = life
        self.epoch = life.epochs[-1]
        self.index = index  # its place in epoch.stay.sent
        self.destinations = row[DESTINATIONS] or None
        self.payload_bytes = row[PAYLOAD]

    def addresses(self, process: int) -> bool:
        return self.destinations is None or process in self.destinations


class Group:
    """All that happened in one group."""

    __slots__ = ("again", "ids", "lives", "members", "names", "places", "submitted", "unsettled", "view_rows")

    def __init__(self) -> None:
        self.lives: list[Life] = []
        self.ids: dict[tuple[int, int], int] = {}  # (sender, number) to the message's integer
        self.names: list[tuple[int, int]] = []  # and back
        self.submitted: list[Submitted | None] = []  # by message
        self.again: list[tuple[Life, int]] = []  # messages that were submitted once more
        self.view_rows: list[tuple[int, int, tuple[int, ...]]] = []  # process, view, members, in local order
        self.members: dict[int, tuple[int, ...]] = {}  # by view, as the first row has them
        self.places: dict[int, int] = {}  # view to its place among all views, ascending
        self.unsettled = ""  # why the last view is still in motion at the end, if it is

    @property
    def last_view(self) -> int:
        return max(self.members, default=NONE)

    def message(self, sender: int, number: int) -> int:
        """The integer of a message, a new one at first sight."""
        found = self.ids.get((sender, number))
        if found is None:
            found = self.ids[sender, number] = len(self.names)
            self.names.append((sender, number))
            self.submitted.append(None)
        return found

    def name(self, message: int) -> str:
        return message_name(*self.names[message])

    def finalists(self) -> list[Life]:
        """The lives that are up at the end and in the last view of the group; in a static group, all that are up."""
        last = self.last_view
        return [life for life in self.lives if life.up and life.epochs[-1].view == last]


def arrange(rows: Iterable[Row]) -> list[Group]:
    """The groups of one run, in the order of their numbers."""
    by_process: dict[int, list[Row]] = {}
    groups: dict[int, Group] = {}
    for row in rows:
        by_process.setdefault(row[PROCESS], []).append(row)
        if row[KIND] == VIEW:
            if not row[DESTINATIONS]:
                raise InputError(
                    f"process {row[PROCESS]}", f"view {row[VALUE]}", "no members", "them in the row's destinations"
                )
            groups.setdefault(row[GROUP], Group()).members.setdefault(row[VALUE], row[DESTINATIONS])
    for group in groups.values():
        group.places = {view: place for place, view in enumerate(sorted(group.members))}
    suspects: dict[int, set[int]] = {}
    for process in sorted(by_process):
        suspects[process] = walk(process, ordered(process, by_process[process]), groups)
    for group in groups.values():
        group.unsettled = motion(group, suspects)
        for life in group.lives:
            life.delivered = set(life.deliveries)
    return [groups[number] for number in sorted(groups)]


def ordered(process: int, rows: list[Row]) -> list[Row]:
    """The rows of one process in local order, each with a place of its own."""
    places = list(map(itemgetter(LOCAL), rows))
    if not all(map(lt, places, places[1:])):
        rows.sort(key=itemgetter(LOCAL))
        for one, other in pairwise(rows):
            if one[LOCAL] == other[LOCAL]:
                raise InputError(f"process {process}", "local", f"two rows with {one[LOCAL]}", "a number for each row")
    return rows


def walk(process: int, rows: list[Row], groups: dict[int, Group]) -> set[int]:
    """Add one process to its groups; return whom it suspects at the end."""
    lives: dict[int, Life] = {}  # the current one, by group
    suspected: set[int] = set()
    incarnation = 0
    for row in rows:
        kind = row[KIND]
        if kind == DELIVER or kind == SUBMIT or kind == VIEW:  # noqa: SIM109  most rows, so the fastest way
            number = row[GROUP]
            life = lives.get(number)
            if life is None:
                life = lives[number] = begin(groups.setdefault(number, Group()), process, incarnation)
            if kind == DELIVER:
                message = life.group.ids.get((row[SENDER], row[NUMBER]))
                life.deliveries.append(life.group.message(row[SENDER], row[NUMBER]) if message is None else message)
                life.payloads.append(row[PAYLOAD])
            elif kind == SUBMIT:
                submit(life, row)
            else:
                install(life, row)
        elif kind in (TENTATIVE, REVOKE):
            life = lives.get(row[GROUP])
            if life is None:
                life = lives[row[GROUP]] = begin(groups.setdefault(row[GROUP], Group()), process, incarnation)
            life.marks.append((kind, life.group.message(row[SENDER], row[NUMBER]), len(life.deliveries)))
        elif kind == SUSPECT:
            suspected.add(row[VALUE])
        elif kind == TRUST:
            suspected.discard(row[VALUE])
        elif kind in (CRASH, RECOVER):
            for life in lives.values():
                life.up = False
            suspected.clear()
            if kind == RECOVER:
                incarnation += 1
                lives.clear()
    return suspected


def begin(group: Group, process: int, incarnation: int) -> Life:
    """A new life in a group; without a view it owes what others send only if it was there from the start."""
    life = Life(group, process, incarnation, NEVER if group.members or incarnation else NONE)
    group.lives.append(life)
    return life


def submit(life: Life, row: Row) -> None:
    """Note a submission; only a sender can submit its own messages, each once."""
    if row[SENDER] != life.process:
        return
    group = life.group
    message = group.message(row[SENDER], row[NUMBER])
    if group.submitted[message] is not None:
        group.again.append((life, message))
    else:
        sent = life.epochs[-1].stay.sent
        group.submitted[message] = Submitted(life, row, len(sent))
        sent.append(message)


def install(life: Life, row: Row) -> None:
    """Open the next epoch; it goes on with the stay if no view of the group lies between."""
    group, view = life.group, row[VALUE]
    group.view_rows.append((life.process, view, row[DESTINATIONS] or ()))
    before = life.epochs[-1]
    follows = before.view != NONE and group.places[view] == group.places[before.view] + 1
    life.epochs.append(Epoch(view, len(life.deliveries), before.stay if follows else Stay(view)))


def motion(group: Group, suspects: dict[int, set[int]]) -> str:
    """Why the last view cannot be held to its promises at the end: a member is down, away or suspected."""
    last = group.last_view
    members = group.members.get(last, ())
    there = {life.process for life in group.finalists()}
    for member in members:
        if member not in there:
            return f"view {last} still lists process {member}, which is not there at the end"
        for other in members:
            if other != member and other in suspects[member]:
                return f"process {member} suspects process {other} at the end"
    return ""
