"""How a host writes: rows of one process, numbered, with the view that the application is in.

A host tells kind, time and subject; this adds what every row has in common. A view change counts from its VIEW row
on: what an ordering layer delivers while it closes the old view still belongs to the old one.
"""

from __future__ import annotations

from isthmus.core.layer import Kind, View
from isthmus.core.message import Cast
from isthmus.trace.schema import NONE, Sink
from isthmus.trace.summary import Summary

DELIVER, RECOVER, REJECT, SUBMIT, VIEW = Kind.DELIVER, Kind.RECOVER, Kind.REJECT, Kind.SUBMIT, Kind.VIEW
GROUP = 0  # sites form one group so far


class SiteLog:
    """The rows of one process of one run; its numbers go on over all of the process's incarnations."""

    __slots__ = ("local", "process", "rejected_count", "run", "sink", "summary", "view")

    def __init__(self, process: int, sink: Sink | None, summary: Summary | None = None, run: int = 0) -> None:
        self.sink = sink  # None: no rows are wanted
        self.summary = summary  # kept up with every event, rows or not
        self.process = process
        self.run = run
        self.local = -1  # of the last row
        self.rejected_count = 0  # packets of peers that were dropped as wrong
        self.view = NONE

    def write(
        self, time_ns: int, kind: Kind, subject: Cast | None, value: int, view: View, control_bytes: int = 0
    ) -> None:
        """Add a row; `view` is the one that the stack has installed."""
        if kind == REJECT:
            self.rejected_count += 1
        summary = self.summary
        if summary is not None:
            if subject is None:
                summary.note(self.process, kind)
            elif kind == DELIVER:
                summary.deliver(self.process, time_ns, (subject.sender, subject.number))
            elif kind == SUBMIT:
                summary.submit(time_ns, (subject.sender, subject.number), subject.destinations)
        if self.sink is None:
            return
        self.local += 1
        sender, number, size = NONE, NONE, 0
        sites: tuple[int, ...] | None = None
        if subject is not None:
            sender, number, size = subject.sender, subject.number, len(subject.payload)
            if kind == SUBMIT:
                sites = subject.destinations or None
        elif kind == VIEW:
            self.view, sites = view.view_id, view.members
        elif kind == RECOVER:
            self.view = NONE  # until its first view
        run, process, local, at = self.run, self.process, self.local, self.view
        self.sink.append(
            (run, process, local, time_ns, kind, sender, number, GROUP, at, sites, size, control_bytes, value)
        )
