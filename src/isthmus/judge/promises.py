"""What the stacks of a scenario promise, judged in the process: one verdict per group and promised property."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from isthmus.core.layer import Kind
from isthmus.core.message import ONLY_GROUP
from isthmus.protocols.routing.routes import replica_names
from isthmus.scenario.composition.check import addressed, group_number, routes_of
from isthmus.scenario.faults import Crash
from isthmus.scenario.model import GroupOfRun, Scenario
from isthmus.stacks.registry import ALWAYS, STACKS
from isthmus.stacks.ring_bound import HostTimes, RingCosts, costs_of
from isthmus.trace.schema import KIND, PROCESS, Row

OF_CLOCKS = ("clock-precision", "clock-accuracy")  # of all sites, told in the first group


def promised(scenario: Scenario, group: GroupOfRun) -> tuple[str, ...]:
    """The properties that a group of a scenario promises.

    A site that votes by its file has lost its frames: what only such sites had handed up may be in no cut.
    """
    clocks = OF_CLOCKS if scenario.clocks.service is not None and group.id == ONLY_GROUP else ()
    if scenario.composition is not None:
        return (*promised_of_node(scenario, group), *clocks)
    membership = scenario.membership
    lasting = membership.kind == "agreed" and not membership.agreed.file
    return (*STACKS[group.stack.name].promises(group.stack.safe, lasting), *clocks)


def promised_of_node(scenario: Scenario, group: GroupOfRun) -> tuple[str, ...]:
    """The properties that a group of a composition promises by itself; orders are promised by domains.

    What is on its way through a router that is alone and crashes is lost. A group that sends nothing to itself owes
    nothing to its members by their own messages.
    """
    composition = scenario.composition
    assert composition is not None
    if not group.processes:
        return ()
    alone = {name for router in composition.routers if router.replicas == 1 for name in replica_names(router)}
    gone = [one.site for one in scenario.faults_of_run() if isinstance(one, Crash) and one.site in alone]
    lossy = bool(gone) and not finds_ways(scenario, gone)
    lossy |= any(igp.kind == "datagrams" for igp in composition.igps)
    routes = routes_of(composition, scenario.topology)
    owed = any(
        group_number(composition, workload.group) == group.id and group.id in to
        for workload in scenario.workloads
        for to in addressed(routes, workload, group.id)
    )
    known = STACKS[group.stack.name].properties
    return tuple(name for name in ALWAYS if name in known and (name != "validity" or (owed and not lossy)))


def lost_routers(scenario: Scenario, rows: Iterable[Row]) -> list[str]:
    """The routers without replicas of which a life has ended: by a crash, or as others went on without them.

    None where routes are recomputed and there is a way between all groups without them: then nothing is lost.
    """
    composition = scenario.composition
    if composition is None:
        return []
    routes = routes_of(composition, scenario.topology)
    alone: dict[int, str] = {
        site: composition.routers[at].name for site, at in routes.router_of.items() if len(routes.sites[at]) == 1
    }
    ended = dict.fromkeys(row[PROCESS] for row in rows if row[KIND] == Kind.CRASH)
    found = [alone[site] for site in ended if site in alone]
    return [] if finds_ways(scenario, found) else found


def finds_ways(scenario: Scenario, gone: Sequence[str]) -> bool:
    """Whether routes are recomputed, and there is a way between all groups without some routers."""
    composition = scenario.composition
    if composition is None or scenario.router.routes == "static":
        return False
    left = [router.joins for router in composition.routers if router.name not in gone]
    reached = {composition.groups[0].name}
    for _ in left:
        for joins in left:
            if not reached.isdisjoint(joins):
                reached.update(joins)
    return all(group.name in reached for group in composition.groups)


def promise_of(scenario: Scenario) -> str:
    """What the stacks of a scenario promise, in one word of a trace's description."""
    names = [name for group in scenario.groups_of_run() for name in promised(scenario, group)]
    return ",".join(dict.fromkeys(names))


def latency_bound(scenario: Scenario, group: GroupOfRun) -> RingCosts | None:
    """What bounds the latency of a group's messages; None where nothing does.

    Where hosts take time, only of a ring that is alone on its LAN, and where messages of the application alone take it:
    how many acknowledgements a transport sends, nobody promises.
    """
    if "ring" not in STACKS[group.stack.name].options:
        return None
    costs, hosts = scenario.network.costs, None
    if costs is not None:
        if not costs.control_free or any(group.name in lan and len(lan) > 1 for lan in costs.lans):
            return None
        times = (costs.send_us, costs.wire_us, costs.receive_us, costs.token_us)
        hosts = HostTimes(*(time_us / 1000 for time_us in times))
    return costs_of(scenario.topology, group.members, group.stack.ring.batch, hosts)
