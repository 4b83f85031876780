"""Sites that come back over links that are far slower than configured, with a large message under way: all get in."""

from __future__ import annotations

import pytest

from isthmus.core.layer import Kind
from isthmus.fuzz.judge import judge_run
from isthmus.fuzz.watch import WatchedRun
from isthmus.protocols.fragments import FragmentOptions
from isthmus.protocols.membership.suspicion import Timing
from isthmus.scenario.faults import Crash, Recover
from isthmus.scenario.model import Agreed, Membership, Scenario, StackSpec
from isthmus.scenario.workload import Burst, Poisson
from isthmus.topology.delay import Constant, Uniform
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import KIND, VALUE, Row

BACK_MS = {0: 600, 1: 800, 2: 1_000, 4: 1_200}  # after the crash of all but site 3


@pytest.mark.parametrize("seed", [1, 2])
def test_joiners_do_not_push_each_other_out(seed: int) -> None:
    """Round trips of ten times the configured 20 ms, as to busy processes: each view that let in two left out two.

    No member is suspected. It took 13 and 8 views, and 13 and 5 lives ended; live, on a busy machine, over a minute.
    """
    far = Channel(Uniform(100, 101), bandwidth_mbps=20.0)
    topology = mesh(5, 1, Channel(Constant(1)), far)
    names = [site.name for site in topology.sites]
    timing = Timing(heartbeat_ms=100, floor_ms=1_000, ceiling_ms=6_000)
    faults = [
        fault
        for site, back_ms in BACK_MS.items()
        for fault in (Crash(at_ms=500, site=names[site]), Recover(at_ms=500 + back_ms, site=names[site]))
    ]
    large = Burst(
        period_ms=60_000, burst_count=66, payload_bytes=60_000, sites=(names[3],), start_ms=2_600, stop_ms=2_610
    )
    scenario = Scenario(
        topology=topology,
        stack=StackSpec(name="token-site", safe=True, fragments=FragmentOptions(piece_bytes=1_200)),
        seed=seed,
        workloads=(Poisson(rate_per_s=50, payload_bytes=100), large),
        membership=Membership(kind="agreed", agreed=Agreed(file=True, round_trip_ms=20, lan=timing, wan=timing)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        duration_ms=8_000,
        drain_ms=60_000,
    )
    rows: list[Row] = []
    assert judge_run(WatchedRun(scenario, rows), rows).violations() == []
    assert sum(row[KIND] == Kind.RECOVER for row in rows) == len(BACK_MS), "lives that were let in were left out"
    assert max(row[VALUE] for row in rows if row[KIND] == Kind.VIEW) <= 6
