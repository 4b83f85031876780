"""The judgement of one run: the verdict on everything that its scenario promises, from the rows of its trace.

A `RunJudge` is a sink: a host feeds it rows as they are written; `judge` feeds it rows that exist already. Judged are
the properties of every group's stack, what the domains of a composition want, and what participants are promised. A
run of more than `ROWS_MAX` rows, about a gigabyte, is not judged: every verdict on it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from isthmus.core.layer import Kind
from isthmus.judge.history import KEPT
from isthmus.judge.nested import outer_groups
from isthmus.judge.oracle import Oracle
from isthmus.judge.participants import participant_verdict
from isthmus.judge.promises import lost_routers, promised
from isthmus.judge.verdict import Verdict, exit_code
from isthmus.measure.optimism import Guesses, guesses
from isthmus.scenario.composition.check import domains_of, wanted_properties
from isthmus.scenario.model import Scenario
from isthmus.scenario.participants.trace import participant_group
from isthmus.scenario.participants.traffic import ParticipantEvent
from isthmus.stacks.registry import STACKS
from isthmus.trace.schema import GROUP, KIND, PROCESS, VALUE, Row

ROWS_MAX = 3_000_000
IN_PARTICIPANT_GROUPS = ("integrity", "agreement", "validity", "views", "fifo", "total")  # where the stack has them


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

    __slots__ = ("also", "full", "kept", "oracle", "scenario")

    def __init__(self, scenario: Scenario, also: Sequence[str] = ()) -> None:
        self.scenario = scenario
        self.also = also
        domains = () if scenario.composition is None else domains_of(scenario.composition)
        self.oracle = Oracle(domains=domains)
        self.kept = self.oracle.rows
        self.full = False  # more than ROWS_MAX rows came, which are not kept

    def append(self, row: Row) -> None:
        if row[KIND] not in KEPT:
            self.oracle.append(row)
        elif len(self.kept) < ROWS_MAX:
            self.kept.append(row)
        else:
            self.full = True

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
