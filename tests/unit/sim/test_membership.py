"""The ideal view-synchronous service: who is in which view, from when on, and what is delivered before it."""

from __future__ import annotations

import pytest

from isthmus.core.layer import Kind
from isthmus.scenario.faults import Crash, Fault, Recover
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.workload import Periodic, Workload
from isthmus.sim.run import Run
from isthmus.stacks import STACKS
from isthmus.topology.delay import Constant, Uniform
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.oracle import Oracle
from isthmus.trace.schema import DESTINATIONS, KIND, NUMBER, PROCESS, SENDER, TIME_NS, VALUE, Row
from isthmus.trace.schema import VIEW as IN_VIEW

MS = 1_000_000
SITES = 5
Views = list[tuple[int, tuple[int, ...], float]]  # number, members, when


def crash(at_ms: float, site: int) -> Crash:
    return Crash(at_ms=at_ms, site=f"c{site}-0")


def recover(at_ms: float, site: int) -> Recover:
    return Recover(at_ms=at_ms, site=f"c{site}-0")


def played(
    *faults: Fault,
    workload: Workload | None = None,
    wan: Channel | None = None,
    stack: str = "token-site",
    detection_ms: float = 100,
) -> tuple[Run, list[Row]]:
    rows: list[Row] = []
    scenario = Scenario(
        topology=mesh(SITES, 1, Channel(Constant(1)), wan or Channel(Constant(10))),
        stack=StackSpec(name=stack),
        workloads=(workload or Periodic(rate_per_s=20),),
        duration_ms=2000,
        faults=faults,
        membership=Membership(detection_ms=detection_ms),
    )
    run = Run(scenario, rows)
    run.execute()
    return run, rows


def views_of(rows: list[Row], site: int) -> Views:
    return [
        (row[VALUE], row[DESTINATIONS] or (), row[TIME_NS] / MS)
        for row in rows
        if row[KIND] == Kind.VIEW and row[PROCESS] == site
    ]


def valid(rows: list[Row], stack: str = "token-site") -> bool:
    return {verdict.status for verdict in Oracle(rows).verdicts(STACKS[stack].properties)} == {"valid"}


def test_the_first_view_has_all_from_the_start() -> None:
    run, rows = played()
    assert [views_of(rows, site) for site in range(SITES)] == [[(1, (0, 1, 2, 3, 4), 0)]] * SITES
    assert run.membership.view.view_id == 1


def test_a_crash_makes_a_view_without_it_once_it_is_detected() -> None:
    _, rows = played(crash(500, 2))
    for site in (0, 1, 3, 4):
        number, members, when = views_of(rows, site)[1]
        assert (number, members) == (2, (0, 1, 3, 4))
        assert 600 <= when <= 600 + 10  # blocked at 600, and what was under way takes at most ten more
    assert len({views_of(rows, site)[1] for site in (0, 1, 3, 4)}) == 1, "all at the same instant"
    assert len(views_of(rows, 2)) == 1
    assert valid(rows)


def test_who_comes_back_is_the_youngest() -> None:
    run, rows = played(crash(500, 0), recover(1000, 0))
    assert [members for _, members, _ in views_of(rows, 1)] == [(0, 1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4, 0)]
    assert [number for number, _, _ in views_of(rows, 0)] == [1, 3]
    assert run.hosts[0].incarnation == 1
    told = next(row for row in rows if row[KIND] == Kind.RECOVER)
    assert told[VALUE] == 1 and told[TIME_NS] == 1000 * MS
    after = [row for row in rows if row[KIND] == Kind.SUBMIT and row[SENDER] == 0 and row[TIME_NS] > 1000 * MS]
    assert after and all(row[NUMBER] >> 32 == 1 for row in after)
    assert valid(rows)


def test_who_comes_back_before_anybody_noticed_still_starts_a_new_view() -> None:
    _, rows = played(crash(500, 4), recover(520, 4))
    assert [(number, members) for number, members, _ in views_of(rows, 1)] == [
        (1, (0, 1, 2, 3, 4)),
        (2, (0, 1, 2, 3, 4)),
    ]
    assert [number for number, _, _ in views_of(rows, 4)] == [1, 2]
    assert valid(rows)


def test_two_crashes_close_together_are_one_change() -> None:
    run, rows = played(crash(500, 2), crash(550, 4))
    assert [(number, members) for number, members, _ in views_of(rows, 0)] == [(1, (0, 1, 2, 3, 4)), (2, (0, 1, 3))]
    assert run.membership.view.view_id == 2 and valid(rows)


def test_a_crash_detected_during_a_change_starts_no_second_one() -> None:
    run, rows = played(crash(500, 2), crash(510, 4), wan=Channel(Constant(40)))
    number, members, when = views_of(rows, 0)[1]
    assert (number, members) == (2, (0, 1, 3)) and when > 610, "the second was detected while the first went on"
    assert run.membership.view.view_id == 2 and valid(rows)


def test_a_crash_during_a_change_is_in_the_view_that_comes_of_it() -> None:
    run, rows = played(crash(500, 2), crash(605, 0), wan=Channel(Constant(40)))
    number, members, when = views_of(rows, 1)[1]
    assert (number, members) == (2, (1, 3, 4)) and 605 < when <= 640
    assert run.membership.view.view_id == 2, "its own detection finds nothing left to do"
    assert not run.membership.changing and valid(rows)


def test_a_recovery_during_a_change_joins_the_view_that_comes_of_it() -> None:
    _, rows = played(crash(500, 2), crash(550, 3), recover(605, 3), wan=Channel(Constant(40)))
    assert views_of(rows, 0)[1][:2] == (2, (0, 1, 4, 3))
    assert [number for number, _, _ in views_of(rows, 3)] == [1, 2] and valid(rows)


@pytest.mark.parametrize("stack", STACKS)
def test_all_but_one_crash_and_it_goes_on_alone(stack: str) -> None:
    run, rows = played(*(crash(500 + 10 * site, site) for site in range(1, SITES)), stack=stack)
    assert run.membership.view.members == (0,)
    own = [row for row in rows if row[KIND] == Kind.DELIVER and row[PROCESS] == 0 and row[TIME_NS] > 700 * MS]
    assert len(own) > 20 and {row[SENDER] for row in own} == {0}
    assert run.summary.undelivered_count() == 0
    verdicts = {verdict.property: verdict.status for verdict in Oracle(rows).verdicts(STACKS[stack].properties)}
    assert verdicts.pop("agreement") == "unknown", "no two went through a view together"
    assert "violated" not in verdicts.values() and verdicts["validity"] == "valid"


def test_all_crash_and_one_comes_back() -> None:
    run, rows = played(*(crash(500, site) for site in range(SITES)), recover(1000, 3))
    assert run.membership.view.members == (3,)
    late = [row for row in rows if row[KIND] == Kind.DELIVER and row[TIME_NS] > 1200 * MS]
    assert late and {row[PROCESS] for row in late} == {3}
    assert run.summary.undelivered_count() == 0, "what died with all is owed to nobody, also when one comes back"
    assert run.scheduler.now_ns < 4000 * MS, "so that nobody waits for it"


@pytest.mark.parametrize("stack", STACKS)
def test_messages_of_the_old_view_are_delivered_in_it_by_all_who_go_on(stack: str) -> None:
    """Rough links and much under way at the crash: what one survivor handed up in view 1, all did, before view 2."""
    rough = Channel(Uniform(1, 80), loss=0.3, duplicate=0.1, fifo=False)
    _, rows = played(crash(460, 0), workload=Periodic(rate_per_s=100), wan=rough, stack=stack, detection_ms=5)
    in_first = {
        site: {
            (row[SENDER], row[NUMBER])
            for row in rows
            if row[KIND] == Kind.DELIVER and row[PROCESS] == site and row[IN_VIEW] == 1
        }
        for site in range(1, SITES)
    }
    assert in_first[1] and all(found == in_first[1] for found in in_first.values())
    assert any(row[KIND] == Kind.DELIVER and row[IN_VIEW] == 2 for row in rows), "the rest in the next one"
    for site in range(1, SITES):
        views = [row[IN_VIEW] for row in rows if row[PROCESS] == site]
        assert views == sorted(views)
    assert valid(rows, stack)


def test_detection_may_take_no_time() -> None:
    _, rows = played(crash(500, 2), recover(800, 2), detection_ms=0)
    assert [number for number, _, _ in views_of(rows, 2)] == [1, 3]
    assert 500 <= views_of(rows, 0)[1][2] <= 510 and valid(rows)
