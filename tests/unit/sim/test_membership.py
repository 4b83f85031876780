"""The ideal view-synchronous service: who is in which view, from when on, and what is delivered before it."""

from __future__ import annotations

import pytest

from isthmus.core.layer import Finality, Host, Kind, Stack
from isthmus.core.message import ONLY_GROUP, Cast
from isthmus.judge.oracle import Oracle
from isthmus.protocols.application import Application
from isthmus.protocols.total.hybrid.hybrid import Hybrid
from isthmus.scenario.faults import Crash, Fault, Heal, Partition, Recover
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.workload import Periodic, Poisson, Workload
from isthmus.sim.run import SimRun
from isthmus.sim.site import SimPort
from isthmus.stacks.registry import STACKS, Build, StackOptions
from isthmus.topology.delay import Constant, Uniform
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import DESTINATIONS, GAUGE, KIND, NUMBER, PROCESS, SENDER, TIME_NS, VALUE, Gauge, Row
from isthmus.trace.schema import VIEW as IN_VIEW

MS = 1_000_000
SITES = 5
Views = list[tuple[int, tuple[int, ...], float]]  # number, members, when
VIEW_SYNCHRONOUS = [name for name, known in STACKS.items() if not known.steady]


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
    majority: bool = False,
    stagger_ms: float = 0,
    seed: int = 0,
    duration_ms: float = 2000,
    absent: tuple[int, ...] = (),
    build: Build | None = None,
) -> tuple[SimRun, list[Row]]:
    rows: list[Row] = []
    scenario = Scenario(
        topology=mesh(SITES, 1, Channel(Constant(1)), wan or Channel(Constant(10))),
        stack=StackSpec(name=stack),
        workloads=(workload or Periodic(rate_per_s=20),),
        duration_ms=duration_ms,
        faults=faults,
        seed=seed,
        membership=Membership(
            detection_ms=detection_ms,
            majority=majority,
            stagger_ms=stagger_ms,
            absent=tuple(f"c{site}-0" for site in absent),
        ),
    )
    run = SimRun(scenario, rows, build)
    run.execute()
    return run, rows


def cut(at_ms: float, *sides: tuple[int, ...]) -> Partition:
    return Partition(at_ms=at_ms, groups=tuple(tuple(f"c{site}-0" for site in side) for side in sides))


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
    assert run.services[0].view.view_id == 1


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
    assert run.sites[0].incarnation == 1
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
    assert run.services[0].view.view_id == 2 and valid(rows)


def test_a_crash_detected_during_a_change_starts_no_second_one() -> None:
    run, rows = played(crash(500, 2), crash(510, 4), wan=Channel(Constant(40)))
    number, members, when = views_of(rows, 0)[1]
    assert (number, members) == (2, (0, 1, 3)) and when > 610, "the second was detected while the first went on"
    assert run.services[0].view.view_id == 2 and valid(rows)


def test_a_crash_during_a_change_is_in_the_view_that_comes_of_it() -> None:
    run, rows = played(crash(500, 2), crash(605, 0), wan=Channel(Constant(40)))
    number, members, when = views_of(rows, 1)[1]
    assert (number, members) == (2, (1, 3, 4)) and 605 < when <= 640
    assert run.services[0].view.view_id == 2, "its own detection finds nothing left to do"
    assert not run.services[0].changing and valid(rows)


def test_a_recovery_during_a_change_joins_the_view_that_comes_of_it() -> None:
    _, rows = played(crash(500, 2), crash(550, 3), recover(605, 3), wan=Channel(Constant(40)))
    assert views_of(rows, 0)[1][:2] == (2, (0, 1, 4, 3))
    assert [number for number, _, _ in views_of(rows, 3)] == [1, 2] and valid(rows)


@pytest.mark.parametrize("stack", VIEW_SYNCHRONOUS)
def test_all_but_one_crash_and_it_goes_on_alone(stack: str) -> None:
    run, rows = played(*(crash(500 + 10 * site, site) for site in range(1, SITES)), stack=stack)
    assert run.services[0].view.members == (0,)
    own = [row for row in rows if row[KIND] == Kind.DELIVER and row[PROCESS] == 0 and row[TIME_NS] > 700 * MS]
    assert len(own) > 20 and {row[SENDER] for row in own} == {0}
    assert run.summary.undelivered_count() == 0
    verdicts = {verdict.property: verdict.status for verdict in Oracle(rows).verdicts(STACKS[stack].properties)}
    assert verdicts.pop("agreement") == "unknown", "no two went through a view together"
    assert "violated" not in verdicts.values() and verdicts["validity"] == "valid"


@pytest.mark.parametrize("stack", ["token-site", "causal-vector", "flooding", "flooding-dynamic"])
def test_a_site_may_be_absent_at_the_start(stack: str) -> None:
    run, rows = played(recover(500, 4), absent=(3, 4), stack=stack)
    assert views_of(rows, 0)[0][1] == (0, 1, 2) and views_of(rows, 3) == []
    assert sorted(run.services[0].view.members) == [0, 1, 2, 4]
    assert valid(rows, stack) and run.summary.undelivered_count() == 0


def test_all_crash_and_one_comes_back() -> None:
    run, rows = played(*(crash(500, site) for site in range(SITES)), recover(1000, 3))
    assert run.services[0].view.members == (3,)
    late = [row for row in rows if row[KIND] == Kind.DELIVER and row[TIME_NS] > 1200 * MS]
    assert late and {row[PROCESS] for row in late} == {3}
    assert run.summary.undelivered_count() == 0, "what died with all is owed to nobody, also when one comes back"
    assert run.scheduler.now_ns < 4000 * MS, "so that nobody waits for it"


@pytest.mark.parametrize("stack", VIEW_SYNCHRONOUS)
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


# Majority: the side of a partition that has one goes on


def delivered(rows: list[Row], site: int, since_ms: float, until_ms: float = 1e9) -> set[int]:
    """The senders of what a site delivered in a span of time."""
    return {
        row[SENDER]
        for row in rows
        if row[KIND] == Kind.DELIVER and row[PROCESS] == site and since_ms <= row[TIME_NS] / MS < until_ms
    }


def test_a_majority_goes_on_and_the_minority_waits() -> None:
    run, rows = played(cut(500, (0, 1)), Heal(at_ms=1400), majority=True)
    for site in (2, 3, 4):
        assert views_of(rows, site)[1][:2] == (2, (2, 3, 4))
        assert delivered(rows, site, 800, 1400) == {2, 3, 4}
    for site in (0, 1):
        assert [number for number, *_ in views_of(rows, site)] == [1, 3], "no view for those who were cut off"
        assert delivered(rows, site, 700, 1400) == set()
    assert run.services[0].view.members == (2, 3, 4, 0, 1)


def test_who_was_cut_off_comes_back_as_a_new_incarnation() -> None:
    run, rows = played(cut(500, (0, 1)), Heal(at_ms=1400), majority=True)
    assert [site.incarnation for site in run.sites] == [1, 1, 0, 0, 0]
    assert [row[PROCESS] for row in rows if row[KIND] == Kind.RECOVER] == [0, 1]
    assert delivered(rows, 0, 1700) == {0, 1, 2, 3, 4}, "and takes part again"
    assert run.summary.undelivered_count() == 0 and valid(rows)


def test_without_a_majority_anywhere_all_wait_for_the_links_to_heal() -> None:
    run, rows = played(cut(500, (0, 1), (2, 3)), Heal(at_ms=1200), majority=True)
    assert all(delivered(rows, site, 700, 1200) == set() for site in range(SITES))
    assert run.services[0].view.members == (0, 1, 2, 3, 4)
    assert [site.incarnation for site in run.sites] == [0] * SITES, "nobody has gone on without anybody"
    assert all(delivered(rows, site, 1500) == {0, 1, 2, 3, 4} for site in range(SITES)) and valid(rows)


def test_a_majority_is_of_the_last_view_not_of_all_sites() -> None:
    """Of five two crash; of the three that are left two go on."""
    run, rows = played(crash(300, 3), crash(300, 4), cut(800, (0,)), majority=True)
    assert [members for _, members, _ in views_of(rows, 1)] == [(0, 1, 2, 3, 4), (0, 1, 2), (1, 2)]
    assert len(views_of(rows, 0)) == 2
    assert not run.services[0].changing


def test_a_cut_that_heals_before_it_is_noticed_changes_nothing() -> None:
    run, rows = played(cut(500, (0, 1)), Heal(at_ms=550), majority=True)
    assert run.services[0].view.view_id == 1 and valid(rows)


def test_without_majority_mode_a_partition_changes_no_view() -> None:
    run, rows = played(cut(500, (0, 1)), Heal(at_ms=1000))
    assert run.services[0].view.view_id == 1 and run.summary.undelivered_count() == 0 and valid(rows)


# Staggered: members install a view at times of their own


@pytest.mark.parametrize("stack", VIEW_SYNCHRONOUS)
@pytest.mark.parametrize("seed", [1, 2])
def test_members_install_at_times_of_their_own_and_every_promise_holds(stack: str, seed: int) -> None:
    rough = Channel(Uniform(5, 40), loss=0.1, fifo=False)
    faults = (crash(500, 0), recover(900, 0), crash(1300, 4))
    run, rows = played(
        *faults, workload=Periodic(rate_per_s=50), wan=rough, stack=stack, stagger_ms=200, seed=seed, detection_ms=20
    )
    changes = [views_of(rows, site)[1:] for site in (1, 2, 3)]
    for place in range(2):
        times = [views[place][2] for views in changes]
        assert len({views[place][:2] for views in changes}) == 1 and len(set(times)) == 3
        assert max(times) - min(times) < 200
    assert run.summary.undelivered_count() == 0 and valid(rows, stack)


def test_some_messages_wait_for_their_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that is ahead multicasts in the new view to members that are still in the old one."""
    waited: list[tuple[int, int]] = []  # site, and how many messages were there before view 2
    take_early = SimPort.take_early

    def noting(port: SimPort) -> None:
        if port.view_id == 2:
            waited.append((port.site, len(port.early)))
        take_early(port)

    monkeypatch.setattr(SimPort, "take_early", noting)
    run, rows = played(crash(500, 0), workload=Periodic(rate_per_s=200), stagger_ms=150)
    installed = {views_of(rows, site)[1][2]: site for site in range(1, SITES)}
    assert max(count for site, count in waited if site == installed[max(installed)]) > 10
    assert installed[min(installed)] not in {site for site, _ in waited}, "the first waits for nothing"
    assert all(port.overflow_count == 0 for site in run.sites for port in site.ports.values()) and valid(rows)


# State transfer


class Counting:
    """Stacks whose applications count what they deliver, and hand the count on."""

    def __init__(self, stack: str) -> None:
        self.stack = stack
        self.counts: dict[tuple[int, int], int] = {}  # by site and incarnation
        self.restored: list[tuple[int, int]] = []  # site, and the count that it was given

    def build(self, host: Host, application: Application, options: StackOptions) -> Stack:
        key = (host.site, host.incarnation)
        self.counts[key] = 0

        def counted(_cast: Cast, _finality: Finality) -> None:
            self.counts[key] += 1

        def restore(state: bytes) -> None:
            self.counts[key] = int(state)
            self.restored.append((host.site, int(state)))

        application.on_deliver, application.wants = counted, (Finality.FINAL,)
        application.on_state = lambda: str(self.counts[key]).encode()
        application.on_restore = restore
        return STACKS[self.stack].build(host, application, options)


@pytest.mark.parametrize("stack", ["token-site", "symmetric", "optimistic"])
@pytest.mark.parametrize("stagger_ms", [0, 100])
def test_a_member_that_joins_goes_on_from_the_state_of_one_that_stayed(stack: str, stagger_ms: float) -> None:
    counting = Counting(stack)
    _, rows = played(crash(500, 2), recover(1000, 2), stack=stack, stagger_ms=stagger_ms, build=counting.build)
    ((site, given),) = counting.restored
    assert site == 2 and given > 50
    final = {count for (site, incarnation), count in counting.counts.items() if (site, incarnation) != (2, 0)}
    assert len(final) == 1, "what it delivered since makes up the same count as at the others"
    (told,) = [row for row in rows if row[KIND] == Kind.GAUGE and row[GAUGE] == Gauge.STATE_BYTES]
    assert told[PROCESS] == 2 and told[VALUE] >= len(str(given))
    assert valid(rows, stack)


def test_a_member_that_joins_takes_over_the_roles_of_the_hybrid_protocol() -> None:
    """Roles have changed at random since the start; who joins would otherwise begin with all active."""
    run, rows = played(
        crash(700, 2),
        recover(1200, 2),
        crash(1500, 0),
        stack="dynamic-hybrid",
        workload=Poisson(rate_per_s=30),
        wan=Channel(Uniform(1, 60)),
        stagger_ms=80,
        detection_ms=20,
    )
    up = [site.ports[ONLY_GROUP].stack.find(Hybrid) for site in run.sites if site.alive]
    assert len(up) == 4
    assert len({tuple(sorted(layer.order.active)) for layer in up}) == 1
    assert len({tuple(sorted(layer.terms.items())) for layer in up}) == 1
    assert run.summary.undelivered_count() == 0 and valid(rows, "dynamic-hybrid")


def test_who_joins_when_all_that_stayed_have_crashed_begins_anew() -> None:
    counting = Counting("token-site")
    others = [crash(1095, site) for site in range(SITES) if site != 2]
    run, _ = played(crash(500, 2), recover(1000, 2), *others, build=counting.build, wan=Channel(Constant(40)))
    assert counting.restored == [] and run.services[0].view.members == (2,)
    assert run.summary.undelivered_count() == 0
