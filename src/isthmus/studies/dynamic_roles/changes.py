"""Networks that change, without notice to any process, at the start of each phase but the first:

- *delays*: A B C and D E at a constant load; the WAN becomes five times faster and slow again, then one LAN slow;
- *link*: three pairs of sites; a link fails, so that traffic between its ends takes the detour by the third pair;
- *cloud*: six regions as far apart as those of a cloud, the load of which moves from region to region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from isthmus.scenario.faults import DelayShift, Fault
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Workload
from isthmus.studies.dynamic_roles.claims import CLOUD, DELAYS, LINK
from isthmus.studies.model import Cell, Parameters, Scale
from isthmus.studies.tickets.instances import CLOUDS, as_topology, cloud_setting, setting_of
from isthmus.studies.tickets.setup import DRAIN_MS, SITES, WORKLOADS, five_sites
from isthmus.topology.model import Topology

PHASE_MS: dict[Scale, float] = {"quick": 10_000.0, "full": 16_000.0}
RATES = {"A": 40.0, "B": 5.0, "C": 1.0, "D": 5.0, "E": 1.0}  # where delays change
PAIR_MS, LINKS_MS = 5.0, {(0, 1): 40.0, (0, 2): 90.0, (1, 2): 100.0}  # inside a pair; between pairs
PAIR_RATES = (20.0, 2.0, 20.0, 2.0, 2.0, 2.0)
REGIONS, BUSY, QUIET = "six regions, load in one", 60.0, 2.0  # messages a second


class PhasedNetwork(NamedTuple):
    """A network whose load or delays change from phase to phase."""

    name: str
    topology: Topology
    phases: tuple[str, ...]  # names of the phases
    workloads: Callable[[str, float], Iterator[Workload]]  # by source and length of a phase
    faults: Callable[[float], tuple[Fault, ...]]  # by length of a phase


def steady(rates: Mapping[str, float]) -> Callable[[str, float], Iterator[Workload]]:
    def made(source: str, phase_ms: float) -> Iterator[Workload]:  # noqa: ARG001
        return (WORKLOADS[source](rate_per_s=rate, sites=(site,)) for site, rate in rates.items())

    return made


def changing_delays(phase_ms: float) -> tuple[Fault, ...]:
    west, east = tuple(SITES[:3]), tuple(SITES[3:])
    fast = {"at_ms": phase_ms, "until_ms": 2 * phase_ms, "factor": 0.2}
    slow = DelayShift(at_ms=3 * phase_ms, until_ms=4 * phase_ms, source=west, target=west, add_ms=200.0)
    return DelayShift(source=west, target=east, **fast), DelayShift(source=east, target=west, **fast), slow


def pairs() -> Topology:
    """Three pairs of sites, s0 s1, s2 s3 and s4 s5."""

    def delay_ms(a: int, b: int) -> float:
        return PAIR_MS if a // 2 == b // 2 else LINKS_MS[a // 2, b // 2]

    periods_ms = [1000 / rate for rate in PAIR_RATES]
    return as_topology(setting_of(delay_ms, periods_ms, "poisson", True, 0.0))


def failed_link(phase_ms: float) -> tuple[Fault, ...]:
    """Traffic between the first two pairs takes the detour by the third, as after a link failure and rerouting."""
    detour = LINKS_MS[0, 2] + LINKS_MS[1, 2] - LINKS_MS[0, 1]
    span = {"at_ms": phase_ms, "until_ms": 2 * phase_ms, "add_ms": detour}
    ends = ("s0", "s1"), ("s2", "s3")
    return DelayShift(source=ends[0], target=ends[1], **span), DelayShift(source=ends[1], target=ends[0], **span)


def moving_load(regions: Sequence[int], count: int) -> Callable[[str, float], Iterator[Workload]]:
    """One region is busy at a time, the others quiet."""

    def made(source: str, phase_ms: float) -> Iterator[Workload]:
        for place, busy in enumerate(regions):
            for region in range(count):
                rate = BUSY if region == busy else QUIET
                start_ms, stop_ms = place * phase_ms, (place + 1) * phase_ms
                yield WORKLOADS[source](rate_per_s=rate, sites=(f"s{region}",), start_ms=start_ms, stop_ms=stop_ms)

    return made


def parts() -> tuple[PhasedNetwork, ...]:
    cloud = cloud_setting(REGIONS, "poisson")
    busy = (0, 2, 4)
    pair_rates = {f"s{site}": rate for site, rate in enumerate(PAIR_RATES)}
    return (
        PhasedNetwork(
            DELAYS, five_sites(), ("slow WAN", "fast WAN", "slow again", "slow LAN"), steady(RATES), changing_delays
        ),
        PhasedNetwork(LINK, pairs(), ("whole", "link failed", "mended"), steady(pair_rates), failed_link),
        PhasedNetwork(
            CLOUD,
            as_topology(cloud),
            tuple(f"load in region {region}" for region in busy),
            moving_load(busy, len(CLOUDS[REGIONS][1])),
            lambda _: (),
        ),
    )


def cell(part: PhasedNetwork, protocol: str, stack: StackSpec, source: str, seed: int, phase_ms: float) -> Cell:
    until_ms = len(part.phases) * phase_ms
    if stack.sequencer is not None:
        stack = msgspec.structs.replace(stack, sequencer=part.topology.sites[0].name)
    scenario = Scenario(
        name="dynamic-roles",
        topology=part.topology,
        stack=stack,
        workloads=tuple(part.workloads(source, phase_ms)),
        faults=part.faults(phase_ms),
        seed=seed,
        duration_ms=until_ms,
        drain_ms=DRAIN_MS,
    )
    sites = len(part.topology.sites)
    names: Parameters = {"part": part.name, "protocol": protocol, "source": source, "sites": sites}
    return Cell({**names, "phase_ms": phase_ms, "from_ms": 0.0, "until_ms": until_ms, "seed": seed}, scenario)
