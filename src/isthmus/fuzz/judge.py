"""Runs of random scenarios, and whether each run was good.

A failed run violates a promise, raises an error, does not come to rest, breaks a rule that is not visible in a trace
(watch.py), or gives no evidence to judge by; a second group need not give any.
"""

from __future__ import annotations

import traceback

import msgspec

from isthmus.core.layer import Kind
from isthmus.fuzz.watch import Limits, WatchedRun, limits_of
from isthmus.judge.judgement import RunJudge
from isthmus.judge.result import RunResult
from isthmus.judge.verdict import Verdict
from isthmus.measure.summary import RunSummary
from isthmus.scenario.model import Scenario
from isthmus.sim.base import Progress
from isthmus.sim.simulate import result_of
from isthmus.stacks.registry import Build
from isthmus.trace.schema import KIND, PROCESS, VALUE, Row


class FuzzResult(msgspec.Struct, frozen=True):
    """Result of a random scenario, with the faults that are not visible in a trace."""

    result: RunResult
    found: tuple[str, ...] = ()

    @property
    def summary(self) -> RunSummary:
        return self.result.summary

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts on the first group."""
        first = self.result.scenario.groups_of_run()[0].id
        return [verdict for verdict in self.result.verdicts if verdict.group == first]

    def failures(self) -> list[str]:
        """List the failures of a run, one sentence each; empty for a good run."""
        unknown = [verdict for verdict in self.verdicts if verdict.status == "unknown"]
        return self.violations() or [f"{verdict.property} unknown: {verdict.witness}" for verdict in unknown]

    def violations(self) -> list[str]:
        """List the violations of a run, without the unknown verdicts."""
        if self.result.error:
            return [f"error: {self.result.error.strip().splitlines()[-1]}"]
        names = {int(group.id): f" in group {group.name!r}" for group in self.result.scenario.groups_of_run()[1:]}
        violated = [] if self.result.judgement is None else self.result.judgement.violated()
        return [*(f"{one.property} violated{names.get(one.group, '')}: {one.witness}" for one in violated), *self.found]


def judge(
    scenario: Scenario,
    build: Build | None = None,
    progress: Progress | None = None,
    limits: Limits | None = None,
) -> FuzzResult:
    """Run a scenario in memory and judge it; `build` plants another stack."""
    rows: list[Row] = []
    return judge_run(WatchedRun(scenario, rows, build), rows, progress, limits)


def judge_run(
    run: WatchedRun, rows: list[Row], progress: Progress | None = None, limits: Limits | None = None
) -> FuzzResult:
    """Execute a run that writes into rows, and judge it."""
    scenario, judge = run.scenario, RunJudge(run.scenario)
    try:
        found = run.watch(limits or limits_of(scenario), progress)
    except Exception:
        return FuzzResult(result_of(run, judge, None, traceback.format_exc()))
    for row in rows:
        judge.append(row)
    judgement = judge.judgement(run.participant_events)
    return FuzzResult(result_of(run, judge, judgement), (*found, *refusals(rows)))


def refusals(rows: list[Row]) -> list[str]:
    """Report the first packet that a site rejected; correct sites send none that are rejected."""
    refused = [row for row in rows if row[KIND] == Kind.REJECT]
    return [f"process {row[PROCESS]} refused a packet of process {row[VALUE]}" for row in refused[:1]]
