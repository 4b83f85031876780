"""The hybrid protocol in situations made for it: silence, and crashes at every moment of every change of roles."""

from __future__ import annotations

from typing import ClassVar

import pytest

from isthmus.core.layer import Host, Kind, Stack
from isthmus.core.message import SiteId
from isthmus.fuzz.judge import judge
from isthmus.protocols.application import Application
from isthmus.protocols.estimator import Estimator
from isthmus.protocols.total.hybrid.hybrid import Hybrid
from isthmus.protocols.total.hybrid.roles import RolePhase
from isthmus.protocols.transport.credit import Credit
from isthmus.protocols.transport.direct import Direct
from isthmus.protocols.transport.reliable.frames import ReliableOptions
from isthmus.scenario.faults import Crash, Fault, Recover
from isthmus.scenario.model import HybridSpec, Membership, Scenario, StackSpec
from isthmus.scenario.workload import Periodic
from isthmus.sim.run import SimRun
from isthmus.stacks.registry import StackOptions
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import KIND, NUMBER, SENDER, TIME_NS, Row

D_MS = 100.0


def scenario(stack: StackSpec, workloads: tuple[Periodic, ...], faults: tuple[Fault, ...] = ()) -> Scenario:
    lan = Channel(Constant(10.0))
    return Scenario(
        name="hybrid",
        topology=mesh(2, 2, lan, Channel(Constant(D_MS))),
        stack=stack,
        workloads=workloads,
        duration_ms=2_000.0,
        faults=faults,
        membership=Membership(detection_ms=50.0),
        wire="reference",
    )


def latencies_ms(rows: list[Row]) -> dict[tuple[int, int], float]:
    """From submission to the last delivery of each message."""
    submitted = {(row[SENDER], row[NUMBER]): row[TIME_NS] for row in rows if row[KIND] == Kind.SUBMIT}
    latest = dict.fromkeys(submitted, -1)
    for row in rows:
        if row[KIND] == Kind.DELIVER:
            latest[row[SENDER], row[NUMBER]] = row[TIME_NS]
    return {key: (latest[key] - submitted[key]) / 1e6 for key in submitted if latest[key] >= 0}


@pytest.mark.parametrize("clock", ["lamport", "rate", "synchronised"])
@pytest.mark.parametrize("null_ms", [20.0, 50.0])
def test_a_silent_active_process_delays_nobody_beyond_null_and_network(clock: str, null_ms: float) -> None:
    """Without it a message takes a network delay; the null's period and its way come on top, and no more."""
    options = HybridSpec(clock=clock, null_ms=null_ms)  # type: ignore[arg-type]
    stack = StackSpec(name="symmetric", transport="direct", hybrid=options)
    rows: list[Row] = []
    summary = SimRun(scenario(stack, (Periodic(rate_per_s=3.0, sites=("c0-0",)),)), rows).execute()
    found = latencies_ms(rows)
    assert summary.undelivered_count() == 0 and len(found) >= 5
    assert max(found.values()) <= D_MS + null_ms + D_MS


def test_without_nulls_a_silent_active_process_holds_up_everybody() -> None:
    stack = StackSpec(name="symmetric", transport="direct", hybrid=HybridSpec(null_ms=0))
    summary = SimRun(scenario(stack, (Periodic(rate_per_s=3.0, sites=("c0-0",)),))).execute()
    assert summary.undelivered_count() > 0


@pytest.mark.parametrize("active", ["c0-0", "c1-1"])
def test_one_active_process_is_a_token_site(active: str) -> None:
    """Tickets that leave at once: twice the delay to the sequencer and back, one delay for its own."""
    stack = StackSpec(name="hybrid", transport="direct", hybrid=HybridSpec(active=(active,)))
    token = StackSpec(name="token-site", transport="direct", sequencer=active)
    found = []
    for spec in (stack, token):
        rows: list[Row] = []
        SimRun(scenario(spec, (Periodic(rate_per_s=20.0),)), rows).execute()
        found.append(latencies_ms(rows))
    assert found[0] == found[1]


class Scripted(Hybrid):
    """Changes roles when it is told to; the times are too short for estimates."""

    __slots__ = ()
    wishes: ClassVar[dict[SiteId, tuple[float, str]]] = {}  # site: when, and what

    def evaluate(self) -> None:
        when_ms, what = self.wishes.get(self.host.site, (float("inf"), ""))
        if self.host.now_ns < when_ms * 1e6 or not self.below.writable():
            return
        if what == "passive" and self.phase is RolePhase.ACTIVE and len(self.order.active) > 1:
            self.phase = RolePhase.TO_PASSIVE
            self.send_go(False)
        elif what == "active" and self.phase is RolePhase.PASSIVE:
            self.phase = RolePhase.TO_ACTIVE
            self.send_go(True)
        elif what == "another" and self.phase is RolePhase.PASSIVE and len(self.order.active) > 1:
            self.phase = RolePhase.CHANGING
            self.note_delivered()

    def choose_sequencer(self) -> SiteId:
        """Any but the present one."""
        return min(self.order.active - {self.sequencer}, default=min(self.order.active))


def scripted(host: Host, application: Application, options: StackOptions) -> Stack:
    estimator = Estimator(options.hybrid.estimator)
    return Stack(host, application, estimator, Credit(), Scripted(options.hybrid, estimator), Direct())


CHANGES: dict[str, dict[SiteId, tuple[float, str]]] = {
    "to active": {SiteId(1): (500.0, "active")},
    "to passive": {SiteId(0): (500.0, "passive")},
    "another sequencer": {SiteId(1): (500.0, "another")},
    "all passive": {SiteId(0): (500.0, "passive"), SiteId(2): (500.0, "passive")},
    "crosswise": {SiteId(0): (500.0, "passive"), SiteId(1): (500.0, "active"), SiteId(3): (550.0, "another")},
}
VICTIMS = {
    "a passive one": (1,),
    "an active one": (0,),
    "all active ones": (0, 2),
    "a passive and an active one": (1, 2),
    "all but one": (0, 1, 2),
}


@pytest.mark.parametrize("victims", VICTIMS)
@pytest.mark.parametrize("change", CHANGES)
def test_crashes_at_every_moment_of_a_change(change: str, victims: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scripted, "wishes", CHANGES[change])
    names = [site.name for site in mesh(2, 2, Channel(Constant(1)), Channel(Constant(1))).sites]
    for offset_ms in range(0, 420, 35):
        at_ms = 500.0 + offset_ms
        faults: list[Fault] = [
            Crash(at_ms=at_ms + 5 * place, site=names[v]) for place, v in enumerate(VICTIMS[victims])
        ]
        faults.append(Recover(at_ms=at_ms + 400, site=names[VICTIMS[victims][0]]))
        spec = HybridSpec(active=(names[0], names[2]))
        stack = StackSpec(name="hybrid", transport="direct", hybrid=spec)
        judged = judge(scenario(stack, (Periodic(rate_per_s=40.0),), tuple(faults)), scripted)
        assert judged.failures() == [], f"{change}, {victims}, {at_ms} ms"
        assert judged.summary.undelivered_count() == 0


@pytest.mark.parametrize("name", ["symmetric", "hybrid"])
def test_messages_to_some_pass_a_transport_that_keeps_one_frame(name: str) -> None:
    """Body and place are two frames: the second filled the sender's own buffer, and its own frames were refused."""
    reliable = ReliableOptions(keep_max=1)
    made = scenario(StackSpec(name=name, reliable=reliable), (Periodic(rate_per_s=2.0, to=2),))
    judged = judge(made)
    assert judged.violations() == [] and judged.summary.undelivered_count() == 0
