"""Interface between the membership of a group and its host, and the small file that outlives a process.

Besides the `Host` of the stack, a host provides one `Home` per group and life. A simulated host keeps the record in
memory; a live one writes it to a file, and returns from `save` only when it is on the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from isthmus.core.layer import Life, View
from isthmus.core.message import SiteId, Targets
from isthmus.core.validation import PERIOD_MIN_MS, check_range
from isthmus.protocols.membership.cut import Holding
from isthmus.protocols.membership.flush import Flush
from isthmus.protocols.membership.suspicion import Suspicion
from isthmus.protocols.membership.wire import Ballot, Proposal


class AgreementOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times of the agreement, in round trips if the name has no unit."""

    tick: float = 1.7
    answer: float = 2.7  # a coordinator waits this long for a member that it does not suspect
    attempt: float = 5.0  # then a coordinator takes a new ballot
    fresh: float = 5.3  # a request, an answer or a nudge counts for this long
    give_up: float = 20.0  # a cut that cannot be completed for this long ends the life
    snapshot_s: float = 60.0  # seconds that taking the application's state may last

    def __post_init__(self) -> None:
        for key in ("tick", "answer", "attempt", "fresh", "give_up", "snapshot_s"):
            check_range(key, getattr(self, key), PERIOD_MIN_MS, 1e6)


class Record(msgspec.Struct, frozen=True, array_like=True):
    """The state of a voter that must survive a crash."""

    view: View
    seat: int  # the incarnation that sits in it
    promised: Ballot
    accepted: tuple[Ballot, Proposal] | None
    decision: Proposal | None  # that led to the view


class RecordStore(Protocol):
    """Storage for the record of one group; `save` returns when the record would survive a crash."""

    def load(self) -> Record | None: ...
    def save(self, record: Record | None) -> None: ...  # None: nothing to remember any more


class EndedSeat(msgspec.Struct, frozen=True):
    """The seat of a life that ended while its process lives, and all that the life knew of the view."""

    view: View
    seat: int  # the incarnation that sits in it
    promised: Ballot
    accepted: tuple[Ballot, Proposal] | None
    report: tuple[Holding, ...] | None  # None: of a process that crashed
    flush: Flush | None
    decided: Proposal | None  # the successor, if it is known
    stateful: bool  # the life had the application's state


class Past(msgspec.Struct, frozen=True):
    """What a life leaves to the next one of the same process: it votes, reports and serves for the life before."""

    decision: Proposal | None
    flush: Flush | None  # of a view that is closed
    ended: EndedSeat | None = None
    told: int = -1  # the highest incarnation of this site that others know; the next life is above it
    known: tuple[Life, ...] = ()  # the lives of other sites that have proved to be alive


class Home(Protocol):
    """The site around one group's membership, in one life."""

    contacts: Targets  # the sites that may be in the group, this one included
    weights: Mapping[SiteId, int]  # their configured votes; 1 by default
    round_trip_ns: int  # the longest that is usual between two of them
    past: Past | None  # of the life before, where the process is the same

    @property
    def store(self) -> RecordStore | None: ...  # None: nothing outlives a crash
    def is_suspected(self, site: SiteId) -> bool: ...  # by this site's failure suspector
    def suspects_us(self, site: SiteId) -> bool: ...  # whether a site has said so
    def renew(self, past: Past) -> None: ...  # after this event: end this life and begin the next
    def left(self) -> None: ...  # after this event: this site has left the group for good
    def fail(self, why: str) -> None: ...  # the application's state failed: this site leaves, then raises this
    def is_near(self, one: SiteId, other: SiteId) -> bool: ...  # whether two sites are in one cluster
    def note_behind(self, site: SiteId, asked: int, known: int) -> None: ...  # it asks to join below a life known here


def ignore(*_: object) -> None:
    """Do nothing."""


class SiteHome(msgspec.Struct, eq=False):
    """Home over the suspicion of its site; the host adds how a life ends, and what follows once the site has left."""

    contacts: Targets
    weights: Mapping[SiteId, int]
    round_trip_ns: int
    suspicion: Suspicion
    store: RecordStore | None
    past: Past | None
    renew: Callable[[Past], None]
    go: Callable[[], None]
    failed: Callable[[str], None] = ignore  # raises at the caller; `go` follows once others go on without this site
    behind: Callable[[SiteId, int, int], None] = ignore

    def is_suspected(self, site: SiteId) -> bool:
        return self.suspicion.is_suspected(site)

    def suspects_us(self, site: SiteId) -> bool:
        return self.suspicion.suspects_us(site)

    def left(self) -> None:
        self.go()

    def fail(self, why: str) -> None:
        self.failed(why)

    def is_near(self, one: SiteId, other: SiteId) -> bool:
        clusters = self.suspicion.cluster_of
        return clusters[one] == clusters[other]

    def note_behind(self, site: SiteId, asked: int, known: int) -> None:
        self.behind(site, asked, known)
