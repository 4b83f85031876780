"""Fifo: messages of one sender are delivered in ascending number, with none left out that is owed.

q owes the earlier message a of a later one b only if both come from one stay of their sender in this group, and q
stayed from the view in which a was submitted to the one in which it delivers b: what a site submitted while it was cut
off no process owes. Messages that were carried into a group, and those of a domain, are judged for their order only.
"""

from __future__ import annotations

from isthmus.judge.history import DELIVER, SUBMIT, GroupHistory, Life, ViewStay
from isthmus.judge.properties.finding import Finding, absent, lost
from isthmus.judge.witness import LACKS, EventKey, Witness


def fifo(group: GroupHistory) -> Finding:
    """Messages of one sender are delivered in the order of their numbers, with none left out that is owed."""
    finding = Finding(LACKS["fifo"])
    for life in group.lives:
        fifo_at(group, life, finding)
    return finding


def fifo_at(group: GroupHistory, life: Life, finding: Finding) -> None:
    submitted, names, here = group.submitted, group.names, group.number
    lacking = group.lacking(life) if group.domain is None else []
    highest: dict[tuple[int, int], int] = {}  # origin and sender to the message with the highest number so far
    seen: set[int] | None = set() if len(life.delivered) < len(life.deliveries) else None  # where some come twice
    owed: dict[int, list[int]] = {}
    stay: ViewStay | None = None
    told: set[int] = set()  # gaps that were reported
    for epoch, start, end in life.spans():
        if lacking and epoch.stay is not stay:
            stay = epoch.stay
            owed = owed_in(group, stay, lacking, told)
        for message in life.deliveries[start:end]:
            if seen is not None:
                if message in seen:
                    continue
                seen.add(message)
            origin, sender, number = names[message]
            before = highest.get((origin, sender))
            if before is not None:
                finding.evidence_count += 1
                if number < names[before][2]:
                    finding.violate(passed("late", group, life, message, before))
                    continue
            highest[origin, sender] = message
            if not owed or origin != here or (source := submitted[message]) is None:
                continue
            gaps = owed.get(id(source.epoch.stay))
            while gaps and submitted[gaps[-1]].index < source.index:  # type: ignore[union-attr]
                left_out = gaps.pop()
                told.add(left_out)
                finding.violate(passed("gap", group, life, message, left_out))


def owed_in(group: GroupHistory, stay: ViewStay, lacking: list[int], told: set[int]) -> dict[int, list[int]]:
    """What a life owes in a stay of its own and never delivers, by the sender's stay, the earliest last."""
    owed: dict[int, list[int]] = {}
    for message in lacking:
        source = group.submitted[message]
        assert source is not None
        if stay.first <= source.epoch.view <= stay.last and message not in told and not lost(group, message):
            owed.setdefault(id(source.epoch.stay), []).append(message)
    for messages in owed.values():
        messages.sort(key=lambda message: -group.submitted[message].index)  # type: ignore[union-attr]
    return owed


def passed(form: str, group: GroupHistory, life: Life, message: int, other: int) -> Witness:
    """A witness of a message that a life delivered beside another, late or not at all."""
    one, two = group.names[message], group.names[other]
    delivered = EventKey(DELIVER, life.process, one, role="delivered", life=life.incarnation)
    if form == "late":
        events = (
            EventKey(SUBMIT, one[1], one, role="submitted"),
            EventKey(SUBMIT, two[1], two, role="submitted"),
            EventKey(DELIVER, life.process, two, role="delivered first", life=life.incarnation),
            delivered._replace(role="delivered late"),
        )
    else:
        events = (
            EventKey(SUBMIT, two[1], two, role="submitted, never delivered"),
            EventKey(SUBMIT, one[1], one, role="submitted later"),
            absent(life, two, before=one),
            delivered,
        )
    return Witness(form, (life.key,), (one, two), events=events)
