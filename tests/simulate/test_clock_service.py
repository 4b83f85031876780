"""The clock service in the simulator: the specification's figures, its bounds, faults, and what random runs show."""

from __future__ import annotations

import msgspec
import pytest
from tests.harness.clock_runs import clocks, lans, options, run, scenario
from tests.harness.clock_scenarios import broken_by

from isthmus.core.layer import ClockState, Kind
from isthmus.judge.judgement import judge
from isthmus.measure.clocks import ClockFigures
from isthmus.protocols.clocks.options import accuracy_ns, precision_ns, worldwide_ns
from isthmus.scenario.faults import (
    Crash,
    Heal,
    Loss,
    Partition,
    Pause,
    Recover,
    ReferenceDeath,
    ReferenceJump,
    ReferenceLie,
)
from isthmus.scenario.model import Membership, StackSpec
from isthmus.sim.run import SimRun
from isthmus.trace.schema import GAUGE, KIND, TIME_NS, VALUE, Gauge, Row

US, MS = 1_000, 1_000_000
SYNCHRONISED, HOLD_OVER, FREE = ClockState.SYNCHRONISED, ClockState.HOLD_OVER, ClockState.FREE_RUNNING


def figures(done: SimRun) -> ClockFigures:
    assert done.time is not None
    found = done.time.figures
    assert found.reading_count and not found.miss_count and not found.backward_count
    return found


def states(done: SimRun, *names: str) -> list[ClockState | None]:
    last = figures(done).last
    return [last[done.scenario.topology.site_id(name)].state for name in names]


@pytest.mark.parametrize(
    ("drift", "tightness_us", "period_s", "precision_us", "accuracy_us"),
    [(1e-6, 1, 1, 3.2, 3.5), (1e-5, 10, 10, 211, 110)],
)
def test_the_figures_of_the_specification(
    drift: float, tightness_us: float, period_s: float, precision_us: float, accuracy_us: float
) -> None:
    """The worst of 40 rounds and 3 seeds, read just before the next installation."""
    found = []
    for seed in (1, 2, 3):
        made = scenario(lans(1), clocks(drift, tightness_us, period_s, sample_ms=1e9), 41, seed=seed)
        found.append(figures(run(made)))
    precision, accuracy = (max(getattr(one, name) for one in found) for name in ("precision_ns", "accuracy_ns"))
    assert precision / US == pytest.approx(precision_us, rel=0.15) and precision <= precision_ns(options(made))
    assert accuracy / US == pytest.approx(accuracy_us, rel=0.15) and accuracy <= accuracy_ns(options(made))


@pytest.mark.parametrize("tightness_us", [1, 100, 10_000])
def test_precision_depends_on_tightness_and_stays_within_its_bound(tightness_us: float) -> None:
    made = scenario(lans(3), clocks(1e-6, tightness_us, window_ms=80, agreement_ms=60), 20)
    found = figures(run(made))
    assert found.precision_ns <= precision_ns(options(made)) and found.accuracy_ns <= accuracy_ns(options(made))
    assert found.precision_ns >= tightness_us * US / 2


def test_a_reference_that_is_worse_than_assumed_makes_wrong_intervals_and_a_better_one_wide_ones() -> None:
    """What is true decides how far a reference is off; what is assumed, which error it publishes."""
    made = scenario(lans(1), msgspec.structs.replace(clocks(reference_error_us=1), reference_error_us=900), 10)
    found = run(made).time
    assert found is not None and found.figures.miss_count
    wide = figures(run(scenario(lans(1), clocks(reference_error_us=900), 10)))
    assert wide.accuracy_ns < 100 * US < 900 * US < wide.error_ns


def test_any_two_nodes_of_lans_with_references_are_within_twice_the_accuracy() -> None:
    made = scenario(lans(1, 3, 1, sites=4), clocks(), 20)
    assert 0 < figures(run(made)).world_ns <= worldwide_ns(options(made))


def test_three_references_outvote_one_that_is_a_second_off() -> None:
    for fault in (ReferenceJump, ReferenceLie):
        made = scenario(lans(3), clocks(), 20, fault(at_ms=5_000, site="a-1", by_ms=1_000))
        assert figures(run(made)).accuracy_ns <= accuracy_ns(options(made)) < MS // 10


def test_one_that_is_a_second_off_from_the_start_is_outvoted_too() -> None:
    made = scenario(lans(3), clocks(), 20, ReferenceJump(at_ms=0, site="a-1", by_ms=1_000))
    assert figures(run(made)).accuracy_ns <= accuracy_ns(options(made))


@pytest.mark.parametrize("gate_ms", [None, 3.0])
def test_a_single_reference_that_is_a_second_off_is_not_believed_and_costs_drift_only(gate_ms: float | None) -> None:
    jump = ReferenceJump(at_ms=5_000, site="a-0", by_ms=1_000)
    made = scenario(lans(1), clocks(gate_ms=gate_ms), 30, jump)
    done = run(made)
    assert states(done, "a-0", "a-7") == [HOLD_OVER, HOLD_OVER]
    assert figures(done).accuracy_ns <= accuracy_ns(options(made)) + 25 * 10 * US + 30 * 11 * US


def test_a_dead_reference_means_hold_over_and_its_return_ends_it() -> None:
    death = ReferenceDeath(at_ms=5_000, until_ms=15_000, site="a-0")
    assert states(run(scenario(lans(1), clocks(), 14, death)), "a-3") == [HOLD_OVER]
    assert states(run(scenario(lans(1), clocks(), 20, death)), "a-3") == [SYNCHRONISED]


def test_in_hold_over_the_clocks_of_a_lan_stay_together_and_the_bound_grows_by_drift() -> None:
    death = ReferenceDeath(at_ms=5_000, site="a-0")
    made = scenario(lans(1), clocks(), 305, death)
    done = run(made)
    assert all(site.time_service is not None and not site.time_service.missed_count for site in done.sites)
    found = figures(done)
    assert found.precision_ns <= precision_ns(options(made))
    # Less than drift alone: what a fast clock and a slow one allow narrows both.
    assert 300 * 10 * US / 2 < found.error_ns < 300 * 10 * US + accuracy_ns(options(made)), (
        "members narrow each other's"
    )


def test_a_lan_without_a_reference_takes_time_by_round_trips_and_says_what_that_costs() -> None:
    made = scenario(lans(1, 0, wan={"delay": 55, "back": {"delay": 5}}), clocks(), 20)
    done = run(made)
    assert states(done, "b-0", "b-7") == [SYNCHRONISED, SYNCHRONISED]
    found = figures(done)
    assert 24 * MS < found.accuracy_ns < 26 * MS, "half the asymmetry cannot be told"
    assert 30 * MS < found.error_ns < 33 * MS, "half the round trip is in the interval"
    assert found.precision_ns <= precision_ns(options(made, 1)), "and the LAN's clocks are as near each other as ever"


def test_it_asks_another_agent_where_the_nearest_is_silent() -> None:
    down = Crash(at_ms=100, site="a-0")
    done = run(scenario(lans(1, 0, 1, sites=3), clocks(), 20, down))
    assert states(done, "b-0", "c-0") == [SYNCHRONISED, SYNCHRONISED]


def test_round_trips_may_take_longer_than_the_questions_are_apart() -> None:
    done = run(scenario(lans(1, 0, sites=3, wan=90.0), clocks(period_s=0.2), 20))
    assert states(done, "b-0", "b-2") == [SYNCHRONISED, SYNCHRONISED]


def test_another_site_asks_where_the_agent_is_down() -> None:
    done = run(scenario(lans(1, 0, sites=3), clocks(), 20, Crash(at_ms=6_000, site="b-0")))
    assert states(done, "b-1", "b-2") == [SYNCHRONISED, SYNCHRONISED]


def test_a_lan_that_is_cut_off_for_an_hour_holds_over_and_returns() -> None:
    cut = (Partition(at_ms=20_000, groups=(("b",),)), Heal(at_ms=3_620_000))
    wide = clocks(period_s=10)
    assert states(run(scenario(lans(1, 0, sites=3), wide, 361, *cut[:1])), "b-0", "a-0") == [HOLD_OVER, SYNCHRONISED]
    done = run(scenario(lans(1, 0, sites=3), wide, 372, *cut))
    assert states(done, "b-0", "b-2") == [SYNCHRONISED, SYNCHRONISED]
    assert 36 * MS < figures(done).error_ns < 70 * MS


def test_without_any_reference_clocks_agree_with_each_other_and_promise_nothing() -> None:
    done = run(scenario(lans(0, sites=4), clocks(), 20))
    assert done.time is not None and not done.time.figures.reading_count
    readings = [reading for _, reading in sorted(done.time.figures.last.items())]
    assert [reading.state for reading in readings] == [FREE] * 4
    times = [site.time_service.clock.read(site.now_ns()) for site in done.sites if site.time_service is not None]
    assert max(times) - min(times) <= precision_ns(options(done.scenario))


def test_a_crash_in_the_middle_of_a_round_costs_that_round_and_those_until_the_next_view() -> None:
    crash = Crash(at_ms=5_015, site="a-2")  # candidates are sent, tables are not
    done = run(scenario(lans(3, sites=4), clocks(), 12, crash))
    service = done.sites[0].time_service
    assert service is not None and service.missed_count == 1 and service.adopted_count >= 11
    assert states(done, "a-0") == [SYNCHRONISED]


def test_a_site_that_comes_back_is_synchronised_again() -> None:
    back = (Crash(at_ms=3_000, site="a-2"), Recover(at_ms=6_000, site="a-2"))
    done = run(scenario(lans(1, sites=4), clocks(), 12, *back))
    assert states(done, "a-2") == [SYNCHRONISED]


def test_a_site_that_joins_a_lan_in_hold_over_gets_its_interval_from_the_others() -> None:
    faults = (
        ReferenceDeath(at_ms=4_000, site="a-0"),
        Crash(at_ms=5_000, site="a-2"),
        Recover(at_ms=8_000, site="a-2"),
    )
    assert states(run(scenario(lans(1, sites=4), clocks(), 14, *faults)), "a-2") == [HOLD_OVER]


def test_where_candidates_and_tables_are_lost_the_next_ones_do() -> None:
    made = scenario(lans(3, sites=4), clocks(), 60, Loss(at_ms=10_000, until_ms=50_000, probability=0.1))
    done = run(made)
    service = done.sites[0].time_service
    assert service is not None and service.missed_count > 0 and service.adopted_count > 40
    assert figures(done).miss_count == 0


@pytest.mark.parametrize("trace", ["none", "wire"])
def test_a_site_that_stood_still_keeps_the_stamps_of_what_came_meanwhile(trace: str) -> None:
    """Packets wait in the kernel while a process is stopped: a stamp made when it goes on would be a second late."""
    made = scenario(
        lans(1, sites=3),
        clocks(),
        15,
        *(Pause(at_ms=at, until_ms=at + 900, site=f"a-{at % 3}") for at in range(4_005, 12_000, 1_000)),
        membership=Membership(kind="agreed"),
        stack=StackSpec(name="fifo"),
        wire="sized",
        trace=trace,
    )
    assert figures(run(made, [])).reading_count > 30


def test_the_rate_is_corrected_where_that_narrows_the_interval() -> None:
    plain, corrected = (
        figures(run(scenario(lans(1), clocks(period_s=10, rate_correction=on, wander_ppm=0.01), 40))) for on in (0, 1)
    )
    last = [max(reading.error_ns or 0 for reading in one.last.values()) for one in (plain, corrected)]
    assert last[1] < last[0] / 2
    made = scenario(lans(1), clocks(1e-6, 1, 1, rate_correction=True), 40)
    assert figures(run(made)).error_ns <= accuracy_ns(options(made)), "elsewhere it is left alone"


def test_readings_are_in_the_trace_and_both_promises_are_kept() -> None:
    rows: list[Row] = []
    made = scenario(lans(1, 0, sites=3), clocks(sample_ms=500), 10, trace="events")
    run(made, rows)
    readings = [row for row in rows if row[KIND] == Kind.CLOCK]
    told = [row for row in rows if row[KIND] == Kind.GAUGE and row[GAUGE] == Gauge.CLOCK_BOUND_NS]
    assert {row[GAUGE] for row in readings} == {FREE, SYNCHRONISED}
    assert len(told) == len(readings) and all(row[VALUE] >= 0 for row in told)
    instants = {row[TIME_NS] for row in readings}
    assert 500 * MS in instants, "all sites are read at the same true instants"
    verdicts = {verdict.property: verdict for verdict in judge(made, rows).verdicts}
    assert verdicts["clock-accuracy"].status == verdicts["clock-precision"].status == "valid"
    assert verdicts["clock-accuracy"].evidence_count == len(readings)


def test_random_runs_with_faults_within_the_assumptions() -> None:
    wrong, seen = broken_by(range(150))
    assert not wrong, "\n".join(wrong)
    assert seen > 10_000


@pytest.mark.full
@pytest.mark.parametrize("block", range(4))
def test_many_random_runs_with_faults_within_the_assumptions(block: int) -> None:
    wrong, seen = broken_by(range(150 + 500 * block, 650 + 500 * block))
    assert not wrong, "\n".join(wrong)
    assert seen > 100_000
