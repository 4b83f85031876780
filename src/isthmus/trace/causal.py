"""Causal order: what happened before a message was submitted, and is addressed to q, q delivers before it.

The problem: m1 to q, then m2 not to q by a process that delivered m1, then m3 to q by one that delivered m2; q must
deliver m1 before m3, though it never sees m2. past.py walks the events with a vector per life; here they are made of a
group's history.

Owed. If q delivers m in view w, and m' happened before m and is addressed to q, then q delivers m', and before m; but
where q never delivers m', it is excused if m' died with its sender, belongs to a view which q's stay does not have, or
to a stay of its sender that ended before w, or was carried into the group. In a domain only the order of what is
delivered is asked.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from isthmus.trace.certificate import is_certified
from isthmus.trace.history import DELIVER, NEVER, Group, Life, Stay
from isthmus.trace.past import CODE_BITS, CODE_INDEX, NOWHERE, PastEvent, Vector, closed
from isthmus.trace.precedence import chain, chain_events
from isthmus.trace.properties import Finding, absent, lost
from isthmus.trace.witness import LACKS, EventKey, Witness

NOTHING: Vector = np.zeros(0, dtype=np.int64)


def causal(group: Group) -> Finding:
    """No life delivers a message ahead of its past."""
    finding = Finding(LACKS["causal"])
    finding.evidence_count = sum(max(0, len(life.delivered) - 1) for life in group.lives)
    if is_certified(group) and not (group.domain is None and any(map(any_owed, group.lives))):
        return finding
    codes = Codes(group)
    past = closed(len(group.lives), lambda: events(group, codes))
    if past.first is not None:
        finding.violate(told(group, codes, *past.first))
        finding.violation_count = past.count
    return finding


def any_owed(life: Life) -> bool:
    """Whether a life lacks anything that it should have delivered before something that it did deliver."""
    group = life.group
    lacking = group.lacking(life)
    reached = reached_by(life) if lacking else []
    return any(owes(group, message, reached) and not lost(group, message) for message in lacking)


def reached_by(life: Life) -> list[tuple[Stay, int]]:
    """The stays and views in which a life delivered something and owes what others send."""
    return [(epoch.stay, epoch.view) for epoch, start, end in life.spans() if end > start and epoch.stay.first != NEVER]


def owes(group: Group, message: int, reached: list[tuple[Stay, int]]) -> bool:
    source = group.submitted[message]
    assert source is not None
    view, last = source.epoch.view, source.epoch.stay.last
    return any(stay.first <= view <= stay.last and at <= last for stay, at in reached)


class Codes:
    """What each life made of each message: its number there, or the last one that it should have preceded."""

    __slots__ = ("by_message", "message_of", "ranks")

    def __init__(self, group: Group) -> None:
        self.by_message: dict[int, tuple[list[int], list[int]]] = {}  # slots and their codes
        self.message_of: dict[tuple[int, int], int] = {}  # slot and code to the message
        self.ranks: list[dict[int, int]] = []  # by slot: message to its number, from 1
        for life in group.lives:
            firsts = dict.fromkeys(life.deliveries)
            self.ranks.append({message: place for place, message in enumerate(firsts, start=1)})
        for slot, ranks in enumerate(self.ranks):
            for message, rank in ranks.items():
                self.add(slot, message, rank << CODE_BITS)
        if group.domain is None:
            for slot, life in enumerate(group.lives):
                self.add_owed(group, slot, life)

    def add(self, slot: int, message: int, code: int) -> None:
        slots, codes = self.by_message.setdefault(message, ([], []))
        slots.append(slot)
        codes.append(code)
        self.message_of[slot, code] = message

    def add_owed(self, group: Group, slot: int, life: Life) -> None:
        """Enter what a life never delivered though it owes it, behind the last delivery that it should precede."""
        lacking = group.lacking(life)
        if not lacking:
            return
        reached: list[tuple[Stay, int, int]] = []  # a stay, the view, the greatest number in it
        for epoch, start, end in life.spans():
            ranks = [self.ranks[slot][message] for message in life.deliveries[start:end]]
            if ranks and epoch.stay.first != NEVER:
                reached.append((epoch.stay, epoch.view, max(ranks)))
        indexes: dict[int, int] = {}  # number to how many were entered behind it
        for message in lacking:
            source = group.submitted[message]
            assert source is not None
            view, last = source.epoch.view, source.epoch.stay.last
            rank = max(
                (rank for stay, at, rank in reached if stay.first <= view <= stay.last and at <= last), default=0
            )
            if rank and not lost(group, message):
                index = indexes[rank] = min(CODE_INDEX, indexes.get(rank, 0) + 1)
                self.add(slot, message, (rank << CODE_BITS) + index)


def events(group: Group, codes: Codes) -> Iterator[PastEvent]:
    """Carried messages first, then the submits and first deliveries of each life in its order."""
    for message, source in enumerate(group.submitted):
        if source is not None and source.life.group is not group:
            yield submitted(NOWHERE, group, message, codes)
    for slot, life in enumerate(group.lives):
        sent = 0  # how many of its messages it has submitted so far
        seen: set[int] = set()
        for place in range(len(life.deliveries) + 1):
            while sent < len(life.sent) and life.sent[sent][1] <= place:
                yield submitted(slot, group, life.sent[sent][0], codes)
                sent += 1
            if place == len(life.deliveries) or (message := life.deliveries[place]) in seen:
                continue
            seen.add(message)
            known = group.submitted[message] is not None
            code = codes.ranks[slot][message] << CODE_BITS
            yield PastEvent(slot, False, group.names[message], 0, code, known, NOTHING, NOTHING)


def submitted(slot: int, group: Group, message: int, codes: Codes) -> PastEvent:
    to, given = codes.by_message.get(message, ([], []))
    arrays = np.array(to, dtype=np.int64), np.array(given, dtype=np.int64)
    return PastEvent(slot, True, group.names[message], 0, 0, True, *arrays)


def told(group: Group, codes: Codes, event: PastEvent, due_code: int) -> Witness:
    """A delivery, and the message that should have come before it."""
    life = group.lives[event.slot]
    due = codes.message_of[event.slot, due_code]
    never = due_code & CODE_INDEX != 0
    first, message = group.names[due], event.message
    links = chain(group, due, group.ids[message])
    keys = list(chain_events(group, links))
    if never:
        keys.append(absent(life, first, before=message))
    keys.append(EventKey(DELIVER, life.process, message, role="delivered first", life=life.incarnation))
    if not never:
        keys.append(EventKey(DELIVER, life.process, first, role="delivered late", life=life.incarnation))
    between = tuple(group.names[one] for one in links[1:-1])
    form = "causal-never" if never else "causal-late"
    return Witness(form, (life.key,), (message, first, *between), events=tuple(keys))
