"""Five of the properties: integrity, fifo, agreement, validity, views; each a pure function of a group's history.

Each counts its evidence, the places where it could have been broken, and its violations, and keeps the first of these
as a sentence that names processes and messages. They are independent: what one of them reports, the others pass over
(a message delivered twice is integrity's business, fifo looks at its first delivery).

What is owed rests on stays (history.py). In fifo, q owes the earlier message a of a later one b only if a and b come
from one stay of their sender, and q stayed from the view in which a was submitted to the one in which it delivers b.
The interleaving behind this: s, cut off in view 1, submits a; the others install view 2 without s; s is let in again in
view 3 and submits b. Nobody owes a. Agreement and validity speak of the end of a run only where the last view is
settled: all its members are there, and none suspects another; otherwise a change of view is under way, or none is
possible for want of a majority, and nothing is owed until it comes.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from isthmus.trace.history import Group, Life
from isthmus.trace.schema import NONE

END = -2  # in the place of a next view: the end of the run


class Finding:
    """Evidence and violations of one property in one group."""

    __slots__ = ("evidence_count", "lack", "violation_count", "witness")

    def __init__(self, lack: str) -> None:
        self.lack = lack  # what is missing where there is no evidence
        self.evidence_count = 0
        self.violation_count = 0
        self.witness = ""  # the first violation

    def violate(self, sentence: str) -> None:
        self.violation_count += 1
        if not self.witness:
            self.witness = sentence


def integrity(group: Group) -> Finding:
    """Each life delivers a message at most once, as submitted, and only what is addressed to its process."""
    finding = Finding("nobody delivered anything")
    submitted, name = group.submitted, group.name
    for life, message in group.again:
        finding.violate(f"{life} submitted {name(message)}, which was submitted before")
    for life in group.lives:
        process = life.process
        finding.evidence_count += len(life.deliveries)
        if len(life.delivered) < len(life.deliveries):
            seen: set[int] = set()
            for message in life.deliveries:
                if message in seen:
                    finding.violate(f"{life} delivered {name(message)} twice")
                seen.add(message)
        for message, payload_bytes in zip(life.deliveries, life.payloads, strict=True):
            source = submitted[message]
            if source is None:
                finding.violate(f"{life} delivered {name(message)}, which its sender never submitted")
                continue
            if source.payload_bytes != payload_bytes:
                said = source.payload_bytes
                finding.violate(f"{life} delivered {name(message)} with {payload_bytes} bytes, submitted with {said}")
            if source.destinations is not None and process not in source.destinations:
                finding.violate(f"{life} delivered {name(message)}, which is addressed to {source.destinations} only")
    return finding


def fifo(group: Group) -> Finding:
    """Messages of one sender are delivered in the order of their numbers, with none left out that is owed."""
    finding = Finding("nobody delivered two messages of one sender")
    for life in group.lives:
        fifo_at(group, life, finding)
    return finding


def fifo_at(group: Group, life: Life, finding: Finding) -> None:
    submitted, names, name = group.submitted, group.names, group.name
    delivered, process = life.delivered, life.process
    highest: dict[int, int] = {}  # sender to the message with the highest number so far
    reached: dict[int, int] = {}  # a sender's stay, by identity, to the index its deliveries have reached
    seen: set[int] | None = set() if len(delivered) < len(life.deliveries) else None  # where some come twice
    for epoch, start, end in life.spans():
        first = epoch.stay.first
        for message in life.deliveries[start:end]:
            if seen is not None:
                if message in seen:
                    continue
                seen.add(message)
            sender, number = names[message]
            before = highest.get(sender)
            if before is not None:
                finding.evidence_count += 1
                if number < names[before][1]:
                    finding.violate(f"{life} delivered {name(message)} after {name(before)} of the same sender")
                    continue
            highest[sender] = message
            source = submitted[message]
            if source is None:
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
                    finding.violate(f"{life} delivered {name(message)} but never {name(left_out)}, submitted before it")


def lost(group: Group, message: int) -> bool:
    """Whether a message may have died with its sender: nobody who is up at the end delivered it, the sender is not up.

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
    finding = Finding("no two processes went through a view together and delivered something in it")
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
            together[epoch.view, END].append((life, set(life.deliveries[start:end])))
    for (view, onward), companions in sorted(together.items(), key=lambda item: item[0]):
        if len(companions) > 1:
            compare(group, view, onward, companions, finding)
    return finding


def compare(group: Group, view: int, onward: int, companions: list[tuple[Life, set[int]]], finding: Finding) -> None:
    """Find the messages of one view that some companions delivered and others should have."""
    sets = [delivered for _, delivered in companions]
    finding.evidence_count += sum(map(len, sets))
    for message in sorted(sets[0].union(*sets) - sets[0].intersection(*sets)):
        source = group.submitted[message]
        if source is None:
            continue
        concerned = [(life, message in delivered) for life, delivered in companions if source.addresses(life.process)]
        having = next((life for life, has in concerned if has), None)
        for life, has in concerned:
            if having is not None and not has:
                finding.violate(disagreement(group, message, view, onward, having, life))


def disagreement(group: Group, message: int, view: int, onward: int, having: Life, lacking: Life) -> str:
    """Who delivered a message in a view, and who did not though it went the same way."""
    where = "" if view == NONE else f" in view {view}"
    way = "is up at the end too" if onward == END else f"went on to view {onward} too"
    how = "delivered it in another view" if message in lacking.delivered else "never did"
    return f"{having} delivered {group.name(message)}{where}; {lacking}, which {way}, {how}"


def validity(group: Group) -> Finding:
    """What a life that is there at the end submitted is delivered by all addressees that stayed to the end."""
    finding = Finding(group.unsettled or "nobody who is there at the end submitted anything to someone who stayed")
    if group.unsettled:
        return finding
    finalists = group.finalists()
    final_stays = {id(life.epochs[-1].stay) for life in finalists}
    stayed: dict[int, list[Life]] = {}  # by view: who is there at the end and has been since
    for message, source in enumerate(group.submitted):
        if source is None or id(source.epoch.stay) not in final_stays:
            continue
        view, destinations = source.epoch.view, source.destinations
        if view not in stayed:
            stayed[view] = [life for life in finalists if life.epochs[-1].stay.first <= view]
        for life in stayed[view]:
            if destinations is None or life.process in destinations:
                finding.evidence_count += 1
                if message not in life.delivered:
                    finding.violate(f"{life} never delivered {group.name(message)}, submitted by {source.life}")
    return finding


def views(group: Group) -> Finding:
    """View numbers increase at each process, and a number has the same members everywhere."""
    finding = Finding("no two views to compare")
    latest: dict[int, int] = {}  # process to its last view
    said: dict[int, tuple[int, tuple[int, ...]]] = {}  # view to who first told its members
    for process, view, members in group.view_rows:
        before = latest.get(process)
        witness = said.setdefault(view, (process, members))
        if before is not None or witness[0] != process:
            finding.evidence_count += 1
        if before is not None and view <= before:
            finding.violate(f"process {process} installed view {view} after view {before}")
        if witness[1] != members:
            finding.violate(f"view {view} is {members} at process {process} and {witness[1]} at process {witness[0]}")
        latest[process] = view
    return finding
