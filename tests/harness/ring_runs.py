"""Rings that lose tokens and members: random runs, judged by their order and by the bound on latency.

A run has troubles and calm between them. A trouble is a time in which packets are lost, tokens among them, or the crash
of a member, which may hold the token, and perhaps its return. After each trouble there is time for repair, views and
what has gathered meanwhile. The order is judged over the whole run; the bound holds while its assumptions do: for every
message that is submitted in a calm, and may take as long as the bound without leaving it. Nobody submits more than a
batch in the longest rotation, so that no more than a batch waits anywhere in a calm.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from isthmus.core.layer import Kind
from isthmus.core.units import NS_PER_MS
from isthmus.fuzz.judge import judge_run
from isthmus.fuzz.watch import WatchedRun
from isthmus.judge.judgement import latency_bound
from isthmus.protocols.total.ring.ring import RingOptions
from isthmus.scenario.faults import Crash, Fault, Loss, Recover
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.workload import Periodic
from isthmus.stacks.registry import Build
from isthmus.stacks.ring_bound import RingCosts
from isthmus.topology.delay import Uniform
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import KIND, NUMBER, SENDER, TIME_NS, Row

BEGUN_MS = 100.0  # by then all members are in the first view
CALM_MS = (300.0, 800.0)
# After a trouble, until its backlog is gone: a lost packet is repeated within 200 ms, again and again.
REPAIR_MS = 2_500.0


class RingRun(NamedTuple):
    """A scenario, what bounds its latency, and when it does."""

    scenario: Scenario
    bound: RingCosts
    calms: tuple[tuple[float, float], ...]  # from, to; ms


class RingJudged(NamedTuple):
    """What is wrong with a run, and by how much the bound was tried."""

    faults: list[str]
    message_count: int  # that the bound holds for
    nearest: float  # the longest latency of these, as a share of the bound


def random_ring_run(seed: int) -> RingRun:
    """The run that a seed stands for."""
    random = Random(f"ring run/{seed}")
    members, batch, hop_ms = random.randint(2, 7), random.choice([1, 3, 10]), random.choice([0.5, 2.0, 5.0])
    channel = Channel(Uniform(0.5 * hop_ms, hop_ms))
    topology = mesh(1, members, channel, channel)
    names = [site.name for site in topology.sites]
    faults: list[Fault] = []
    calms = []
    now_ms = random.uniform(*CALM_MS)
    calms.append((BEGUN_MS, now_ms))
    for _ in range(random.randint(1, 2)):
        end_ms = trouble(random, names, now_ms, faults)
        start_ms = end_ms + REPAIR_MS
        now_ms = start_ms + random.uniform(*CALM_MS)
        calms.append((start_ms, now_ms))
    costs = RingCosts(members=members, batch=batch, hop_ms=hop_ms)
    rate_per_s = 1e3 * batch / (costs.rotation_ms() + 3 * hop_ms)
    loads = tuple(
        Periodic(
            sites=(name,), rate_per_s=min(400.0, rate_per_s) / random.choice([2, 3, 20]), jitter=0, payload_bytes=16
        )
        for name in random.sample(names, random.randint(1, members))
    )
    made = Scenario(
        name=f"ring-run-{seed}",
        topology=topology,
        stack=StackSpec(name="ring", ring=RingOptions(batch=batch)),
        workloads=loads,
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        membership=Membership(detection_ms=random.choice([20.0, 200.0]), stagger_ms=random.choice([0.0, 0.0, 20.0])),
        duration_ms=now_ms,
        drain_ms=60_000.0,
        seed=seed,
        payloads="varied",
    )
    bound = latency_bound(made, made.groups_of_run()[0])
    assert bound is not None
    return RingRun(made, bound, tuple(calms))


def trouble(random: Random, names: list[str], at_ms: float, faults: list[Fault]) -> float:
    """Add one trouble, which keeps most members up; when it is over."""
    gone = {fault.site for fault in faults if isinstance(fault, Crash)}
    up = [name for name in names if name not in gone]
    if random.random() < 0.5 or len(gone) + 1 > (len(names) - 1) // 2:
        until_ms = at_ms + random.uniform(50.0, 400.0)
        faults.append(Loss(at_ms=at_ms, until_ms=until_ms, probability=random.choice([0.1, 0.4])))
        return until_ms
    site = random.choice(up)
    faults.append(Crash(at_ms=at_ms, site=site))
    if random.random() < 0.5:
        return at_ms
    back_ms = at_ms + random.uniform(50.0, 600.0)
    faults.append(Recover(at_ms=back_ms, site=site))
    return back_ms


def judge_ring(run: RingRun, build: Build | None = None, bound_ms: float | None = None) -> RingJudged:
    """Run a scenario and judge its order and its latencies; against another stack or bound where these are given."""
    rows: list[Row] = []
    faults = judge_run(WatchedRun(run.scenario, rows, build), rows).violations()
    most_ms = run.bound.latency_ms() if bound_ms is None else bound_ms
    submitted: dict[tuple[int, int], int] = {}
    took: dict[tuple[int, int], int] = {}
    for row in rows:
        name = (row[SENDER], row[NUMBER])
        if row[KIND] == Kind.SUBMIT:
            at_ms = row[TIME_NS] / NS_PER_MS
            if any(start <= at_ms and at_ms + most_ms < end for start, end in run.calms):
                submitted[name] = row[TIME_NS]
        elif row[KIND] == Kind.DELIVER and name in submitted:
            took[name] = max(took.get(name, 0), row[TIME_NS] - submitted[name])
    longest_ms = max(took.values(), default=0) / NS_PER_MS
    if longest_ms > most_ms:
        faults.append(f"a message took {longest_ms:.2f} ms, more than the bound of {most_ms:.2f} ms")
    return RingJudged(faults, len(took), longest_ms / most_ms)
