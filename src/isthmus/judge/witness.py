"""A witness: the few events that show how a property was broken, as fields; and the one place that makes sentences.

A check hands in a `Witness`, which names its form and, in the order that the form wants them, lives, messages, numbers
and lists of members, and the keys of the events. The sentence is made of these fields, here, for both engines.

Invariants: nothing is read back out of a sentence. A message is called 3:7, and 0/3:7 outside of its origin group 0. A
missing event has a place: the row that it should have come before, or the end of its process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import msgspec

from isthmus.core.layer import Kind
from isthmus.trace.schema import (
    COUNTER_BITS,
    GROUP,
    KIND,
    LOCAL,
    NONE,
    ORIGIN,
    PROCESS,
    TIME_NS,
    VALUE,
    VIEW,
    MessageKey,
    Row,
)

LifeKey: TypeAlias = tuple[int, int]  # process, incarnation
AT_END = -2  # in the place of a next view: the end of the run
NO_NAMES: Mapping[int, str] = {}
DID = {Kind.SUBMIT: "submitted", Kind.TENTATIVE: "tentatively delivered", Kind.REVOKE: "revoked"}
NOTHING = "no process submitted or delivered anything"
LACKS = {  # what is missing where a property has no evidence
    "integrity": "no process delivered anything",
    "validity": "no process that is there at the end submitted anything to one that stayed",
    "agreement": "no two processes went through a view together and delivered something in it",
    "uniform-agreement": "no process went on from a view in which it or another delivered something",
    "fifo": "no process delivered two messages of one sender",
    "causal": "no process delivered two messages",
    "total": "no two processes delivered two messages in common",
    "uniform-total": "no two processes delivered two messages in common",
    "fifo-total": "no process delivered two messages of one sender, or no two processes two messages in common",
    "final": "nothing was delivered tentatively",
    "sending-view": "nothing that was submitted was delivered",
    "views": "no two views to compare",
    "primary": "no two views to compare",
    "clock-precision": "no two clocks were read at one time, or no bound was published or given",
    "clock-accuracy": "no clock was read, or no bound was published or given",
}


class EventKey(NamedTuple):
    """One event of a witness; the first row that fits it is meant, or the one after so many more."""

    kind: int
    process: int
    message: MessageKey | None = None
    local: int | None = None  # None: not known
    value: int | None = None  # of the row; None: any
    role: str = ""  # what the event is in the story, for people
    life: int | None = None  # incarnation of the process; None: any
    nth: int = 0  # how many rows that fit come before it
    missing: bool = False  # there is no such row, and there should be
    ahead: tuple[int, MessageKey | None, int | None] | None = None  # kind, message, value of what it should precede


class WitnessEvent(msgspec.Struct, frozen=True):
    """One row of the trace that a witness shows, or one that is missing from it."""

    process: int
    kind: int
    role: str
    local: int | None  # where it is; of a missing one, the row that it should precede, None: the end of its process
    time_ns: int | None  # None: missing
    origin: int
    sender: int
    number: int
    group: int
    view: int
    missing: bool = False

    @property
    def message(self) -> MessageKey | None:
        return (self.origin, self.sender, self.number) if self.sender != NONE else None


class Witness(msgspec.Struct, frozen=True):
    """How a property was broken; the form says what the entries of each field are."""

    form: str
    lives: tuple[LifeKey, ...] = ()
    messages: tuple[MessageKey, ...] = ()
    numbers: tuple[int, ...] = ()
    members: tuple[tuple[int, ...], ...] = ()
    events: tuple[EventKey, ...] = ()


def process_name(process: int, names: Mapping[int, str] = NO_NAMES) -> str:
    return names.get(process) or f"process {process}"


def life_name(life: LifeKey, names: Mapping[int, str] = NO_NAMES) -> str:
    """A life for people: process 3, or process 3 (incarnation 1)."""
    process, incarnation = life
    return process_name(process, names) + (f" (incarnation {incarnation})" if incarnation else "")


def name_in(group: int, message: MessageKey, names: Mapping[int, str] = NO_NAMES) -> str:
    """A message for people: 3:7, 3:1.7 of its sender's incarnation 1, 0/3:7 outside of its origin group 0."""
    origin, sender, number = message
    incarnation, count = divmod(number, 1 << COUNTER_BITS)
    told = f"{incarnation}.{count}" if incarnation > 0 else str(number)
    plain = f"{names.get(sender, sender)}:{told}"
    return plain if origin == group else f"{origin}/{plain}"


def sentence(witness: Witness, group: int, names: Mapping[int, str] = NO_NAMES) -> str:
    """A witness for people; `group` is where it was found, NONE for a domain."""
    lives = [life_name(life, names) for life in witness.lives]
    messages = [name_in(group, message, names) for message in witness.messages]
    members = [[names.get(process, str(process)) for process in each] for each in witness.members]
    form = FORMS[witness.form]
    if isinstance(form, str):
        told = ["(" + ", ".join(each) + ")" for each in members]
        return form.format(life=lives, message=messages, number=witness.numbers, members=told)
    return form(lives, messages, witness.numbers)


def ordered(lives: list[str], messages: list[str], numbers: tuple[int, ...]) -> str:  # noqa: ARG001
    """Who delivered what before what: one step per life, two messages per step."""
    steps = zip(lives, messages[::2], messages[1::2], strict=True)
    return ", ".join(f"{life} delivered {first} before {second}" for life, first, second in steps)


def disagreed(lives: list[str], messages: list[str], numbers: tuple[int, ...], too: str = " too") -> str:
    """Which life delivered a message in a view, and which did not though it went the same way."""
    view, onward, late = numbers
    where = "" if view == NONE else f" in view {view}"
    way = f"is up at the end{too}" if onward == AT_END else f"went on to view {onward}{too}"
    how = "delivered it in another view" if late else "never did"
    return f"{lives[0]} delivered {messages[0]}{where}; {lives[1]}, which {way}, {how}"


def moved(lives: list[str], messages: list[str], numbers: tuple[int, ...]) -> str:
    """In which view a message was delivered, and in which it was sent."""
    at, sent = ("no view" if view == NONE else f"view {view}" for view in numbers)
    return f"{lives[0]} delivered {messages[0]} in {at}, sent in {sent}"


def answered(lives: list[str], messages: list[str], numbers: tuple[int, ...]) -> str:  # noqa: ARG001
    """Messages that answer one another in a circle."""
    steps = ", ".join(f"{first} happened before {second}" for first, second in pairwise(messages))
    return f"{lives[0]} delivered {messages[0]} before it can have been submitted: {steps}"


def after_crash(lives: list[str], messages: list[str], numbers: tuple[int, ...]) -> str:
    """What a process did though it had crashed."""
    did = f"{DID.get(Kind(numbers[0]), 'delivered')} {messages[0]}" if messages else "installed a view"
    return f"{lives[0]} {did} after it crashed, and never recovered"


def causal(how: str) -> Callable[[list[str], list[str], tuple[int, ...]], str]:
    """A past that was passed over, and the messages through which it is one."""

    def told(lives: list[str], messages: list[str], numbers: tuple[int, ...]) -> str:  # noqa: ARG001
        through = f" (through {', '.join(messages[2:])})" if len(messages) > 2 else ""
        return f"{lives[0]} delivered {messages[0]} {how} {messages[1]}, which happened before it{through}"

    return told


FORMS: dict[str, str | Callable[[list[str], list[str], tuple[int, ...]], str]] = {
    "twice": "{life[0]} delivered {message[0]} twice",
    "unsent": "{life[0]} delivered {message[0]}, which its sender never submitted",
    "submitted-again": "{life[0]} submitted {message[0]}, which was submitted before",
    "altered": "{life[0]} delivered {message[0]} with {number[0]} bytes, submitted with {number[1]}",
    "digest": "{life[0]} delivered {message[0]} with another payload than was submitted "
    "(digest {number[0]}, not {number[1]})",
    "early": "{life[0]} delivered {message[0]} before it was submitted",
    "answers": answered,
    "after-crash": after_crash,
    "astray": "{life[0]} delivered {message[0]}, which is addressed to {members[0]} only",
    "moved": moved,
    "late": "{life[0]} delivered {message[0]} after {message[1]} of the same sender",
    "gap": "{life[0]} delivered {message[0]} but never {message[1]}, submitted before it",
    "causal-late": causal("before"),
    "causal-never": causal("but never"),
    "order": ordered,
    "disagreement": disagreed,
    "unshared": partial(disagreed, too=""),
    "undelivered": "{life[0]} never delivered {message[0]}, submitted by {life[1]}",
    "view-back": "{life[0]} installed view {number[0]} after view {number[1]}",
    "view-differs": "view {number[0]} is {members[0]} at {life[0]} and {members[1]} at {life[1]}",
    "view-stranger": "{life[0]} installed view {number[0]} {members[0]}, which does not list it",
    "view-missing": "{life[0]} is listed in view {number[0]}, which {life[1]} installed, is up, and never installed it",
    "rivals": "views {number[0]} {members[0]} and {number[1]} {members[1]} are both primary, "
    "and no process went from one to the other",
    "tentative-twice": "{life[0]} delivered {message[0]} tentatively twice",
    "tentative-late": "{life[0]} delivered {message[0]} tentatively after it was final",
    "tentative-unsent": "{life[0]} delivered {message[0]} tentatively, which its sender never submitted",
    "tentative-ever": "{life[0]} delivered {message[0]} tentatively, and neither delivered it for good nor revoked it",
    "revoked-final": "{life[0]} delivered {message[0]} for good, though it revoked it",
    "clock-off": "the clock of {life[0]} is off by {number[0]} ns at {number[1]} ns; {number[2]} are allowed",
    "clocks-apart": "the clocks of {life[0]} and {life[1]} are {number[0]} ns apart at {number[1]} ns; "
    "{number[2]} are allowed",
}


def rows_shown(rows: Sequence[Row], wanted: Iterable[tuple[Witness, Iterable[int]]]) -> list[tuple[WitnessEvent, ...]]:
    """The rows of witnesses, each found in some groups; a key without a row goes. The rows are read once for all."""
    asked = [(witness, frozenset(groups)) for witness, groups in wanted]
    involved = {key.process for witness, _ in asked for key in witness.events}
    by_process: dict[int, list[Row]] = {process: [] for process in involved}
    for row in rows:
        if row[PROCESS] in involved:
            by_process[row[PROCESS]].append(row)
    finder = Finder(by_process)
    return [
        tuple(found for key in witness.events if (found := finder.find(key, groups)) is not None)
        for witness, groups in asked
    ]


class Finder:
    """The rows of some processes, in local order, each with its incarnation."""

    __slots__ = ("_by_kind",)

    def __init__(self, by_process: dict[int, list[Row]]) -> None:
        self._by_kind: dict[tuple[int, int], list[tuple[int, Row]]] = {}
        for process, rows in by_process.items():
            incarnation = 0
            last: Row | None = None
            for row in sorted(rows, key=lambda row: row[LOCAL]):
                if last is not None and row[LOCAL] == last[LOCAL]:
                    continue  # the same row once more
                last = row
                incarnation += row[KIND] == Kind.RECOVER
                self._by_kind.setdefault((process, row[KIND]), []).append((incarnation, row))

    def find(self, key: EventKey, groups: frozenset[int]) -> WitnessEvent | None:
        """The event that a key means, or the place where it is missing."""
        if not key.missing:
            row = self._row(key, groups)
            return None if row is None else shown(row, key.role)
        before: Row | None = None
        if key.ahead is not None:
            kind, message, value = key.ahead
            before = self._row(EventKey(kind, key.process, message, value=value, life=key.life), groups)
        origin, sender, number = key.message or (NONE, NONE, NONE)
        group = before[GROUP] if before is not None else min(groups)
        view = key.value if key.value is not None else before[VIEW] if before is not None else NONE
        local = None if before is None else before[LOCAL]
        return WitnessEvent(key.process, key.kind, key.role, local, None, origin, sender, number, group, view, True)

    def _row(self, key: EventKey, groups: frozenset[int]) -> Row | None:
        whole = key.kind in (Kind.CRASH, Kind.RECOVER)  # of all groups of the process
        left = key.nth
        for incarnation, row in self._by_kind.get((key.process, key.kind), ()):
            if (
                (whole or row[GROUP] in groups or (key.kind == Kind.SUBMIT and row[GROUP] == row[ORIGIN]))
                and (key.message is None or row[ORIGIN:GROUP] == key.message)
                and (key.local is None or row[LOCAL] == key.local)
                and (key.value is None or row[VALUE] == key.value)
                and (key.life is None or incarnation == key.life)
            ):
                if left == 0:
                    return row
                left -= 1
        return None


def shown(row: Row, role: str) -> WitnessEvent:
    view = row[VALUE] if row[KIND] == Kind.VIEW else row[VIEW]
    place = (row[LOCAL], row[TIME_NS], *row[ORIGIN:GROUP], row[GROUP], view)
    return WitnessEvent(row[PROCESS], row[KIND], role, *place)
