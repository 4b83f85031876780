"""The directory of members: one record, and what follows it.

Problem: links open and close while messages flow (safe_links.py), which needs no barrier, but one order of changes that
all sites know. Idea: a few sites, the *directory group*, agree on a record; each change is a new record. The leader of
the directory group, its most senior member, derives the next record from this one, from what the sites report and from
whom it suspects. One change at a time:

    IDLE       dead members leave the list, in one change; else one leaver does; else a contact admits one joiner
    ADMITTING  the contact sends the joiner its vector; the joiner reports to be attached: it is in the list
    OPENING    the list is a new view; its members open links. Once all have, they close what is no longer needed: IDLE.
               If a member dies meanwhile, nothing is closed: the list without it comes first

Invariants: versions rise by one; a life that left the list, or was to join and did not, never comes in again (`last`);
members keep their ids, but the last one takes the id of one that goes. `era` tells the records of one directory from
those of a later one that was founded without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Life, View
from isthmus.core.message import Message, SiteId, Targets
from isthmus.protocols.membership.sanity import check_counts, check_incarnations

FOUNDED_BEYOND = 1_000  # views that a later era passes over, so that no number is used again
LOST_MAX = 1_000  # records, and views, that a directory is taken to have lost
ERA_BITS, ERA_MAX = 10, 1 << 20  # the same where no member is left to report its view


class Stage(IntEnum):
    """What is under way."""

    IDLE = 0
    ADMITTING = 1
    OPENING = 2


class DirectoryRecord(Message, frozen=True, gc=False, array_like=True, tag=104):
    """The members by id, and the change that is under way; carried in the directory group and announced to all."""

    viewless = True

    era: int = 0
    version: int = 0  # 0: nothing is founded
    view_id: int = 0
    members: tuple[Life, ...] = ()  # by id
    stage: Stage = Stage.IDLE
    contact: Life | None = None  # of the joiner
    joiner: Life | None = None
    gone: tuple[Life, ...] = ()  # have left the list, and forward until the links that replace theirs are safe
    last: tuple[Life, ...] = ()  # of each site the highest life that was ever to be a member

    def lives(self) -> tuple[Life, ...]:
        """All that take part: members, leavers and a joiner."""
        return (*self.members, *self.gone, *(() if self.joiner is None else (self.joiner,)))

    def is_over(self, life: Life) -> bool:
        """Whether a life took part and does not any more."""
        return life not in self.lives() and dict(self.last).get(life[0], -1) >= life[1]

    def view(self) -> View:
        return View(self.view_id, tuple(site for site, _ in self.members), tuple(life for _, life in self.members))

    def check(self, everyone: Targets) -> None:
        """Refuse what no leader says."""
        check_counts(self.era, self.version, self.view_id)
        sites = [site for site, _ in self.lives()]
        if len(set(sites)) < len(sites):
            raise RemoteError(f"a directory of {len(sites)} lives, some of the same site")
        for site, incarnation in (*self.lives(), *self.last):
            check_incarnations(incarnation)
            if site not in everyone:
                raise RemoteError(f"a directory that lists site {site}, which the group does not have")


class SiteReport(Message, frozen=True, gc=False, array_like=True, tag=105):
    """What a site says of itself to the directory group, again and again."""

    viewless = True

    life: int
    era: int  # of the last record that it knows
    version: int
    view_id: int  # that it has installed
    attached: bool  # it has founded the group, or has the vector of a contact
    ready: bool  # all its links in that view are safe
    leaving: bool

    def check(self) -> None:
        """Refuse numbers that no site reaches."""
        check_incarnations(self.life)
        check_counts(self.era, self.version, self.view_id)


Reports = Mapping[SiteId, SiteReport]


def founded(era: int, reports: Reports) -> DirectoryRecord:
    """The first record of an era: those that report, or one alone where members of an earlier era are left."""
    highest = max((report.view_id for report in reports.values()), default=0)
    lives = tuple((site, report.life) for site, report in sorted(reports.items()) if not report.attached)
    if highest or any(report.attached for report in reports.values()):
        lives = lives[:1]
    number = max(highest + FOUNDED_BEYOND if highest else 0, era << ERA_BITS if 1 < era < ERA_MAX else era)
    return DirectoryRecord(era, 1, number, lives, Stage.OPENING, last=lives) if lives else DirectoryRecord()


def caught_up(record: DirectoryRecord, reports: Reports) -> DirectoryRecord:
    """The list announced anew, above what sites know, where the directory has lost records that were announced.

    It may where a keeper comes back by its file: with its vote, and without what it alone had delivered.
    """
    known = [report for report in reports.values() if report.era == record.era]
    version = max([record.version, *(one.version for one in known if one.version <= record.version + LOST_MAX)])
    view_id = max([record.view_id, *(one.view_id for one in known if one.view_id <= record.view_id + LOST_MAX)])
    if (version, view_id) == (record.version, record.view_id):
        return record
    above = msgspec.structs.replace(record, version=version, view_id=view_id)
    return announced(above, record.members, record.gone)


def following(record: DirectoryRecord, reports: Reports, suspected: Callable[[SiteId], bool]) -> DirectoryRecord:
    """The next record, or the same where nothing is to be done yet."""

    def is_dead(life: Life) -> bool:
        report = reports.get(life[0])
        return suspected(life[0]) or (report is not None and report.life > life[1])

    if (renewed := caught_up(record, reports)) is not record:
        return renewed
    members = record.members
    for life in members:
        if is_dead(life):
            members = without(members, life)
    gone = tuple(life for life in record.gone if not is_dead(life))
    if members != record.members:
        return announced(record, members, gone)
    if record.stage is Stage.ADMITTING:
        return admitting(record, reports, is_dead)
    if record.stage is Stage.OPENING:
        known = [(life, reports.get(life[0])) for life in members]
        if all(one is not None and (one.life, one.view_id, one.ready) == (life[1], record.view_id, True)
               for life, one in known):  # fmt: skip
            return changed(record, stage=Stage.IDLE)
        return record
    if gone != record.gone:
        return changed(record, gone=gone)
    for life in members:
        report = reports.get(life[0])
        if report is not None and report.leaving:
            return announced(record, without(members, life), (*gone, life))
    for site, report in sorted(reports.items()):
        joiner, free = (site, report.life), site not in dict(record.lives())
        if free and not (report.attached or report.leaving or record.is_over(joiner) or suspected(site)):
            if not members:
                return noted(announced(record, (joiner,), gone), joiner)
            return noted(changed(record, stage=Stage.ADMITTING, contact=members[0], joiner=joiner), joiner)
    return record


def admitting(record: DirectoryRecord, reports: Reports, is_dead: Callable[[Life], bool]) -> DirectoryRecord:
    """What follows while a joiner is admitted."""
    assert record.joiner is not None
    report = reports.get(record.joiner[0])
    if is_dead(record.joiner) or record.contact not in record.members:
        return changed(record, stage=Stage.IDLE, contact=None, joiner=None)
    if report is not None and report.attached:
        return announced(record, (*record.members, record.joiner), record.gone)
    return record


def without(members: tuple[Life, ...], life: Life) -> tuple[Life, ...]:
    """The members without one, whose id the last one takes."""
    last = members[-1]
    return tuple(last if one == life else one for one in members[:-1])


def changed(record: DirectoryRecord, **fields: object) -> DirectoryRecord:
    return msgspec.structs.replace(record, version=record.version + 1, **fields)


def announced(record: DirectoryRecord, members: tuple[Life, ...], gone: tuple[Life, ...]) -> DirectoryRecord:
    """A new view: the members are to open their links; a joiner that is not among them is given up."""
    more = {"view_id": record.view_id + 1, "stage": Stage.OPENING, "contact": None, "joiner": None}
    return changed(record, members=members, gone=gone, **more)


def noted(record: DirectoryRecord, joiner: Life) -> DirectoryRecord:
    """The record with the life that a site joins with."""
    return msgspec.structs.replace(record, last=tuple(sorted((dict(record.last) | dict([joiner])).items())))
