"""Causal order: what happened before a message was submitted, and is addressed to q, q delivers before it.

Owed. If q delivers m in view w, and m' happened before m and is addressed to q, then q delivers m', and before m; but
where q never delivers m', it is excused if m' died with its sender, belongs to a view which q's stay does not have, or
to a stay of its sender that ended before w, or was carried into the group. In a domain only order is judged.

A totally ordered group is mostly proved by certificate.py; all others by a walk over its events, which needs NumPy.
"""

from __future__ import annotations

from isthmus.judge.causality.certificate import is_certified
from isthmus.judge.history import NEVER, GroupHistory, Life, ViewStay
from isthmus.judge.properties.finding import Finding, lost
from isthmus.judge.witness import LACKS


def causal(group: GroupHistory) -> Finding:
    """Judge that no life delivers a message ahead of its past."""
    finding = Finding(LACKS["causal"])
    finding.evidence_count = sum(max(0, len(life.delivered) - 1) for life in group.lives)
    if not is_certified(group) or (group.domain is None and any(map(lacks_owed, group.lives))):
        from isthmus.judge.causality.walk import walk

        walk(group, finding)
    return finding


def lacks_owed(life: Life) -> bool:
    """Whether a life lacks a message that it should have delivered before one that it did deliver."""
    group = life.group
    lacking = group.lacking(life)
    reached = views_reached(life) if lacking else []
    return any(is_owed(group, message, reached) and not lost(group, message) for message in lacking)


def views_reached(life: Life) -> list[tuple[ViewStay, int]]:
    """Return the stays and views in which a life delivered a message and owes those of others."""
    return [(epoch.stay, epoch.view) for epoch, start, end in life.spans() if end > start and epoch.stay.first != NEVER]


def is_owed(group: GroupHistory, message: int, reached: list[tuple[ViewStay, int]]) -> bool:
    source = group.submitted[message]
    assert source is not None
    view, last = source.epoch.view, source.epoch.stay.last
    return any(stay.first <= view <= stay.last and at <= last for stay, at in reached)
