"""Tentative and final delivery: what an optimistic order promises on top of a total one.

At each life a message is tentative at most once and not after it is final, one that was revoked is never final, and the
final order is total. The evidence is the tentative deliveries: without any, nothing optimistic was seen.
"""

from __future__ import annotations

from isthmus.trace.history import DELIVER, REVOKE, TENTATIVE, Group, Life
from isthmus.trace.order import total
from isthmus.trace.properties import Finding
from isthmus.trace.witness import LACKS, EventKey, Witness


def final(group: Group) -> Finding:
    """Nothing is tentative twice or after it is final, nothing revoked is final; and the final order is total."""
    finding = Finding(LACKS["final"])
    for life in group.lives:
        if life.marks:
            final_at(group, life, finding)
    if finding.evidence_count:
        order = total(group)
        if order.witness is not None:
            finding.violate(order.witness)
            finding.violation_count += order.violation_count - 1
    return finding


def final_at(group: Group, life: Life, finding: Finding) -> None:
    places: dict[int, int] = {}  # message to its place among the deliveries
    for place, message in enumerate(life.deliveries):
        places.setdefault(message, place)
    tentative: set[int] = set()
    for kind, message, before in life.marks:
        if kind == REVOKE:
            if message in places:
                finding.violate(told("revoked-final", group, life, message, REVOKE))
            continue
        finding.evidence_count += 1
        if message in tentative:
            finding.violate(told("tentative-twice", group, life, message, TENTATIVE))
        elif places.get(message, before) < before:
            finding.violate(told("tentative-late", group, life, message, TENTATIVE))
        tentative.add(message)


def told(form: str, group: Group, life: Life, message: int, kind: int) -> Witness:
    """A witness of a message that a life marked and delivered."""
    key = group.names[message]
    events = (
        EventKey(kind, life.process, key, role="revoked" if kind == REVOKE else "tentative"),
        EventKey(DELIVER, life.process, key, role="final"),
    )
    return Witness(form, (life.key,), (key,), events=events)
