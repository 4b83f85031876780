"""Integrity: a life delivers a message at most once, as submitted and after that, and only if addressed to it.

Properties are independent: what one reports, the others ignore (a message delivered twice violates integrity; fifo
takes its first delivery).
"""

from __future__ import annotations

from isthmus.judge.causality.precedence import chain, chain_events, impossible
from isthmus.judge.history import BYTES_MASK, CRASH, DELIVER, DIGEST_SHIFT, SUBMIT, GroupHistory, Life, RowAfterCrash
from isthmus.judge.properties.finding import Finding, at_life, submit_and_delivery
from isthmus.judge.witness import LACKS, EventKey, Witness
from isthmus.trace.schema import NONE


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
