"""Views: their numbers ascend, and each has the same members everywhere, who install it.

That a listed process never installs a view is asked only of a process that never crashed and has rows in the trace, and
not while it suspects another member or is suspected: then a change is under way.
"""

from __future__ import annotations

from collections.abc import Iterator

from isthmus.judge.history import VIEW, GroupHistory
from isthmus.judge.properties.finding import Finding
from isthmus.judge.witness import LACKS, EventKey, Witness


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
