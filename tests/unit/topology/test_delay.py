"""Delays: means and variances as stated, the same seed the same samples, bad values refused."""

from random import Random
from statistics import fmean, pvariance

import pytest

from isthmus.core.errors import InputError
from isthmus.topology.delay import Constant, Delay, Empirical, Gamma, Normal, Uniform

COUNT = 20_000
CASES: list[tuple[Delay, float, float]] = [  # delay, mean in ms, variance in ms^2
    (Constant(3.5), 3.5, 0.0),
    (Uniform(2, 6), 4.0, 16 / 12),
    (Normal(50, 2), 50.0, 4.0),
    (Gamma(50, 0.5, 45), 50.0, 0.5),
    (Gamma(10, 9), 10.0, 9.0),
    (Empirical((1, 2, 3, 6)), 3.0, 3.5),
]


@pytest.mark.parametrize(("delay", "mean", "variance"), CASES, ids=lambda value: type(value).__name__)
def test_samples_have_the_stated_mean_and_variance(delay: Delay, mean: float, variance: float) -> None:
    sample = delay.sampler(Random(1))
    values = [sample() for _ in range(COUNT)]
    assert all(type(value) is int and value >= 0 for value in values)
    assert delay.mean_ms == mean
    assert fmean(values) / 1e6 == pytest.approx(mean, rel=0.03)
    assert pvariance(values) / 1e12 == pytest.approx(variance, rel=0.1)


@pytest.mark.parametrize("delay", [case[0] for case in CASES], ids=lambda value: type(value).__name__)
def test_the_same_seed_gives_the_same_samples(delay: Delay) -> None:
    one, other = delay.sampler(Random(7)), delay.sampler(Random(7))
    assert [one() for _ in range(50)] == [other() for _ in range(50)]


def test_a_normal_delay_is_drawn_again_below_zero() -> None:
    sample = Normal(0, 5).sampler(Random(1))
    values = [sample() for _ in range(2000)]
    assert min(values) >= 0
    assert fmean(values) / 1e6 == pytest.approx(5 * (2 / 3.14159) ** 0.5, rel=0.1)  # the half-normal mean


def test_gamma_never_falls_below_its_shift() -> None:
    sample = Gamma(50, 30, 45).sampler(Random(3))
    assert min(sample() for _ in range(5000)) >= 45_000_000


def test_constants_are_known_as_such() -> None:
    assert Constant(1.5).constant_ns() == 1_500_000
    assert Uniform(2, 2).constant_ns() == 2_000_000
    assert Normal(2, 0).constant_ns() == 2_000_000
    assert Empirical((4, 4)).constant_ns() == 4_000_000
    assert Uniform(1, 2).constant_ns() is None
    assert Gamma(2, 1).constant_ns() is None


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda: Constant(-1), "ms"),
        (lambda: Constant(float("inf")), "ms"),
        (lambda: Constant(float("nan")), "ms"),
        (lambda: Uniform(-1, 2), "low_ms"),
        (lambda: Uniform(3, 2), "high_ms"),
        (lambda: Normal(-1, 2), "mean_ms"),
        (lambda: Normal(1, -2), "sd_ms"),
        (lambda: Gamma(5, 1, 5), "mean_ms"),
        (lambda: Gamma(5, 0, 1), "variance_ms2"),
        (lambda: Gamma(5, 1, -1), "shift_ms"),
        (lambda: Empirical(()), "samples_ms"),
        (lambda: Empirical((1, -1)), "samples_ms[1]"),
    ],
)
def test_a_bad_value_names_its_key(make, key: str) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert caught.value.key == key
