"""What the stacks of a scenario promise, judged in the process: one verdict per group and promised property."""

from __future__ import annotations

from collections.abc import Iterable

from isthmus.scenario.model import Scenario
from isthmus.stacks import STACKS
from isthmus.trace.oracle import Oracle, Verdict
from isthmus.trace.schema import Row


def promised_verdicts(scenario: Scenario, rows: Iterable[Row]) -> list[Verdict]:
    """The verdicts on what each group's stack promises, given all rows of one run."""
    oracle = Oracle(rows)
    return [
        verdict
        for group in scenario.groups_of_run()
        for verdict in oracle.in_group(group.id, STACKS[group.stack.name].promises(group.stack.safe))
    ]
