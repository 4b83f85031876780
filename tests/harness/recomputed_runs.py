"""Routes that change: random compositions with cycles, routers that crash for good, and what must not happen.

Groups stand in a ring, neighbours joined by one router, or by two routers and an IGP between them; a chord may shorten
some ways. A schedule crashes a router for good while traffic flows, so that the rest is still joined; it may crash
another one that comes back, and a process. What is judged is what fail-over is judged by (router_failover.py): nothing
lost, orphaned, repeated, made up, or out of its author's order; and the run must come to rest.
"""

from __future__ import annotations

from random import Random

import msgspec
from tests.harness.composed_runs import DURATION_MS, composed_scenario
from tests.harness.router_failover import DETECTION_MS, judged

from isthmus.protocols.routing.calculus.model import (
    Composition,
    Igp,
    OrderingDomain,
    ProcessGroup,
    RouterSpec,
    Semantics,
)
from isthmus.protocols.routing.options import RouterOptions
from isthmus.scenario.faults import Crash, Fault, Recover
from isthmus.scenario.model import Membership, Scenario
from isthmus.sim.run import SimRun
from isthmus.trace.schema import Row

ORDERS: tuple[Semantics, ...] = ("fifo", "causal", "fifo-total")
APART_MS = 150.0  # between a crash of a router and one of a process: the views between them are installed


def ring_of(orders: tuple[Semantics, ...], members: int, linked: tuple[bool, ...], chord: bool = False) -> Composition:
    """Groups in a ring; where linked, an IGP lies between a group and the next."""
    groups = tuple(
        ProcessGroup(f"g{at}", tuple(f"g{at}-{place}" for place in range(members)), order)
        for at, order in enumerate(orders)
    )
    routers: list[RouterSpec] = []
    igps: list[Igp] = []
    for at, is_linked in enumerate(linked):
        here, there = f"g{at}", f"g{(at + 1) % len(orders)}"
        if is_linked:
            igps.append(Igp(f"i{at}", "fifo", kind="link"))
            routers += [RouterSpec(f"r{at}-out", (here, f"i{at}")), RouterSpec(f"r{at}-in", (f"i{at}", there))]
        else:
            routers.append(RouterSpec(f"r{at}", (here, there)))
    if chord:
        routers.append(RouterSpec("chord", ("g0", "g2")))
    domain = OrderingDomain("ring", tuple(group.name for group in groups), "fifo", "all")
    return Composition("ring", groups, tuple(routers), (domain,), tuple(igps))


def random_ring(random: Random) -> Composition:
    count = random.choice((3, 3, 4))
    orders = tuple(random.choice(ORDERS) for _ in range(count))
    linked = tuple(random.random() < 0.3 for _ in range(count))
    return ring_of(orders, random.choice((1, 2, 2)), linked, chord=count == 4 and random.random() < 0.3)


def random_crashes(composition: Composition, random: Random) -> tuple[Fault, ...]:
    """One router crashes for good; perhaps another one for a while before, and a process."""
    names = [router.name for router in composition.routers]
    first, second = random.sample(names, 2)
    start = round(random.uniform(150.0, DURATION_MS), 3)
    faults: list[Fault] = [Crash(at_ms=start, site=first)]
    if random.random() < 0.4:  # for a while there may be no way at all
        down = round(random.uniform(5.0, DURATION_MS - 60.0), 3)
        back = round(random.uniform(down + 50.0, DURATION_MS), 3)
        faults += [Crash(at_ms=down, site=second), Recover(at_ms=back, site=second)]
    elif random.random() < 0.3 and start > APART_MS:
        group = random.choice(composition.groups)
        if len(group.members) > 1:
            faults.append(Crash(at_ms=round(start - APART_MS, 3), site=random.choice(group.members)))
    return tuple(sorted(faults, key=lambda fault: fault.at_ms))


def recomputed_scenario(seed: int) -> Scenario:
    """A ring with traffic and crashes, whose routes are recomputed."""
    random = Random(f"recomputed/{seed}")
    composition = random_ring(random)
    drawn = composed_scenario(composition, f"recomputed/{seed}")
    options = RouterOptions(routes="recomputed", pack_max=random.choice((1, 1, 4)), window=random.choice((3, 1024)))
    faults = random_crashes(composition, random)
    membership = Membership(detection_ms=DETECTION_MS, stagger_ms=random.choice((0.0, 15.0)))
    return msgspec.structs.replace(drawn, router=options, faults=faults, membership=membership)


def recomputed_faults(scenario: Scenario) -> list[str]:
    """What went wrong in a run, a sentence each."""
    rows: list[Row] = []
    run = SimRun(scenario, rows)
    found = judged(scenario, rows, run.execute().rejected_count)
    return found if run.at_rest() else [*found, "the run did not come to rest"]
