"""The rows of one run, arranged for judging: which process lived when, in which view, sent and delivered what.

The problem: rows of different processes come in any order, a process may crash and come back, join late, or be thrown
out of the group and let in again; a checker that forgets one of these raises false alarms. The idea: cut each process
into *lives*, which a RECOVER row separates, and each life into *stays*: stretches of consecutive views that it
installed, among all views that any process of the group installed. A life that stayed from one view to another missed
nothing in between, so it owes what was sent there; no other does.

Invariants: a group is judged by itself. (origin, sender, number) names a message; here it is a small integer. What a
message's SUBMIT row said is looked up in its origin group, also where the message was carried into another; only its
*own* group, the origin, holds its lives to destinations, views and stays. An epoch of a life is what it did between
two of its VIEW rows, by local order alone. Before its first VIEW row a life is in the view NONE, and if no life of the
group has any, the group is static: view NONE is all there is, and a life that is not the first of its process may have
missed things there. A domain is arranged as a static group of the processes of its groups, in which no message is its
own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from operator import itemgetter, lt
from sys import maxsize

from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.trace.domain import Domain
from isthmus.trace.latency import MessageKey
from isthmus.trace.schema import (
    DESTINATIONS,
    GROUP,
    KIND,
    LOCAL,
    NONE,
    ORIGIN,
    PAYLOAD,
    PROCESS,
    SENDER,
    VALUE,
    Row,
)
from isthmus.trace.schema import VIEW as VIEW_COLUMN
from isthmus.trace.witness import LifeKey

SUBMIT, DELIVER, VIEW = int(Kind.SUBMIT), int(Kind.DELIVER), int(Kind.VIEW)
TENTATIVE, REVOKE = int(Kind.TENTATIVE), int(Kind.REVOKE)
SUSPECT, TRUST, CRASH, RECOVER = int(Kind.SUSPECT), int(Kind.TRUST), int(Kind.CRASH), int(Kind.RECOVER)
NEVER = maxsize  # as the first view of a stay: nothing is owed in it


class Stay:
    """A stretch of consecutive views that one life installed; its first view is NEVER where it owes nothing."""

    __slots__ = ("first", "last", "sent")

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last  # view
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

    __slots__ = (
        *("delivered", "deliveries", "epochs", "group", "incarnation", "marks", "payloads", "process", "sent"),
        "up",
    )

    def __init__(self, group: Group, process: int, incarnation: int, first: int) -> None:
        self.group = group
        self.process = process
        self.incarnation = incarnation
        self.up = True  # at the end of the run
        self.deliveries: list[int] = []
        self.sent: list[tuple[int, int]] = []  # messages it submitted, each with how many deliveries went before
        self.payloads: list[int] = []  # bytes, one per delivery
        self.delivered: set[int] = set()  # the same as a set, once the run is arranged
        self.marks: list[tuple[int, int, int]] = []  # TENTATIVE or REVOKE, the message, how many deliveries went before
        self.epochs = [Epoch(NONE, 0, Stay(first, NONE))]

    @property
    def key(self) -> LifeKey:
        return self.process, self.incarnation

    def spans(self) -> Iterator[tuple[Epoch, int, int]]:
        """Each epoch with the bounds of its deliveries."""
        ends = [epoch.start for epoch in self.epochs[1:]] + [len(self.deliveries)]
        for epoch, end in zip(self.epochs, ends, strict=True):
            yield epoch, epoch.start, end


class Submitted:
    """What a SUBMIT row said of a message."""

    __slots__ = ("destinations", "epoch", "index", "life", "payload_bytes")

    def __init__(self, life: Life, row: Row, index: int) -> None:
        self.life = life
        self.epoch = life.epochs[-1]
        self.index = index  # its place in epoch.stay.sent
        self.destinations = row[DESTINATIONS] or None
        self.payload_bytes = row[PAYLOAD]


class Group:
    """All that happened in one group, or in a domain."""

    __slots__ = (
        *("again", "domain", "ids", "lives", "members", "names", "number", "places", "submitted", "unsettled"),
        "view_rows",
    )

    def __init__(self, number: int, domain: Domain | None = None) -> None:
        self.number = number  # NONE: a domain
        self.domain = domain
        self.lives: list[Life] = []
        self.ids: dict[MessageKey, int] = {}  # to the message's integer
        self.names: list[MessageKey] = []  # and back
        self.submitted: list[Submitted | None] = []  # by message, wherever its origin is
        self.again: list[tuple[Life, int]] = []  # messages that were submitted once more
        self.view_rows: list[tuple[int, int, tuple[int, ...]]] = []  # process, view, members, in local order
        self.members: dict[int, tuple[int, ...]] = {}  # by view, as the first row has them
        self.places: dict[int, int] = {}  # view to its place among all views, ascending
        self.unsettled = ""  # why the last view is still in motion at the end, if it is

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

    def finalists(self) -> list[Life]:
        """The lives that are up at the end and in the last view of the group; in a static group, all that are up."""
        last = self.last_view
        return [life for life in self.lives if life.up and life.epochs[-1].view == last]


def arrange(rows: Iterable[Row], domains: Iterable[Domain] = ()) -> list[Group]:
    """The groups of one run, in the order of their numbers, then the domains."""
    by_process: dict[int, list[Row]] = {}
    groups: dict[int, Group] = {}
    for row in rows:
        by_process.setdefault(row[PROCESS], []).append(row)
        if row[KIND] == VIEW:
            if not row[DESTINATIONS]:
                raise InputError(
                    f"process {row[PROCESS]}", f"view {row[VALUE]}", "no members", "them in the row's destinations"
                )
            group_of(groups, row[GROUP]).members.setdefault(row[VALUE], row[DESTINATIONS])
    for group in groups.values():
        group.places = {view: place for place, view in enumerate(sorted(group.members))}
    suspects: dict[int, set[int]] = {}
    for process in sorted(by_process):
        suspects[process] = walk(process, ordered(process, by_process[process]), groups)
    for group in groups.values():
        group.unsettled = motion(group, suspects)
    arranged = [groups[number] for number in sorted(groups)]
    arranged += [joined(domain, by_process) for domain in domains]
    for group in arranged:
        look_up(group, groups)
        for life in group.lives:
            life.delivered = set(life.deliveries)
    return arranged


def group_of(groups: dict[int, Group], number: int) -> Group:
    found = groups.get(number)
    if found is None:
        found = groups[number] = Group(number)
    return found


def joined(domain: Domain, by_process: dict[int, list[Row]]) -> Group:
    """A domain as one group: what was submitted and delivered in its groups, as far as it is in its scope."""
    inside = frozenset(domain.groups)
    crossing: set[tuple[object, ...]] | None = None
    if domain.scope == "inter":
        crossing = {
            row[ORIGIN:GROUP]
            for rows in by_process.values()
            for row in rows
            if row[KIND] == DELIVER and row[GROUP] in inside and row[GROUP] != row[ORIGIN]
        }
    group = Group(NONE, domain)
    for process in sorted(by_process):
        kept = [
            (*row[:GROUP], NONE, *row[VIEW_COLUMN:])
            for row in by_process[process]
            if row[KIND] in (CRASH, RECOVER)
            or (
                row[GROUP] in inside
                and (row[KIND] == DELIVER or (row[KIND] == SUBMIT and row[GROUP] == row[ORIGIN]))
                and (crossing is None or row[ORIGIN:GROUP] in crossing)
            )
        ]
        walk(process, kept, {NONE: group})
    return group


def look_up(group: Group, groups: dict[int, Group]) -> None:
    """Find what was submitted elsewhere: in the origin groups of the messages that were carried here."""
    for message, (origin, sender, number) in enumerate(group.names):
        if group.submitted[message] is None and origin != group.number and origin in groups:
            source = groups[origin]
            found = source.ids.get((origin, sender, number))
            group.submitted[message] = None if found is None else source.submitted[found]


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
            if kind == SUBMIT and (row[SENDER] != process or (row[ORIGIN] != number and number != NONE)):
                continue  # only a sender can submit its messages, to their origin group; NONE is a domain
            life = lives.get(number)
            if life is None:
                life = lives[number] = begin(group_of(groups, number), process, incarnation)
            if kind == DELIVER:
                message = life.group.ids.get(row[ORIGIN:GROUP])
                life.deliveries.append(life.group.message(row[ORIGIN:GROUP]) if message is None else message)
                life.payloads.append(row[PAYLOAD])
            elif kind == SUBMIT:
                submit(life, row)
            else:
                install(life, row)
        elif kind in (TENTATIVE, REVOKE):
            life = lives.get(row[GROUP])
            if life is None:
                life = lives[row[GROUP]] = begin(group_of(groups, row[GROUP]), process, incarnation)
            life.marks.append((kind, life.group.message(row[ORIGIN:GROUP]), len(life.deliveries)))
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
    """Note a submission; the first one of a message counts."""
    group = life.group
    message = group.message(row[ORIGIN:GROUP])
    if group.submitted[message] is not None:
        group.again.append((life, message))
    else:
        sent = life.epochs[-1].stay.sent
        group.submitted[message] = Submitted(life, row, len(sent))
        life.sent.append((message, len(life.deliveries)))
        sent.append(message)


def install(life: Life, row: Row) -> None:
    """Open the next epoch; it goes on with the stay if no view of the group lies between."""
    group, view = life.group, row[VALUE]
    group.view_rows.append((life.process, view, row[DESTINATIONS] or ()))
    before = life.epochs[-1]
    follows = before.view != NONE and group.places[view] == group.places[before.view] + 1
    if follows:
        before.stay.last = view
    life.epochs.append(Epoch(view, len(life.deliveries), before.stay if follows else Stay(view, view)))


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
