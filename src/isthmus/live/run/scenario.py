"""What a live run makes of a scenario: where nothing is said of the membership, the sites agree on views.

In the simulator the ideal service gives the views by default. Live there is none: where a scenario asks for it, or has
groups of bare datagrams, all sites are in view 1, for good, as with the ideal service where nobody fails.
"""

from __future__ import annotations

import msgspec

from isthmus.core.errors import InputError
from isthmus.live.clock.service import LIVE_SERVICE
from isthmus.scenario.faults import Crash, DelayShift, Heal, Leave, Loss, Partition, Pause, RandomFaults, Recover
from isthmus.scenario.model import Clocks, Membership, Scenario
from isthmus.scenario.workload import Periodic

SITES_MAX = 16  # processes on one machine
OF_LINKS = (Loss, DelayShift)  # one-way cuts, too: a loss with probability 1
LIVE_FAULTS = (Crash, Recover, Leave, Pause, Partition, Heal, *OF_LINKS)


def live_scenario(scenario: Scenario, source: str) -> Scenario:
    """A scenario as it runs live; raises where it asks for what a live run cannot do."""
    able = all(not group.options.bare for group in scenario.groups_of_run())
    unsaid = scenario.membership == Membership() and able
    agreed = unsaid or scenario.membership.kind == "agreed"
    for index, fault in enumerate(scenario.faults):
        kind = fault.__struct_config__.tag
        if not isinstance(fault, LIVE_FAULTS):
            right = "crash, recover, leave, pause, partition, heal, loss or delay-shift, which a live run can cause"
            raise InputError(source, f"faults[{index}]", f"a {kind}", right)
        if not (agreed or isinstance(fault, OF_LINKS)):
            right = "loss or delay-shift in a live run, unless membership is agreed"
            raise InputError(source, f"faults[{index}]", f"a {kind}", right)
    drawn = scenario.random_faults
    if drawn.clock_jumps:
        right = "0 in a live run, whose sites have the clock of this machine"
        raise InputError(source, "random_faults.clock_jumps", str(drawn.clock_jumps), right)
    if not agreed and (drawn.crashes or drawn.partitions):
        right = "losses or delay_shifts in a live run, unless membership is agreed"
        raise InputError(source, "random_faults", "crashes or partitions", right)
    if msgspec.structs.replace(scenario.clocks, service=None) != Clocks():
        expected = "no more than [clocks.service] in a live run, whose sites have the clock of this machine"
        raise InputError(source, "clocks", "clocks that are off", expected)
    if scenario.network.kind != "delays":
        raise InputError(source, "network", repr(scenario.network.kind), "delays in a live run; simulate it instead")
    if scenario.network.costs is not None:
        raise InputError(source, "network.costs", "a table", "nothing in a live run: real hosts take their own time")
    for group in scenario.groups_of_run():
        if group.stack.transport == "direct":
            where = f"groups.{group.name}.stack.transport" if group.name else "stack.transport"
            raise InputError(source, where, "'direct'", "reliable, live: UDP may lose packets")
    count = len(scenario.topology.sites)
    if count > SITES_MAX:
        raise InputError(source, "topology", f"{count} sites", f"at most {SITES_MAX}, each of which is a process here")
    return msgspec.structs.replace(scenario, membership=Membership(kind="agreed")) if unsaid else scenario


def clock_scenario(scenario: Scenario, source: str, seconds: float) -> Scenario:
    """The sites of a scenario with their clocks alone, for a time."""
    if not any(cluster.references for cluster in scenario.topology.clusters):
        raise InputError(source, "topology.clusters", "no reference", 'a cluster with references = ["a site of it"]')
    clocks = scenario.clocks
    return msgspec.structs.replace(
        scenario,
        clocks=msgspec.structs.replace(clocks, service=clocks.service or LIVE_SERVICE),
        workloads=(Periodic(rate_per_s=1.0, count=1, sites=(scenario.topology.sites[0].name,)),),  # there must be one
        participants=(),
        faults=(),
        random_faults=RandomFaults(),
        duration_ms=1e3 * seconds,
        drain_ms=0.0,
    )
