"""One run of a comparison: a stack in place of the scenario's, its result, and its metadata in causal order."""

from __future__ import annotations

import msgspec

from isthmus.advise.compare.metadata import Metadata, MetadataGauges, with_samples
from isthmus.judge.result import RunResult
from isthmus.scenario.model import Scenario
from isthmus.sim.simulate import simulate


class ComparedRun(msgspec.Struct, frozen=True):
    """One run of one stack."""

    stack: str  # as the comparison calls it
    result: RunResult
    metadata: Metadata | None = None  # of causal order


def run_compared(task: tuple[str, Scenario]) -> ComparedRun:
    """Run a scenario under the name of its stack, and reduce it to its result."""
    stack, scenario = task
    gauges = MetadataGauges()
    result = simulate(msgspec.structs.replace(with_samples(scenario), trace="events"), gauges)
    return ComparedRun(stack, result, gauges.metadata())
