"""Random scenarios of the clock service, with faults within its assumptions, and their judge.

Everything is drawn from a seed: LANs with and without references, drift, tightness, periods, repeats and losses; faults
of references, sites and links. Within the assumptions: in a LAN, those references that lie, are dead or whose site
crashes are at most f of 2f + 1, unless none lies; then any number may be dead. Then every interval holds true time, and
no clock runs backwards once it is synchronised.

    python -m harness.clock_scenarios 17 18   replays the runs of two seeds
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from random import Random

from isthmus.core.message import SiteId
from isthmus.scenario.clocks import Broadcasts, Clocks, TimeService
from isthmus.scenario.faults import (
    ClockJump,
    Crash,
    DelayShift,
    Fault,
    Heal,
    Loss,
    Partition,
    Recover,
    ReferenceDeath,
    ReferenceJump,
    ReferenceLie,
)
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.workload import Periodic
from isthmus.sim.run import SimRun
from isthmus.topology.delay import Uniform
from isthmus.topology.model import Channel, Cluster, Topology, TopologySite, WanLink

ROUNDS = (8, 24)  # a run lasts for so many periods
REFERENCES = (0, 1, 1, 3, 3, 5)  # of a LAN that has as many sites


def random_topology(random: Random) -> Topology:
    """One to four LANs of one to seven sites; the first has a reference."""
    clusters: list[Cluster] = []
    sites: list[TopologySite] = []
    for number in range(random.choice((1, 1, 2, 3, 4))):
        ids = tuple(SiteId(len(sites) + place) for place in range(random.randint(1, 7)))
        sites += [TopologySite(f"lan{number}-{place}", number) for place in range(len(ids))]
        wanted = random.choice(REFERENCES) if number else max(1, random.choice(REFERENCES))
        references = tuple(random.sample(ids, min(wanted, len(ids))))
        low_ms = random.uniform(0.05, 0.5)
        lan = Channel(Uniform(low_ms, low_ms + random.uniform(0, 2)), loss=random.choice((0, 0, 0.02)))
        clusters.append(Cluster(f"lan{number}", ids, random.choice(ids), lan, references=references))
    links = []
    for b in range(1, len(clusters)):
        ways = [Channel(Uniform(ms, ms * random.uniform(1, 1.5))) for ms in (random.uniform(2, 60) for _ in range(2))]
        links.append(WanLink(random.randrange(b), b, *ways))
    return Topology("random LANs", tuple(sites), tuple(clusters), tuple(links))


def random_clocks(random: Random) -> Clocks:
    tightness_us = 10 ** random.uniform(0, 4)
    period_ms = random.choice((200.0, 1000.0, 10_000.0))
    window_ms = max(10.0, 6 * tightness_us / 1000)
    return Clocks(
        offset_ms=random.choice((0.0, 10.0, 5000.0)),
        drift_ppm=10 ** random.uniform(-1, 3),
        extreme=random.random() < 0.7,
        granularity_us=random.choice((0.0, 1.0, 50.0)),
        reference_error_us=10 ** random.uniform(0, 3),
        broadcast=Broadcasts(
            tightness_us=tightness_us, repeat=random.choice((0, 0.2, 0.6)), loss=random.choice((0, 0.01, 0.1))
        ),
        service=TimeService(
            period_ms=period_ms,
            window_ms=window_ms,
            agreement_ms=random.choice((20.0, min(100.0, period_ms / 4))),
            rate_correction=random.random() < 0.4,
            sample_ms=period_ms / random.uniform(1, 5),
        ),
    )


def random_faults(random: Random, topology: Topology, duration_ms: float) -> list[Fault]:
    """Faults of references, sites and links, within the assumptions."""
    faults: list[Fault] = []

    def span() -> tuple[float, float]:
        start = random.uniform(0, 0.8) * duration_ms
        return start, start + random.uniform(0.02, 0.5) * duration_ms

    for cluster in topology.clusters:
        names = [topology.sites[site].name for site in cluster.sites]
        references = [topology.sites[site].name for site in cluster.references]
        faulty = random.sample(references, random.randint(0, max(0, (len(references) - 1) // 2)))
        lying = False
        for site in faulty:
            start, end = span()
            kind = random.choice(("lie", "jump", "jump"))
            by_ms = 10 ** random.uniform(-2, 4)
            lying = True
            if kind == "lie":
                faults.append(ReferenceLie(at_ms=start, until_ms=end, site=site, by_ms=by_ms))
            else:
                faults.append(ReferenceJump(at_ms=start, until_ms=end, site=site, by_ms=random.choice((-1, 1)) * by_ms))
        for site in references:
            if not lying and random.random() < 0.3:
                start, end = span()
                faults.append(ReferenceDeath(at_ms=start, until_ms=end, site=site))
        able = [name for name in names if name not in references or name in faulty or not lying]
        for site in able:
            if random.random() < 0.15:
                start, end = span()
                faults.append(Crash(at_ms=start, site=site))
                if random.random() < 0.7 and end < duration_ms:
                    faults.append(Recover(at_ms=end, site=site))
    if random.random() < 0.3:
        start, end = span()
        faults += [Partition(at_ms=start, groups=((random.choice(topology.clusters).name,),)), Heal(at_ms=end)]
    if random.random() < 0.3:
        start, end = span()
        faults.append(Loss(at_ms=start, until_ms=end, probability=random.uniform(0, 0.5)))
    if random.random() < 0.3:
        start, end = span()
        faults.append(DelayShift(at_ms=start, until_ms=end, factor=random.uniform(1, 5)))
    if random.random() < 0.2:
        name = random.choice(topology.sites).name
        faults.append(ClockJump(at_ms=span()[0], site=name, by_ms=random.uniform(-5000, 5000)))
    return sorted((fault for fault in faults if fault.at_ms <= duration_ms), key=lambda fault: fault.at_ms)


def random_clock_scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    random = Random(f"clocks/{seed}")
    topology, clocks = random_topology(random), random_clocks(random)
    assert clocks.service is not None
    duration_ms = random.uniform(*ROUNDS) * clocks.service.period_ms
    return Scenario(
        name=f"random-clocks-{seed}",
        seed=seed,
        topology=topology,
        stack=StackSpec(name="fifo"),
        workloads=(Periodic(rate_per_s=1, count=1, sites=(topology.sites[0].name,)),),
        duration_ms=duration_ms,
        drain_ms=0,
        clocks=clocks,
        membership=Membership(detection_ms=random.choice((50.0, 500.0, 3000.0))),
        faults=tuple(random_faults(random, topology, duration_ms)),
        wire=random.choice(("reference", "codec")),
        trace="none",
    )


def judged(run: SimRun) -> str:
    """What a run broke, as one sentence; "" for nothing."""
    assert run.time is not None
    found = run.time.figures
    if found.miss_count:
        return f"{found.miss_count} of {found.reading_count} intervals do not hold true time"
    if found.backward_count:
        return f"{found.backward_count} of {found.reading_count} readings are earlier than the one before"
    return "packets were rejected" if run.summary.rejected_count else ""


def broken_by(seeds: Sequence[int]) -> tuple[list[str], int]:
    """What the runs of some seeds broke, each with its replay command; and how many intervals were seen."""
    wrong, seen = [], 0
    for seed in seeds:
        run = SimRun(random_clock_scenario(seed))
        run.execute()
        assert run.time is not None
        seen += run.time.figures.reading_count
        if found := judged(run):
            wrong.append(f"seed {seed}: {found}; replay: python -m harness.clock_scenarios {seed}")
    return wrong, seen


if __name__ == "__main__":
    told, count = broken_by([int(word) for word in sys.argv[1:]])
    print("\n".join(told) or f"{count:,} intervals, all with true time in them")
    sys.exit(bool(told))
