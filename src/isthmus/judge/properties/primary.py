"""Primary views: any two are ordered, so that no two halves of a group both go on as the group.

A view, a number with its members and their weights, is *established* if a quorum of it (core/votes.py) installed it. It
is *primary* if it is established, and either none of those that installed it had an earlier view, or it has a quorum of
a primary view that one of them installed just before it. Two primary views must be ordered: a chain of processes leads
from one to the other, each of which installed both ends of its link one after the other.

After a crash of all, sites vote by their files, and new lives found the next view: no life leads there. A view of lives
that had no earlier one is linked to a primary view with the number before it, if it has a quorum of that. If none has
this number, and processes of the view had views in earlier lives, a quorum of one that was decided and never installed
may have voted: then the property is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from isthmus.core.votes import is_quorum
from isthmus.judge.history import GroupHistory
from isthmus.judge.properties.finding import Finding
from isthmus.judge.properties.views import installed
from isthmus.judge.witness import LACKS, Witness

NumberedView = tuple[int, tuple[int, ...], tuple[int, ...]]  # number, members and their weights; none: one vote each
Step = tuple[int, int, int, NumberedView]  # process, incarnation, local, the view installed


def primary(group: GroupHistory) -> Finding:
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
    seen: set[int] = set()  # processes
    came_back: set[NumberedView] = set()  # installed by processes that had a view in an earlier life
    for process, incarnation, local, view in steps:
        places.setdefault(view, {}).setdefault(process, local)
        earlier_ones = before.setdefault(view, set())
        old = last.get((process, incarnation))
        if old is not None and old != view:
            earlier_ones.add(old)
        if old is None and process in seen:
            came_back.add(view)
        seen.add(process)
        last[process, incarnation] = view
    found = primaries(places, before)
    finding.evidence_count = len(places) if len(places) > 1 else 0
    ahead = {view: earlier(view, before) for view in found}
    numbers = {view[0] for view in places}
    for one, other in combinations(found, 2):
        if one not in ahead[other] and other not in ahead[one]:
            if other in came_back and not before[other] and other[0] - 1 not in numbers:
                finding.doubt = f"view {other[0]} is of lives that came back, and nobody installed view {other[0] - 1}"
                continue
            events = tuple(
                installed(min(places[view]), places[view][min(places[view])], "installed") for view in (one, other)
            )
            finding.violate(Witness("rivals", numbers=(one[0], other[0]), members=(one[1], other[1]), events=events))
    return finding


def primaries(
    places: dict[NumberedView, dict[int, int]], before: dict[NumberedView, set[NumberedView]]
) -> list[NumberedView]:
    """The primary views, by number; links to `before` those that followed by files."""
    found: list[NumberedView] = []
    for view in sorted(places):
        if not before[view]:
            before[view] = {old for old in found if old[0] == view[0] - 1 and is_quorum(old[1], old[2], view[1])}
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
