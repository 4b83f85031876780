"""A comparison: one scenario, several stacks, several seeds, each pair a run in one of several processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from isthmus import __version__
from isthmus.advise.compare.choice import StackChoice, choose
from isthmus.advise.compare.figures import StackFigures, figures_of
from isthmus.advise.compare.measure import ComparedRun, run_compared
from isthmus.advise.compare.processes import each
from isthmus.core.errors import InputError
from isthmus.judge.verdict import exit_code
from isthmus.scenario.composition.check import wanted_properties
from isthmus.scenario.model import Scenario
from isthmus.scenario.variants import with_stack
from isthmus.stacks.registry import STACKS

Progress = Callable[[int, int], None]  # runs done, of all
STATUS_OF = {"kept": "valid", "broken": "violated", "unknown": "unknown"}  # of promises, as a verdict has it


class Comparison(msgspec.Struct, frozen=True):
    """A finished comparison; the same as JSON is compare.json."""

    isthmus: str  # version
    scenario: str
    sites: int
    seeds: tuple[int, ...]
    needed: tuple[str, ...]  # what the scenario's own stack promises
    stacks: tuple[StackFigures, ...]
    left_out: dict[str, str]  # stacks that the scenario does not run on, and why
    choice: StackChoice

    def exit_code(self) -> int:
        """0: every promise was kept; 1: one was broken, or a run failed; 3: one could not be judged."""
        statuses = [STATUS_OF[row.promises] for row in self.stacks]
        return exit_code(statuses, failed=any(row.errors for row in self.stacks))


def variants(scenario: Scenario, names: Sequence[str], strict: bool) -> tuple[dict[str, Scenario], dict[str, str]]:
    """The scenario over each stack, by a short name; and, unless strict, the stacks that it does not run on."""
    made: dict[str, Scenario] = {}
    left_out: dict[str, str] = {}
    for name in dict.fromkeys(names):
        label = name if name in STACKS else Path(name).stem
        if label in made:
            raise InputError("--stack", "", f"{label!r} twice", "stacks and files with names that differ")
        try:
            made[label] = with_stack(scenario, name)
        except InputError as error:
            if strict:
                raise
            left_out[label] = f"found {error.found}; expected {error.expected}"
    return made, left_out


def promised_by(scenario: Scenario) -> tuple[str, ...]:
    """What the scenario's stack promises; of a composition, what its domains want, which no variant falls short of."""
    if scenario.composition is None:
        return STACKS[scenario.stack.name].properties
    wanted = [name for domain in scenario.composition.domains for name in wanted_properties(domain)]
    return tuple(dict.fromkeys(wanted))


def compare(
    scenario: Scenario,
    stacks: Sequence[str],
    seeds: Sequence[int],
    *,
    jobs: int = 1,
    strict: bool = True,
    progress: Progress = lambda *_: None,
) -> Comparison:
    """Run the scenario over each stack with each seed; `strict` refuses a stack that it does not run on."""
    made, left_out = variants(scenario, stacks, strict)
    tasks = [(label, msgspec.structs.replace(variant, seed=seed)) for label, variant in made.items() for seed in seeds]
    done: dict[int, ComparedRun] = {}
    progress(0, len(tasks))
    for place, run in each(run_compared, tasks, jobs):
        done[place] = run
        progress(len(done), len(tasks))
    runs = [done[place] for place in range(len(tasks))]
    rows = tuple(figures_of(label, [run for run in runs if run.stack == label]) for label in made)
    promises = {label: promised_by(variant) for label, variant in made.items()}
    needed = promised_by(scenario)
    return Comparison(
        isthmus=__version__,
        scenario=scenario.name,
        sites=len(scenario.topology.sites),
        seeds=tuple(seeds),
        needed=needed,
        stacks=rows,
        left_out=left_out,
        choice=choose(rows, promises, needed),
    )
