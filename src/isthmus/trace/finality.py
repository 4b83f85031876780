"""Tentative and final delivery: what an optimistic order promises on top of a total one.

At each life a message is tentative at most once and not after it is final, one that was revoked is never final, and the
final order is total. The evidence is the tentative deliveries: without any, nothing optimistic was seen.
"""

from __future__ import annotations

from isthmus.trace.history import REVOKE, Group, Life
from isthmus.trace.order import total
from isthmus.trace.properties import Finding


def final(group: Group) -> Finding:
    """Nothing is tentative twice or after it is final, nothing revoked is final; and the final order is total."""
    finding = Finding("nobody delivered anything tentatively")
    for life in group.lives:
        if life.marks:
            final_at(group, life, finding)
    if finding.evidence_count:
        order = total(group)
        if order.violation_count:
            finding.violate(order.witness)
            finding.violation_count += order.violation_count - 1
    return finding


def final_at(group: Group, life: Life, finding: Finding) -> None:
    places: dict[int, int] = {}  # message to its place among the deliveries
    for place, message in enumerate(life.deliveries):
        places.setdefault(message, place)
    tentative: set[int] = set()
    for kind, message, before in life.marks:
        name = group.name(message)
        if kind == REVOKE:
            if message in places:
                finding.violate(f"{life} delivered {name} for good, though it revoked it")
            continue
        finding.evidence_count += 1
        if message in tentative:
            finding.violate(f"{life} delivered {name} tentatively twice")
        elif places.get(message, before) < before:
            finding.violate(f"{life} delivered {name} tentatively after it was final")
        tentative.add(message)
