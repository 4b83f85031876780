"""From files to what a plan goes by: delays, streams, and notes on what is left out."""

from __future__ import annotations

import pytest

from isthmus.core.document import Invalid
from isthmus.protocols.total.rests import Stream
from isthmus.scenario.workload import Burst, OnOff, Periodic, Poisson, Recorded, Reply
from isthmus.studies.plan_inputs import delays_of, spread_ms, streams_of
from isthmus.topology.delay import Constant, Empirical, Gamma, Normal, Uniform
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh, ring

NET = mesh(2, 2, Channel(Constant(1)), Channel(Constant(50)))  # c0-0, c0-1, c1-0, c1-1


def streams(*workloads) -> tuple[list[list[Stream]], list[str]]:
    notes: list[str] = []
    return [list(own) for own in streams_of(NET, workloads, notes)], notes


def test_delays_are_means_along_the_way() -> None:
    notes: list[str] = []
    delays = delays_of(ring(4, 1, Channel(Constant(1)), Channel(Constant(30))), notes)
    assert delays[0] == (0, 30, 60, 30) and notes == []


@pytest.mark.parametrize(
    "channel, word",
    [
        (Channel(Uniform(10, 90)), "vary"),
        (Channel(Constant(50), loss=0.1), "lose"),
        (Channel(Constant(50), bandwidth_mbps=1), "bandwidths"),
    ],
)
def test_what_delays_do_not_tell_is_noted(channel: Channel, word: str) -> None:
    notes: list[str] = []
    delays_of(mesh(2, 1, Channel(Constant(1)), channel), notes)
    assert len(notes) == 1 and word in notes[0]


def test_a_spread_too_small_to_matter_is_not_noted() -> None:
    notes: list[str] = []
    delays_of(mesh(2, 1, Channel(Constant(1)), Channel(Gamma(540, 0.5, 500))), notes)
    assert notes == []


def test_the_spread_of_each_kind_of_delay() -> None:
    kinds = (Constant(5), Uniform(0, 12), Normal(50, 2), Gamma(50, 9, 10), Empirical((1.0, 3.0)))
    assert [spread_ms(kind) for kind in kinds] == pytest.approx([0, 12**0.5, 2, 3, 1])


def test_periodic_and_poisson_sources_count_as_they_are() -> None:
    found, notes = streams(Periodic(rate_per_s=10, sites=("c0",)), Poisson(rate_per_s=4, sites=("c0-1", "c1-0")))
    fast, slow = Stream("periodic", 100), Stream("poisson", 250)
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
    assert found == [[Stream("poisson", 1000 / 1.5)], [Stream("poisson", 2000)], [], []]


def test_replies_answer_everybody_and_each_other() -> None:
    """20 messages a second; two sites answer half of them, 10 a second each, and at depth 2 half of these 20, too."""
    found, notes = streams(Poisson(rate_per_s=20, sites=("c1-1",)), Reply(probability=0.5, sites=("c0",)))
    assert found[0] == found[1] == [Stream("poisson", 100)] and "replies" in notes[0]
    deep, _ = streams(Poisson(rate_per_s=20, sites=("c1-1",)), Reply(probability=0.5, depth=2, sites=("c0",)))
    assert deep[0] == [Stream("poisson", 50)]
    with pytest.raises(Invalid, match="without end"):
        streams(Poisson(rate_per_s=1e6), Reply(depth=255), *[Reply(depth=255)] * 20)


def test_what_is_not_for_all_or_does_not_last_is_noted() -> None:
    _, notes = streams(Poisson(rate_per_s=1, to=2), Poisson(rate_per_s=1, stop_ms=10), Poisson(rate_per_s=1, count=3))
    assert [note[:12] for note in notes] == ["workloads[0]", "workloads[1]", "workloads[2]"]


def test_an_unknown_sender_is_named_by_its_key() -> None:
    with pytest.raises(Invalid) as refused:
        streams(Poisson(rate_per_s=1), Poisson(rate_per_s=1, sites=("c9",)))
    assert refused.value.key == "workloads[1].sites[0]"
