"""Claims as rows of a table: a sentence, its source, and a quantity with the value expected of it.

    SECTION.claim("Latency is proportional to the delay.", deviation.at_most(0.0, "%", within=1.0), "a note")

A claim about runs of which one failed, or whose quantity cannot be computed, is unknown: lack of data never makes a
claim hold. Most quantities are composed: `value` and `over` read one column of a table, quotients and differences
combine two. The others are functions that read rows by `matching`, `numbers_of` and `figure_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from math import isfinite
from typing import Any, Concatenate, ParamSpec

import msgspec

from isthmus.studies.results import AdviceResult, ClaimKind, ClaimResult, Outcome, Relation

Rows = list[dict[str, Any]]
Tables = Mapping[str, Rows]  # collected tables by name
NO_FIGURE = (ArithmeticError, LookupError, TypeError, ValueError)  # raised by quantities of incomplete tables


class ClaimSource(msgspec.Struct, frozen=True):
    """Where a claim comes from: a section of a paper, this project, or a condition for either to mean anything."""

    text: str
    kind: ClaimKind = "paper"

    def claim(self, statement: str, criterion: Criterion, note: str = "", full_only: bool = False) -> Claim:
        """One row of a table of claims; `note` says how it was measured.

        With `full_only` the runs are too large for the quick scale, at which the claim is not judged.
        """
        return Claim(statement, self, criterion, note, full_only)


class Quantity(msgspec.Struct, frozen=True):
    """A number computed from the collected tables; also a decorator of functions that compute one."""

    compute: Callable[[Tables], float | None]  # None: no data

    def __call__(self, tables: Tables) -> float:
        found = self.compute(tables)
        if found is None:
            raise LookupError("no data")
        return float(found)

    def __truediv__(self, other: Quantity) -> Quantity:
        return Quantity(lambda tables: self(tables) / other(tables))

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(lambda tables: self(tables) - other(tables))

    def near(self, value: float, unit: str = "", within: float = 0.0) -> Criterion:
        return Criterion(self, "near", value, unit, within)

    def at_most(self, value: float, unit: str = "", within: float = 0.0) -> Criterion:
        return Criterion(self, "at most", value, unit, within)

    def at_least(self, value: float, unit: str = "", within: float = 0.0) -> Criterion:
        return Criterion(self, "at least", value, unit, within)


class Criterion(msgspec.Struct, frozen=True):
    """A quantity with the value expected of it."""

    quantity: Quantity
    relation: Relation
    expected: float
    unit: str
    within: float  # tolerance as a share of the expected value; around 0 the tolerance itself

    def is_met_by(self, measured: float) -> bool:
        off, margin = measured - self.expected, self.within * (abs(self.expected) or 1.0)
        if self.relation == "at most":
            return off <= margin
        return off >= -margin if self.relation == "at least" else abs(off) <= margin

    def shown_tolerance(self) -> str:
        """The tolerance as text: 1 %, or the margin itself around 0."""
        if not self.within:
            return "none"
        return f"{100 * self.within:g} %" if self.expected else f"{self.within:g} {self.unit}".strip()


class Claim(msgspec.Struct, frozen=True):
    """A claim, made by `ClaimSource.claim`."""

    statement: str
    source: ClaimSource
    criterion: Criterion
    note: str
    full_only: bool

    def judge(self, tables: Tables, failed_runs: int = 0) -> ClaimResult:
        """Compare the measured value with the expected one."""
        why, criterion = "", self.criterion
        measured = None
        try:
            measured = criterion.quantity.compute(tables)
        except NO_FIGURE as error:
            why = f"no figure: {type(error).__name__}: {error}"
        if measured is not None and not isfinite(measured):
            measured, why = None, "no figure: not a finite number"
        if measured is None:
            why = why or "no data"
        elif failed_runs:
            why = f"{failed_runs} run{'s' if failed_runs > 1 else ''} failed"
        verdict: Outcome = "unknown"
        if measured is not None and not failed_runs:
            verdict = "holds" if criterion.is_met_by(measured) else "does not hold"
        return ClaimResult(
            statement=self.statement,
            source=self.source.text,
            expected=criterion.expected,
            measured=measured,
            unit=criterion.unit,
            tolerance=criterion.shown_tolerance(),
            verdict=verdict,
            detail="; ".join(part for part in (why, self.note) if part),
            relation=criterion.relation,
            kind=self.source.kind,
        )


class StackAdvice(msgspec.Struct, frozen=True):
    """Which stack to use in which situation; `because` gives the measured values that support it."""

    situation: str
    stack: str  # its name in the registry
    because: Callable[[Tables], str]

    def judge(self, tables: Tables) -> AdviceResult | None:
        try:
            return AdviceResult(self.situation, self.stack, self.because(tables))
        except NO_FIGURE:
            return None


Given = ParamSpec("Given")


def quantity(compute: Callable[Concatenate[Tables, Given], float | None]) -> Callable[Given, Quantity]:
    """A decorator: a function of the tables and of parameters, called with the latter alone, gives a quantity."""
    return lambda *given, **named: Quantity(lambda tables: compute(tables, *given, **named))


def matching(rows: Rows, **wanted: object) -> Rows:
    """The rows with these values, or with one of a tuple of values; none is an error."""

    def fits(found: object, value: object) -> bool:
        return found in value if isinstance(value, tuple) else found == value

    found = [row for row in rows if all(fits(row[key], value) for key, value in wanted.items())]
    if not found:
        raise LookupError(f"no rows with {wanted}")
    return found


def numbers_of(rows: Rows, column: str, **wanted: object) -> list[float]:
    """A column of the rows with these values, without its nulls."""
    return [float(row[column]) for row in matching(rows, **wanted) if row[column] is not None]


def figure_of(rows: Rows, column: str, **wanted: object) -> float:
    """The one value of a column."""
    (found,) = numbers_of(rows, column, **wanted)
    return found


def value(table: str, column: str, **wanted: object) -> Quantity:
    """The one value of a column."""
    return Quantity(lambda tables: figure_of(tables[table], column, **wanted))


def over(combine: Callable[[list[float]], float], table: str, column: str, **wanted: object) -> Quantity:
    """A column combined into one number by max, min, sum or fmean."""
    return Quantity(lambda tables: combine(numbers_of(tables[table], column, **wanted)))


def crossing(points: Iterable[tuple[float, float]]) -> float:
    """The x at which y first changes its sign, on straight lines between the points."""
    for (left, low), (right, high) in pairwise(points):
        if (low <= 0) != (high <= 0):
            return left - low * (right - left) / (high - low)
    raise LookupError("no crossing")
