"""Validity: what a life that is there at the settled end submitted is delivered by all addressees that stayed."""

from __future__ import annotations

from isthmus.judge.history import SUBMIT, GroupHistory, Life
from isthmus.judge.properties.finding import Finding, absent
from isthmus.judge.witness import LACKS, EventKey, Witness


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
