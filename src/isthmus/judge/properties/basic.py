"""Four of the properties: integrity, fifo, agreement, validity; each a pure function of a group's history.

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

from isthmus.judge.causality.precedence import chain, chain_events, impossible
from isthmus.judge.history import (
    BYTES_MASK,
    CRASH,
    DELIVER,
    DIGEST_SHIFT,
    SUBMIT,
    VIEW,
    GroupHistory,
    Life,
    RowAfterCrash,
    ViewStay,
)
from isthmus.judge.witness import AT_END, LACKS, EventKey, Witness
from isthmus.trace.schema import NONE, MessageKey


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


def integrity(group: GroupHistory) -> Finding:
    """Each life delivers a message at most once, after it was submitted, as it was, and only where it is addressed."""
    finding = Finding(LACKS["integrity"])
    for life, message, local in group.again:
        key = group.names[message]
        events = (
            EventKey(SUBMIT, life.process, key, role="submitted"),
            EventKey(SUBMIT, life.process, key, local, role="submitted once more"),
        )
        finding.violate(Witness("submitted-again", (life.key,), (key,), events=events))
    for life in group.lives:
        finding.evidence_count += len(life.deliveries)
        if len(life.delivered) < len(life.deliveries):
            seen: set[int] = set()
            for message in life.deliveries:
                if message in seen:
                    finding.violate(twice(group, life, message))
                seen.add(message)
        integrity_at(group, life, finding)
    for life, message in impossible(group):
        finding.violate(too_early(group, life, message))
    for late in group.late:
        finding.violate(after_crash(group, late))
    return finding


def integrity_at(group: GroupHistory, life: Life, finding: Finding) -> None:
    """What is wrong with single deliveries of a life: never submitted, another payload, not addressed."""
    submitted, names, process = group.submitted, group.names, life.process
    for message, tag in zip(life.deliveries, life.tags, strict=True):
        source = submitted[message]
        if source is None:
            if names[message][1] in group.missing:
                finding.doubt = f"{group.cut}, and others delivered what it has no SUBMIT row of"
            else:
                finding.violate(at_life("unsent", group, life, message))
            continue
        if source.tag != tag:
            sizes = tag & BYTES_MASK, source.tag & BYTES_MASK
            digests = tag >> DIGEST_SHIFT, source.tag >> DIGEST_SHIFT
            if sizes[0] != sizes[1]:
                finding.violate(at_life("altered", group, life, message, *sizes))
            elif all(digests):
                finding.violate(at_life("digest", group, life, message, *digests))
        to = source.destinations
        if to is not None and process not in to and names[message][0] == group.number:
            events = submit_and_delivery(group, life, message)
            finding.violate(Witness("astray", (life.key,), (names[message],), members=(to,), events=events))


def twice(group: GroupHistory, life: Life, message: int) -> Witness:
    key = group.names[message]
    events = (
        EventKey(DELIVER, life.process, key, role="delivered", life=life.incarnation),
        EventKey(DELIVER, life.process, key, role="delivered once more", life=life.incarnation, nth=1),
    )
    return Witness("twice", (life.key,), (key,), events=events)


def too_early(group: GroupHistory, life: Life, message: int) -> Witness:
    """A witness of a delivery that precedes its submit: at the sender itself, or round a cycle of answers."""
    key = group.names[message]
    links = chain(group, message, message, over_lives=True)
    first = EventKey(DELIVER, life.process, key, role="delivered before it was submitted")
    if key[1] == life.process or len(links) < 3:
        return Witness("early", (life.key,), (key,), events=(first, EventKey(SUBMIT, key[1], key, role="submitted")))
    messages = tuple(group.names[one] for one in links)
    return Witness("answers", (life.key,), messages, events=(first, *chain_events(group, links)))


def after_crash(group: GroupHistory, late: RowAfterCrash) -> Witness:
    """A witness of a row that follows a crash without a recovery."""
    process = late.life.process
    events = [EventKey(CRASH, process, role="crashed")]
    if late.message == NONE:
        events.append(EventKey(late.kind, process, local=late.local, role="after the crash"))
        return Witness("after-crash", (late.life.key,), numbers=(late.kind,), events=tuple(events))
    key = group.names[late.message]
    events.append(EventKey(late.kind, process, key, late.local, role="after the crash"))
    return Witness("after-crash", (late.life.key,), (key,), (late.kind,), events=tuple(events))


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


def agreement(group: GroupHistory) -> Finding:
    """Lives that go together from a view to the next deliver the same in it, as far as it is addressed to both."""
    finding = Finding(group.cut or LACKS["agreement"])
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


def compare(
    group: GroupHistory, view: int, onward: int, companions: list[tuple[Life, set[int]]], finding: Finding
) -> None:
    """Find the messages of one view that some companions delivered and others should have."""
    sets = [delivered for _, delivered in companions]
    finding.evidence_count += sum(map(len, sets))
    by_process: dict[int, list[tuple[Life, set[int]]]] = {}
    for companion in companions:
        by_process.setdefault(companion[0].process, []).append(companion)
    for message in sorted(sets[0].union(*sets) - sets[0].intersection(*sets)):
        if group.submitted[message] is None:
            continue
        source = group.own(message)
        addressed = companions
        if source is not None and source.destinations is not None:
            addressed = [one for process in sorted(set(source.destinations)) for one in by_process.get(process, ())]
        having = next((life for life, delivered in addressed if message in delivered), None)
        for life, delivered in addressed:
            if having is not None and message not in delivered:
                finding.violate(disagreement(group, message, view, onward, having, life))


def disagreement(
    group: GroupHistory, message: int, view: int, onward: int, having: Life, lacking: Life, form: str = "disagreement"
) -> Witness:
    """A witness of two lives that were in a view, and of a message that one of them, which went on, lacks there."""
    key, late = group.names[message], message in lacking.delivered
    events = submit_and_delivery(group, having, message)
    if onward != AT_END:
        events += tuple(
            EventKey(VIEW, life.process, value=onward, role="went on", life=life.incarnation)
            for life in (having, lacking)
        )
    events += (absent(lacking, key, view=None if onward == AT_END else onward),)
    if late:
        events += (EventKey(DELIVER, lacking.process, key, role="delivered elsewhere", life=lacking.incarnation),)
    return Witness(form, (having.key, lacking.key), (key,), (view, onward, int(late)), events=events)


def validity(group: GroupHistory) -> Finding:
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
                    events = (EventKey(SUBMIT, key[1], key, role="submitted"), absent(life, key))
                    finding.violate(Witness("undelivered", (life.key, source.life.key), (key,), events=events))
    return finding
