"""What a study is: a question, a grid of runs that answers it, tables drawn from their trace, and claims to judge.

The problem: a result of a paper is a curve, a sentence and a set-up, spread over pages; to repeat it, all three must be
in one place, and the answer must not depend on who looks. The idea: a study is a frozen value of plain functions. The
grid is a function of scale and number of seeds; tables are functions of trace and runs; a claim is a function of the
collected tables that gives one figure, which is compared with the one expected.

Invariants: the number of a run is its place in the grid, so that (study, scale, seeds, run) names it for ever. A claim
about runs of which one failed, or for which there is no figure, is unknown; lack of data never makes it hold.

Every study is a module with the same names: `grid` makes the cells (by `cell`), `tables` measures them, CLAIMS judges
the tables, and STUDY puts it together.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, Literal

import msgspec
from pyspark.sql import DataFrame

from isthmus.core.errors import InputError
from isthmus.core.validation import one_of
from isthmus.pipeline.sweep.sweep import RunSpec, Scalar
from isthmus.scenario.model import Scenario
from isthmus.topology.model import Topology

Scale = Literal["quick", "full"]
SCALES: tuple[Scale, ...] = ("quick", "full")
Relation = Literal["near", "at most", "at least"]
Status = Literal["holds", "does not hold", "unknown"]
Kind = Literal[
    "paper", "promise", "sanity"
]  # a paper's claim, our own promise, or what must hold for either to mean a thing
Rows = list[dict[str, Any]]
Tables = Mapping[str, Rows]  # what was collected, by name


class Cell(msgspec.Struct, frozen=True):
    """One run of a grid."""

    parameters: Mapping[str, Scalar]
    scenario: Scenario


class JudgedClaim(msgspec.Struct, frozen=True):
    """A claim with what was measured; one entry of claims.json."""

    statement: str
    source: str
    expected: float
    measured: float | None
    unit: str
    tolerance: str
    verdict: Status
    detail: str
    relation: Relation
    kind: Kind


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence in our words, with the figure that bears it out.

    A paper's claim that does not hold is a finding; a promise of ours that does not hold is a defect; where a sanity
    check fails, the study's other figures mean nothing.
    """

    statement: str
    source: str
    measure: Callable[[Tables], float | None]  # None: no data
    expected: float
    tolerance: float = 0.0  # as a share of what is expected; where that is 0, as it is
    relation: Relation = "near"
    unit: str = ""
    note: str = ""  # what a reader should know of how it was measured
    kind: Kind = "paper"
    full_only: bool = False  # its runs are too large for the quick scale, where it is not judged

    def margin(self) -> float:
        return self.tolerance * (abs(self.expected) or 1.0)

    def is_met_by(self, measured: float) -> bool:
        off = measured - self.expected
        if self.relation == "at most":
            return off <= self.margin()
        return off >= -self.margin() if self.relation == "at least" else abs(off) <= self.margin()

    def judge(self, tables: Tables, failed_runs: int = 0) -> JudgedClaim:
        """Compare the figure with the one expected."""
        why = ""
        measured = None
        try:
            measured = self.measure(tables)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            why = f"no figure: {type(error).__name__}: {error}"
        if measured is not None and not isfinite(measured):
            measured, why = None, "no figure: not a finite number"
        if measured is None:
            why = why or "no data"
        elif failed_runs:
            why = f"{failed_runs} run{'s' if failed_runs > 1 else ''} failed"
        verdict: Status = "unknown"
        if measured is not None and not failed_runs:
            verdict = "holds" if self.is_met_by(measured) else "does not hold"
        detail = "; ".join(part for part in (why, self.note) if part)
        return JudgedClaim(
            self.statement,
            self.source,
            self.expected,
            measured,
            self.unit,
            self.shown_tolerance(),
            verdict,
            detail,
            self.relation,
            self.kind,
        )

    def shown_tolerance(self) -> str:
        """The tolerance for people: 1 %, or the margin itself around 0."""
        if not self.tolerance:
            return "none"
        return f"{100 * self.tolerance:g} %" if self.expected else f"{self.tolerance:g} {self.unit}".strip()


class Curve(msgspec.Struct, frozen=True):
    """Values that a paper gives, to compare with ours."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]


class Advice(msgspec.Struct, frozen=True):
    """What to use in which situation, with the figures that it rests on; None: they were not measured."""

    situation: str
    stack: str  # its name in the registry
    because: Callable[[Tables], str]

    def judge(self, tables: Tables) -> JudgedAdvice | None:
        try:
            return JudgedAdvice(self.situation, self.stack, self.because(tables))
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return None


class JudgedAdvice(msgspec.Struct, frozen=True):
    """Advice with its figures; one entry of advice.json."""

    situation: str
    stack: str
    because: str


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """What a picture shows of which table; one entry of figures.json."""

    id: str
    title: str
    caption: str
    table: str
    x: str  # columns of the table
    y: str
    xlabel: str
    ylabel: str
    kind: Literal["lines", "spread"] = "lines"  # spread: x is a name, `y`_p1 to `y`_p99 and `y`_mean are its columns
    series: str | None = None  # column; a line for each of its values
    error: str | None = None  # column of half-widths
    paper: tuple[Curve, ...] = ()
    log: tuple[Literal["x", "y"], ...] = ()  # axes that show several powers of ten
    stacks: Mapping[str, str] = {}  # series: the stack that it shows, whose colour and marker it gets
    headline: bool = False  # the one figure that the summary of all studies shows


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """One question, and all it takes to answer it."""

    name: str
    title: str
    question: str
    paper: str  # its title; "" for what no paper asks
    source: str  # where in it
    seeds: Mapping[Scale, int]  # how many, unless told otherwise
    grid: Callable[[Scale, Sequence[int]], list[Cell]]  # of the seeds given
    properties: tuple[str, ...]  # to check in every run
    tables: Callable[[DataFrame, DataFrame], dict[str, DataFrame]]  # of trace and runs; each result is small
    claims: tuple[Claim, ...]
    figures: tuple[Figure, ...] = ()
    advice: tuple[Advice, ...] = ()
    networks: tuple[Topology, ...] = ()  # that it runs on, to be drawn

    def run_count(self, scale: Scale) -> int:
        """How many runs the grid has: as many for each seed."""
        return len(self.grid(scale, range(1, 2))) * self.seeds[scale]

    def specs(self, scale: Scale, seeds: int | None = None) -> list[RunSpec]:
        """The grid with its numbers, each run with the command that replays it."""
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
        """One run of the grid, by its number."""
        specs = self.specs(scale, seeds)
        if not 0 <= run < len(specs):
            raise InputError("--run", "", str(run), f"a run of {self.name} at this scale, 0 to {len(specs) - 1}")
        return specs[run]


def study_command(verb: str, name: str, scale: Scale, seeds: int | None = None, run: int | None = None) -> str:
    """The command that repeats a study, or one run of it."""
    words = ["isthmus", "study", verb, name]
    if run is not None:
        words += ["--run", str(run)]
    words += ["--scale", scale]
    if seeds is not None:
        words += ["--seeds", str(seeds)]
    return shlex.join(words)


# Figures out of tables


def matching(rows: Rows, **wanted: object) -> Rows:
    """The rows with these values; none is an error."""
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    if not found:
        raise LookupError(f"no rows with {wanted}")
    return found


def numbers_of(rows: Rows, name: str, **wanted: object) -> list[float]:
    return [float(row[name]) for row in matching(rows, **wanted) if row[name] is not None]


def one(rows: Rows, **wanted: object) -> dict[str, Any]:
    """The one row with these values."""
    (row,) = matching(rows, **wanted)
    return row


def figure_of(rows: Rows, name: str, **wanted: object) -> float:
    """The one value of a column."""
    (value,) = numbers_of(rows, name, **wanted)
    return value


def find_study(studies: Mapping[str, Study], name: str) -> Study:
    if name not in studies:
        raise InputError("study", "", repr(name), one_of(name, studies))
    return studies[name]
