"""The files of a finished study, as their writer (studies/run.py) and their reader (report/results.py) share them.

A folder per study: study.json (`About`), claims.json (`ClaimResult`), advice.json (`AdviceResult`), figures.json
(`FigureSpec`), verdicts.parquet (`VerdictRow`), tables/*.parquet and networks/*.toml. Fields are written in the
order in which they are declared here. This module needs neither Spark nor pyarrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

ABOUT, CLAIMS, FIGURES, ADVICE = "study.json", "claims.json", "figures.json", "advice.json"
VERDICTS, TABLES, NETWORKS = "verdicts.parquet", "tables", "networks"

Status = Literal["valid", "violated", "unknown"]
STATUSES: tuple[Status, ...] = ("violated", "unknown", "valid")  # the worst first
ClaimKind = Literal["paper", "promise", "sanity"]  # of a paper, of ours, or a condition for either to mean anything
Outcome = Literal["holds", "does not hold", "unknown"]
Relation = Literal["near", "at most", "at least"]  # of the measured value to the expected one
Value = str | bool | int | float | list[float] | None  # of a claim; a list is a range
SHARES = (1, 25, 50, 75, 99)  # percentiles of a distribution
RUNS = "runs"  # column of a table: the number of runs that a row is the mean of


class About(msgspec.Struct, frozen=True, kw_only=True):
    """study.json: what was asked, and how it was run."""

    name: str
    title: str
    question: str
    paper: str = ""  # title of the paper; empty: our own
    source: str  # where in the paper
    place: int = 1_000_000  # position among all studies
    scale: str
    seeds: list[int] | int  # a list, or their number from 1 on
    runs: int
    failed_runs: int
    command: str  # repeats the study
    versions: dict[str, str | None]
    took_s: float
    together: int = 1  # studies that shared the sweep and the check; `took_s` is from their start to this one's end
    spark_master: str


class ClaimResult(msgspec.Struct, frozen=True, kw_only=True):
    """A claim with the measured value and the verdict."""

    statement: str
    source: str
    expected: Value = None
    measured: Value = None
    unit: str | None = None
    tolerance: str | int | float | None = None  # text, or a share of the expected value
    verdict: Outcome
    detail: str | None = None
    relation: Relation = "near"
    kind: ClaimKind = "paper"


class AdviceResult(msgspec.Struct, frozen=True):
    """Which stack to use in which situation, with the measured values that support it."""

    situation: str
    stack: str
    because: str


class VerdictRow(msgspec.Struct, frozen=True):
    """The runs in which a property had one status."""

    property: str
    status: Status
    runs: int
    evidence: int
    violations: int
    witness: str | None = None
    replay: str | None = None


class PaperLine(msgspec.Struct, frozen=True):
    """Values printed in a paper, to compare with ours."""

    label: str
    x: tuple[float | str, ...]
    y: tuple[float, ...]


class FigureSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a figure shows of which table."""

    id: str
    title: str
    caption: str = ""
    table: str  # name of a file in tables/, with or without its extension
    x: str  # column
    y: str  # column; of a spread, the prefix of the columns `y`_mean and `y`_p1 to `y`_p99
    xlabel: str
    ylabel: str
    kind: Literal["lines", "spread"] = "lines"
    series: str | None = None  # column; one line per value
    error: str | None = None  # column of half-widths
    paper: tuple[PaperLine, ...] = ()
    log: tuple[Literal["x", "y"], ...] = ()  # logarithmic axes
    stacks: Mapping[str, str] = {}  # series: the stack whose colour and marker it has
    headline: bool = False  # also shown in the summary of all studies

    def columns(self) -> list[str]:
        if self.kind == "spread":
            return [self.x, f"{self.y}_mean", *(f"{self.y}_p{share}" for share in SHARES)]
        return [self.x, self.y, *(column for column in (self.series, self.error) if column)]
