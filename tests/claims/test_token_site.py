"""Token-site: a message takes two network delays, the sequencer's own takes one: the price of a fixed sequencer."""

from __future__ import annotations

import pytest

from isthmus.core.layer import Kind
from isthmus.core.units import NS_PER_MS
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Poisson
from isthmus.sim.run import SimRun
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import GROUP, KIND, ORIGIN, TIME_NS, Row


@pytest.mark.parametrize("transport", ["reliable", "direct"])
@pytest.mark.parametrize("delay_ms", [1, 25, 500])
@pytest.mark.parametrize("sequencer", [0, 3])
def test_latency_is_exactly_two_delays_and_one_for_the_sequencer(transport, delay_ms, sequencer):
    channel = Channel(Constant(delay_ms))
    topology = mesh(5, 1, channel, channel)
    scenario = Scenario(
        topology=topology,
        stack=StackSpec(name="token-site", transport=transport, sequencer=topology.sites[sequencer].name),
        workloads=(Poisson(rate_per_s=20),),
        duration_ms=2_000,
        seed=7,
    )
    rows: list[Row] = []
    SimRun(scenario, rows).execute()
    submitted = {row[ORIGIN:GROUP]: row[TIME_NS] for row in rows if row[KIND] == Kind.SUBMIT}
    last = dict.fromkeys(submitted, 0)
    for row in rows:
        if row[KIND] == Kind.DELIVER:
            last[row[ORIGIN:GROUP]] = max(last[row[ORIGIN:GROUP]], row[TIME_NS])
    latencies = {key: last[key] - submitted[key] for key in submitted}
    own = {latency for (_, sender, _), latency in latencies.items() if sender == sequencer}
    others = {latency for (_, sender, _), latency in latencies.items() if sender != sequencer}
    assert len(latencies) > 100
    assert own == {delay_ms * NS_PER_MS}
    assert others == {2 * delay_ms * NS_PER_MS}
