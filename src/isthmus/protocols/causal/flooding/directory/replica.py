"""One site's part of the directory group: keeps the record, and leads where it is the most senior.

The directory group agrees on its views as any group does, and its transport delivers what a quorum has. Only the leader
submits records, one at a time; a view change delivers to all that go on the same records, and the next leader goes on
from these. So the records are one sequence. What is delivered here survives as long as a quorum does.

The reports of sites are not agreed on: each site repeats its own, to all of the directory group.

Bound: one report per site.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler, Layer, View
from isthmus.core.message import Message, SiteId, Targets
from isthmus.protocols.causal.flooding.directory.record import DirectoryRecord, SiteReport, following, founded

TICK = 0
DIRECTORY_GROUPS = 0x8000  # the numbers of directory groups: this, and the number of the group that is listed
KEEPERS_MAX = 5  # sites of a directory group: it survives two crashes at a time
FOUND_TICKS = 40  # sites that do not report for so long after the first are not waited for


def keepers_of(members: Targets) -> Targets:
    """The sites of a group that keep its directory."""
    return members[:KEEPERS_MAX]


class DirectoryReplica(Layer):
    """The top of the directory group's stack at one site."""

    __slots__ = ("everyone", "found_ticks", "is_suspected", "pending", "record", "reports", "tick_ns", "view")
    timer_names = ("tick",)

    def __init__(self, everyone: Targets, tick_ns: int, is_suspected: Callable[[SiteId], bool]) -> None:
        self.everyone = everyone  # the sites that the directory may list
        self.tick_ns = tick_ns
        self.is_suspected = is_suspected
        self.record = DirectoryRecord()
        self.reports: dict[SiteId, SiteReport] = {}
        self.view = View(0, ())
        self.pending = False  # a record of ours is on its way
        self.found_ticks = 0

    def bodies(self) -> dict[type[Message], Handler]:
        return {DirectoryRecord: self.on_record}

    def start(self) -> None:
        self.host.set_timer(self, TICK, self.tick_ns)

    def leads(self) -> bool:
        return bool(self.view.members) and self.view.members[0] == self.host.site

    def note(self, site: SiteId, report: SiteReport) -> None:
        """Take note of what a site reports."""
        known = self.reports.get(site)
        if site in self.everyone and (known is None or known.life <= report.life):
            self.reports[site] = report

    def timer(self, key: int) -> None:
        assert key == TICK
        self.host.set_timer(self, TICK, self.tick_ns)
        if not self.leads() or self.pending or not self.below.writable():
            return
        record = self.following()
        if record.version > self.record.version:
            self.pending = True
            self.below.submit(record)

    def following(self) -> DirectoryRecord:
        if self.record.version:
            return following(self.record, self.reports, self.is_suspected)
        here = {site: report for site, report in self.reports.items() if not self.is_suspected(site)}
        self.found_ticks += bool(here)
        if len(here) < len(self.everyone) and self.found_ticks < FOUND_TICKS:
            return self.record
        return founded(self.view.view_id, here)

    def on_record(self, source: SiteId, record: DirectoryRecord) -> None:
        record.check(self.everyone)
        if record.version <= self.record.version:
            raise RemoteError(f"site {source} follows version {self.record.version} by {record.version}")
        self.record = record
        if source == self.host.site:
            self.pending = False

    def suspect(self, site: SiteId, suspected: bool) -> None:
        """Do nothing: suspicion is asked for at each tick."""

    def install(self, view: View) -> None:
        self.view = view
        self.pending = False  # what was submitted in the old view is delivered, or lost with it

    def resume(self) -> None:
        """Do nothing: the next tick submits."""

    def state(self) -> bytes:
        return msgspec.msgpack.encode(self.record)

    def restore(self, state: bytes) -> None:
        try:
            self.record = msgspec.msgpack.decode(state, type=DirectoryRecord)
        except msgspec.DecodeError as error:
            raise RemoteError(f"a directory that does not decode: {error}") from error
