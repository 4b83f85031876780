"""A site that stands still: for a moment, and nothing happens; for too long, and the others go on without it."""

from __future__ import annotations

import pytest

from isthmus.core.layer import Kind
from isthmus.core.message import Targets
from isthmus.core.validation import BadValue
from isthmus.fuzz.judge import judge
from isthmus.protocols.membership.suspicion import Suspicion
from isthmus.scenario.faults import Crash, Fault, Pause, Recover
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.workload import Periodic
from isthmus.sim import standstill
from isthmus.sim.run import SimRun
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import GAUGE, KIND, PROCESS, TIME_NS, VALUE, Gauge, Row

MS = 1_000_000
AGREED = Membership(kind="agreed")  # on a LAN: 300 ms of silence are too much
TIMEOUT_MS = AGREED.agreed.lan.floor_ms


def scenario(*faults: Fault, **more) -> Scenario:
    given = {"workloads": (Periodic(rate_per_s=50),), "duration_ms": 4000, "drain_ms": 60_000, "membership": AGREED}
    channel = Channel(Constant(1))
    return Scenario(
        topology=mesh(1, 3, channel, channel), stack=StackSpec(name="token-site"), faults=faults, **(given | more)
    )


def pause(at_ms: float, until_ms: float) -> Pause:
    return Pause(at_ms=at_ms, until_ms=until_ms, site="c0-1")


def rows_of(made: Scenario) -> list[Row]:
    rows: list[Row] = []
    SimRun(made, rows).execute()
    return rows


def of_kind(rows: list[Row], kind: Kind, process: int | None = None) -> list[Row]:
    return [row for row in rows if row[KIND] == kind and process in (None, row[PROCESS])]


def test_a_short_pause_changes_nothing() -> None:
    made = scenario(pause(1000, 1000 + 0.6 * TIMEOUT_MS))
    rows = rows_of(made)
    assert {row[VALUE] for row in of_kind(rows, Kind.VIEW)} == {1}
    assert not of_kind(rows, Kind.CRASH)
    assert judge(made).failures() == []


def test_a_site_stands_still_and_catches_up() -> None:
    rows = rows_of(scenario(pause(1000, 1150)))
    during = [row for row in rows if row[PROCESS] == 1 and 1000 * MS < row[TIME_NS] < 1150 * MS]
    assert during == []
    (told,) = [row for row in rows if row[KIND] == Kind.GAUGE and row[GAUGE] == Gauge.PAUSE_NS]
    assert (told[PROCESS], told[TIME_NS], told[VALUE]) == (1, 1150 * MS, 150 * MS)
    at_once = [row for row in of_kind(rows, Kind.SUBMIT, 1) if row[TIME_NS] == 1150 * MS]
    assert len(at_once) >= 7  # what its application would have sent meanwhile


def test_after_a_long_pause_it_joins_again_as_a_new_life() -> None:
    made = scenario(pause(1000, 1000 + 4 * TIMEOUT_MS))
    rows = rows_of(made)
    without = [row for row in of_kind(rows, Kind.VIEW) if row[10] == (0, 2)]
    assert without and (1000 + TIMEOUT_MS) * MS <= without[0][TIME_NS] < (1100 + TIMEOUT_MS) * MS
    assert [row[PROCESS] for row in of_kind(rows, Kind.CRASH)] == [1]
    (again,) = of_kind(rows, Kind.RECOVER, 1)
    assert (1000 + 4 * TIMEOUT_MS) * MS <= again[TIME_NS] < (1100 + 4 * TIMEOUT_MS) * MS
    assert of_kind(rows, Kind.VIEW)[-1][10] == (0, 2, 1)
    assert judge(made).failures() == []


def test_it_does_not_take_its_own_pause_for_the_silence_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are cut off from nobody: after the pause their packets are read before any timer fires."""
    suspecting: set[tuple[int, int]] = set()
    beat = Suspicion.beat

    def note(self: Suspicion, targets: Targets) -> None:
        suspecting.update((self.host.site, other) for other, peer in self.peers.items() if peer.suspected)
        beat(self, targets)

    monkeypatch.setattr(Suspicion, "beat", note)
    SimRun(scenario(pause(1000, 1000 + 0.9 * TIMEOUT_MS), pause(2000, 2000 + 5 * TIMEOUT_MS)), []).execute()
    assert suspecting == {(0, 1), (2, 1)}


def test_killed_while_it_stands_still() -> None:
    faults = (pause(1000, 2000), Crash(at_ms=1500, site="c0-1"), Recover(at_ms=1800, site="c0-1"))
    made = scenario(*faults)
    rows = rows_of(made)
    assert [row[TIME_NS] for row in of_kind(rows, Kind.CRASH)] == [1500 * MS]
    assert not [row for row in rows if row[KIND] == Kind.GAUGE and row[GAUGE] == Gauge.PAUSE_NS]
    assert judge(made).failures() == []


def test_pauses_that_overlap_are_one() -> None:
    rows = rows_of(scenario(pause(1000, 1100), pause(1050, 1900)))
    told = [row[VALUE] for row in rows if row[KIND] == Kind.GAUGE and row[GAUGE] == Gauge.PAUSE_NS]
    assert told == [100 * MS]


def test_what_a_buffer_cannot_hold_is_lost_and_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standstill, "PACKETS_MAX", 10)
    made = scenario(pause(1000, 1200))
    run = SimRun(made, [])
    run.execute()
    assert run.network.dropped_count > 0 and run.summary.undelivered_count() == 0
    assert judge(made).failures() == []


def test_only_where_members_agree_on_views() -> None:
    with pytest.raises(BadValue, match="kind"):
        scenario(pause(1, 2), membership=Membership())
    with pytest.raises(BadValue, match="until_ms"):
        pause(5, 5)
