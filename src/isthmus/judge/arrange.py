"""From rows to histories: the pass over each process's rows that finds its lives, views, submits and deliveries.

VIEW rows are looked at first, because what lies between two views of a process is known only when all views of the
group are; a domain is walked once more, over the rows of its groups. Rows come in any order, and a row that was
ingested twice counts once. What a process did in a nested group, such as one of participants,
after its last VIEW row of the outer one, before it crashed, may be known to no other, and is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from operator import attrgetter, itemgetter, lt
from typing import NamedTuple

from isthmus.core.errors import InputError
from isthmus.judge.history import (
    CLOCK,
    CRASH,
    DELIVER,
    GAUGE_ROW,
    NEVER,
    RECEIVE,
    RECORD,
    RECOVER,
    REVOKE,
    SEND,
    SUBMIT,
    SUSPECT,
    TENTATIVE,
    TRUST,
    VIEW,
    ClockReading,
    Epoch,
    GroupHistory,
    Installed,
    Life,
    RowAfterCrash,
    Submitted,
    ViewStay,
    tag_of,
)
from isthmus.trace.domain import Domain
from isthmus.trace.log import view_of
from isthmus.trace.schema import (
    DESTINATIONS,
    GAUGE,
    GROUP,
    KIND,
    LOCAL,
    NONE,
    ORIGIN,
    PAYLOAD,
    PROCESS,
    RUN,
    SENDER,
    TIME_NS,
    VALUE,
    Gauge,
    Recording,
    Row,
)
from isthmus.trace.schema import VIEW as VIEW_COLUMN


def outer_groups(rows: list[Row]) -> dict[int, int]:
    """The outer group of each nested one."""
    return {row[GROUP]: row[ORIGIN] for row in rows if row[KIND] == VIEW and row[ORIGIN] != NONE}


def without_unsure(rows: list[Row]) -> list[Row]:
    """The rows without what a crashed process may have been alone with, in nested groups."""
    outer = outer_groups(rows)
    if not outer:
        return rows
    outside = set(outer.values())
    looked = [
        row
        for row in rows
        if row[KIND] == CRASH
        or (row[KIND] == VIEW and row[GROUP] in outside)
        or (row[GROUP] in outer and row[KIND] in (VIEW, DELIVER))
    ]
    looked.sort(key=lambda row: (row[RUN], row[PROCESS], row[LOCAL]))
    unsure: set[tuple[int, int, int]] = set()
    open_rows: dict[tuple[int, int, int], list[tuple[int, int, int]]] = {}  # by run, process and outer group
    for row in looked:
        process = (row[RUN], row[PROCESS])
        if row[KIND] == CRASH:
            for group in sorted(outside):
                unsure.update(open_rows.pop((*process, group), ()))
        elif row[GROUP] in outer:
            open_rows.setdefault((*process, outer[row[GROUP]]), []).append((*process, row[LOCAL]))
        else:
            open_rows.pop((*process, row[GROUP]), None)
    return [row for row in rows if (row[RUN], row[PROCESS], row[LOCAL]) not in unsure]


def arrange(rows: Iterable[Row], domains: Iterable[Domain] = (), partial: bool = False) -> list[GroupHistory]:
    """The groups of one run, in the order of their numbers, then the domains; `partial`: every trace is incomplete."""
    by_process: dict[int, list[Row]] = {}
    groups: dict[int, GroupHistory] = {}
    for row in rows:
        by_process.setdefault(row[PROCESS], []).append(row)
        if row[KIND] == VIEW:
            if not row[DESTINATIONS]:
                raise InputError(
                    f"process {row[PROCESS]}", f"view {row[VALUE]}", "no members", "them in the row's destinations"
                )
            group_of(groups, row[GROUP]).members.setdefault(row[VALUE], view_of(row)[0])
    for group in groups.values():
        group.places = {view: place for place, view in enumerate(sorted(group.members))}
    walks = {}
    for process in sorted(by_process):
        by_process[process] = ordered(process, by_process[process])
        walks[process] = walk(process, by_process[process], groups)
    suspects = {process: walked.suspected for process, walked in walks.items()}
    ended = frozenset(process for process, walked in walks.items() if walked.ended)
    arranged = [groups[number] for number in sorted(groups)]
    for group in arranged:
        if not group.members:
            add_silent(group, walks)
        group.suspects, group.ended = suspects, ended
    arranged += [joined(domain, by_process) for domain in domains]
    missing = frozenset(process for process, walked in walks.items() if partial or walked.cut)
    if partial:  # even of a sender that has no row here
        missing |= {row[SENDER] for of_process in by_process.values() for row in of_process}
    cut = told_cut(missing, partial)
    for group in arranged:
        look_up(group, groups)
        group.missing, group.cut = missing, cut
        for life in group.lives:
            life.delivered = set(life.deliveries)
            life.whole = life.process not in missing
            life.reached = max(
                (place for place, (own, _) in enumerate(life.sent) if own in life.delivered), default=NONE
            )
        group.unsettled = cut or (motion(group) if group.domain is None else "")
    return arranged


class Walked(NamedTuple):
    """What is known of a process at the end of its rows."""

    suspected: set[int]
    touched: set[int]  # groups in which its first life sent or received something
    ended: bool  # its first life is over
    cut: bool  # its trace is incomplete


def told_cut(missing: frozenset[int], partial: bool) -> str:
    """Why nothing can be said of the end of a run, where that is so."""
    if partial:
        return "the trace is partial, as --partial says"
    if missing:
        some = ", ".join(map(str, sorted(missing)[:3])) + (" ..." if len(missing) > 3 else "")
        return f"the trace of process{'es' if len(missing) > 1 else ''} {some} was cut short"
    return ""


def add_silent(group: GroupHistory, walks: dict[int, Walked]) -> None:
    """Add the first lives of a static group that neither submitted nor delivered: they owe what others do."""
    known = {life.process for life in group.lives if life.incarnation == 0}
    named = {
        process
        for message, source in enumerate(group.submitted)
        if source is not None and group.names[message][0] == group.number
        for process in source.destinations or ()
    }
    named |= {process for process, walked in walks.items() if group.number in walked.touched}
    for process in sorted(named - known):
        life = begin(group, process, 0)
        life.up = process not in walks or not walks[process].ended
    group.lives.sort(key=attrgetter("process", "incarnation"))


def group_of(groups: dict[int, GroupHistory], number: int) -> GroupHistory:
    found = groups.get(number)
    if found is None:
        found = groups[number] = GroupHistory(number)
    return found


def joined(domain: Domain, by_process: dict[int, list[Row]]) -> GroupHistory:
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
    group = GroupHistory(NONE, domain)
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


def look_up(group: GroupHistory, groups: dict[int, GroupHistory]) -> None:
    """Find what was submitted elsewhere: in the origin groups of the messages that were carried here."""
    for message, (origin, sender, number) in enumerate(group.names):
        if group.submitted[message] is None and origin != group.number and origin in groups:
            source = groups[origin]
            found = source.ids.get((origin, sender, number))
            group.submitted[message] = None if found is None else source.submitted[found]


def ordered(process: int, rows: list[Row]) -> list[Row]:
    """The rows of one process in local order, each with a place of its own; a row that is there twice counts once."""
    places = list(map(itemgetter(LOCAL), rows))
    if all(map(lt, places, places[1:])):
        return rows
    rows.sort(key=itemgetter(LOCAL))
    kept = rows[:1]
    for one, other in pairwise(rows):
        if one[LOCAL] != other[LOCAL]:
            kept.append(other)
        elif one != other:
            raise InputError(f"process {process}", "local", f"two rows with {one[LOCAL]}", "a number for each row")
    return kept


def walk(process: int, rows: list[Row], groups: dict[int, GroupHistory]) -> Walked:
    lives: dict[int, Life] = {}  # the current one, by group
    suspected: set[int] = set()
    touched: set[int] = set()
    incarnation = 0
    up = True
    records: list[int] = []
    for row in rows:
        kind = row[KIND]
        if kind == DELIVER or kind == SUBMIT or kind == VIEW or kind == TENTATIVE or kind == REVOKE:  # noqa: SIM109  most rows, so the fastest way
            number = row[GROUP]
            if kind == SUBMIT and (row[SENDER] != process or (row[ORIGIN] != number and number != NONE)):
                continue  # only a sender can submit its messages, to their origin group; NONE is a domain
            life = lives.get(number)
            if life is None:
                life = lives[number] = begin(group_of(groups, number), process, incarnation)
                life.up = up
            if kind == DELIVER:
                message = life.group.ids.get(row[ORIGIN:GROUP])
                life.deliveries.append(life.group.message(row[ORIGIN:GROUP]) if message is None else message)
                life.tags.append(tag_of(row) if row[VALUE] else row[PAYLOAD])
            elif kind == SUBMIT:
                submit(life, row)
            elif kind == VIEW:
                install(life, row)
            else:
                life.marks.append((kind, life.group.message(row[ORIGIN:GROUP]), len(life.deliveries)))
            if not up:
                about = life.group.message(row[ORIGIN:GROUP]) if kind != VIEW else NONE
                life.group.late.append(RowAfterCrash(life, kind, about, row[LOCAL]))
        elif kind in (SEND, RECEIVE):
            if incarnation == 0:
                touched.add(row[GROUP])
        elif kind == SUSPECT:
            suspected.add(row[VALUE])
        elif kind == TRUST:
            suspected.discard(row[VALUE])
        elif kind == CLOCK:
            reading = ClockReading(process, row[LOCAL], row[TIME_NS], row[VALUE])
            group_of(groups, row[GROUP]).readings.append(reading)
        elif kind == GAUGE_ROW:
            if row[GAUGE] == Gauge.SENT_VIEW and row[SENDER] == process:
                group = group_of(groups, row[GROUP])
                group.sent_in[group.message(row[ORIGIN:GROUP])] = row[VALUE]
            elif row[GAUGE] == Gauge.CLOCK_BOUND_NS:
                published, read = group_of(groups, row[GROUP]).clock_bounds, (process, row[TIME_NS])
                published[read] = min(row[VALUE], published.get(read, row[VALUE]))
        elif kind == RECORD:
            records.append(row[VALUE])
        elif kind in (CRASH, RECOVER):
            for life in lives.values():
                life.up = False
            suspected.clear()
            up = kind == RECOVER
            if up:
                incarnation += 1
                lives.clear()
    return Walked(suspected, touched, incarnation > 0 or not up, is_cut(records))


def is_cut(records: list[int]) -> bool:
    """Whether what a process has recorded is incomplete: a recording was cut short, or one that began has no end."""
    return Recording.CUT in records or records.count(Recording.ENDED) < records.count(Recording.BEGUN)


def begin(group: GroupHistory, process: int, incarnation: int) -> Life:
    """A new life in a group; without a view it owes what others send only if it was there from the start."""
    first = NEVER if group.members or incarnation else NONE
    life = Life(group, process, incarnation, [Epoch(NONE, 0, ViewStay(first, NONE))])
    group.lives.append(life)
    return life


def submit(life: Life, row: Row) -> None:
    """Note a submission; the first one of a message counts."""
    group = life.group
    message = group.message(row[ORIGIN:GROUP])
    if group.submitted[message] is not None:
        group.again.append((life, message, row[LOCAL]))
    else:
        sent = life.epochs[-1].stay.sent
        place = (len(sent), len(life.sent))
        group.submitted[message] = Submitted(life, life.epochs[-1], *place, row[DESTINATIONS] or None, tag_of(row))
        life.sent.append((message, len(life.deliveries)))
        sent.append(message)


def check_weights(row: Row) -> None:
    """Raise unless a VIEW row has no weights, or one for each of its members."""
    count, weights = row[GAUGE], view_of(row)[1]
    if count and len(weights) != count:
        found = f"{len(row[DESTINATIONS] or ())} members and weights, of {count} members as the gauge says"
        raise InputError(f"process {row[PROCESS]}", f"view {row[VALUE]}", found, "a weight for each member")


def install(life: Life, row: Row) -> None:
    """Open the next epoch; it goes on with the stay if no view of the group lies between."""
    group, view = life.group, row[VALUE]
    before = life.epochs[-1]
    again = before.view == view
    check_weights(row)
    group.view_rows.append(Installed(life, view, *view_of(row), row[LOCAL], again))
    if again:
        return
    follows = before.view != NONE and group.places[view] == group.places[before.view] + 1
    if follows:
        before.stay.last = view
    life.epochs.append(Epoch(view, len(life.deliveries), before.stay if follows else ViewStay(view, view)))


def motion(group: GroupHistory) -> str:
    """Why the last view cannot be held to its promises at the end: a member is down, away or suspected."""
    last = group.last_view
    members = group.members.get(last, ())
    there = {life.process for life in group.finalists()}
    for member in members:
        if member not in there:
            return f"view {last} still lists process {member}, which is not there at the end"
        for other in members:
            if other != member and other in group.suspects[member]:
                return f"process {member} suspects process {other} at the end"
    return ""
