"""Detectors of a mean, and the layer that feeds them."""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest

from isthmus.core.message import ONLY_GROUP, SiteId
from isthmus.protocols.detectors import Level, MeanShift, SlidingMean
from isthmus.protocols.estimator import Estimator
from isthmus.protocols.total.hybrid.planned import MemberEstimate, agree, moved_delays
from isthmus.scenario.faults import DelayShift
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Periodic
from isthmus.sim.run import SimRun
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh


def test_the_first_samples_make_the_mean_and_a_run_on_one_side_shifts_it() -> None:
    detector = MeanShift(3)
    for sample in (10, 20, 30):
        detector.add(sample)
    assert detector.mean == 20
    for sample in (25, 26, 10, 30, 31):  # never three in a row on one side
        detector.add(sample)
    assert detector.mean == 20
    detector.add(32)
    assert detector.mean == 31


def test_runs_below_the_mean_make_the_paper_detector_too_low_for_exponential_gaps() -> None:
    random, paper, ours = Random(1), MeanShift(7), SlidingMean(16)
    means: dict[str, list[float]] = {"paper": [], "ours": []}
    for _ in range(20_000):
        gap = random.expovariate(1.0)
        paper.add(gap)
        ours.add(gap)
        means["paper"].append(paper.mean or 0)
        means["ours"].append(ours.mean or 0)
    assert fmean(means["ours"]) == pytest.approx(1.0, abs=0.05)
    assert fmean(means["paper"]) < 0.9


def test_a_sliding_mean_forgets() -> None:
    detector = SlidingMean(4)
    for sample in (1, 1, 1, 1, 3, 3, 3, 3):
        detector.add(sample)
    assert detector.mean == 3


def test_a_sample_far_off_begins_a_new_mean() -> None:
    detector = SlidingMean(16)
    for _ in range(16):
        detector.add(10)
    detector.add(1_000)
    assert detector.mean == 1_000
    for _ in range(8):
        detector.add(10)
    assert detector.mean == 10


def test_silence_is_one_sample_until_it_is_a_shift() -> None:
    detector = SlidingMean(16)
    assert detector.with_sample(5) is None
    for _ in range(16):
        detector.add(10)
    assert detector.with_sample(27) == 11
    assert detector.with_sample(500) == 500


@pytest.mark.parametrize("across", [70, 500, 990])
def test_the_gap_across_a_shift_does_not_count(across: float) -> None:
    """Once a second, then every 10 ms: the gap in between is of neither rate, and would make the new one too low."""
    detector = SlidingMean()
    for sample in [*[1_000] * 20, across, *[10] * 8]:
        detector.add(sample)
    assert detector.mean == 10


def test_exponential_gaps_hardly_ever_look_twice_as_long_as_they_are() -> None:
    """A mean of 32 is 2.4 times too high once in 400 million, and a sample twenty times the mean once in five million.

    So a role that is right is not given up by chance: at 100 messages a second that would be once in half a day.
    """
    random, detector = Random(2), SlidingMean()
    highest = 0.0
    for number in range(100_000):
        detector.add(random.expovariate(1.0))
        if number >= 32:
            highest = max(highest, detector.mean or 0)
    assert highest < 2.4


def test_a_level_does_not_move_until_a_second_sample_is_off_on_the_same_side() -> None:
    level = Level()
    for sample in (10, 10, 10, 40):
        level.add(sample)
    assert (level.mean, level.doubt()) == (10, 30)
    level.add(42)
    assert (level.mean, level.doubt()) == (42, 0)  # the first may lie across the jump


@pytest.mark.parametrize("after", [10, 4])
def test_an_odd_sample_counts_like_any_other_where_the_next_one_is_not_on_its_side(after: float) -> None:
    level = Level()
    for sample in (10, 10, 10, 14, after):
        level.add(sample)
    assert level.mean == pytest.approx(10.8 if after == 10 else 11)
    assert level.doubt() == pytest.approx(0 if after == 10 else 7)


@pytest.mark.parametrize("out_of_step_ms", [0, 700, 1_900])
def test_a_longer_way_is_known_two_round_trips_after_the_next_probe(out_of_step_ms: float) -> None:
    changed_ms = 4_000 + out_of_step_ms
    shift = {"at_ms": changed_ms, "until_ms": 60_000.0, "add_ms": 100.0}
    scenario = Scenario(
        name="farther",
        topology=mesh(2, 1, Channel(Constant(1.0)), Channel(Constant(30.0))),
        stack=StackSpec(name="dynamic-hybrid", transport="direct"),
        workloads=(Periodic(rate_per_s=50.0, sites=("c0-0",)),),
        faults=(
            DelayShift(source=("c0-0",), target=("c1-0",), **shift),
            DelayShift(source=("c1-0",), target=("c0-0",), **shift),
        ),
        duration_ms=60_000.0,
    )
    run = SimRun(scenario)
    run.start()
    assert list(run.advance(round(1e6 * (6_000 + 2 * 2 * 130 + 1))))
    for site in run.sites:
        port = site.ports[ONLY_GROUP]
        port.enter()
        assert port.stack.find(Estimator).delay_ns(SiteId(1 - site.site)) == 130_000_000


def test_a_planner_sees_which_delays_have_moved_and_whether_both_ends_agree() -> None:
    before = MemberEstimate(1, False, (0, 40_000, 300))
    after = MemberEstimate(1, False, (0, 190_000, 900))
    assert moved_delays(before, before) == []
    assert moved_delays(before, after) == [190_000]  # in a LAN three times is nothing
    words = [after, MemberEstimate(1, False, (190_000, 0, 190_000)), MemberEstimate(1, False, (400, 190_000, 0))]
    assert agree(words)
    assert not agree([before, *words[1:]])


def test_periods_and_delays_are_known_to_all_who_ask() -> None:
    """Two sites 30 ms apart, of which one sends every 20 ms: each knows both periods, and how far the other is."""
    scenario = Scenario(
        name="estimates",
        topology=mesh(2, 1, Channel(Constant(1.0)), Channel(Constant(30.0))),
        stack=StackSpec(name="symmetric", transport="direct"),
        workloads=(Periodic(rate_per_s=50.0, jitter=0.0, sites=("c0-0",)),),
        duration_ms=5_000.0,
    )
    run = SimRun(scenario)
    run.start()
    assert list(run.advance(run.end_ns))
    for site in run.sites:
        port = site.ports[ONLY_GROUP]
        port.enter()
        estimator = port.stack.find(Estimator)
        assert estimator.delay_ns(SiteId(1 - site.site)) == 30_000_000
        assert estimator.period_ns(SiteId(0)) == pytest.approx(20_000_000, rel=0.05)
        assert (estimator.period_ns(SiteId(1)) or 0) > 1_000_000_000  # it has never sent
