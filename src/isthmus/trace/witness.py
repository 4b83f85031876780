"""A witness: the few events that show how a property was broken, as fields; and the one place that makes sentences.

The problem: two engines find violations, a table shows them as sentences and a picture shows them as events, and both
must speak of the same. The idea: a check hands in a `Witness`, which names its form and, in the order that the form
wants them, lives, messages, numbers and lists of members, and the keys of the events to look up. The sentence is made
of these fields, here, for both engines.

Invariants: nothing is ever read back out of a sentence. A message is called 3:7, and 0/3:7 where it is seen outside of
its origin group 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

import msgspec

from isthmus.trace.latency import MessageKey
from isthmus.trace.schema import GROUP, KIND, LOCAL, NONE, ORIGIN, PROCESS, VALUE, Row, message_name

LifeKey: TypeAlias = tuple[int, int]  # process, incarnation
AT_END = -2  # in the place of a next view: the end of the run
NOTHING = "no process submitted or delivered anything"
LACKS = {  # what is missing where a property has no evidence
    "integrity": "no process delivered anything",
    "validity": "no process that is there at the end submitted anything to one that stayed",
    "agreement": "no two processes went through a view together and delivered something in it",
    "fifo": "no process delivered two messages of one sender",
    "causal": "no process delivered two messages",
    "total": "no two processes delivered two messages in common",
    "uniform-total": "no two processes delivered two messages in common",
    "fifo-total": "no process delivered two messages of one sender, or no two processes two messages in common",
    "final": "nothing was delivered tentatively",
    "sending-view": "nothing that was submitted was delivered",
    "views": "no two views to compare",
    "primary": "no two views to compare",
    "clock-precision": "no two clocks were read, or no bound was given",
    "clock-accuracy": "no clock was read, or no bound was given",
}


class EventKey(NamedTuple):
    """One event of a witness; the first row that fits it is meant."""

    kind: int
    process: int
    message: MessageKey | None = None
    local: int | None = None  # None: not known
    value: int | None = None  # of the row; None: any
    role: str = ""  # what the event is in the story, for people


class Witness(msgspec.Struct, frozen=True):
    """How a property was broken; the form says what the entries of each field are."""

    form: str
    lives: tuple[LifeKey, ...] = ()
    messages: tuple[MessageKey, ...] = ()
    numbers: tuple[int, ...] = ()
    members: tuple[tuple[int, ...], ...] = ()
    events: tuple[EventKey, ...] = ()


def life_name(life: LifeKey) -> str:
    """A life for people: process 3, or process 3 (incarnation 1)."""
    process, incarnation = life
    return f"process {process}" + (f" (incarnation {incarnation})" if incarnation else "")


def name_in(group: int, message: MessageKey) -> str:
    """A message for people, with its origin where that is not the group it is seen in."""
    origin, sender, number = message
    plain = message_name(sender, number)
    return plain if origin == group else f"{origin}/{plain}"


def sentence(witness: Witness, group: int) -> str:
    """A witness for people; `group` is where it was found, NONE for a domain."""
    lives = list(map(life_name, witness.lives))
    messages = [name_in(group, message) for message in witness.messages]
    form = FORMS[witness.form]
    if isinstance(form, str):
        return form.format(life=lives, message=messages, number=witness.numbers, members=witness.members)
    return form(lives, messages, witness.numbers)


def ordered(lives: list[str], messages: list[str], numbers: tuple[int, ...]) -> str:  # noqa: ARG001
    """Who delivered what before what: one step per life, two messages per step."""
    steps = zip(lives, messages[::2], messages[1::2], strict=True)
    return ", ".join(f"{life} delivered {first} before {second}" for life, first, second in steps)


def disagreed(lives: list[str], messages: list[str], numbers: tuple[int, ...]) -> str:
    """Which life delivered a message in a view, and which did not though it went the same way."""
    view, onward, late = numbers
    where = "" if view == NONE else f" in view {view}"
    way = "is up at the end too" if onward == AT_END else f"went on to view {onward} too"
    how = "delivered it in another view" if late else "never did"
    return f"{lives[0]} delivered {messages[0]}{where}; {lives[1]}, which {way}, {how}"


def moved(lives: list[str], messages: list[str], numbers: tuple[int, ...]) -> str:
    """In which view a message was delivered, and in which it was submitted."""
    at, sent = ("no view" if view == NONE else f"view {view}" for view in numbers)
    return f"{lives[0]} delivered {messages[0]} in {at}, submitted in {sent}"


FORMS: dict[str, str | Callable[[list[str], list[str], tuple[int, ...]], str]] = {
    "twice": "{life[0]} delivered {message[0]} twice",
    "unsent": "{life[0]} delivered {message[0]}, which its sender never submitted",
    "submitted-again": "{life[0]} submitted {message[0]}, which was submitted before",
    "altered": "{life[0]} delivered {message[0]} with {number[0]} bytes, submitted with {number[1]}",
    "astray": "{life[0]} delivered {message[0]}, which is addressed to {members[0]} only",
    "moved": moved,
    "late": "{life[0]} delivered {message[0]} after {message[1]} of the same sender",
    "gap": "{life[0]} delivered {message[0]} but never {message[1]}, submitted before it",
    "causal-late": "{life[0]} delivered {message[0]} before {message[1]}, which happened before it was submitted",
    "causal-never": "{life[0]} delivered {message[0]} but never {message[1]}, which happened before it was submitted",
    "order": ordered,
    "disagreement": disagreed,
    "undelivered": "{life[0]} never delivered {message[0]}, submitted by {life[1]}",
    "view-back": "{life[0]} installed view {number[0]} after view {number[1]}",
    "view-differs": "view {number[0]} is {members[0]} at {life[0]} and {members[1]} at {life[1]}",
    "rivals": "views {number[0]} {members[0]} and {number[1]} {members[1]} are both primary, "
    "and no process went from one to the other",
    "tentative-twice": "{life[0]} delivered {message[0]} tentatively twice",
    "tentative-late": "{life[0]} delivered {message[0]} tentatively after it was final",
    "revoked-final": "{life[0]} delivered {message[0]} for good, though it revoked it",
    "clock-off": "the clock of {life[0]} is off by {number[0]} ns at {number[1]} ns; {number[2]} are allowed",
    "clocks-apart": "the clocks of {life[0]} and {life[1]} are {number[0]} ns apart at {number[1]} ns; "
    "{number[2]} are allowed",
}


def located(rows: Iterable[Row], keys: tuple[EventKey, ...], groups: tuple[int, ...]) -> tuple[EventKey, ...]:
    """The keys with the local numbers of their rows, looked up in some groups; a key without a row goes."""
    found: dict[int, int] = {}
    for row in rows:
        for place, key in enumerate(keys):
            if (
                row[PROCESS] == key.process
                and row[KIND] == key.kind
                and row[GROUP] in groups
                and (key.message is None or row[ORIGIN:GROUP] == key.message)
                and (key.local is None or row[LOCAL] == key.local)
                and (key.value is None or row[VALUE] == key.value)
                and row[LOCAL] < found.get(place, row[LOCAL] + 1)
            ):
                found[place] = row[LOCAL]
    return tuple(key._replace(local=found[place]) for place, key in enumerate(keys) if place in found)
