"""What the stacks of a scenario promise, judged in the process: one verdict per group and promised property."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from isthmus.core.layer import Kind
from isthmus.core.message import ONLY_GROUP
from isthmus.judge.nested import outer_groups
from isthmus.judge.oracle import Oracle, Verdict
from isthmus.protocols.routing.routes import replica_names
from isthmus.scenario.composition.check import addressed, domains_of, group_number, routes_of, wanted_properties
from isthmus.scenario.faults import Crash
from isthmus.scenario.model import GroupOfRun, Scenario
from isthmus.scenario.participants.trace import light_group
from isthmus.stacks.registry import ALWAYS, STACKS
from isthmus.stacks.ring_bound import HostTimes, RingCosts, costs_of
from isthmus.trace.schema import GROUP, KIND, PROCESS, VALUE, Row

OF_CLOCKS = ("clock-precision", "clock-accuracy")  # of all sites, told in the first group
OF_PARTICIPANTS = ("integrity", "agreement", "validity", "views", "fifo", "total")  # as far as the stack promises it


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


def ended_alone(scenario: Scenario, rows: Iterable[Row]) -> list[str]:
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


def domain_verdicts(scenario: Scenario, rows: Iterable[Row]) -> list[Verdict]:
    """The verdicts on what each domain of a composition wants, end to end, given all rows of one run."""
    composition = scenario.composition
    if composition is None:
        return []
    oracle = Oracle(rows, domains_of(composition))
    asked = {domain.name: wanted_properties(domain) for domain in composition.domains}
    properties = tuple(dict.fromkeys(name for names in asked.values() for name in names))
    return [
        verdict for verdict in oracle.scoped(properties) if verdict.domain and verdict.property in asked[verdict.domain]
    ]


def promise_of(scenario: Scenario) -> str:
    """What the stacks of a scenario promise, in one word of a trace's description."""
    names = [name for group in scenario.groups_of_run() for name in promised(scenario, group)]
    return ",".join(dict.fromkeys(names))


class LightVerdicts(NamedTuple):
    """What is found of one participant group."""

    name: str
    era: int  # the site view in which its numbers began
    verdicts: list[Verdict]


def promised_verdicts(scenario: Scenario, rows: Iterable[Row], also: Sequence[str] = ()) -> list[Verdict]:
    """The verdicts on what each group's stack promises, and on what else is asked, given all rows of one run.

    Where the life of a router that is alone has ended, validity is not asked for: what it had in hand is lost.
    """
    lost = False
    if scenario.composition is not None:
        rows = list(rows)
        lost = bool(ended_alone(scenario, rows))
    oracle = Oracle(rows)
    groups = []
    for group in scenario.groups_of_run():
        if group.processes:
            asked = [name for name in promised(scenario, group) if name != "validity" or not lost]
            groups += oracle.in_group(group.id, tuple(dict.fromkeys((*asked, *also))))
    return groups + domain_verdicts(scenario, rows)


def light_verdicts(scenario: Scenario, rows: list[Row]) -> list[LightVerdicts]:
    """The verdicts on what participant groups are promised, given all rows of one run."""
    oracle, outer = Oracle(rows), outer_groups(rows)
    site_views = dict.fromkeys((row[GROUP], row[VALUE]) for row in rows if row[KIND] == Kind.VIEW)
    found = []
    for group in scenario.groups_of_run():
        promised = STACKS[group.stack.name].properties
        asked = [name for name in OF_PARTICIPANTS if name in promised]
        names = dict.fromkeys(one.group for one in scenario.participants)
        for era in sorted(view for number, view in site_views if number == group.id):
            for name in names:
                number = light_group(group.id, name, era)
                if outer.get(number) == group.id:
                    found.append(LightVerdicts(name, era, oracle.in_group(number, asked)))
    return found


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
