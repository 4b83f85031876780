"""The rows that a host writes: numbered, of one process, each with its group and the application's view.

A host passes kind, time, subject and group; this adds the columns that every row has. A view change counts from its
VIEW row on: what an ordering layer delivers while it closes the old view still belongs to the old one. Each group of
the process is in a view of its own; a RECOVER row ends them all.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from typing import Protocol

from isthmus.core.layer import Kind, View
from isthmus.core.message import ONLY_GROUP, Cast, GroupId
from isthmus.trace.schema import DESTINATIONS, GAUGE, NONE, MessageKey, Recording, Row, Sink

DELIVER, RECOVER, REJECT, SUBMIT, VIEW = Kind.DELIVER, Kind.RECOVER, Kind.REJECT, Kind.SUBMIT, Kind.VIEW
PAYLOAD_KINDS = (SUBMIT, DELIVER)  # whose value is the digest of the payload
OF_MEMBERS = (SUBMIT, DELIVER, VIEW, Kind.TENTATIVE, Kind.REVOKE)  # not recorded at couriers
NOTHING: MessageKey = (NONE, NONE, NONE)


def digest_of(payload: bytes) -> int:
    """Return the digest of a payload that rows carry: its CRC-32, plus 1 so that it is never 0, which means unknown."""
    return zlib.crc32(payload) + 1


def view_of(row: Row) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the members in a VIEW row, and their weights; none where each has one vote."""
    sites, count = row[DESTINATIONS] or (), row[GAUGE]
    return (tuple(sites[:count]), tuple(sites[count:])) if count else (tuple(sites), ())


def identity(subject: Cast, group: int) -> MessageKey:
    """Return (origin, sender, number) of a message in a group; a carried message names its author."""
    if type(subject) is not Cast:
        return subject.identity(GroupId(group))
    return group, subject.sender, subject.number


def without(view: View, couriers: Collection[int]) -> View:
    """Return a view without its couriers, as its rows list it."""
    kept = [place for place, site in enumerate(view.members) if site not in couriers]
    weights = tuple(view.weights[place] for place in kept) if view.weights else ()
    return View(view.view_id, tuple(view.members[place] for place in kept), weights=weights)


class Observer(Protocol):
    """Receiver of every event, whether rows are wanted or not."""

    def submit(self, now_ns: int, key: MessageKey, destinations: tuple[int, ...], group: int, /) -> None: ...

    def deliver(self, process: int, now_ns: int, key: MessageKey, group: int, /) -> None: ...

    def note(self, process: int, kind: int, group: int, /) -> None: ...


class SiteLog:
    """The rows of one process of one run; its numbers go on over all of the process's incarnations."""

    __slots__ = ("couriers", "local", "process", "rejected_count", "run", "sink", "summary", "views")

    def __init__(
        self,
        process: int,
        sink: Sink | None,
        summary: Observer | None = None,
        run: int = 0,
        couriers: Collection[int] = (),
    ) -> None:
        self.sink = sink  # None: record no rows
        self.summary = summary  # receives every event, rows or not
        self.process = process
        self.couriers = couriers  # processes that only forward: not in views, without deliveries
        self.run = run
        self.local = -1  # of the last row
        self.rejected_count = 0  # invalid packets of peers, dropped
        self.views: dict[int, int] = {}  # group to the number of its view; none before its first VIEW row

    def deliver(self, time_ns: int, subject: Cast, group: int) -> None:
        """Add a DELIVER row: a fast path of `write` for most rows."""
        if self.process in self.couriers:
            return
        key = (group, subject.sender, subject.number) if type(subject) is Cast else identity(subject, group)
        if self.summary is not None:
            self.summary.deliver(self.process, time_ns, key, group)
        if self.sink is not None:
            self.local = local = self.local + 1
            view, size, digest = self.views.get(group, NONE), len(subject.payload), digest_of(subject.payload)
            self.sink.append(
                (self.run, self.process, local, time_ns, DELIVER, *key, group, view, None, size, 0, digest, 0)
            )

    def record(self, time_ns: int, how: Recording) -> None:
        """Add a RECORD row: the recording begins, ends as planned, or is cut short."""
        if self.sink is not None:
            self.local += 1
            place = (self.run, self.process, self.local, time_ns, Kind.RECORD)
            self.sink.append((*place, *NOTHING, ONLY_GROUP, NONE, None, 0, 0, how, 0))

    def write(
        self,
        time_ns: int,
        kind: Kind,
        subject: Cast | None,
        value: int,
        group: int,
        view: View,
        control_bytes: int = 0,
        gauge: int = 0,
    ) -> None:
        """Add a row of a group; `view` is the one that the group's stack has installed."""
        if kind == REJECT:
            self.rejected_count += 1
        if kind in OF_MEMBERS and self.process in self.couriers:
            return
        summary = self.summary
        if summary is not None:
            if subject is None:
                summary.note(self.process, kind, group)
            elif kind == DELIVER:
                summary.deliver(self.process, time_ns, identity(subject, group), group)
            elif kind == SUBMIT:
                summary.submit(time_ns, identity(subject, group), subject.destinations, group)
        if self.sink is None:
            return
        self.local += 1
        message, size = NOTHING, 0
        sites: tuple[int, ...] | None = None
        if subject is not None:
            message = identity(subject, group)
            size = len(subject.payload)
            if kind == SUBMIT:
                sites = subject.destinations or None
            if kind in PAYLOAD_KINDS:
                value = digest_of(subject.payload)
        elif kind == VIEW:
            view = without(view, self.couriers) if self.couriers else view
            self.views[group], sites = view.view_id, view.members
            if any(vote != 1 for vote in view.weights):
                sites, gauge = (*view.members, *view.weights), len(view.members)
        elif kind == RECOVER:
            self.views.clear()
        run, process, local, at = self.run, self.process, self.local, self.views.get(group, NONE)
        self.sink.append(
            (run, process, local, time_ns, kind, *message, group, at, sites, size, control_bytes, value, gauge)
        )
