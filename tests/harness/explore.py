"""Schedules of the agreement alone, drawn or enumerated, on a bench where every step is a choice (bench.py).

Problem: what goes wrong in a consensus goes wrong in rare orders of few packets, which runs of whole scenarios seldom
meet. Idea: a chooser decides which packet under way arrives, is lost or comes twice, who ticks, who suspects whom, who
crashes and comes back. It may draw (thousands of short schedules in seconds), or follow a plan (all schedules that
differ from the plain one in a few places).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from random import Random

from tests.harness.membership_bench import ROUND_NS, Bench, Kind

from isthmus.core.message import SiteId
from isthmus.protocols.membership.agreement import Agreement


def random_schedule(seed: int, kind: Kind = Agreement, steps: int = 300) -> Bench:
    """A bench after a schedule that a seed stands for: mostly quiet, or full of rival coordinators."""
    random = Random(f"explore/{seed}")
    bench = Bench(random.choice([2, 3, 3, 4, 5]), files=random.random() < 0.5, kind=kind)
    rivalry = random.random() < 0.6
    doubt = random.choice([0.05, 0.15]) if rivalry else random.choice([0.01, 0.04])
    loss = random.choice([0.0, 0.02, 0.1, 0.3])
    patience = random.choice([3, 12]) if rivalry else 2  # round trips that may pass between two ticks
    for _ in range(steps):
        one, other = random.choice(bench.sites), random.choice(bench.sites)
        draw = random.random()
        if draw < 0.04:
            bench.submit(one)
        elif draw < 0.04 + doubt:
            if one != other:
                bench.suspect(one, other, (one, other) not in bench.suspicions)
        elif draw < 0.04 + 1.2 * doubt:
            bench.crash(one) if bench.at[one].alive and random.random() < 0.4 else bench.recover(one)
        elif bench.pool and draw < (0.75 if rivalry else 0.9):
            place = random.randrange(min(len(bench.pool), random.choice([1, 4, 1000])))
            if random.random() < loss:
                del bench.pool[place]
            else:
                bench.arrive(place, keep=random.random() < 0.05)
        else:
            bench.now_ns += random.randrange(patience * ROUND_NS)
            (bench.rebel if rivalry and random.random() < 0.25 else bench.tick)(one)
    return bench


# All schedules that differ from the plain one in a few places

Deviation = tuple[int, str, int]  # before which step, what, where


def planned_schedule(plan: tuple[Deviation, ...], kind: Kind = Agreement, files: bool = False) -> Bench:
    """Three sites, two messages and two view changes: one is suspected, left out, and comes back as a new life.

    Packets arrive in the order sent, timers fire when nothing is under way; but for the deviations of the plan.
    """
    bench = Bench(3, files, kind)
    last = SiteId(2)
    bench.submit(SiteId(1))
    bench.submit(last)
    step = 0
    for phase in range(3):
        if phase < 2:
            for site in bench.sites[:2]:
                bench.suspect(site, last, suspected=phase == 0)
        idle = 0
        while idle < 12:
            for _, what, where in [deviation for deviation in plan if deviation[0] == step]:
                deviate(bench, what, SiteId(where))
            step += 1
            if bench.pool:
                bench.arrive(0)
            else:
                idle += 1
                bench.now_ns += ROUND_NS
                bench.fire_due()
        bench.recover(SiteId(0))
        bench.recover(SiteId(1))
    return bench


def deviate(bench: Bench, what: str, site: SiteId) -> None:
    if what == "lose":
        del bench.pool[:1]
    elif what == "delay":
        bench.pool += bench.pool[:1]
        del bench.pool[:1]
    elif what == "crash":
        bench.crash(site)
    elif what == "suspect":
        other = SiteId((site + 1) % 3)
        bench.suspect(site, other, (site, other) not in bench.suspicions)


def plans(steps: int, most: int, every: int = 1) -> Iterator[tuple[Deviation, ...]]:
    """All plans of at most so many deviations within so many steps."""
    single: list[Deviation] = [
        (step, what, where)
        for step, what in product(range(0, steps, every), ("lose", "delay", "crash", "suspect"))
        for where in (range(3) if what in ("crash", "suspect") else (0,))
    ]
    for count in range(most + 1):
        yield from combinations(single, count)
