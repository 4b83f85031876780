"""A run: progress, its end, what is owed, the three ways to treat the wire, and what a wire trace holds."""

from __future__ import annotations

import msgspec
import pytest

from isthmus.core.layer import Kind
from isthmus.core.message import SiteId
from isthmus.fuzz.judge import judge
from isthmus.fuzz.scenarios import random_scenario
from isthmus.protocols.transport.credit import CreditOptions
from isthmus.scenario.faults import ClockJump, Crash, Partition, Recover
from isthmus.scenario.model import Clocks, Scenario, StackSpec
from isthmus.scenario.workload import Burst, Periodic, Poisson
from isthmus.sim.run import SLICE, SimRun
from isthmus.stacks.registry import STACKS
from isthmus.topology.delay import Constant, Uniform
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import CONTROL, KIND, LOCAL, PAYLOAD, PROCESS, SENDER, TIME_NS, VALUE, Row

MS = 1_000_000
ROUGH = Channel(Uniform(5, 30), loss=0.1, duplicate=0.1, fifo=False)


def scenario(wan: Channel | None = None, **more) -> Scenario:
    given = {"stack": StackSpec(name="token-site"), "workloads": (Poisson(rate_per_s=50),), "duration_ms": 1000} | more
    return Scenario(topology=mesh(3, 1, Channel(Constant(1)), wan or Channel(Constant(10))), **given)


def rows_of(made: Scenario) -> list[Row]:
    rows: list[Row] = []
    SimRun(made, rows).execute()
    return rows


def test_progress_is_told_in_order_up_to_the_end() -> None:
    told: list[int] = []
    run = SimRun(scenario(workloads=(Poisson(rate_per_s=2000),), duration_ms=2000, wire="reference"))
    run.execute(told.append)
    assert told == sorted(told) and told[-1] == run.scheduler.now_ns
    assert run.scheduler.event_count > SLICE, "long enough to be told of in between"
    assert sum(time < 2000 * MS for time in told) >= 1 and 2000 * MS in told


def test_a_run_ends_a_second_after_nothing_is_owed() -> None:
    run = SimRun(scenario(drain_ms=600_000))
    run.execute()
    assert 2000 * MS <= run.scheduler.now_ns <= 3000 * MS


def test_a_run_gives_up_when_the_drain_is_over_and_counts_what_is_missing() -> None:
    cut = Partition(at_ms=500, groups=(("c0",),))
    rows: list[Row] = []
    run = SimRun(scenario(stack=StackSpec(name="fifo"), faults=(cut,), drain_ms=5000), rows)
    summary = run.execute()
    assert run.scheduler.now_ns == 7000 * MS
    late = [row[SENDER] for row in rows if row[KIND] == Kind.SUBMIT and row[TIME_NS] >= 500 * MS]
    assert summary.undelivered_count() == sum(2 if sender == 0 else 1 for sender in late) > 0


def test_a_second_run_is_the_same_and_another_seed_is_not() -> None:
    rough = scenario(ROUGH)
    assert rows_of(rough) == rows_of(rough)
    assert rows_of(rough) != rows_of(msgspec.structs.replace(rough, seed=1))


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_the_codec_changes_no_delivery(stack: str, seed: int) -> None:
    """Whatever the network does to it, a message that was encoded and decoded means the same."""
    made = random_scenario(stack, seed)
    results = [rows_of(msgspec.structs.replace(made, wire=wire)) for wire in ("reference", "sized", "codec")]
    assert results[0] == results[1] == results[2] and any(row[KIND] == Kind.DELIVER for row in results[0])


def test_bytes_are_counted_where_asked_for() -> None:
    assert SimRun(scenario(wire="reference")).meter is None
    limited = Channel(Constant(10), bandwidth_mbps=10)
    assert SimRun(scenario(limited, wire="reference")).meter is not None, "limited bandwidth needs sizes"
    run = SimRun(scenario(workloads=(Periodic(rate_per_s=10, payload_bytes=100),)))
    run.execute()
    assert run.meter is not None
    assert run.meter.payload_bytes == 100 * 2 * run.summary.submitted_count
    assert run.meter.control_bytes > 0


def test_a_wire_trace_tells_every_send_and_receive() -> None:
    rows = rows_of(scenario(trace="wire", workloads=(Periodic(rate_per_s=20, payload_bytes=10),)))
    sends = [row for row in rows if row[KIND] == Kind.SEND]
    receives = [row for row in rows if row[KIND] == Kind.RECEIVE]
    assert all(1 <= row[VALUE] <= 3 and row[CONTROL] > 0 for row in sends)
    assert all(row[VALUE] != row[PROCESS] and row[CONTROL] > 0 for row in receives), "not of oneself"
    assert {row[PAYLOAD] for row in sends} == {0, 10} and {row[PAYLOAD] for row in receives} == {0, 10}
    submitted = sum(row[KIND] == Kind.SUBMIT for row in rows)
    assert sum(row[SENDER] >= 0 for row in receives) == 2 * submitted, "nothing is lost, nothing sent twice"
    for process in range(3):
        own = [row for row in rows if row[PROCESS] == process]
        assert [row[LOCAL] for row in own] == list(range(len(own)))
        assert [row[TIME_NS] for row in own] == sorted(row[TIME_NS] for row in own)
    events = [(row[PROCESS], row[TIME_NS], row[KIND]) for row in rows if row[KIND] not in (Kind.SEND, Kind.RECEIVE)]
    plain = rows_of(scenario(workloads=(Periodic(rate_per_s=20, payload_bytes=10),)))
    assert events == [(row[PROCESS], row[TIME_NS], row[KIND]) for row in plain]


def test_a_wire_trace_without_sizes_has_none() -> None:
    rows = rows_of(scenario(trace="wire", wire="reference"))
    assert {row[CONTROL] for row in rows if row[KIND] == Kind.SEND} == {0}


def test_without_a_trace_there_are_no_rows_and_the_same_figures() -> None:
    rows: list[Row] = []
    quiet = SimRun(scenario(ROUGH, trace="none"), rows)
    loud = SimRun(scenario(ROUGH), [])
    unseen, seen = quiet.execute().delivered, loud.execute().delivered
    assert (unseen.count, unseen.mean()) == (seen.count, seen.mean()) and seen.count > 0 and rows == []


def test_clocks_are_drawn_within_their_bounds_and_stay_with_the_site() -> None:
    faults = (Crash(at_ms=100, site="c1-0"), Recover(at_ms=200, site="c1-0"))
    run = SimRun(scenario(clocks=Clocks(offset_ms=50, drift_ppm=200), faults=faults))
    clocks = [(site.clock.offset_ns, site.clock.drift) for site in run.sites if site.clock is not None]
    assert len(set(clocks)) == 3
    assert all(abs(offset) <= 50 * MS and abs(drift) <= 200e-6 for offset, drift in clocks)
    run.execute()
    again = run.sites[1].clock
    assert run.sites[1].incarnation == 1 and again is not None and (again.offset_ns, again.drift) == clocks[1]
    assert all(site.clock is None for site in SimRun(scenario()).sites)


def test_a_calendar_jumps_and_the_trace_keeps_true_time() -> None:
    made = scenario(faults=(ClockJump(at_ms=500, site="c0-0", by_ms=-400), ClockJump(at_ms=600, site="c0-0", by_ms=9)))
    run = SimRun(made, rows := [])
    run.execute()
    clock = run.sites[0].clock
    assert clock is not None and clock.jump_ns == -391 * MS
    assert clock.read(5) == 5, "the monotonic clock is never set"
    times = [row[TIME_NS] for row in rows if row[PROCESS] == 0]
    assert times == sorted(times)


def test_crashing_twice_and_recovering_twice_mean_once() -> None:
    faults = (
        *(Crash(at_ms=at_ms, site="c1-0") for at_ms in (100, 150)),
        *(Recover(at_ms=at_ms, site="c1-0") for at_ms in (300, 350)),
        Recover(at_ms=400, site="c2-0"),
    )
    rows = rows_of(scenario(faults=faults))
    assert sum(row[KIND] == Kind.CRASH for row in rows) == sum(row[KIND] == Kind.RECOVER for row in rows) == 1


def test_what_a_crashed_sender_never_sent_is_not_waited_for_when_it_is_back() -> None:
    """Its credit used up, it holds messages back; they die with it, and its next incarnation knows nothing of them."""
    faults = (Crash(at_ms=105, site="c1-0"), Recover(at_ms=700, site="c1-0"))
    burst = Burst(period_ms=5000, burst_count=900, sites=("c1-0",), start_ms=104)
    options = StackSpec(name="fifo", credit=CreditOptions(window=4))
    run = SimRun(scenario(workloads=(burst,), faults=faults, stack=options))
    summary = run.execute()
    assert summary.submitted_count == 900 and summary.delivered.count < 100
    assert summary.undelivered_count() == 0 and run.scheduler.now_ns <= 3000 * MS


def test_a_planted_error_is_told_by_the_judge() -> None:
    def build(host, application, options):
        stack = STACKS["fifo"].build(host, application, options)
        if host.site == SiteId(1):
            application.on_deliver = lambda cast, finality: 1 // 0
        return stack

    judged = judge(scenario(stack=StackSpec(name="fifo")), build)
    assert judged.failures() == ["error: ZeroDivisionError: integer division or modulo by zero"]
    silent = judge(scenario(workloads=(Poisson(rate_per_s=1, count=0),)))
    assert silent.failures() and all(" unknown: " in failure for failure in silent.failures()), "silence is no proof"
