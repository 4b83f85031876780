"""The result of a property in one group; witnesses that several properties share; what died with its sender."""

from __future__ import annotations

from isthmus.judge.history import DELIVER, SUBMIT, VIEW, GroupHistory, Life
from isthmus.judge.witness import EventKey, Witness
from isthmus.trace.schema import MessageKey


class Finding:
    """Evidence and violations of one property in one group."""

    __slots__ = ("doubt", "evidence_count", "lack", "violation_count", "witness")

    def __init__(self, lack: str) -> None:
        self.lack = lack  # what is missing where there is no evidence
        self.doubt = ""  # why the property cannot be called valid, whatever the evidence
        self.evidence_count = 0
        self.violation_count = 0
        self.witness: Witness | None = None  # the first violation

    def violate(self, witness: Witness) -> None:
        self.violation_count += 1
        if self.witness is None:
            self.witness = witness


def at_life(form: str, group: GroupHistory, life: Life, message: int, *numbers: int) -> Witness:
    """A witness of one message at one life that delivered it."""
    key = group.names[message]
    events = submit_and_delivery(group, life, message)
    return Witness(form, (life.key,), (key,), numbers, events=events)


def submit_and_delivery(group: GroupHistory, life: Life, message: int) -> tuple[EventKey, ...]:
    key = group.names[message]
    return (
        EventKey(SUBMIT, key[1], key, role="submitted"),
        EventKey(DELIVER, life.process, key, role="delivered", life=life.incarnation),
    )


def absent(life: Life, message: MessageKey, before: MessageKey | None = None, view: int | None = None) -> EventKey:
    """The delivery that a life owes and does not make: ahead of that of another message, of a view, or of the end."""
    ahead: tuple[int, MessageKey | None, int | None] | None = None
    if before is not None:
        ahead = (DELIVER, before, None)
    elif view is not None:
        ahead = (VIEW, None, view)
    key = EventKey(DELIVER, life.process, message, role="missing", life=life.incarnation)
    return key._replace(missing=True, ahead=ahead)


def lost(group: GroupHistory, message: int) -> bool:
    """Whether a message died with its sender: no life that delivered it is up, nor the sender, which did not skip it.

    To b and q it sent m1 and m2, to q alone m0 before them; then it crashed, and only b had received anything. b holds
    m1 and m2, which q must deliver as b does; m0 is nowhere. But a sender that delivered its own m2 without m1 had m1.
    """
    source = group.submitted[message]
    if source is None or (source.life.up and source.life.whole) or group.alive(message):
        return False
    life = source.life
    own = source.destinations is None or life.process in source.destinations
    return not (own and message not in life.delivered and life.reached > source.place)
