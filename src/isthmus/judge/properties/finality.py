"""Tentative and final delivery: what an optimistic order promises on top of a total one.

At each life a message is tentative at most once and not after it is final, one that was revoked is never final, what is
tentative was submitted, and in the settled last view of a complete trace it is final or revoked; and the final order is
total. The evidence is the tentative deliveries.
"""

from __future__ import annotations

from isthmus.judge.history import DELIVER, REVOKE, SUBMIT, TENTATIVE, GroupHistory, Life
from isthmus.judge.properties.finding import Finding
from isthmus.judge.properties.total import total
from isthmus.judge.witness import LACKS, EventKey, Witness


def final(group: GroupHistory) -> Finding:
    """Nothing is tentative twice, late, for ever or unsent; nothing revoked is final; the final order is total."""
    finding = Finding(LACKS["final"])
    there = set(map(id, group.finalists() if not group.unsettled else ()))
    for life in group.lives:
        if life.marks:
            final_at(group, life, finding, id(life) in there)
    if finding.evidence_count:
        order = total(group)
        if order.witness is not None:
            finding.violate(order.witness)
            finding.violation_count += order.violation_count - 1
        if group.cut:
            finding.doubt = group.cut if any(unsettled(life) for life in group.lives) else ""
    return finding


def final_at(group: GroupHistory, life: Life, finding: Finding, stays: bool) -> None:
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
        elif group.submitted[message] is None and group.names[message][1] not in group.missing:
            finding.violate(told("tentative-unsent", group, life, message, TENTATIVE))
        tentative.add(message)
    if stays:
        for message in unsettled(life):
            finding.violate(told("tentative-ever", group, life, message, TENTATIVE))


def unsettled(life: Life) -> list[int]:
    """What a life delivered tentatively and never for good, and did not revoke, in the order of the first."""
    marked = dict.fromkeys(message for kind, message, _ in life.marks if kind == TENTATIVE)
    revoked = {message for kind, message, _ in life.marks if kind == REVOKE}
    return [message for message in marked if message not in life.delivered and message not in revoked]


def told(form: str, group: GroupHistory, life: Life, message: int, kind: int) -> Witness:
    """A witness of a message that a life marked, and perhaps delivered."""
    key = group.names[message]
    mark = EventKey(kind, life.process, key, role="revoked" if kind == REVOKE else "tentative", life=life.incarnation)
    given = EventKey(DELIVER, life.process, key, role="final", life=life.incarnation)
    events: tuple[EventKey, ...] = (EventKey(SUBMIT, key[1], key, role="submitted"), mark, given)
    if form == "tentative-twice":
        events = (events[0], mark, mark._replace(role="tentative once more", nth=1))
    elif form == "tentative-ever":
        events = (events[0], mark, given._replace(role="missing", missing=True))
    return Witness(form, (life.key,), (key,), events=events)
