"""The model of a study: a question, a grid of runs that answers it, tables measured from their traces, and claims.

Each study is a folder: claims.py describes it (`STUDY`: question, claims, figures), setup.py makes its runs (`grid`,
`networks`), measure.py measures them on Spark (`tables`). A description loads without simulator and Spark; the other
two modules are imported when they are first called.

Invariant: the number of a run is its place in the grid, so that (study, scale, seeds, run) identifies it for ever.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from isthmus.core.errors import InputError
from isthmus.core.validation import one_of
from isthmus.studies.claim import Claim, StackAdvice
from isthmus.studies.results import FigureSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from isthmus.pipeline.sweep.sweep import RunSpec
    from isthmus.scenario.model import Scenario
    from isthmus.topology.model import Topology

Scale = Literal["quick", "full"]
SCALES: tuple[Scale, ...] = ("quick", "full")
Parameters = dict[str, str | int | float | bool]


class Cell(msgspec.Struct, frozen=True):
    """One run of a grid."""

    parameters: Parameters
    scenario: Scenario


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """One question with everything needed to answer it."""

    name: str
    title: str
    question: str
    paper: str  # title; empty: no paper asks this
    source: str  # where in the paper
    seeds: Mapping[Scale, int]  # number of seeds by default
    runs: Mapping[Scale, int]  # size of the grid with that many seeds
    grid: Callable[[Scale, Sequence[int]], list[Cell]]  # of given seeds
    properties: tuple[str, ...]  # checked in every run
    tables: Callable[[DataFrame, DataFrame], dict[str, DataFrame]]  # of trace and runs; each result is small
    claims: tuple[Claim, ...]
    figures: tuple[FigureSpec, ...] = ()
    advice: tuple[StackAdvice, ...] = ()
    networks: Callable[[], tuple[Topology, ...]] = tuple  # to be drawn

    def specs(self, scale: Scale, seeds: int | None = None) -> list[RunSpec]:
        """The numbered runs of the grid, each with the command that replays it."""
        from isthmus.pipeline.sweep.sweep import RunSpec

        count = self.seeds[scale] if seeds is None else seeds
        return [
            RunSpec(
                run=number,
                study=self.name,
                scenario=cell.scenario,
                parameters=cell.parameters,
                replay=study_command("replay", self.name, scale, seeds, number),
            )
            for number, cell in enumerate(self.grid(scale, range(1, count + 1)))
        ]

    def spec(self, run: int, scale: Scale, seeds: int | None = None) -> RunSpec:
        specs = self.specs(scale, seeds)
        if not 0 <= run < len(specs):
            raise InputError("--run", "", str(run), f"a run of {self.name} at this scale, 0 to {len(specs) - 1}")
        return specs[run]


def later(folder: str, networks: bool = True) -> dict[str, Any]:
    """The functions of the study in a folder, whose modules are imported when they are first called."""

    def function(module: str, name: str) -> Callable[..., Any]:
        return lambda *given: getattr(import_module(f"isthmus.studies.{folder}.{module}"), name)(*given)

    found = {"grid": function("setup", "grid"), "tables": function("measure", "tables")}
    return found | ({"networks": function("setup", "networks")} if networks else {})


def study_command(verb: str, name: str, scale: Scale, seeds: int | None = None, run: int | None = None) -> str:
    """The command that repeats a study, or one run of it."""
    words = ["isthmus", "study", verb, name]
    if run is not None:
        words += ["--run", str(run)]
    words += ["--scale", scale]
    if seeds is not None:
        words += ["--seeds", str(seeds)]
    return shlex.join(words)


def find_study(studies: Mapping[str, Study], name: str) -> Study:
    if name not in studies:
        raise InputError("study", "", repr(name), one_of(name, studies))
    return studies[name]
