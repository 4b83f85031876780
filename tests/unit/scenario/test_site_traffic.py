"""A site's applications: replies up to their depth, slow reading, what a crash takes along."""

from __future__ import annotations

from collections import Counter

import pytest

from isthmus.core.layer import Kind
from isthmus.core.message import ONLY_GROUP
from isthmus.core.validation import BadValue
from isthmus.protocols.transport.credit import Credit
from isthmus.scenario.faults import Crash, Recover
from isthmus.scenario.model import Membership, Reader, Scenario, StackSpec
from isthmus.scenario.traffic import payload
from isthmus.scenario.workload import Burst, Closed, Periodic, Reply, Workload
from isthmus.sim.run import SimRun
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import DESTINATIONS, KIND, PROCESS, SENDER, TIME_NS, Row

TOPOLOGY = mesh(3, 1, Channel(Constant(1)), Channel(Constant(10)))
ONE = Burst(period_ms=900, burst_count=1, count=1, sites=("c0-0",))


def rows_of(*workloads: Workload, **more) -> list[Row]:
    rows: list[Row] = []
    given = {"duration_ms": 1000, "stack": StackSpec(name="fifo")} | more
    SimRun(Scenario(topology=TOPOLOGY, workloads=workloads, **given), rows).execute()
    return rows


def count(rows: list[Row], kind: Kind) -> int:
    return sum(row[KIND] == kind for row in rows)


@pytest.mark.parametrize(("depth", "submits"), [(1, 1 + 3), (2, 1 + 3 + 9), (3, 1 + 3 + 9 + 27)])
def test_answers_to_answers_end_at_their_depth(depth: int, submits: int) -> None:
    rows = rows_of(ONE, Reply(depth=depth))
    assert count(rows, Kind.SUBMIT) == submits
    assert count(rows, Kind.DELIVER) == 3 * submits


def test_an_answer_comes_after_its_delay_and_from_the_sites_named() -> None:
    rows = rows_of(ONE, Reply(delay_ms=30, sites=("c2-0",), to=("c1-0",), payload_bytes=0))
    answer = [row for row in rows if row[KIND] == Kind.SUBMIT][1]
    assert answer[PROCESS] == 2 and answer[TIME_NS] == 40_000_000 and answer[DESTINATIONS] == (1,)


def test_some_are_answered() -> None:
    rows = rows_of(Burst(period_ms=1000, burst_count=300, sites=("c0-0",)), Reply(probability=0.25, sites=("c1-0",)))
    assert count(rows, Kind.SUBMIT) - 300 == pytest.approx(75, rel=0.3)


def test_nothing_is_answered_once_the_duration_is_over() -> None:
    late = Burst(period_ms=900, burst_count=1, count=1, start_ms=995)
    assert count(rows_of(late, Reply(sites=("c0-0",))), Kind.SUBMIT) == 3 + 1  # c0-0 has only its own in time


def test_traffic_stays_within_the_duration() -> None:
    rows = rows_of(Periodic(rate_per_s=100))
    assert 290 <= count(rows, Kind.SUBMIT) <= 310
    assert all(row[TIME_NS] < 1_000_000_000 for row in rows if row[KIND] == Kind.SUBMIT)


def test_a_site_that_is_down_sends_nothing_and_its_source_goes_on() -> None:
    faults = (Crash(at_ms=200, site="c1-0"), Recover(at_ms=600, site="c1-0"))
    whole = [row[TIME_NS] for row in rows_of(Periodic(rate_per_s=50, sites=("c1-0",))) if row[KIND] == Kind.SUBMIT]
    broken = [
        row[TIME_NS] for row in rows_of(Periodic(rate_per_s=50, sites=("c1-0",)), faults=faults) if row[KIND] == 1
    ]
    assert broken == [time for time in whole if not 200_000_000 <= time < 600_000_000]


def test_another_stack_has_the_same_traffic() -> None:
    def submits(stack: str) -> list[tuple[int, int]]:
        rows = rows_of(Periodic(rate_per_s=50, to=2), stack=StackSpec(name=stack))
        return sorted((row[TIME_NS], row[SENDER]) for row in rows if row[KIND] == Kind.SUBMIT)

    assert submits("unordered") == submits("token-site")


def test_a_slow_reader_takes_its_time_and_starts_empty_after_a_crash() -> None:
    readers = (Reader(sites=("c2-0",), consume_ms=10),)
    run = SimRun(
        Scenario(
            topology=TOPOLOGY,
            stack=StackSpec(name="fifo"),
            workloads=(Burst(period_ms=2000, burst_count=20, sites=("c0-0",)),),
            readers=readers,
            duration_ms=1000,
            faults=(Crash(at_ms=105, site="c2-0"), Recover(at_ms=107, site="c2-0")),
            membership=Membership(detection_ms=0),
        )
    )
    run.start()
    assert [traffic.consume_ns for traffic in run.traffic] == [0, 0, 10_000_000]
    list(run.advance(100_000_000))  # arrived after 10 ms, then one each 10 ms: the last at 100
    assert len(run.traffic[2].mailboxes[ONLY_GROUP].unread) == 20 - 9
    list(run.advance(112_000_000))
    assert len(run.traffic[2].mailboxes[ONLY_GROUP].unread) == 0
    list(run.advance(1_000_000_000))
    assert Counter(len(traffic.mailboxes) for traffic in run.traffic) == {1: 3}
    assert not any(run.sites[2].ports[ONLY_GROUP].stack.find(Credit).consumed_of.values()), (
        "what the old one was reading is gone"
    )


def test_a_payload_has_its_depth_in_front() -> None:
    assert payload(2, 3) == b"\x02\0\0" and payload(0, 1) == b"\0" and payload(0, 0) == b""


def test_a_closed_loop_sends_the_next_batch_when_its_last_own_message_is_back() -> None:
    loop = Closed(burst_count=3, rounds=4, sites=("c0-0",))
    rows = rows_of(loop, stack=StackSpec(name="token-site", transport="direct", sequencer="c1-0"))
    times = [row[TIME_NS] for row in rows if row[KIND] == Kind.SUBMIT]
    assert times == [20_000_000 * number for number in range(4) for _ in range(3)], "two hops of 10 ms a round"
    assert count(rows, Kind.DELIVER) == 36


def test_a_closed_loop_waits_for_messages_that_come_back() -> None:
    with pytest.raises(BadValue, match="to:"):
        Closed(burst_count=2, rounds=4, to=("c1-0",))
    with pytest.raises(BadValue, match="to_groups:"):
        Closed(burst_count=2, rounds=4, to_groups="other")


def test_a_closed_loop_ends_with_its_sender_and_with_the_scenario() -> None:
    crash = (Crash(at_ms=0.5, site="c0-0"), Recover(at_ms=100.0, site="c0-0"))
    token_site = StackSpec(name="token-site", sequencer="c1-0")
    loop = Closed(burst_count=1, rounds=100, sites=("c0-0",))
    rows = rows_of(loop, stack=token_site, faults=crash, membership=Membership(detection_ms=20.0))
    assert count(rows, Kind.SUBMIT) == 1
    rows = rows_of(loop, stack=token_site, duration_ms=200)
    assert max(row[TIME_NS] for row in rows if row[KIND] == Kind.SUBMIT) < 200_000_000
