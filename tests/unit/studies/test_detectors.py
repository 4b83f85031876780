"""Detectors beside each other: on samples that are known, and on recorded chats where these are at hand."""

from __future__ import annotations

import csv
from datetime import datetime
from itertools import pairwise
from math import log
from pathlib import Path
from random import Random

import pytest

from isthmus.protocols.detectors import DETECTORS, Cusum, Exponential, Level, MeanShift
from isthmus.protocols.estimator import EstimatorOptions
from isthmus.studies.dynamic_roles.detectors import SAMPLES, chat_gaps, compare_detectors, fit_detector
from isthmus.studies.dynamic_roles.transients import transient, transients

RECORDED = Path(__file__).parents[4] / "shared" / "data" / "irc" / "rust_seconds.csv"


def test_the_papers_detector_says_nothing_before_its_first_k_samples() -> None:
    judge = EstimatorOptions(detector="mean-shift", samples=7).new()
    assert isinstance(judge, MeanShift)
    for number, sample in enumerate((10, 20, 30, 40, 50, 60), 1):
        judge.add(sample)
        assert judge.mean is None, f"a mean after {number} samples"
    judge.add(70)
    assert judge.mean == 40


@pytest.mark.parametrize("name", DETECTORS)
def test_every_detector_finds_the_period_of_even_gaps_and_follows_a_shift(name: str) -> None:
    judge = DETECTORS[name](SAMPLES[name])
    for gap in [10.0] * 100 + [50.0] * 200:
        judge.add(gap)
    assert judge.mean == pytest.approx(50.0, rel=0.01)


@pytest.mark.parametrize("made", [Exponential, Cusum])
def test_first_samples_count_alike_and_too_few_tell_nothing(made: type[Exponential] | type[Cusum]) -> None:
    judge = made(32)
    assert judge.mean is None and judge.with_sample(5.0) is None and not judge.regular()
    for gap in (10.0, 20.0, 30.0, 20.0):
        judge.add(gap)
    assert judge.mean == pytest.approx(20.0)
    assert judge.with_sample(20.0) == pytest.approx(20.0)


@pytest.mark.parametrize("made", [Exponential, Cusum])
def test_even_gaps_are_regular_and_exponential_ones_are_not(made: type[Exponential] | type[Cusum]) -> None:
    random, even, odd = Random(1), made(32), made(32)
    for _ in range(200):
        even.add(random.gauss(10.0, 0.2))
        odd.add(random.expovariate(0.1))
    assert even.regular() and not odd.regular()


def test_cusum_notices_at_once_what_an_exponential_mean_takes_long_to_follow() -> None:
    sums, weighed = Cusum(32), Exponential(32)
    for gap in [100.0] * 50 + [1_000.0] * 3:
        sums.add(gap)
        weighed.add(gap)
    assert sums.mean == pytest.approx(1_000.0)
    assert weighed.mean is not None and weighed.mean < 500.0


def test_an_estimate_is_judged_by_what_comes_next() -> None:
    assert fit_detector([10.0] * 60, "sliding").error_factor == pytest.approx(1.0)
    assert fit_detector([10.0] * 5, "sliding").judged == 0
    random = Random(1)
    gaps = [random.expovariate(1.0) for _ in range(4_000)]
    assert fit_detector(gaps, "sliding").error_factor < fit_detector(gaps, "mean-shift").error_factor
    assert fit_detector(gaps, "mean-shift").bias_factor < 0.9, "the runs below the mean are the likelier ones"


def nearest(rows: list[dict[str, object]], traffic: str, factor: str = "error_factor") -> dict[str, float]:
    return {str(row["detector"]): float(str(row[factor])) for row in rows if row["traffic"] == traffic}


def recorded_gaps(*by: str) -> list[list[float]]:
    """Times between messages in seconds, of each channel, or of each sender in each."""
    if not RECORDED.exists():
        pytest.skip(f"{RECORDED} is not there")
    times: dict[tuple[str, ...], list[float]] = {}
    with RECORDED.open() as file:
        for row in csv.DictReader(file):
            if row["event"] == "msg":
                key = tuple(row[name] for name in by)
                times.setdefault(key, []).append(datetime.fromisoformat(row["time"]).timestamp())
    return [[after - before for before, after in pairwise(each)] for each in times.values()]


def test_recorded_chats_are_followed_best_by_sliding_and_exponential_means() -> None:
    """And the chats that the study makes up rank detectors as recorded ones do, up to a tie."""
    rows = compare_detectors({"recorded": recorded_gaps("trace"), "made": [chat_gaps(seed) for seed in range(4)]})
    for traffic in ("recorded", "made"):
        errors = nearest(rows, traffic)
        assert errors["sliding"] < errors["mean-shift"]
        assert errors["sliding"] <= 1.05 * min(errors.values())
    recorded, made = nearest(rows, "recorded"), nearest(rows, "made")
    assert all(made[name] == pytest.approx(recorded[name], rel=0.15) for name in DETECTORS)


def test_nobody_follows_one_recorded_sender_well_and_ours_is_the_least_biased() -> None:
    """What a site measures is one sender: a few lines, then hours of silence."""
    rows = compare_detectors({"sender": [gaps for gaps in recorded_gaps("trace", "sender") if len(gaps) >= 20]})
    errors, biases = nearest(rows, "sender"), nearest(rows, "sender", "bias_factor")
    assert min(errors.values()) > 4
    assert errors["sliding"] <= 1.05 * min(errors.values())
    assert min(biases, key=lambda name: abs(log(biases[name]))) == "sliding"


def test_a_transient_is_a_peak_and_the_time_to_be_as_usual() -> None:
    assert transient({0: 10.0, 1: 10.0, 2: 10.0, 3: 10.0}) == (10.0, 10.0, 0.0)
    usual, peak, recovery = transient({0: 100.0, 1: 50.0, 2: 11.0, 3: 10.0, 4: 10.0, 5: 10.0})
    assert (usual, peak, recovery) == (10.0, 100.0, 2.0)
    assert transient({0: 10.0, 1: 30.0, 2: 10.0, 3: 30.0})[2] == 4.0, "never two in a row"


def test_a_level_begins_anew_with_the_second_of_two_samples_that_are_off() -> None:
    level = Level()
    for delay in (40.0, 41.0, 40.0, 39.0):
        level.add(delay)
    level.add(115.0)  # across the jump, or an accident
    assert level.mean is not None and level.mean < 60.0
    level.add(190.0)
    assert level.mean == 190.0
    level.add(190.0)
    level.add(115.0)
    level.add(40.0)
    assert level.mean == 40.0


def test_transients_are_of_changes_alone() -> None:
    base = {"part": "link", "protocol": "p", "source": "s", "seed": 1}
    slices = [{**base, "phase": phase, "second": s, "latency_ms": 10.0} for phase in (0, 1, 2) for s in range(4)]
    rows = transients(slices, {"link": ("whole", "failed")})
    assert [row["change"] for row in rows] == ["link: 2 failed"]
    assert rows[0]["recovery_s"] == 0.0
