"""The clock service's arithmetic, by tables: choice of a candidate, median, plausibility, intervals, slewing, rates."""

from __future__ import annotations

from random import Random

import pytest

from isthmus.protocols.clocks.agreement import CommonTime, Reception, agree, allowed, choose, median
from isthmus.protocols.clocks.intervals import Span, VirtualClock, beyond, fit_rate
from isthmus.protocols.clocks.options import ClockOptions, accuracy_ns, precision_ns, worldwide_ns

MS = 1_000_000


def at(*attempts: int | None) -> list[Reception | None]:
    """A table: on which attempt each candidate was received."""
    return [None if attempt is None else Reception(attempt, 0, 0) for attempt in attempts]


@pytest.mark.parametrize(
    ("tables", "chosen"),
    [
        ([at(0, 0, 0), at(0, 0, 0)], 0),
        ([at(0, 0, 0), at(1, 0, 0)], 1),  # one member got the first by a second attempt
        ([at(1, 0), at(1, 0)], 0),  # all did: it is one transmission again
        ([at(None, 0, 0), at(0, None, 0)], 2),  # lost here, lost there
        ([at(None, 0), at(0, None)], None),  # none left: no round
        ([at(None, None), at(None, None)], None),
        ([at(0)], 0),  # alone on the LAN
    ],
)
def test_the_first_candidate_that_all_stamped_on_the_same_attempt(
    tables: list[list[Reception | None]], chosen: int | None
) -> None:
    assert choose(tables) == chosen


@pytest.mark.parametrize(("values", "middle"), [([5], 5), ([9, 1, 5], 5), ([1, 2], 1), ([4, 3, 2, 1], 2)])
def test_the_median_is_one_of_the_values_and_the_lower_of_two(values: list[int], middle: int) -> None:
    assert median(values) == middle


def test_the_median_lies_between_correct_values_as_long_as_these_are_the_majority() -> None:
    random = Random(1)
    for _ in range(2_000):
        correct = [random.randint(-10, 10) for _ in range(random.randint(1, 5))]
        faulty = [random.randint(-1000, 1000) for _ in range(random.randint(0, len(correct) - 1))]
        assert min(correct) <= median([*faulty, *correct]) <= max(correct)


def clock(time_ns: int, error_ns: int | None = None, reference_ns: int | None = None, alpha_ns: int = 2) -> Reception:
    return Reception(0, 0, time_ns, error_ns, reference_ns, 0 if reference_ns is None else alpha_ns)


@pytest.mark.parametrize(
    ("stamps", "gate_ns", "agreed"),
    [
        # A first round: nobody has a bound, every reference is believed.
        ([clock(50, None, 100), clock(900)], None, CommonTime(100, (95, 105), True, None)),
        (
            [clock(50, None, 100), clock(0, None, 999), clock(0, None, 101)],
            None,
            CommonTime(101, (96, 106), True, None),
        ),
        # Clocks with bounds: what none of them allows is no reading.
        ([clock(100, 10, 112), clock(100, 10)], None, CommonTime(112, (107, 117), True, 100)),
        ([clock(100, 10, 116), clock(100, 10)], None, CommonTime(100, (87, 113), False, 100)),
        ([clock(100, 10, 84), clock(104, 10)], None, CommonTime(100, (91, 113), False, 100)),
        # One whose bound is unknown neither votes nor widens.
        ([clock(100, 10), clock(5_000)], None, CommonTime(100, (87, 113), False, 100)),
        # No bound and no reference: the clocks agree with each other, and with nothing else.
        ([clock(100), clock(300), clock(200)], None, CommonTime(200, None, False, None)),
        # A gate stands in the place of the bounds.
        ([clock(100, 1, 150), clock(100, 1)], 60, CommonTime(150, (145, 155), True, 100)),
        ([clock(100, 1, 150), clock(100, 1)], 40, CommonTime(100, (96, 104), False, 100)),
        # The widest error of those believed holds for all of them.
        (
            [clock(0, None, 100), clock(0, None, 101, 30), clock(0, None, 102)],
            None,
            CommonTime(101, (68, 134), True, None),
        ),
    ],
)
def test_the_time_of_a_candidate(stamps: list[Reception], gate_ns: int | None, agreed: CommonTime) -> None:
    assert agree(stamps, 3, gate_ns) == agreed


def test_clocks_that_contradict_each_other_allow_what_any_of_them_does() -> None:
    assert allowed([clock(0, 10), clock(100, 10)], 3) == (-13, 113)
    assert allowed([clock(0, 10), clock(26, 10)], 3) == (13, 13), "within the slack of two stamps they do not"


def test_a_span_widens_by_what_the_rate_may_be_off() -> None:
    span = Span(1_000, 500, 510, 0.0, 0.1)
    assert span.at(1_000) == (500, 510)
    assert span.at(1_100) == (590, 620)
    assert span.at(900) == (390, 420), "backwards, too"
    assert Span(0, 0, 0, 0.5, 0.1).at(100) == (140, 160), "around the rate that was estimated"


def test_two_spans_that_agree_narrow_each_other_and_a_new_one_stands_over_an_old_one() -> None:
    new, old = Span(10, 100, 120), Span(0, 95, 105)
    assert new.intersect(old) == Span(10, 105, 115)
    assert new.intersect(Span(0, 500, 600)) == new


def test_a_clock_is_steered_no_faster_than_allowed_and_never_backwards() -> None:
    random = Random(2)
    for _ in range(200):
        made = VirtualClock(0, 0, 500e-6)
        now, last = 0, made.read(0)
        for _ in range(50):
            own, common = (random.randint(-5 * MS, 5 * MS) for _ in range(2))
            made.steer(now, made.read(now) + own, random.uniform(-2e-4, 2e-4), common, 100 * MS)
            for _ in range(20):
                step = random.choice((0, 1, 2, 3, 1_000, MS))
                now += step
                time = made.read(now)
                assert time >= last, "a clock never runs backwards"
                need = abs(own) / (100 * MS)
                assert abs(time - last - step) <= step * (701e-6 + max(need, 500e-6)) + 1, "500 ppm beside the need"
                last = time


def test_a_correction_ends_where_it_should() -> None:
    made = VirtualClock(0, 0, 500e-6)
    made.steer(1_000, 3_000, 0.0, 500, MS)
    assert made.read(1_000) == 1_000
    assert made.read(1_000 + MS) == 1_000 + MS + 2_000 + 500, "what the round needs is done within the span"
    assert made.read(1_000 + 9 * MS) == 1_000 + 9 * MS + 2_500
    made.step(0, 7)
    assert made.read(0) == 7


def test_what_goes_beyond_the_usual() -> None:
    assert [beyond(value, 10) for value in (0, 10, -10, 11, -25)] == [0, 0, 0, 1, -15]


def test_the_rate_by_least_squares_is_as_near_as_its_sensitivity_says() -> None:
    random = Random(3)
    for _ in range(300):
        rate, error = random.uniform(-1e-4, 1e-4), random.randint(0, 20_000)
        hardware = sorted(random.sample(range(10**9, 10**11), 8))
        points = [(h, 7 * 10**17 + h + round(h * rate) + random.randint(-error, error)) for h in hardware]
        fit = fit_rate(points)
        assert abs(fit.rate - rate) <= (error + 1) * fit.sensitivity + 1e-15
    assert fit_rate([(0, 0), (10, 10), (20, 20)]).rate == 0.0


BOUNDS = [  # rho, Gamma in us, P in s: precision and accuracy in us; g = alpha = 1 us, A = 20 ms, W = 10 ms
    (1e-6, 1, 1, 4.06, 4.03),
    (1e-5, 10, 10, 211.6, 112.3),
    (1e-4, 100, 1, 307, 205),
]


@pytest.mark.parametrize(("drift", "tightness_us", "period_s", "precision_us", "accuracy_us"), BOUNDS)
def test_the_bounds_of_the_specification(
    drift: float, tightness_us: float, period_s: float, precision_us: float, accuracy_us: float
) -> None:
    options = ClockOptions(
        drift_ppm=drift * 1e6, tightness_us=tightness_us, granularity_us=1, period_ms=1000 * period_s
    )
    assert precision_ns(options) / 1000 == pytest.approx(precision_us, rel=1e-3)
    assert accuracy_ns(options) / 1000 == pytest.approx(accuracy_us, rel=1e-3)
    assert worldwide_ns(options) == 2 * accuracy_ns(options)
