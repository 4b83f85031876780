"""Sending view: what was submitted to a group is delivered in the view that it was sent in."""

from __future__ import annotations

from isthmus.judge.history import GroupHistory
from isthmus.judge.properties.finding import Finding, at_life
from isthmus.judge.witness import LACKS


def sending_view(group: GroupHistory) -> Finding:
    finding = Finding(LACKS["sending-view"])
    here, submitted, names, sent_in = group.number, group.submitted, group.names, group.sent_in
    for life in group.lives:
        moved: set[tuple[int, int]] = set()
        for epoch, start, end in life.spans():
            view = epoch.view
            for message in life.deliveries[start:end]:
                source = submitted[message]
                if source is None or names[message][0] != here:
                    continue
                finding.evidence_count += 1
                sent = sent_in.get(message, source.epoch.view)
                if sent != view and (message, view) not in moved:
                    moved.add((message, view))
                    finding.violate(at_life("moved", group, life, message, view, sent))
    return finding
