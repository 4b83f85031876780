"""Percentiles from a histogram, beside numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from isthmus.measure.histogram import Histogram

RANDOM = np.random.default_rng(7)
SAMPLES = {
    "exponential": RANDOM.exponential(30e6, 50_000),
    "lognormal": RANDOM.lognormal(15, 2, 50_000),
    "uniform": RANDOM.uniform(0, 1e9, 50_000),
    "two humps": np.concatenate([RANDOM.normal(1e6, 1e4, 25_000), RANDOM.normal(9e9, 1e8, 25_000)]),
    "pareto": RANDOM.pareto(1.5, 50_000) * 1e6,
}


def filled(values) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.add(int(value))
    return histogram


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("share", [1, 10, 25, 49, 75, 90, 99, 99.9])
def test_a_percentile_is_off_by_less_than_one_percent(name: str, share: float) -> None:
    values = SAMPLES[name].astype(np.int64)
    exact = np.percentile(values, share, method="nearest")
    assert filled(values).percentile(share) == pytest.approx(exact, rel=0.005)  # half a bucket, and a rank


@pytest.mark.parametrize("name", SAMPLES)
def test_mean_count_and_maximum_are_exact_and_memory_is_bounded(name: str) -> None:
    values = SAMPLES[name].astype(np.int64)
    histogram = filled(values)
    assert histogram.count == len(values) and histogram.maximum == values.max()
    assert histogram.mean() == pytest.approx(float(values.mean()), rel=1e-9)
    assert len(histogram._buckets) < 64 * 128
    assert histogram.percentile(100) == pytest.approx(values.max(), rel=0.01)
    assert histogram.percentile(100) <= histogram.maximum


def test_small_values_are_exact() -> None:
    histogram = filled(range(256))
    assert [histogram.percentile(100 * (value + 1) / 256) for value in range(256)] == list(range(256))


@pytest.mark.parametrize("value", [0, 1, 127, 128, 255, 256, 257, 511, 512, 10**6, 2**40 - 1, 2**40, 2**62])
def test_one_value_alone(value: int) -> None:
    histogram = filled([value])
    assert histogram.percentile(0) == histogram.percentile(100) == pytest.approx(value, rel=0.005)
    assert histogram.maximum == value and histogram.mean() == pytest.approx(value)


def test_nothing_at_all() -> None:
    assert Histogram().percentile(50) == 0 and Histogram().mean() == 0.0


def test_percentiles_never_go_down() -> None:
    histogram = filled(SAMPLES["lognormal"])
    found = [histogram.percentile(share) for share in range(101)]
    assert found == sorted(found)
