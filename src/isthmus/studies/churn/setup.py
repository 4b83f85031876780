"""The runs of the study `churn`: how often members come and go, in groups of different sizes.

Clusters of four sites. The first five sites stay: they keep the directory, and one of them coordinates views; they send
most messages, so that a gap between deliveries is seen. Of the *guests* at most two are away at a time: one leaves, the
other crashes, then one returns and the next one goes, evenly spaced. The load of those that stay does not depend on the
number of guests, nor on what these do.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from isthmus.protocols.causal.flooding.directory.replica import KEEPERS_MAX
from isthmus.scenario.faults import Crash, Fault, Leave, Recover
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.workload import Periodic
from isthmus.studies.churn.claims import LAN_MS, STACKS, WAN_MS
from isthmus.studies.model import Cell, Scale
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

CLUSTER_SITES = 4
STAYING = KEEPERS_MAX
AWAY = 2  # guests at one time
RATE_PER_S, GUEST_RATE_PER_S = 20.0, 2.0  # messages of a site that stays, and of one that does not
PAYLOAD_BYTES = 100
WARM_UP_MS, LAST_MS, SENDING_MS, DRAIN_MS = 1_000.0, 5_000.0, 6_000.0, 60_000.0  # changes: between the first two
SITES: dict[Scale, tuple[int, ...]] = {"quick": (8, 12), "full": (8, 16, 32)}
CHANGES_PER_S: dict[Scale, tuple[float, ...]] = {"quick": (0.0, 1.0, 2.0), "full": (0.0, 0.5, 1.0, 2.0, 4.0)}


def changes(guests: Sequence[str], rate_per_s: float) -> list[Fault]:
    """Evenly spaced: a leave, a crash, then by turns a return and the next that goes, each site after all others."""
    faults: list[Fault] = []
    inside, away = list(guests), list[str]()
    for number in range(round(rate_per_s * (LAST_MS - WARM_UP_MS) / 1000)):
        at_ms = WARM_UP_MS + (number + 0.5) * 1000 / rate_per_s
        if len(away) < AWAY:
            away.append(inside.pop(0))
            kind = Crash if (number + 1) // 2 % 2 else Leave
            faults.append(kind(at_ms=at_ms, site=away[-1]))
        else:
            inside.append(away.pop(0))
            faults.append(Recover(at_ms=at_ms, site=inside[-1]))
    return faults


def scenario_of(stack: str, sites: int, rate_per_s: float, seed: int) -> Scenario:
    topology = mesh(sites // CLUSTER_SITES, CLUSTER_SITES, Channel(Constant(LAN_MS)), Channel(Constant(WAN_MS)))
    names = tuple(site.name for site in topology.sites)
    staying, guests = names[:STAYING], names[STAYING:]
    loads = ((staying, RATE_PER_S), (guests, GUEST_RATE_PER_S))
    return Scenario(
        name="churn",
        topology=topology,
        stack=StackSpec(name=stack),
        workloads=tuple(Periodic(rate_per_s=rate, payload_bytes=PAYLOAD_BYTES, sites=sites) for sites, rate in loads),
        seed=seed,
        duration_ms=SENDING_MS,
        drain_ms=DRAIN_MS,
        faults=tuple(changes(guests, rate_per_s)),
        membership=Membership(kind="agreed"),
    )


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    """Every stack with the same sites, load and changes."""
    return [cell(*which) for which in product(STACKS, SITES[scale], CHANGES_PER_S[scale], seeds)]


def cell(stack: str, sites: int, rate_per_s: float, seed: int) -> Cell:
    scenario = scenario_of(stack, sites, rate_per_s, seed)
    asked = len(scenario.faults)
    return Cell(
        {"protocol": stack, "sites": sites, "changes_per_s": rate_per_s, "asked": asked, "seed": seed}, scenario
    )
