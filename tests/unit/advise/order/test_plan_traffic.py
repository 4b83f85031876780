"""Workloads as the streams of a plan, and notes on what is left out."""

from __future__ import annotations

import pytest

from isthmus.advise.order.traffic import streams_of
from isthmus.core.validation import BadValue
from isthmus.scenario.workload import Burst, OnOff, Periodic, Poisson, Recorded, Reply
from isthmus.stacks.roles.rests import MessageStream
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

NET = mesh(2, 2, Channel(Constant(1)), Channel(Constant(50)))  # c0-0, c0-1, c1-0, c1-1


def streams(*workloads) -> tuple[list[list[MessageStream]], list[str]]:
    notes: list[str] = []
    return [list(own) for own in streams_of(NET, workloads, notes)], notes


def test_periodic_and_poisson_sources_count_as_they_are() -> None:
    found, notes = streams(Periodic(rate_per_s=10, sites=("c0",)), Poisson(rate_per_s=4, sites=("c0-1", "c1-0")))
    fast, slow = MessageStream("periodic", 100), MessageStream("poisson", 250)
    assert found == [[fast], [fast, slow], [slow], []] and notes == []


@pytest.mark.parametrize(
    "workload, period_ms",
    [
        (Burst(period_ms=500, burst_count=5), 100),
        (OnOff(rate_per_s=30, on_ms=100, off_ms=200), 100),
        (Recorded(events=tuple((k / 10, 0, 1) for k in range(1, 101)), sites=("c0-0",)), 100),
    ],
)
def test_other_sources_count_by_their_mean_rate_and_that_is_said(workload, period_ms: float) -> None:
    found, notes = streams(workload)
    assert found[0][0].kind == "poisson" and found[0][0].period_ms == pytest.approx(period_ms)
    assert len(notes) == 1 and "same mean rate" in notes[0]


def test_recorded_senders_are_dealt_out() -> None:
    events = ((0.0, 0, 1), (1.0, 1, 1), (2.0, 0, 1), (4.0, 2, 1))
    found, _ = streams(Recorded(events=events, compression=2, sites=("c0",)))
    assert found == [[MessageStream("poisson", 1000 / 1.5)], [MessageStream("poisson", 2000)], [], []]


def test_replies_answer_everybody_and_each_other() -> None:
    """20 messages a second; two sites answer half of them, 10 a second each, and at depth 2 half of these 20, too."""
    found, notes = streams(Poisson(rate_per_s=20, sites=("c1-1",)), Reply(probability=0.5, sites=("c0",)))
    assert found[0] == found[1] == [MessageStream("poisson", 100)] and "replies" in notes[0]
    deep, _ = streams(Poisson(rate_per_s=20, sites=("c1-1",)), Reply(probability=0.5, depth=2, sites=("c0",)))
    assert deep[0] == [MessageStream("poisson", 50)]
    with pytest.raises(BadValue, match="without end"):
        streams(Poisson(rate_per_s=1e6), Reply(depth=255), *[Reply(depth=255)] * 20)


def test_what_is_not_for_all_or_does_not_last_is_noted() -> None:
    _, notes = streams(Poisson(rate_per_s=1, to=2), Poisson(rate_per_s=1, stop_ms=10), Poisson(rate_per_s=1, count=3))
    assert [note[:12] for note in notes] == ["workloads[0]", "workloads[1]", "workloads[2]"]


def test_an_unknown_sender_is_named_by_its_key() -> None:
    with pytest.raises(BadValue) as refused:
        streams(Poisson(rate_per_s=1), Poisson(rate_per_s=1, sites=("c9",)))
    assert refused.value.key == "workloads[1].sites[0]"
