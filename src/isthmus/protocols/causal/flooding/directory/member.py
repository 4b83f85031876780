"""One site as the directory sees it: reports, and carries out what each new record asks of it.

The lowest layer of a stack whose links open and close while messages flow. It reports to the directory group at each
tick; a leader there that knows a later record answers with it. So nothing that is lost needs to be noticed, and a site
may miss records: what it does follows from the last one that it knows and the one before.

    in the list, view not installed     install it: links open
    IDLE                                close the links that the view does not need; a leaver closes all, and ends
    contact                             admit the joiner
    a life that is over                 drop the links to it
    this life is over, or stranded      begin a new one
    attached, and not listed            the same: the directory has lost its records, and begun a later era
"""

from __future__ import annotations

from collections.abc import Callable

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler, Layer, Life
from isthmus.core.message import Message, SiteId, Targets
from isthmus.protocols.causal.flooding.directory.record import DirectoryRecord, SiteReport, Stage
from isthmus.protocols.causal.flooding.directory.replica import DirectoryReplica
from isthmus.protocols.causal.flooding.safe_links import SafeFlooding

TICK = 0
QUIET_TICKS = 10  # a site that has nothing new reports once in so many


class DirectoryMember(Layer):
    """The end of a site in the directory."""

    __slots__ = (
        "contacts",
        "ended",
        "everyone",
        "flooding",
        "go",
        "leaving",
        "quiet_ticks",
        "record",
        "renew",
        "replica",
        "reported",
        "tick_ns",
        "view_id",
    )
    timer_names = ("tick",)

    def __init__(
        self,
        everyone: Targets,
        contacts: Targets,
        tick_ns: int,
        replica: DirectoryReplica | None,
        renew: Callable[[], None],
        go: Callable[[], None],
    ) -> None:
        self.everyone = everyone  # the sites that the directory may list
        self.contacts = contacts  # the sites of the directory group
        self.tick_ns = tick_ns
        self.replica = replica  # where this site is one of them
        self.renew = renew  # after this event: end this life and begin the next
        self.go = go  # after this event: this site has left
        self.record = DirectoryRecord()
        self.view_id = 0  # of the view that was installed last
        self.leaving = False
        self.ended = False  # nothing counts any more
        self.reported: SiteReport | None = None
        self.quiet_ticks = 0

    def handlers(self) -> dict[type[Message], Handler]:
        return {SiteReport: self.on_report, DirectoryRecord: self.on_record}

    def start(self) -> None:
        self.flooding = self.stack.find(SafeFlooding)
        self.host.set_timer(self, TICK, self.tick_ns)

    @property
    def me(self) -> Life:
        return self.host.site, self.host.incarnation

    def leave(self) -> None:
        """Ask to be taken off the list; `go` is called once this site has left."""
        self.leaving = True

    def timer(self, key: int) -> None:
        assert key == TICK
        if self.ended:
            return
        self.host.set_timer(self, TICK, self.tick_ns)
        record, flooding = self.record, self.flooding
        if flooding.stranded:
            self.end(self.renew)
        elif (flooding.leaving and flooding.is_detached()) or (self.leaving and not flooding.attached):
            self.end(self.go)
        else:
            ready = self.view_id == record.view_id and flooding.is_ready()
            report = SiteReport(
                self.host.incarnation, record.era, record.version, self.view_id, flooding.attached, ready, self.leaving
            )
            self.quiet_ticks += 1
            if report != self.reported or record.stage is not Stage.IDLE or self.quiet_ticks >= QUIET_TICKS:
                self.reported, self.quiet_ticks = report, 0
                self.send(self.contacts, report)

    def end(self, how: Callable[[], None]) -> None:
        self.ended = True
        how()

    def on_report(self, source: SiteId, report: SiteReport) -> None:
        replica = self.replica
        if replica is None:
            raise RemoteError(f"a report of site {source}, which is for the sites of the directory")
        report.check()
        replica.note(source, report)
        known = replica.record
        if known.version and (report.era, report.version) != (known.era, known.version) and replica.leads():
            self.send((source,), known)

    def on_record(self, source: SiteId, record: DirectoryRecord) -> None:
        """Take over a later record."""
        record.check(self.everyone)
        if source not in self.contacts:
            raise RemoteError(f"a directory of site {source}, which keeps none")
        before = self.record
        if self.ended or (record.era, record.version) <= (before.era, before.version):
            return
        flooding, mine = self.flooding, self.me in record.members
        if record.is_over(self.me) or (flooding.attached and self.me not in record.lives()):
            self.end(self.renew)
            return
        self.record = record
        lives = {*record.lives()}
        for site, life in (*before.lives(), *record.last):  # of some, no record before this one may have come here
            if (site, life) not in lives:
                flooding.end_life(site, life)
        if mine and record.view_id > self.view_id:
            self.view_id = record.view_id
            self.host.install(record.view())
            self.host.resume()
        elif mine and record.stage is not Stage.OPENING:
            flooding.commit()
        elif self.me in record.gone and record.stage is not Stage.OPENING and not flooding.leaving:
            flooding.leave()
        if record.contact == self.me and record.joiner is not None:
            flooding.admit(*record.joiner)

    def suspect(self, site: SiteId, suspected: bool) -> None:
        """Do nothing: the directory says who is dead."""
