"""What the causal study rests on: local messages stay in their zone, and R1 to R4 alone keep order and grow."""

from __future__ import annotations

import pytest

from isthmus.core.layer import Kind
from isthmus.core.validation import BadValue
from isthmus.fuzz.judge import judge_run
from isthmus.fuzz.watch import WatchedRun
from isthmus.protocols.causal.options import CausalPolicy
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.studies.causal.setup import Traffic, causal_scenario
from isthmus.trace.schema import GAUGE, KIND, VALUE, Gauge, Row

GAUGED = CausalPolicy(gauge_ms=50.0)


def gauged(scenario: Scenario, gauge: Gauge) -> list[int]:
    """The readings of a gauge in a run that keeps what it promises."""
    rows: list[Row] = []
    assert judge_run(WatchedRun(scenario, rows), rows).failures() == []
    return [row[VALUE] for row in rows if row[KIND] == Kind.GAUGE and row[GAUGE] == gauge]


@pytest.mark.parametrize("traffic", ["groups", "subsets", "nested"])
def test_nothing_local_is_told_outside_its_zone(traffic: Traffic) -> None:
    leaving = gauged(causal_scenario(3, 4, "causal-separators", GAUGED, 1, traffic), Gauge.ZONE_ENTRIES)
    assert leaving
    assert not any(leaving)


def test_without_separators_it_is() -> None:
    policy = CausalPolicy(gauge_ms=50.0, separators=False)
    assert any(gauged(causal_scenario(3, 4, "causal-separators", policy, 1), Gauge.ZONE_ENTRIES))


def test_r1_to_r4_alone_keep_order_and_tell_all_of_the_past() -> None:
    policy = CausalPolicy(gauge_ms=50.0, pruning=False)
    told = gauged(causal_scenario(3, 4, "causal-history", policy, 1), Gauge.TIMESTAMP_ENTRIES)
    assert max(told) > len(told) // 2  # of all messages
    bounded = gauged(causal_scenario(3, 4, "causal-history", GAUGED, 1), Gauge.TIMESTAMP_ENTRIES)
    assert max(bounded) < max(told) // 4


@pytest.mark.parametrize(("stack", "entries"), [("causal-vector", 12), ("causal-matrix", 144)])
def test_baselines_count_hosts_alone(stack: str, entries: int) -> None:
    assert set(gauged(causal_scenario(3, 4, stack, GAUGED, 1), Gauge.TIMESTAMP_ENTRIES)) == {entries}


@pytest.mark.parametrize("stack", ["flooding", "flooding-dynamic"])
def test_safe_delivery_is_refused_where_nobody_is_told_who_has_what(stack: str) -> None:
    with pytest.raises(BadValue, match="a flood tells nobody who has what"):
        StackSpec(name=stack, safe=True)
