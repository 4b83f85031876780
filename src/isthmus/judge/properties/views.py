"""Three properties of views: their numbers and members, the one line of primary views, and the view of sending.

A view is installed by those that it lists, by all of them that are up and do not go on to a later one, under one number
with one list of members everywhere. That a listed process never installs a view is asked only of a process that never
crashed and has rows in the trace, and not while it suspects another member or is suspected: then a change is under way.

Primary views. A view, a number with its members and their weights, is *established* if a quorum of it (core/votes.py)
installed it. It is *primary* if it is established, and either none of those that installed it had an earlier view, or
it has a quorum of a primary view that one of them installed just before it. Two primary views must be ordered: a chain
of processes leads from one to the other, each of which installed both ends of its link one after the other. Two halves
of a group that both go on as the group break this; so do two groups that were founded apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from isthmus.core.votes import is_quorum
from isthmus.judge.history import VIEW, GroupHistory
from isthmus.judge.properties.basic import Finding, at_life
from isthmus.judge.witness import LACKS, EventKey, Witness

NumberedView = tuple[int, tuple[int, ...], tuple[int, ...]]  # number, members and their weights; none: one vote each
Step = tuple[int, int, int, NumberedView]  # process, incarnation, local, the view installed


def views(group: GroupHistory) -> Finding:
    """View numbers ascend at each process, a number has the same members everywhere, and they install it."""
    finding = Finding(LACKS["views"])
    latest: dict[int, tuple[int, int]] = {}  # process to its last view, and where
    said: dict[int, tuple[int, tuple[int, ...], int]] = {}  # view to who first told its members, and where
    for life, view, members, _, local, again in group.view_rows:
        process = life.process
        before = latest.get(process)
        teller, told, at = said.setdefault(view, (process, members, local))
        if (before is not None and not again) or teller != process:
            finding.evidence_count += 1
        if before is not None and not again and view <= before[0]:
            finding.violate(
                Witness("view-back", (life.key,), numbers=(view, before[0]), events=(
                    installed(process, before[1], "installed before"), installed(process, local, "installed after"),
                ))
            )  # fmt: skip
        if told != members:
            events = (installed(teller, at, "installed"), installed(process, local, "installed otherwise"))
            lives = (life.key, (teller, 0))
            finding.violate(Witness("view-differs", lives, numbers=(view,), members=(members, told), events=events))
        if process not in members and not again:
            alone = (installed(process, local, "installed"),)
            finding.violate(Witness("view-stranger", (life.key,), numbers=(view,), members=(members,), events=alone))
        latest[process] = (view, local)
    for process, view, teller, at in absentees(group):
        events = (
            installed(teller, at, "installed"),
            EventKey(VIEW, process, value=view, role="missing", missing=True),
        )
        finding.violate(Witness("view-missing", ((process, 0), (teller, 0)), numbers=(view,), events=events))
    return finding


def installed(process: int, local: int, role: str) -> EventKey:
    return EventKey(VIEW, process, local=local, role=role)


def absentees(group: GroupHistory) -> Iterator[tuple[int, int, int, int]]:
    """Processes that never installed a view that lists them, nor a later one: process, view, an installer, where."""
    if group.cut:
        return
    highest: dict[int, int] = {}
    first: dict[int, tuple[int, int]] = {}  # view to who installed it, and where
    for life, view, _, _, local, _ in group.view_rows:
        highest[life.process] = max(view, highest.get(life.process, view))
        first.setdefault(view, (life.process, local))
    wanted: dict[int, int] = {}  # process to the last view that lists it
    for view in sorted(group.members):
        for member in group.members[view]:
            wanted[member] = view
    for process, view in sorted(wanted.items()):
        if process in group.ended or process not in group.suspects or highest.get(process, view - 1) >= view:
            continue
        others = [other for other in group.members[view] if other != process]
        doubted = any(process in group.suspects.get(other, ()) for other in others)
        if not doubted and not group.suspects.get(process, set()).intersection(others):
            yield process, view, *first[view]


def sending_view(group: GroupHistory) -> Finding:
    """What was submitted to this group is delivered in the view that it was sent in."""
    finding = Finding(LACKS["sending-view"])
    here, submitted, names, sent_in = group.number, group.submitted, group.names, group.sent_in
    for life in group.lives:
        moved: set[tuple[int, int]] = set()
        for epoch, start, end in life.spans():
            view = epoch.view
            for message in life.deliveries[start:end]:
                source = submitted[message]
                if source is None or names[message][0] != here:
                    continue
                finding.evidence_count += 1
                sent = sent_in.get(message, source.epoch.view)
                if sent != view and (message, view) not in moved:
                    moved.add((message, view))
                    finding.violate(at_life("moved", group, life, message, view, sent))
    return finding


def primary(group: GroupHistory) -> Finding:
    """Any two primary views are ordered."""
    steps = [
        (life.process, life.incarnation, local, (view, members, weights))
        for life, view, members, weights, local, again in group.view_rows
        if not again
    ]
    return rivals(steps)


def rivals(steps: Iterable[Step]) -> Finding:
    """The same of VIEW rows, by process and in local order."""
    finding = Finding(LACKS["primary"])
    places: dict[NumberedView, dict[int, int]] = {}  # view to where it was installed, with the local number
    before: dict[NumberedView, set[NumberedView]] = {}  # view to those that were installed just before it somewhere
    last: dict[tuple[int, int], NumberedView] = {}  # by life
    for process, incarnation, local, view in steps:
        places.setdefault(view, {}).setdefault(process, local)
        earlier_ones = before.setdefault(view, set())
        old = last.get((process, incarnation))
        if old is not None and old != view:
            earlier_ones.add(old)
        last[process, incarnation] = view
    found = primaries(places, before)
    finding.evidence_count = len(places) if len(places) > 1 else 0
    ahead = {view: earlier(view, before) for view in found}
    for one, other in combinations(found, 2):
        if one not in ahead[other] and other not in ahead[one]:
            events = tuple(
                installed(min(places[view]), places[view][min(places[view])], "installed") for view in (one, other)
            )
            finding.violate(Witness("rivals", numbers=(one[0], other[0]), members=(one[1], other[1]), events=events))
    return finding


def primaries(
    places: dict[NumberedView, dict[int, int]], before: dict[NumberedView, set[NumberedView]]
) -> list[NumberedView]:
    """The primary views, by number."""
    found: list[NumberedView] = []
    for view in sorted(places):
        established = is_quorum(view[1], view[2], places[view])
        heir = any(old in found and is_quorum(old[1], old[2], view[1]) for old in before[view])
        if established and (heir or not before[view]):
            found.append(view)
    return found


def earlier(view: NumberedView, before: dict[NumberedView, set[NumberedView]]) -> set[NumberedView]:
    """All views that a chain of installations leads from to this one."""
    seen: set[NumberedView] = set()
    left = [view]
    while left:
        for old in before[left.pop()] - seen:
            seen.add(old)
            left.append(old)
    return seen
