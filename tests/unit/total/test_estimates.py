"""Detectors of a mean, and the layer that feeds them."""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest

from isthmus.protocols.detectors import MeanShift, SlidingMean


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
