"""The judgement of one run: what its scenario promises, and the verdict on all of that from the rows of its trace.

A `RunJudge` is a sink: a host feeds it rows as they are written; `judge` feeds it rows that exist already. Judged are
the properties of every group's stack, what the domains of a composition want, and what participants are promised. A
run of more than `ROWS_MAX` rows, about a gigabyte, is not judged: every verdict on it is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import msgspec

from isthmus import __version__
from isthmus.core.layer import Kind
from isthmus.core.message import ONLY_GROUP
from isthmus.judge.arrange import outer_groups
from isthmus.judge.history import KEPT, KEPT_IN_PART
from isthmus.judge.oracle import Oracle
from isthmus.judge.participants import participant_verdict
from isthmus.judge.verdict import Verdict, exit_code
from isthmus.measure.optimism import Guesses, guesses
from isthmus.protocols.routing.routes import replica_names
from isthmus.scenario.composition.check import addressed, domains_of, group_number, routes_of, wanted_properties
from isthmus.scenario.faults import Crash
from isthmus.scenario.model import GroupOfRun, Scenario
from isthmus.scenario.participants.trace import participant_group
from isthmus.scenario.participants.traffic import ParticipantEvent
from isthmus.stacks.registry import ALWAYS, STACKS
from isthmus.stacks.ring_bound import HostTimes, RingCosts, costs_of
from isthmus.trace.domain import META_DOMAINS, written_domains
from isthmus.trace.schema import GROUP, KIND, PROCESS, PROMISES, VALUE, Row

ROWS_MAX = 3_000_000
OF_CLOCKS = ("clock-precision", "clock-accuracy")  # of all sites, told in the first group
IN_PARTICIPANT_GROUPS = ("integrity", "agreement", "validity", "views", "fifo", "total")  # where the stack has them


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


def trace_meta(scenario: Scenario) -> dict[str, str]:
    """The description that a trace carries of its scenario, and of what its stacks promise."""
    meta = {"scenario": scenario.name, "seed": str(scenario.seed), "stack": scenario.stack.name}
    if scenario.composition is not None:
        meta[META_DOMAINS] = written_domains(domains_of(scenario.composition))
    promises = [name for group in scenario.groups_of_run() for name in promised(scenario, group)]
    meta[PROMISES] = ",".join(dict.fromkeys(promises))
    meta["isthmus"] = __version__
    meta["sites"] = json.dumps([site.name for site in scenario.topology.sites], ensure_ascii=False)
    return meta


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


class ParticipantVerdicts(msgspec.Struct, frozen=True):
    """The verdicts on one participant group, as the trace shows it."""

    group: str
    era: int  # the site view in which its view numbers began
    verdicts: tuple[Verdict, ...]


class Judgement(msgspec.Struct, frozen=True):
    """The verdicts on one run."""

    verdicts: tuple[Verdict, ...] = ()  # by group, then by domain, then on participants where their history is known
    participants: tuple[ParticipantVerdicts, ...] = ()
    lost_routers: tuple[str, ...] = ()  # routers without replicas that ended: validity is not judged

    def counted(self) -> list[Verdict]:
        """The verdicts that count: of a participant group, which may be too quiet to judge, only the violations."""
        nested = [verdict for group in self.participants for verdict in group.verdicts]
        return [*self.verdicts, *(verdict for verdict in nested if verdict.status == "violated")]

    def violated(self) -> list[Verdict]:
        return [verdict for verdict in self.counted() if verdict.status == "violated"]

    def statuses(self) -> list[str]:
        return [verdict.status for verdict in self.counted()]

    def exit_code(self) -> int:
        return exit_code(self.statuses())


class RunJudge:
    """A sink that judges one run when it has ended; `also` are more properties to judge in every group."""

    __slots__ = ("_oracle", "also", "full", "kept", "scenario")

    def __init__(self, scenario: Scenario, also: Sequence[str] = ()) -> None:
        self.scenario = scenario
        self.also = also
        self.kept: list[Row] = []
        self.full = False  # more than ROWS_MAX rows came, which are not kept
        self._oracle: Oracle | None = None  # made when it is needed: not every run is judged

    @property
    def oracle(self) -> Oracle:
        if self._oracle is None:
            composition = self.scenario.composition
            self._oracle = Oracle(domains=() if composition is None else domains_of(composition))
            self._oracle.rows = self.kept
        return self._oracle

    def append(self, row: Row) -> None:
        kind = row[KIND]
        if kind in KEPT:
            if len(self.kept) < ROWS_MAX:
                self.kept.append(row)
            else:
                self.full = True
        elif kind in KEPT_IN_PART:
            self.oracle.append(row)

    def judgement(self, events: Sequence[ParticipantEvent] = ()) -> Judgement:
        """Judge the rows so far; `events` are those of participants, where the host records them."""
        if self.full:
            return self.unjudged(f"not judged: over {ROWS_MAX:,} rows; `isthmus check` takes more")
        scenario = self.scenario
        lost = lost_routers(scenario, self.kept)
        found = []
        for group in scenario.groups_of_run():
            if group.processes:
                asked = [name for name in promised(scenario, group) if name != "validity" or not lost]
                found += self.oracle.in_group(group.id, tuple(dict.fromkeys((*asked, *self.also))))
        found += self.domain_verdicts()
        if events:
            up = lives_up(scenario, self.kept)
            for group in scenario.groups_of_run():
                if own := [event for event in events if event.within == group.id]:
                    found.append(participant_verdict(group, own, up))
        return Judgement(tuple(found), tuple(self.participant_verdicts()), tuple(lost))

    def unjudged(self, reason: str) -> Judgement:
        """Every promised property as unknown, for a reason."""
        groups = [group for group in self.scenario.groups_of_run() if group.processes]
        names = [(name, group.id) for group in groups for name in (*promised(self.scenario, group), *self.also)]
        return Judgement(tuple(Verdict(name, "unknown", 0, 0, reason, group) for name, group in dict.fromkeys(names)))

    def domain_verdicts(self) -> list[Verdict]:
        """The verdicts on what each domain of a composition wants, end to end."""
        composition = self.scenario.composition
        if composition is None:
            return []
        wanted = {domain.name: wanted_properties(domain) for domain in composition.domains}
        asked = tuple(dict.fromkeys(name for names in wanted.values() for name in names))
        return [one for one in self.oracle.scoped(asked) if one.domain and one.property in wanted[one.domain]]

    def participant_verdicts(self) -> list[ParticipantVerdicts]:
        """The verdicts on participant groups, as groups nested in those of sites."""
        if not self.scenario.participants:
            return []
        outer = outer_groups(self.kept)
        site_views = dict.fromkeys((row[GROUP], row[VALUE]) for row in self.kept if row[KIND] == Kind.VIEW)
        names = dict.fromkeys(one.group for one in self.scenario.participants)
        found = []
        for group in self.scenario.groups_of_run():
            asked = [name for name in IN_PARTICIPANT_GROUPS if name in STACKS[group.stack.name].properties]
            for era in sorted(view for number, view in site_views if number == group.id):
                for name in names:
                    number = participant_group(group.id, name, era)
                    if outer.get(number) == group.id:
                        verdicts = self.oracle.in_group(number, asked)
                        found.append(ParticipantVerdicts(name, era, tuple(verdicts)))
        return found

    def guesses(self) -> Guesses | None:
        """How well tentative deliveries predicted the final order; None where no stack makes any."""
        promises = [STACKS[group.stack.name].properties for group in self.scenario.groups_of_run()]
        return guesses(self.kept) if any("final" in names for names in promises) and not self.full else None


def judge(scenario: Scenario, rows: Iterable[Row], also: Sequence[str] = ()) -> Judgement:
    """Judge all rows of one run of a scenario."""
    found = RunJudge(scenario, also)
    for row in rows:
        found.append(row)
    return found.judgement()


def lives_up(scenario: Scenario, rows: Iterable[Row]) -> list[tuple[int, int]]:
    """The sites that are up at the end of a run, each with its incarnation."""
    up: dict[int, int | None] = dict.fromkeys(range(len(scenario.topology.sites)), 0)
    for row in rows:
        if row[KIND] == Kind.CRASH:
            up[row[PROCESS]] = None
        elif row[KIND] == Kind.RECOVER:
            up[row[PROCESS]] = row[VALUE]
    return [(site, incarnation) for site, incarnation in up.items() if incarnation is not None]
