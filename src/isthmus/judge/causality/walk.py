"""The causal check of a group by a walk over its events: the group's history as arrays, and the witness of the result.

The problem: m1 to q, then m2 not to q by a process that delivered m1, then m3 to q by one that delivered m2; q must
deliver m1 before m3, though it never sees m2. past.py walks the events with a vector per life; here its input is
made of a group's history, and a witness of its output.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from isthmus.judge.causality.past import (
    ABSENT,
    CARRIED,
    CIRCLES,
    CODE_BITS,
    CODE_INDEX,
    UNKNOWN,
    EarlyDelivery,
    Owed,
    Steps,
    judge,
)
from isthmus.judge.causality.precedence import chain, chain_events, sequence
from isthmus.judge.history import DELIVER, NEVER, GroupHistory, Life, ViewStay
from isthmus.judge.properties.finding import Finding, absent, lost
from isthmus.judge.witness import EventKey, Witness


def walk(group: GroupHistory, finding: Finding) -> None:
    """Add what the deliveries of a group violate, or why they could not be judged, to a finding."""
    ordered = sequences(group)
    debts = Debts(group, ordered)
    judged = judge(ordered, sources(group), range(len(group.lives)), debts.owed())
    if judged.open:
        finding.doubt = CIRCLES
    elif judged.early:
        first = min(judged.early, key=lambda early: (early.number, early.slot))
        finding.violate(witness_of(group, ordered, debts, first))
        finding.violation_count = sum(early.times for early in judged.early)


def sequences(group: GroupHistory) -> list[Steps]:
    """The submits and first deliveries of each life in its order, as steps."""
    found: list[Steps] = []
    for life in group.lives:
        steps = sequence([life])
        if len(life.delivered) < len(life.deliveries):
            steps = list(dict.fromkeys(steps))
        found.append(np.array(steps, dtype=np.int32))
    return found


def sources(group: GroupHistory) -> NDArray[np.int8]:
    """What each message is at first: to be submitted here, carried into the group, or never submitted."""
    return np.array(
        [
            UNKNOWN if source is None else ABSENT if source.life.group is group else CARRIED
            for source in group.submitted
        ],
        dtype=np.int8,
    )


class Debts:
    """What each life never delivered though it owes it, with a code behind the last delivery that it should precede."""

    __slots__ = ("codes", "message_of", "messages", "slots")

    def __init__(self, group: GroupHistory, ordered: Sequence[Steps]) -> None:
        self.slots: list[int] = []
        self.messages: list[int] = []
        self.codes: list[int] = []
        self.message_of: dict[tuple[int, int], int] = {}  # slot and code to the message
        if group.domain is None:
            for slot, life in enumerate(group.lives):
                self.add(group, slot, life, ordered[slot])

    def add(self, group: GroupHistory, slot: int, life: Life, steps: Steps) -> None:
        lacking = group.lacking(life)
        if not lacking:
            return
        ranks = {message: place for place, message in enumerate(steps[steps >= 0].tolist(), start=1)}
        reached: list[tuple[ViewStay, int, int]] = []  # a stay, the view, the greatest number in it
        for epoch, start, end in life.spans():
            given = [ranks[message] for message in life.deliveries[start:end]]
            if given and epoch.stay.first != NEVER:
                reached.append((epoch.stay, epoch.view, max(given)))
        indexes: dict[int, int] = {}  # number to how many were entered behind it
        for message in sorted(lacking, key=lambda message: place_of(group, message)):
            source = group.submitted[message]
            assert source is not None
            view, last = source.epoch.view, source.epoch.stay.last
            rank = max(
                (rank for stay, at, rank in reached if stay.first <= view <= stay.last and at <= last), default=0
            )
            if rank and not lost(group, message):
                index = indexes[rank] = min(CODE_INDEX, indexes.get(rank, 0) + 1)
                code = (rank << CODE_BITS) + index
                self.slots.append(slot)
                self.messages.append(message)
                self.codes.append(code)
                self.message_of[slot, code] = message

    def owed(self) -> Owed:
        return Owed(*(np.array(part, dtype=np.int64) for part in (self.slots, self.messages, self.codes)))


def place_of(group: GroupHistory, message: int) -> tuple[int, int, int]:
    """The order in which messages are blamed that are lacking in one place."""
    source = group.submitted[message]
    assert source is not None
    return source.index, *group.names[message][1:]


def witness_of(group: GroupHistory, ordered: Sequence[Steps], debts: Debts, early: EarlyDelivery) -> Witness:
    """A delivery, and the message that should have come before it."""
    life = group.lives[early.slot]
    never = early.due & CODE_INDEX != 0
    steps = ordered[early.slot]
    due = debts.message_of[early.slot, early.due] if never else int(steps[steps >= 0][(early.due >> CODE_BITS) - 1])
    first, message = group.names[due], group.names[early.message]
    links = chain(group, due, early.message)
    keys = list(chain_events(group, links))
    if never:
        keys.append(absent(life, first, before=message))
    keys.append(EventKey(DELIVER, life.process, message, role="delivered first", life=life.incarnation))
    if not never:
        keys.append(EventKey(DELIVER, life.process, first, role="delivered late", life=life.incarnation))
    between = tuple(group.names[one] for one in links[1:-1])
    form = "causal-never" if never else "causal-late"
    return Witness(form, (life.key,), (message, first, *between), events=tuple(keys))
