"""View changes with megabytes under way on slow links: twice the time of the bare transfer, plus a second."""

from __future__ import annotations

import pytest

from isthmus.core.layer import Kind
from isthmus.fuzz.judge import judge_run
from isthmus.fuzz.watch import WatchedRun
from isthmus.protocols.fragments import FragmentOptions
from isthmus.scenario.faults import Crash, Recover
from isthmus.scenario.membership import Agreed
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.workload import Burst
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import KIND, TIME_NS, VALUE, Row

MBPS = 10.0
NS_PER_S = 1e9


def scenario(total_bytes: int, crash_ms: float, victim: str, file: bool = False, back: bool = False) -> Scenario:
    """Two LANs of two sites, 10 Mbit/s between them; one site sends it all at once, and crashes."""
    count = total_bytes // 30_000
    topology = mesh(2, 2, Channel(Constant(0.1), bandwidth_mbps=1_000), Channel(Constant(20), bandwidth_mbps=MBPS))
    faults = [Crash(at_ms=crash_ms, site=victim)]
    return Scenario(
        topology=topology,
        stack=StackSpec(name="fifo", fragments=FragmentOptions(piece_bytes=30_000)),
        workloads=(
            Burst(
                period_ms=60_000, burst_count=count, payload_bytes=30_000, sites=("c0-0",), start_ms=100, stop_ms=110
            ),
        ),
        membership=Membership(kind="agreed", agreed=Agreed(file=file)),
        faults=(*faults, *([Recover(at_ms=crash_ms + 300, site=victim)] if back else [])),
        duration_ms=20_000,
    )


def change_s(rows: list[Row], crash_ms: float) -> float:
    """From the crash to the view at the last of the survivors."""
    views = [row for row in rows if row[KIND] == Kind.VIEW and row[TIME_NS] > crash_ms * 1e6]
    second = min(row[VALUE] for row in views)
    return max(row[TIME_NS] for row in views if row[VALUE] == second) / NS_PER_S - crash_ms / 1e3


@pytest.mark.parametrize("crash_ms", [150.0, 600.0])
def test_a_view_change_takes_at_most_twice_the_bare_transfer_and_a_second(crash_ms: float) -> None:
    """2 MB at 10 Mbit/s, of which the sender's neighbour has all: the bare transfer takes 1.6 s. It once took 59 s."""
    rows: list[Row] = []
    made = scenario(2_000_000, crash_ms, "c0-0")
    judged = judge_run(WatchedRun(made, rows), rows)
    assert judged.violations() == []
    bare_s = 2_000_000 * 8 / (MBPS * 1e6)
    assert change_s(rows, crash_ms) < 2 * bare_s + 1


@pytest.mark.parametrize("victim", ["c0-0", "c0-1", "c1-0"])
def test_a_site_killed_amid_megabytes_that_comes_back_by_its_file_does_not_stop_the_group(victim: str) -> None:
    """It has lost its frames, and votes: the group once stood for good."""
    rows: list[Row] = []
    made = scenario(2_000_000, 400.0, victim, file=True, back=True)
    assert judge_run(WatchedRun(made, rows), rows).violations() == []
