"""Five of the properties: integrity, fifo, agreement, validity, views; each a pure function of a group's history.

Each counts its evidence, the places where it could have been broken, and its violations, and keeps the first of these
as a witness. They are independent: what one of them reports, the others pass over (a message delivered twice is
integrity's business, fifo looks at its first delivery). Integrity and fifo are asked of domains too.

What is owed rests on stays (history.py). In fifo, q owes the earlier message a of a later one b only if a and b come
from one stay of their sender in this group, and q stayed from the view in which a was submitted to the one in which it
delivers b. The interleaving behind this: s, cut off in view 1, submits a; the others install view 2 without s; s is let
in again in view 3 and submits b. No process owes a. Of messages that were carried into a group only the order is asked:
a router may have had reasons to leave one out. Agreement and validity speak of the end of a run only where the last
view is settled: all its members are there, and none suspects another; otherwise a change of view is under way, or none
is possible for want of a majority, and nothing is owed until it comes.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from isthmus.trace.history import DELIVER, SUBMIT, VIEW, Group, Life
from isthmus.trace.schema import NONE
from isthmus.trace.witness import AT_END, LACKS, EventKey, Witness


class Finding:
    """Evidence and violations of one property in one group."""

    __slots__ = ("evidence_count", "lack", "violation_count", "witness")

    def __init__(self, lack: str) -> None:
        self.lack = lack  # what is missing where there is no evidence
        self.evidence_count = 0
        self.violation_count = 0
        self.witness: Witness | None = None  # the first violation

    def violate(self, witness: Witness) -> None:
        self.violation_count += 1
        if self.witness is None:
            self.witness = witness


def at_life(form: str, group: Group, life: Life, message: int, *numbers: int) -> Witness:
    """A witness of one message at one life that delivered it."""
    key = group.names[message]
    events = submit_and_delivery(group, life, message)
    return Witness(form, (life.key,), (key,), numbers, events=events)


def submit_and_delivery(group: Group, life: Life, message: int) -> tuple[EventKey, ...]:
    key = group.names[message]
    return (
        EventKey(SUBMIT, key[1], key, role="submitted"),
        EventKey(DELIVER, life.process, key, role="delivered"),
    )


def integrity(group: Group) -> Finding:
    """Each life delivers a message at most once, as submitted, and only what is addressed to its process."""
    finding = Finding(LACKS["integrity"])
    for life, message in group.again:
        key = group.names[message]
        event = EventKey(SUBMIT, life.process, key, role="submitted")
        finding.violate(Witness("submitted-again", (life.key,), (key,), events=(event,)))
    for life in group.lives:
        finding.evidence_count += len(life.deliveries)
        if len(life.delivered) < len(life.deliveries):
            seen: set[int] = set()
            for message in life.deliveries:
                if message in seen:
                    finding.violate(at_life("twice", group, life, message))
                seen.add(message)
        integrity_at(group, life, finding)
    return finding


def integrity_at(group: Group, life: Life, finding: Finding) -> None:
    """What is wrong with single deliveries of a life: never submitted, other bytes, not addressed."""
    submitted, names, process = group.submitted, group.names, life.process
    for message, payload_bytes in zip(life.deliveries, life.payloads, strict=True):
        source = submitted[message]
        if source is None:
            finding.violate(at_life("unsent", group, life, message))
            continue
        if source.payload_bytes != payload_bytes:
            finding.violate(at_life("altered", group, life, message, payload_bytes, source.payload_bytes))
        to = source.destinations
        if to is not None and process not in to and names[message][0] == group.number:
            events = submit_and_delivery(group, life, message)
            finding.violate(Witness("astray", (life.key,), (names[message],), members=(to,), events=events))


def fifo(group: Group) -> Finding:
    """Messages of one sender are delivered in the order of their numbers, with none left out that is owed."""
    finding = Finding(LACKS["fifo"])
    for life in group.lives:
        fifo_at(group, life, finding)
    return finding


def fifo_at(group: Group, life: Life, finding: Finding) -> None:
    submitted, names, here = group.submitted, group.names, group.number
    delivered, process = life.delivered, life.process
    highest: dict[tuple[int, int], int] = {}  # origin and sender to the message with the highest number so far
    reached: dict[int, int] = {}  # a sender's stay, by identity, to the index its deliveries have reached
    seen: set[int] | None = set() if len(delivered) < len(life.deliveries) else None  # where some come twice
    for epoch, start, end in life.spans():
        first = epoch.stay.first
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
            source = submitted[message]
            if source is None or origin != here:
                continue
            stay, index = source.epoch.stay, source.index
            place = reached.get(id(stay), -1)
            if index <= place:
                continue
            reached[id(stay)] = index
            for left_out in stay.sent[place + 1 : index]:
                owed = submitted[left_out]
                if (
                    left_out not in delivered
                    and owed is not None
                    and first <= owed.epoch.view
                    and (owed.destinations is None or process in owed.destinations)
                    and not lost(group, left_out)
                ):
                    finding.violate(passed("gap", group, life, message, left_out))


def passed(form: str, group: Group, life: Life, message: int, other: int) -> Witness:
    """A witness of a message that a life delivered beside another, late or not at all."""
    one, two = group.names[message], group.names[other]
    kind, where = (DELIVER, life.process) if form == "late" else (SUBMIT, two[1])
    events = (
        EventKey(kind, where, two, role="delivered first" if form == "late" else "submitted, never delivered"),
        EventKey(DELIVER, life.process, one, role="delivered late" if form == "late" else "delivered"),
    )
    return Witness(form, (life.key,), (one, two), events=events)


def lost(group: Group, message: int) -> bool:
    """Whether a message may have died with its sender: no life that is up delivered it, and the sender is not up.

    To b and q it sent m1 and m2, to q alone m0 before them; then it crashed, and only b had received anything. b holds
    m1 and m2, which q must deliver as b does; m0 is nowhere.
    """
    source = group.submitted[message]
    return (
        source is not None
        and not source.life.up
        and not any(life.up and message in life.delivered for life in group.lives)
    )


def agreement(group: Group) -> Finding:
    """Lives that go together from a view to the next deliver the same in it, as far as it is addressed to both."""
    finding = Finding(LACKS["agreement"])
    together: defaultdict[tuple[int, int], list[tuple[Life, set[int]]]] = defaultdict(list)
    static = not group.members
    finalists = set(map(id, group.finalists() if not group.unsettled else ()))
    for life in group.lives:
        spans = list(life.spans())
        for (epoch, start, end), (following, _, _) in pairwise(spans):
            if epoch.view != NONE:
                together[epoch.view, following.view].append((life, set(life.deliveries[start:end])))
        epoch, start, end = spans[-1]
        if id(life) in finalists and not (static and life.incarnation):
            together[epoch.view, AT_END].append((life, set(life.deliveries[start:end])))
    for (view, onward), companions in sorted(together.items(), key=lambda item: item[0]):
        if len(companions) > 1:
            compare(group, view, onward, companions, finding)
    return finding


def compare(group: Group, view: int, onward: int, companions: list[tuple[Life, set[int]]], finding: Finding) -> None:
    """Find the messages of one view that some companions delivered and others should have."""
    sets = [delivered for _, delivered in companions]
    finding.evidence_count += sum(map(len, sets))
    for message in sorted(sets[0].union(*sets) - sets[0].intersection(*sets)):
        if group.submitted[message] is None:
            continue
        addressed = [(life, delivered) for life, delivered in companions if group.addresses(message, life.process)]
        having = next((life for life, delivered in addressed if message in delivered), None)
        for life, delivered in addressed:
            if having is not None and message not in delivered:
                finding.violate(disagreement(group, message, view, onward, having, life))


def disagreement(group: Group, message: int, view: int, onward: int, having: Life, lacking: Life) -> Witness:
    """A witness of two lives that went the same way, and of a message that one of them lacks there."""
    key, late = group.names[message], message in lacking.delivered
    events = submit_and_delivery(group, having, message)
    if late:
        events += (EventKey(DELIVER, lacking.process, key, role="delivered elsewhere"),)
    return Witness("disagreement", (having.key, lacking.key), (key,), (view, onward, int(late)), events=events)


def validity(group: Group) -> Finding:
    """What a life that is there at the end submitted is delivered by all addressees that stayed to the end."""
    finding = Finding(group.unsettled or LACKS["validity"])
    if group.unsettled:
        return finding
    finalists = group.finalists()
    final_stays = {id(life.epochs[-1].stay) for life in finalists}
    stayed: dict[int, list[Life]] = {}  # by view: those that are there at the end and have been since
    for message, key in enumerate(group.names):
        source = group.own(message)
        if source is None or id(source.epoch.stay) not in final_stays:
            continue
        view, destinations = source.epoch.view, source.destinations
        if view not in stayed:
            stayed[view] = [life for life in finalists if life.epochs[-1].stay.first <= view]
        for life in stayed[view]:
            if destinations is None or life.process in destinations:
                finding.evidence_count += 1
                if message not in life.delivered:
                    events = (EventKey(SUBMIT, key[1], key, role="submitted"),)
                    finding.violate(Witness("undelivered", (life.key, source.life.key), (key,), events=events))
    return finding


def views(group: Group) -> Finding:
    """View numbers increase at each process, and a number has the same members everywhere."""
    finding = Finding(LACKS["views"])
    latest: dict[int, int] = {}  # process to its last view
    said: dict[int, tuple[int, tuple[int, ...]]] = {}  # view to the process that first told its members
    for process, view, members in group.view_rows:
        before = latest.get(process)
        teller, told = said.setdefault(view, (process, members))
        if before is not None or teller != process:
            finding.evidence_count += 1
        if before is not None and view <= before:
            events = tuple(EventKey(VIEW, process, value=number, role="installed") for number in (before, view))
            finding.violate(Witness("view-back", ((process, 0),), numbers=(view, before), events=events))
        if told != members:
            events = tuple(EventKey(VIEW, where, value=view, role="installed") for where in (teller, process))
            lives = ((process, 0), (teller, 0))
            finding.violate(Witness("view-differs", lives, numbers=(view,), members=(members, told), events=events))
        latest[process] = view
    return finding
