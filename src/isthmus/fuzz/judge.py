"""Run a scenario and say whether its stacks kept their promises.

A failed run is one that broke a promise, raised an error, did not come to rest, broke a rule that no trace tells
(watch.py), or gave no evidence to judge by: silence is no proof. Each group of a run is judged by what its own stack
promises; of a second group, which may be small and short-lived, no evidence is asked.
"""

from __future__ import annotations

import traceback

import msgspec

from isthmus.core.layer import Kind
from isthmus.fuzz.group_rows import rows_of_group, strangers
from isthmus.fuzz.watch import Limits, WatchedRun, limits_of
from isthmus.judge.oracle import Oracle, Verdict
from isthmus.judge.promises import promised
from isthmus.measure.summary import RunSummary
from isthmus.scenario.model import Scenario
from isthmus.sim.base import Progress
from isthmus.stacks.registry import Build
from isthmus.trace.schema import KIND, PROCESS, VALUE, Row


class Judged(msgspec.Struct):
    """A run with its verdicts, or the error that ended it."""

    scenario: Scenario
    summary: RunSummary
    verdicts: list[Verdict]  # of the first group
    others: list[tuple[str, Verdict]]  # of the other groups, by their names
    found: list[str]  # what was seen to go wrong besides
    error: str = ""  # a traceback

    def failures(self) -> list[str]:
        """What is wrong with the run, a sentence each; nothing for a good one."""
        return self.violations() or [
            f"{v.property} unknown: {v.witness}" for v in self.verdicts if v.status == "unknown"
        ]

    def violations(self) -> list[str]:
        """What the run broke; not what it gave no evidence of."""
        if self.error:
            return [f"error: {self.error.strip().splitlines()[-1]}"]
        violated = [f"{v.property} violated: {v.witness}" for v in self.verdicts if v.status == "violated"]
        elsewhere = [
            f"{v.property} violated in group {name!r}: {v.witness}" for name, v in self.others if v.status == "violated"
        ]
        return [*violated, *elsewhere, *self.found]


def judge(
    scenario: Scenario,
    build: Build | None = None,
    progress: Progress | None = None,
    limits: Limits | None = None,
) -> Judged:
    """Run a scenario in memory and let the oracle judge it; `build` plants another stack in its place."""
    rows: list[Row] = []
    return judge_run(WatchedRun(scenario, rows, build), rows, progress, limits)


def judge_run(
    run: WatchedRun, rows: list[Row], progress: Progress | None = None, limits: Limits | None = None
) -> Judged:
    """Carry out a run that writes into rows, and judge it."""
    scenario = run.scenario
    try:
        found = run.watch(limits or limits_of(scenario), progress)
    except Exception:
        return Judged(scenario, run.summary, [], [], [], traceback.format_exc())
    found += [*strangers(rows), *refusals(rows)]
    verdicts = [Oracle(rows_of_group(rows, group.id)).verdicts(promised(scenario, group)) for group in run.groups]
    named = zip(run.groups[1:], verdicts[1:], strict=True)
    others = [(group.name, verdict) for group, given in named for verdict in given]
    return Judged(scenario, run.summary, verdicts[0], others, found)


def refusals(rows: list[Row]) -> list[str]:
    """The first packet that a site refused; none should be where all keep to the protocol."""
    refused = [row for row in rows if row[KIND] == Kind.REJECT]
    return [f"process {row[PROCESS]} refused a packet of process {row[VALUE]}" for row in refused[:1]]
