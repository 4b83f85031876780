"""Nothing that was delivered safely is lost where no process crashes, however often sites are cut off and slow.

Three messages were once lost: five sites, two of them cut off; a healthy but slow member gave its life up, as a cut did
not come in time, and with it the frames and the report that the quorum rested on.
"""

from __future__ import annotations

from random import Random

import pytest

from isthmus.fuzz.judge import judge_run
from isthmus.fuzz.watch import WatchedRun
from isthmus.judge.oracle import Oracle
from isthmus.protocols.membership.suspicion import Timing
from isthmus.scenario.faults import DelayShift, Fault, Heal, Loss, Partition
from isthmus.scenario.membership import Agreed
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.workload import Poisson
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import Row

NAMES = ("c0-0", "c1-0", "c2-0", "c3-0", "c4-0")
DURATION_MS = 4_000.0
FEW = 5  # seeds in every run of the tests
CHUNK = 25


def scenario(seed: int) -> Scenario:
    """Sites 1 and 4 are cut off for a while, twice; another is slow, links are, and some packets are lost."""
    random = Random(f"safe-cuts/{seed}")
    mbps = random.choice([2.0, 10.0, 100.0])
    wan = Channel(Constant(random.choice([5, 20, 40])), bandwidth_mbps=mbps)
    faults: list[Fault] = []
    for start_ms in (500, 2_000):
        at_ms = start_ms + random.uniform(0, 300)
        faults.append(Partition(at_ms=at_ms, groups=((NAMES[1], NAMES[4]),)))
        faults.append(Heal(at_ms=at_ms + random.uniform(200, 900)))
    slow = random.choice(NAMES)
    at_ms = random.uniform(300, 2_500)
    faults.append(DelayShift(at_ms=at_ms, until_ms=at_ms + 800, source=(slow,), add_ms=random.uniform(50, 600)))
    if random.random() < 0.5:
        lossy = random.choice(NAMES)
        faults.append(Loss(at_ms=400, until_ms=3_000, source=(lossy,), probability=random.uniform(0.02, 0.2)))
    heartbeat = Timing(heartbeat_ms=50, floor_ms=200, ceiling_ms=3_000)
    return Scenario(
        topology=mesh(5, 1, Channel(Constant(0.1)), wan),
        stack=StackSpec(name="optimistic", safe=True),
        workloads=(Poisson(rate_per_s=random.choice([10, 30]), payload_bytes=random.choice([100, 4_000])),),
        membership=Membership(kind="agreed", agreed=Agreed(file=True, lan=heartbeat, wan=heartbeat)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        duration_ms=DURATION_MS,
        seed=seed,
    )


def lost(seed: int) -> list[str]:
    rows: list[Row] = []
    made = scenario(seed)
    judged = judge_run(WatchedRun(made, rows), rows)
    uniform = Oracle(rows).in_group(made.groups_of_run()[0].id, ["uniform-agreement"])
    return [*judged.violations(), *(str(one.witness) for one in uniform if one.status == "violated")]


def test_nothing_delivered_safely_is_lost_in_some_runs() -> None:
    assert [(seed, found) for seed in range(FEW) if (found := lost(seed))] == []


@pytest.mark.full
@pytest.mark.parametrize("first", range(FEW, 400, CHUNK))
def test_nothing_delivered_safely_is_lost(first: int) -> None:
    assert [(seed, found) for seed in range(first, first + CHUNK) if (found := lost(seed))] == []
