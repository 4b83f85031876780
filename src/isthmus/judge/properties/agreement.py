"""Agreement, or view synchrony: lives that go together from a view to the next deliver the same in it.

It speaks of the end of a run only where the last view is settled: all its members are there, and none suspects another.
Otherwise a change of views is under way, or impossible for want of a majority, and nothing is owed until it comes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from isthmus.judge.history import DELIVER, VIEW, GroupHistory, Life
from isthmus.judge.properties.finding import Finding, absent, submit_and_delivery
from isthmus.judge.witness import AT_END, LACKS, EventKey, Witness
from isthmus.trace.schema import NONE


def agreement(group: GroupHistory) -> Finding:
    """Lives that go together from a view to the next deliver the same in it, as far as it is addressed to both."""
    finding = Finding(group.cut or LACKS["agreement"])
    together: defaultdict[tuple[int, int], list[tuple[Life, set[int]]]] = defaultdict(list)
    for life, view, onward, delivered in stretches(group):
        if onward is not None:
            together[view, onward].append((life, delivered))
    for (view, onward), companions in sorted(together.items(), key=lambda item: item[0]):
        if len(companions) > 1:
            compare(group, view, onward, companions, finding)
    return finding


def stretches(group: GroupHistory) -> Iterator[tuple[Life, int, int | None, set[int]]]:
    """What each life delivered in each of its views, and where it goes on to from there; None: nowhere."""
    finalists = set(map(id, group.finalists() if not group.unsettled else ()))
    for life in group.lives:
        spans = list(life.spans())
        for place, (epoch, start, end) in enumerate(spans, start=1):
            onward = None
            if place < len(spans):
                onward = spans[place][0].view if epoch.view != NONE else None
            elif id(life) in finalists and (group.members or not life.incarnation):
                onward = AT_END
            yield life, epoch.view, onward, set(life.deliveries[start:end])


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
