"""The delay rules as arithmetic: one correction at a time, estimates, jumps, sizes, requests, views."""

from __future__ import annotations

import pytest

from isthmus.core.errors import InputError
from isthmus.core.message import SiteId
from isthmus.protocols.total.optimistic.compensation import (
    DELAY_RULES,
    CompensatedDelay,
    DelayRule,
    HoldBackRequests,
    MessageArrival,
    OpenLoopDelay,
    OptimisticOptions,
    PolicyName,
    StampedDelay,
)
from isthmus.protocols.total.optimistic.estimate import Estimate

MS = 1_000_000
A, B, C, D = map(SiteId, range(4))


def policy(name: PolicyName, members: tuple[SiteId, ...] = (A, B, C), joining: bool = False, **more) -> DelayRule:
    made = DELAY_RULES[name](OptimisticOptions(policy=name, **more))
    made.enter(members, A, joining)
    return made


def message(sender: SiteId, at_ms: float, stamp_ms: float = 0.0, size: int = 0) -> MessageArrival:
    return MessageArrival(sender, round(stamp_ms * MS), size, round(at_ms * MS))


def delays(rule: DelayRule) -> list[float]:
    assert isinstance(rule, CompensatedDelay)
    return [round(delay / MS, 6) for delay in rule.delays_ns.values()]


# The paper's rule: delays before (A, B, C), sender, due and ticket of m' and m in ms, delays after; alpha 0.9
CORRECTIONS = [
    # delta = 20 - 10 > 0: m should have come 10 later; m' has nothing to give, so m is raised.
    ([0, 0, 0], (B, 0, 100), (C, 10, 120), [0, 0, 1]),
    # The same, but m' can come earlier instead.
    ([0, 5, 0], (B, 0, 100), (C, 10, 120), [0, 4, 0]),
    # In part: m' has half of it.
    ([0, 0.5, 0], (B, 0, 100), (C, 10, 120), [0, 0, 0.5]),
    # delta = 10 - 20 < 0: m came too late; it is lowered, m' raised by what is left.
    ([0, 0, 3], (B, 0, 100), (C, 20, 110), [0, 0, 2]),
    ([0, 0, 0.25], (B, 0, 100), (C, 20, 110), [0, 0.75, 0]),
    # delta = 0 changes nothing.
    ([1, 2, 3], (B, 0, 100), (C, 10, 110), [1, 2, 3]),
    # Two of one sender: lowered as far as it goes, and what is left raises the same.
    ([0, 5, 0], (B, 0, 100), (B, 10, 120), [0, 4, 0]),
    ([0, 0.5, 0], (B, 0, 100), (B, 10, 120), [0, 0.5, 0]),
    # Reversed at the sequencer: o - o' below 0 counts in full.
    ([0, 0, 0], (B, 30, 100), (C, 10, 120), [0, 0, 4]),
]


@pytest.mark.parametrize(("before", "first", "second", "after"), CORRECTIONS)
def test_one_correction(before, first, second, after) -> None:
    rule = policy("compensation", alpha=0.9)
    rule.delays_ns = {site: delay * MS for site, delay in zip((A, B, C), before, strict=True)}  # type: ignore[attr-defined]
    for sender, due_ms, ticket_ms in (first, second):
        rule.ordered(message(sender, due_ms), due_ms * MS, ticket_ms * MS)
    assert delays(rule) == after


def test_the_first_message_of_a_view_corrects_nothing() -> None:
    rule = policy("compensation")
    rule.ordered(message(B, 0), 0, 100 * MS)
    rule.enter((A, B, C), A, joining=False)
    rule.ordered(message(C, 10), 10 * MS, 900 * MS)
    assert delays(rule) == [0, 0, 0]


def test_request_is_the_longest_delay_less_the_sequencers() -> None:
    rule = policy("compensation")
    rule.delays_ns = {A: 20.0 * MS, B: 60.0 * MS, C: 0.0}  # type: ignore[attr-defined]
    assert rule.request_ns() == 40 * MS


def test_who_leaves_is_forgotten_and_a_new_sequencer_ends_all_that_was_learnt() -> None:
    rule = policy("compensation")
    rule.delays_ns = {A: 20.0 * MS, B: 60.0 * MS, C: 5.0 * MS}  # type: ignore[attr-defined]
    rule.enter((A, C), A, joining=False)
    assert delays(rule) == [20, 5]
    rule.enter((C, D), C, joining=False)
    assert delays(rule) == [0, 0]


def test_a_fresh_sender_is_placed_by_its_first_message_and_moves_nobody_else() -> None:
    rule = policy("compensation")
    rule.delays_ns = {A: 20.0 * MS, B: 0.0, C: 40.0 * MS}  # type: ignore[attr-defined]
    rule.enter((A, B, C, D), A, joining=False)
    rule.ordered(message(C, 0), 40 * MS, 100 * MS)
    rule.ordered(message(D, 10), 10 * MS, 110 * MS)  # 40 too early
    assert delays(rule) == [20, 0, 40, 40]
    rule.ordered(message(D, 20), 20 * MS, 120 * MS)  # two of its own tell nothing
    rule.ordered(message(C, 30), 70 * MS, 124 * MS)  # D came 6 too early, as it is placed now
    assert delays(rule) == [20, 0, 40, 43], "the mean of 40 and 46"


def test_a_fresh_sender_that_should_be_earlier_moves_all_others_later() -> None:
    rule = policy("compensation")
    rule.enter((A, B, C, D), A, joining=False)
    rule.ordered(message(B, 0), 0, 100 * MS)
    rule.ordered(message(D, 30), 30 * MS, 110 * MS)  # 20 too late
    assert delays(rule) == [20, 20, 20, 0]


def test_a_joiner_asks_for_nothing_before_it_has_heard_the_sequencer() -> None:
    rule = policy("compensation", joining=True)
    rule.ordered(message(B, 0), 0, 100 * MS)
    rule.ordered(message(C, 0), 0, 150 * MS)
    assert max(delays(rule)) == 50 and rule.request_ns() == 0
    rule.ordered(message(A, 60), 60 * MS, 160 * MS)
    assert rule.request_ns() == 50 * MS


# Open-loop and stamped


def test_open_loop_aligns_all_senders_at_the_least_wait() -> None:
    rule = policy("open-loop")
    assert rule.due_ns(message(B, 0)) == 0, "nothing is known: at once"
    for sender, wait_ms in ((A, 30), (B, 20), (C, 60)):
        rule.ordered(message(sender, 0), 0, wait_ms * MS)
    assert [rule.due_ns(message(sender, 100)) / MS for sender in (A, B, C)] == [110, 100, 140]
    assert rule.request_ns() == 20 * MS, "the least wait of the others: the sequencer then limits nobody"


def test_open_loop_forgets_a_silent_sender_in_its_window() -> None:
    rule = policy("open-loop", request_age_ms=1000)
    rule.ordered(message(B, 0), 0, 5 * MS)
    for at_ms in range(0, 3000, 100):
        rule.ordered(message(C, at_ms), 0, (at_ms + 40) * MS)
    assert rule.due_ns(message(C, 3000)) == 3000 * MS and rule.request_ns() == 40 * MS


def test_stamped_does_not_care_when_the_message_came() -> None:
    rule = policy("stamped", window_ms=20)
    for at_ms in range(0, 500, 100):
        rule.ordered(message(B, at_ms + 40, at_ms), 0, (at_ms + 80) * MS)
    assert rule.due_ns(message(B, 1040, 1000)) == rule.due_ns(message(B, 1055, 1000)) == 1060 * MS
    assert rule.due_ns(message(B, 1070, 1000)) == 1070 * MS, "never before it came"


@pytest.mark.parametrize("offset_ms", [-5e6, 0.0, 5e6])
def test_a_constant_offset_of_clocks_cancels(offset_ms: float) -> None:
    rule = policy("stamped", window_ms=20)
    for at_ms in range(0, 500, 100):
        rule.ordered(message(B, at_ms + 40, at_ms + offset_ms), 0, (at_ms + 80) * MS)
    assert rule.due_ns(message(B, 1040, 1000 + offset_ms)) == 1060 * MS


@pytest.mark.parametrize("jump_ms", [-7000.0, -100.0, 100.0, 7000.0])
def test_stamped_falls_back_while_a_clock_has_jumped_and_returns(jump_ms: float) -> None:
    rule = policy("stamped", window_ms=20)
    assert isinstance(rule, StampedDelay)
    for at_ms in range(0, 1000, 100):
        rule.ordered(message(B, at_ms + 40, at_ms), 0, (at_ms + 80) * MS)
    rule.ordered(message(B, 1040, 1000 + jump_ms), 0, 1080 * MS)
    after = rule.due_ns(message(B, 1150, 1100 + jump_ms))
    assert after == 1170 * MS, "as open-loop: 20 ms after it came, though it came 10 ms late"
    for at_ms in range(1100, 2000, 100):
        rule.ordered(message(B, at_ms + 40, at_ms + jump_ms), 0, (at_ms + 80) * MS)
    assert rule.due_ns(message(B, 2050, 2000 + jump_ms)) == 2060 * MS, "by stamps again"


@pytest.mark.parametrize("name", ["compensation", "open-loop", "stamped"])
def test_a_large_message_is_expected_as_late_as_large_ones_were(name: PolicyName) -> None:
    rule = policy(name)
    for number in range(200):
        at_ms, size = 100 * number, 1000 * (number % 3)
        first, second = message(C, at_ms, at_ms - 40), message(B, at_ms + 1, at_ms - 39, size)
        dues = rule.due_ns(first), rule.due_ns(second)
        rule.ordered(first, dues[0], (at_ms + 30) * MS)
        rule.ordered(second, dues[1], (at_ms + 31) * MS + size * 5000)
    small, large = (rule.due_ns(message(B, 50_000, 49_960, size)) for size in (0, 2000))
    assert (large - small) / MS == pytest.approx(10, abs=1)


@pytest.mark.parametrize("name", DELAY_RULES)
def test_no_delay_is_longer_than_allowed_and_none_is_below_zero(name: PolicyName) -> None:
    rule = policy(name, delay_max_ms=50)
    for at_ms in range(0, 2000, 100):
        rule.ordered(message(B, at_ms, at_ms), 0, (at_ms + 900) * MS)
        rule.ordered(message(C, at_ms, at_ms), 0, (at_ms + 10) * MS)
    for sender in (B, C):
        assert 3000 * MS <= rule.due_ns(message(sender, 3000, 3000)) <= 3050 * MS


# Estimates and requests


def test_an_estimate_starts_with_its_first_sample_and_passes_over_one_odd_one() -> None:
    estimate = Estimate(0.02)
    estimate.note(30 * MS, 0, 0)
    assert estimate.at(0) == 30 * MS
    for _ in range(10):
        estimate.note(30 * MS, 0, 0)
    estimate.note(900 * MS, 0, 0)
    assert estimate.at(0) == 30 * MS and estimate.odd_count == 1


def test_three_odd_ones_in_a_row_begin_a_new_estimate() -> None:
    estimate = Estimate(0.02)
    for sample in [30 * MS] * 10 + [90 * MS] * 3:
        estimate.note(sample, 0, 0)
    assert estimate.at(0) == 90 * MS and estimate.odd_count == 0


def test_a_second_jump_just_after_the_first_does_not_blur_the_estimate() -> None:
    estimate = Estimate(0.02)
    for sample in [30] * 10 + [5030] * 4 + [9030] * 5:
        estimate.note(sample * MS, 0, 0)
    assert estimate.at(0) == 9030 * MS


def test_equal_sizes_have_no_slope() -> None:
    estimate = Estimate(0.02)
    for sample in (10, 20, 30):
        estimate.note(sample, 500, 0)
    assert estimate.effect(100) == 0


def test_requests_of_silent_sites_age_out() -> None:
    requests = HoldBackRequests(OptimisticOptions(request_age_ms=1000))
    requests.note(B, 40 * MS, 0)
    requests.note(C, 10 * MS, 900 * MS)
    assert requests.longest_ns(1000 * MS) == 40 * MS
    assert requests.longest_ns(1001 * MS) == 10 * MS
    assert requests.longest_ns(5000 * MS) == 0


def test_requests_of_sites_that_left_go_and_so_do_old_ones() -> None:
    requests = HoldBackRequests(OptimisticOptions(request_age_ms=1000))
    requests.note(B, 40 * MS, 100_000 * MS)
    requests.note(C, 10 * MS, 100_000 * MS)
    requests.keep((A, C))
    assert requests.longest_ns(101_000 * MS) == 10 * MS
    assert requests.longest_ns(101_001 * MS) == 0


def test_no_request_holds_the_sequencer_up_beyond_the_bound() -> None:
    requests = HoldBackRequests(OptimisticOptions(delay_max_ms=100))
    requests.note(B, 10**15, 0)
    assert requests.longest_ns(0) == 100 * MS
    requests.note(B, -(10**15), 0)
    assert requests.longest_ns(0) == 0


@pytest.mark.parametrize("more", [{"alpha": 1.5}, {"gain": 0}, {"window_ms": -1}, {"request_age_ms": 0}])
def test_options_out_of_range_are_refused(more) -> None:
    with pytest.raises(InputError, match=next(iter(more))):
        OptimisticOptions(**more)


def test_every_rule_has_a_name() -> None:
    assert [type(policy(name)) for name in DELAY_RULES] == [DelayRule, CompensatedDelay, OpenLoopDelay, StampedDelay]
