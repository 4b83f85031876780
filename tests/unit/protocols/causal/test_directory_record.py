"""The directory of members: what follows a record, step by step."""

from __future__ import annotations

import msgspec
import pytest

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Life
from isthmus.core.message import SiteId
from isthmus.protocols.causal.flooding.directory.record import (
    DirectoryRecord,
    SiteReport,
    Stage,
    following,
    founded,
)

A, B, C, D = (SiteId(number) for number in range(4))
IDLE, ADMITTING, OPENING = Stage
TWO = DirectoryRecord(1, 5, 3, ((A, 0), (B, 0)), last=((A, 0), (B, 0)))


def report(life: int = 0, view_id: int = 0, ready: bool = False, **more: bool) -> SiteReport:
    return SiteReport(life, 1, 0, view_id, more.get("attached", view_id > 0), ready, more.get("leaving", False))


def after(
    record: DirectoryRecord, reports: dict[SiteId, SiteReport], suspected: tuple[SiteId, ...] = ()
) -> DirectoryRecord:
    """The next record; one that is the same says that nothing is to be done."""
    found = following(record, reports, lambda site: site in suspected)
    assert found is record or found.version == record.version + 1
    found.check((A, B, C, D))
    return found


def lives(*sites: SiteId) -> tuple[Life, ...]:
    return tuple((site, 0) for site in sites)


SETTLED = {A: report(view_id=3, ready=True), B: report(view_id=3, ready=True)}


def test_a_joiner_is_admitted_listed_and_settled_one_at_a_time() -> None:
    asking = SETTLED | {C: report(), D: report()}
    first = after(TWO, asking)
    assert (first.stage, first.contact, first.joiner) == (ADMITTING, (A, 0), (C, 0)) and first.members == TWO.members
    assert after(first, asking) is first, "it waits for the joiner"
    listed = after(first, asking | {C: report(attached=True)})
    assert (listed.stage, listed.view_id, listed.members, listed.joiner) == (OPENING, 4, lives(A, B, C), None)
    ready = {site: report(view_id=4, ready=True) for site in (A, B, C)} | {D: report()}
    assert after(listed, ready | {B: report(view_id=4, ready=False)}) is listed
    assert after(listed, ready | {B: report(view_id=3, ready=True)}) is listed, "of the view before"
    settled = after(listed, ready)
    assert (settled.stage, settled.members) == (IDLE, lives(A, B, C))
    assert after(settled, ready).joiner == (D, 0), "then the next"


def test_all_the_dead_leave_in_one_change_and_the_last_takes_a_free_id() -> None:
    four = msgspec.structs.replace(TWO, members=lives(A, B, C, D), last=lives(A, B, C, D))
    found = after(four, {}, (B, C))
    assert (found.members, found.stage, found.view_id) == (lives(A, D), OPENING, 4)
    again = after(found, {A: report(view_id=4, ready=True), D: report(life=1)})
    assert (again.members, again.stage) == (lives(A), OPENING), "a later life proves the earlier dead; nothing closes"


def test_a_joiner_that_dies_or_whose_contact_does_is_given_up_for_good() -> None:
    admitting = after(TWO, SETTLED | {C: report()})
    for suspected in ((C,), (A,)):
        given_up = after(admitting, SETTLED | {C: report()}, suspected)
        assert given_up.joiner is None and given_up.is_over((C, 0)) and not given_up.is_over((C, 1))
    assert after(after(admitting, SETTLED, (C,)), SETTLED | {C: report()}).joiner is None


def test_a_leaver_forwards_until_its_links_are_replaced() -> None:
    three = msgspec.structs.replace(TWO, members=lives(A, B, C), last=lives(A, B, C))
    leaving = {site: report(view_id=3, ready=True) for site in (A, B)} | {C: report(view_id=3, leaving=True)}
    gone = after(three, leaving)
    assert (gone.members, gone.gone, gone.stage) == (lives(A, B), lives(C), OPENING) and not gone.is_over((C, 0))
    settled = after(gone, {site: report(view_id=4, ready=True) for site in (A, B)})
    ended = after(settled, {}, (C,))
    assert (ended.gone, ended.members) == ((), lives(A, B)) and ended.is_over((C, 0))


def test_a_directory_is_founded_with_all_that_report_unless_an_earlier_one_left_members() -> None:
    assert founded(1, {A: report(), C: report(life=7)}).members == ((A, 0), (C, 7))
    later = founded(12, {A: report(life=1), B: report(view_id=57), C: report(life=1)})
    assert (later.era, later.members) == (12, ((A, 1),)) and later.view_id > 57
    assert founded(4, {A: report(life=1)}).view_id > 1_000, "a view 5 was installed before; nobody is left to say so"
    assert founded(12, {B: report(view_id=57)}).version == 0, "those must begin new lives first"


def test_a_directory_that_lost_records_announces_its_list_above_what_sites_know() -> None:
    later = SiteReport(0, 1, 9, 6, True, True, False)
    found = following(TWO, SETTLED | {B: later}, lambda _: False)
    assert (found.version, found.view_id, found.members, found.stage) == (10, 7, TWO.members, OPENING)
    of_another_era = msgspec.structs.replace(later, era=2)
    beyond = msgspec.structs.replace(later, version=1_000_000, view_id=1_000_000)
    assert after(TWO, SETTLED | {B: of_another_era}) is after(TWO, SETTLED | {B: beyond}) is TWO


def test_when_all_members_are_dead_a_joiner_goes_on_alone() -> None:
    nobody = after(TWO, {}, (A, B))
    assert nobody.members == () and (idle := after(nobody, {})).stage is IDLE
    assert after(idle, {A: report(life=1)}).members == ((A, 1),)


@pytest.mark.parametrize("lives", [((A, 0), (A, 1)), ((A, 0), (B, 0), (A, 0))])
def test_a_site_is_listed_once(lives: tuple[Life, ...]) -> None:
    with pytest.raises(RemoteError, match="of the same site"):
        DirectoryRecord(1, 1, 1, lives).check((A, B))


@pytest.mark.parametrize(
    "record",
    [
        DirectoryRecord(1, 1, 1, ((A, 0), (SiteId(9), 0))),
        DirectoryRecord(1, 1, 1, ((A, 0),), last=((A, 0), (SiteId(-1), 0))),
        DirectoryRecord(1, 1, 1, ((A, 1 << 62),)),
        DirectoryRecord(1, 1, 1, ((A, 0),), joiner=(B, -1)),
        DirectoryRecord(1 << 40, 1, 1, ((A, 0),)),
        DirectoryRecord(1, 1, 1 << 31, ((A, 0),)),
    ],
)
def test_sites_that_the_group_lacks_and_numbers_out_of_reach_are_refused(record: DirectoryRecord) -> None:
    """A view with such a site ended every site that took it, at the first packet there."""
    with pytest.raises(RemoteError):
        record.check((A, B))


@pytest.mark.parametrize("report", [report(life=1 << 62), report(life=-1), report(view_id=1 << 31)])
def test_reports_with_numbers_out_of_reach_are_refused(report: SiteReport) -> None:
    with pytest.raises(RemoteError):
        report.check()
