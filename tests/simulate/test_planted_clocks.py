"""Each bug that is planted in the clock service shows in a run, and in the trace that it leaves."""

from __future__ import annotations

import pytest
from tests.harness.clock_runs import clocks, lans, run, scenario
from tests.planted.clocks import adopt_as_of_now, choose_by_consistency, mean

from isthmus.judge.judgement import judge
from isthmus.scenario.clocks import Broadcasts, Clocks, TimeService
from isthmus.scenario.faults import ReferenceJump
from isthmus.scenario.model import Scenario
from isthmus.trace.schema import Row


def drifting() -> Scenario:
    """2 rho P is 5 ms: as much as a repeated frame is late."""
    return scenario(lans(1, sites=4), clocks(250e-6, period_s=10), 30, trace="events")


def lied_to() -> Scenario:
    return scenario(lans(3, sites=4), clocks(), 20, ReferenceJump(at_ms=0, site="a-1", by_ms=1), trace="events")


def slow() -> Scenario:
    """Agreement takes long, clocks drift much, and nothing else leaves the interval any room."""
    world = Clocks(
        drift_ppm=1000,
        extreme=True,
        reference_error_us=1,
        broadcast=Broadcasts(tightness_us=1),
        service=TimeService(agreement_ms=500, sample_ms=7, gate_ms=1000),
    )
    return scenario(lans(1, sites=4), world, 5, trace="events")


PLANTED = {
    "choice by consistency of stamps": ("service.choose", choose_by_consistency, drifting),
    "mean instead of median": ("agreement.median", mean, lied_to),
    "an interval that forgets agreement time": ("service.ClockService.adopt", adopt_as_of_now, slow),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, bug, make = PLANTED[name]
    assert caught(make()) == set(), "without the bug all is well"
    monkeypatch.setattr(f"isthmus.protocols.clocks.{place}", bug)
    assert "clock-accuracy" in caught(make())


def caught(made: Scenario) -> set[str]:
    rows: list[Row] = []
    done = run(made, rows)
    verdicts = [one for one in judge(made, rows).verdicts if one.property.startswith("clock-")]
    assert len(verdicts) == 2 and all(verdict.status != "unknown" for verdict in verdicts)
    broken = {verdict.property for verdict in verdicts if verdict.status == "violated"}
    assert done.time is not None and bool(done.time.figures.miss_count) == ("clock-accuracy" in broken)
    return broken
