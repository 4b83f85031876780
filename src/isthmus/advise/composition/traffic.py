"""The traffic between sites that a composition is planned for, from the workloads of a scenario."""

from __future__ import annotations

from collections.abc import Sequence

from isthmus.advise.composition.plan import SiteFlow
from isthmus.advise.order.traffic import mean_rate
from isthmus.core.validation import BadValue
from isthmus.scenario.workload import Closed, Reply, Workload, named_sites
from isthmus.topology.model import Topology


def flows_between(topology: Topology, workloads: Sequence[Workload], notes: list[str]) -> list[SiteFlow]:
    """What each site sends where; adds notes on what is left out."""
    found: list[SiteFlow] = []
    everyone = tuple(range(len(topology.sites)))
    for index, workload in enumerate(workloads):
        key = f"workloads[{index}]"
        if isinstance(workload, Reply):
            notes.append(f"{key} are replies: left out of the plan")
            continue
        if isinstance(workload, Closed):
            notes.append(f"{key} is a closed loop, without a rate of its own: left out of the plan")
            continue
        try:
            senders = workload.senders(topology)
            to = everyone
            if isinstance(workload.to, int):
                notes.append(f"{key} goes to sites drawn at random: planned as if to all")
            elif isinstance(workload.to, tuple):
                to = tuple(map(int, named_sites(topology, workload.to, "to")))
        except BadValue as error:
            raise BadValue(f"{key}.{error.key}", error.found, error.expected) from None
        for place, site in enumerate(senders):
            rate = mean_rate(workload, place, len(senders)) / 1000
            if rate > 0:
                found.append(SiteFlow(int(site), to, rate))
    return found
