"""The model of a study: a question, a grid of runs that answers it, tables measured from their traces, and claims.

Each study is a folder: study.toml describes it (question, figures), claims.py judges it (`STUDY`), setup.py makes its
runs (`grid`, `networks`), measure.py measures them on Spark (`tables`). A description loads without simulator and
Spark; the other two modules are imported when they are first called.

Invariant: the number of a run is its place in the grid, so that (study, scale, seeds, run) identifies it for ever.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec.structs import asdict, replace

from isthmus.core.errors import InputError
from isthmus.core.validation import convert, one_of, read_toml
from isthmus.studies.claim import Claim, StackAdvice
from isthmus.studies.results import FigureSpec, PaperLine

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


class Description(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """study.toml of a study: what it asks, how large it is, what it checks and shows."""

    name: str
    title: str
    question: str
    paper: str = ""
    source: str = ""
    seeds: Mapping[Scale, int]
    runs: Mapping[Scale, int]
    properties: tuple[str, ...] = ()
    figures: tuple[FigureSpec, ...] = ()


def described(
    folder: str,
    claims: tuple[Claim, ...],
    advice: tuple[StackAdvice, ...] = (),
    *,
    networks: bool = True,
    stacks: tuple[str, Mapping[str, str]] = ("", {}),
    paper: Mapping[str, tuple[PaperLine, ...]] = {},
) -> Study:
    """The study in a folder; its modules are imported when their functions are first called.

    `stacks` are the column of figures whose values show stacks, and the stack of each; `paper` the lines of a paper in
    figures, where they are computed.
    """
    path = Path(__file__).parent / folder / "study.toml"
    told = convert(read_toml(path), Description, str(path))
    column, stack_of = stacks
    figures = [
        replace(one, stacks=stack_of if column in (one.series, one.x) else {}, paper=paper.get(one.id, one.paper))
        for one in told.figures
    ]

    def function(module: str, name: str) -> Callable[..., Any]:
        return lambda *given: getattr(import_module(f"isthmus.studies.{folder}.{module}"), name)(*given)

    found = {"grid": function("setup", "grid"), "tables": function("measure", "tables")}
    found |= {"networks": function("setup", "networks")} if networks else {}
    return Study(**asdict(told) | {"figures": tuple(figures)} | found, claims=claims, advice=advice)


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
