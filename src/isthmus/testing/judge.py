"""Run a scenario and say whether its stack kept its promises.

A failed run is one that broke a promise, raised an error, or gave no evidence to judge by: silence is no proof. Each
carries the one command that replays it.
"""

from __future__ import annotations

import traceback

import msgspec

from isthmus.scenario.model import Scenario
from isthmus.sim.run import Progress, Run
from isthmus.stacks import STACKS, Build
from isthmus.trace.oracle import Oracle, Verdict
from isthmus.trace.schema import Row
from isthmus.trace.summary import Summary


class Judged(msgspec.Struct):
    """A run with its verdicts, or the error that ended it."""

    scenario: Scenario
    summary: Summary
    verdicts: list[Verdict]
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
        return [f"{v.property} violated: {v.witness}" for v in self.verdicts if v.status == "violated"]


def judge(scenario: Scenario, build: Build | None = None, progress: Progress | None = None) -> Judged:
    """Run a scenario in memory and let the oracle judge it; `build` plants another stack in its place."""
    rows: list[Row] = []
    run = Run(scenario, rows, build)
    try:
        run.execute(progress)
    except Exception:
        return Judged(scenario, run.summary, [], traceback.format_exc())
    verdicts = Oracle(rows).verdicts(STACKS[scenario.stack.name].properties)
    return Judged(scenario, run.summary, verdicts)
