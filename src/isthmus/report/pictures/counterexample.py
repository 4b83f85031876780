"""The execution that refutes a guarantee, as a space-time diagram: the few events that show how the order breaks."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from isthmus.advise.composition.counterexample import Found
from isthmus.core.layer import Kind
from isthmus.judge.witness import sentence
from isthmus.report.pictures.witness import Event, draw_witness
from isthmus.trace.schema import GROUP, KIND, LOCAL, NUMBER, ORIGIN, PROCESS, SENDER, TIME_NS


def draw_counterexample(found: Found, title: str, names: Mapping[int, str]) -> Figure:
    """Draw the finding of the checks, or a lost message with a cross where its delivery is missing."""
    verdict = found.verdict
    if verdict is not None and verdict.shown is not None:
        events = [
            Event(one.process, one.local, one.time_ns, one.kind, one.message, one.group, one.view, missing=one.missing)
            for one in verdict.events
        ]
        processes = [process for process, _ in verdict.shown.lives]
        return draw_witness(title, sentence(verdict.shown, verdict.group, names), events, names, processes)
    events = [
        Event(row[PROCESS], row[LOCAL], row[TIME_NS], row[KIND], (row[ORIGIN], row[SENDER], row[NUMBER]), row[GROUP])
        for row in found.rows
    ]
    message = events[0].message
    events += [
        Event(process, None, None, Kind.DELIVER, message, group, missing=True) for group, process in found.missing
    ]
    return draw_witness(title, "The message is lost: datagrams are not retransmitted.", events, names)
