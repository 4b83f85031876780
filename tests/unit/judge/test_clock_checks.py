"""The checks of clocks, against good, bad and empty traces: by the bounds that clocks publish, and by those given."""

from __future__ import annotations

import pytest
from tests.unit.judge.stories import Story

from isthmus.core.layer import ClockState, Reading
from isthmus.core.message import SiteId
from isthmus.judge.oracle import Oracle
from isthmus.judge.runs import judge
from isthmus.measure.clocks import ClockFigures

ACCURACY, PRECISION = "clock-accuracy", "clock-precision"
GOOD = Story().clock(1, 50, 55, 5).clock(2, 50, 45, 5).clock(1, 90, 90, 0)


@pytest.mark.parametrize(
    ("story", "bounds", "accuracy", "precision"),
    [
        (GOOD, {}, "valid", "valid"),
        (GOOD, {ACCURACY: 5, PRECISION: 10}, "valid", "valid"),
        (GOOD, {ACCURACY: 4, PRECISION: 9}, "violated", "violated"),
        (Story().clock(1, 50, 56, 5).clock(2, 50, 50, 5), {}, "violated", "valid"),
        (Story().clock(1, 50, 55, 4).clock(2, 50, 45, 5), {}, "violated", "violated"),
        (Story().clock(1, 50, 55, 4).clock(2, 51, 45, 9), {}, "violated", "unknown"),  # not read at one time
        (Story().clock(1, 50, 55).clock(2, 50, 45), {}, "unknown", "unknown"),  # nothing was published
        (Story().clock(1, 50, 55).clock(2, 50, 45), {PRECISION: 10}, "unknown", "valid"),
        (Story().clock(1, 50, 55).clock(2, 50, 45, 5), {}, "valid", "unknown"),  # one published alone
        (Story().submit(1, 1).deliver(1, (1, 1)), {}, "unknown", "unknown"),
    ],
)
def test_clocks_are_judged_by_what_they_publish_and_by_what_is_given(
    story: Story, bounds: dict[str, int], accuracy: str, precision: str
) -> None:
    found = {one.property: one.status for one in Oracle(story.rows, bounds=bounds).verdicts((ACCURACY, PRECISION))}
    assert found == {ACCURACY: accuracy, PRECISION: precision}


def test_a_witness_names_the_clock_how_far_it_is_off_and_what_it_said() -> None:
    (verdict,) = Oracle(Story().clock(1, 50, 58, 5).clock(2, 50, 50, 5).rows).verdicts([ACCURACY])
    assert verdict.witness == "the clock of process 1 is off by 8 ns at 50 ns; 5 are allowed"
    assert [(event.process, event.time_ns) for event in verdict.events] == [(1, 50)]


def test_a_trace_whose_clocks_publish_is_judged_without_being_asked() -> None:
    judged = judge(GOOD.rows, (), {})
    assert {one.name: one.status for one in judged.summaries} == {PRECISION: "valid", ACCURACY: "valid"}
    silent = judge(Story().clock(1, 50, 55).submit(1, 1).deliver(1, (1, 1)).rows, (), {})
    assert ACCURACY in silent.left_out and ACCURACY not in {one.name for one in silent.summaries}


def test_figures_are_the_worst_of_clocks_that_publish_and_count_what_may_not_be() -> None:
    figures = ClockFigures([0, 0, 1])
    served = ClockState.SYNCHRONISED

    def note(true_ns: int, *readings: Reading) -> None:
        figures.note(true_ns, [(SiteId(site), reading) for site, reading in enumerate(readings)])

    note(100, Reading(101, 5, served), Reading(99, 5, served), Reading(110, 5, served))
    assert (figures.precision_ns, figures.world_ns, figures.accuracy_ns, figures.miss_count) == (2, 11, 10, 1)
    note(200, Reading(900, 5, ClockState.FREE_RUNNING), Reading(98, 200, served), Reading(200, 5, served))
    assert (figures.accuracy_ns, figures.error_ns, figures.backward_count) == (102, 200, 1)
    named = figures.named()
    assert (named["clock_free_running"], named["clock_synchronised"], named["clock_readings"]) == (1, 2, 5)
