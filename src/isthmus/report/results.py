"""Finished studies, read from the folders that `isthmus study run` writes.

A study is a folder: study.json (what was asked, how it ran), claims.json, verdicts.parquet, and perhaps figures.json
with tables/*.parquet that its figures are drawn from. Spark wrote the tables, but all of them are small: pyarrow reads
them, so that a report needs neither Spark nor Java. A table may be one file or the folder of parts that Spark leaves.

Whatever is wrong with a study is one `InputError` that names the file, and the key or the column in it. Unknown keys
and columns are ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from isthmus.core.errors import InputError
from isthmus.core.validation import convert
from isthmus.topology.load import load_topology
from isthmus.topology.model import Topology

Status = Literal["valid", "violated", "unknown"]
ClaimKind = Literal["paper", "promise", "sanity"]
Value = str | bool | int | float | list[float] | None  # of a claim: a list is a range
STATUSES = ("violated", "unknown", "valid")  # the worst first
PARTS = ("claims.json", "figures.json", "tables", "verdicts.parquet")  # what tells a study without study.json
PLAIN = re.compile(r"[\w][\w. -]*")  # a file name that leads nowhere else
SHARES = (1, 25, 50, 75, 99)  # percentiles of a distribution
RUNS = "runs"  # column that says how many runs each row is the mean of
ROWS_MAX = 10_000  # of a table; a figure of more is no figure


class About(msgspec.Struct, frozen=True):
    """study.json: what was asked, and how it was run."""

    name: str
    title: str
    question: str
    source: str  # where in the paper
    scale: str
    seeds: list[int] | int  # which ones, or how many from 1 on
    runs: int
    failed_runs: int
    versions: dict[str, str | None]
    command: str  # that runs it again
    took_s: float
    spark_master: str
    paper: str = ""  # the title of the paper; none: our own
    place: int = 1_000_000  # in the story that all studies tell
    together: int = 1  # studies that shared a sweep and a check; `took_s` goes from their start to this one's end


class ClaimResult(msgspec.Struct, frozen=True):
    """What a paper claims, what we promise or what must hold anyway, and what was measured."""

    statement: str
    source: str
    verdict: Literal["holds", "does not hold", "unknown"]
    expected: Value = None
    measured: Value = None
    unit: str | None = None
    tolerance: str | int | float | None = None
    relation: Literal["near", "at most", "at least"] = "near"  # of what was measured to what was expected
    detail: str | None = None
    kind: ClaimKind = "paper"


class AdviceResult(msgspec.Struct, frozen=True):
    """What to use in which situation, with the figures that it rests on."""

    situation: str
    stack: str
    because: str


class VerdictRow(msgspec.Struct, frozen=True):
    """One row of verdicts.parquet: the runs in which a property had one status."""

    property: str
    status: Status
    runs: int
    evidence: int
    violations: int
    witness: str | None = None
    replay: str | None = None


class Check(msgspec.Struct, frozen=True):
    """All rows of one property, the worst first."""

    name: str
    found: list[VerdictRow]

    @property
    def status(self) -> Status:
        """The worst of all runs."""
        return self.found[0].status

    def runs(self, status: Status) -> int:
        """The number of runs with this status."""
        return sum(row.runs for row in self.found if row.status == status)


class PaperLine(msgspec.Struct, frozen=True):
    """Values that a paper gives, to compare with ours."""

    label: str
    x: list[float | str]
    y: list[float]


class FigureSpec(msgspec.Struct, frozen=True):
    """What a figure shows of which table."""

    id: str
    title: str
    table: str  # the name of a file in tables/, with or without its ending
    kind: Literal["lines", "spread"]
    x: str  # columns
    y: str
    xlabel: str
    ylabel: str
    caption: str = ""
    series: str | None = None  # column; a line for each of its values
    error: str | None = None  # column of half-widths
    paper: list[PaperLine] = []
    log: list[Literal["x", "y"]] = []  # axes that show several powers of ten; what is not above zero is left out
    stacks: dict[str, str] = {}  # series: the stack that it shows
    headline: bool = False  # shown in the summary, too

    def columns(self) -> list[str]:
        """The columns that the figure needs."""
        if self.kind == "spread":
            return [self.x, f"{self.y}_mean", *(f"{self.y}_p{share}" for share in SHARES)]
        return [self.x, self.y, *(column for column in (self.series, self.error) if column)]


class FinishedStudy(msgspec.Struct, frozen=True):
    """One finished study."""

    folder: Path
    about: About
    claims: list[ClaimResult]
    checks: list[Check]
    figures: list[tuple[FigureSpec, pa.Table]]
    advice: list[AdviceResult] = []
    networks: list[Topology] = []


def find_studies(folders: list[Path]) -> list[FinishedStudy]:
    """The studies in folders, in the order of their story and then by name; a folder may itself be a study."""
    found: dict[Path, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            what = "a file" if folder.exists() else "no such folder"
            raise InputError(str(folder), "", what, "a folder of finished studies, as `isthmus study run` writes")
        inside = [folder] if is_study(folder) else sorted(sub for sub in folder.iterdir() if is_study(sub))
        if not inside:
            raise InputError(str(folder), "", "no studies", "folders with a study.json, as `isthmus study run` writes")
        for study in inside:
            found.setdefault(study.resolve(), study)
    studies = [read_study(folder) for folder in found.values()]
    return sorted(studies, key=lambda study: study.about.place)


def is_study(folder: Path) -> bool:
    """Whether a folder is a study or part of one; then what it lacks is an error."""
    if not folder.is_dir() or folder.name.startswith((".", "_")):
        return False
    return (folder / "study.json").exists() or any((folder / part).exists() for part in PARTS)


def read_study(folder: Path) -> FinishedStudy:
    about = convert(load_json(folder / "study.json"), About, str(folder / "study.json"))
    claims = convert(load_json(folder / "claims.json"), list[ClaimResult], str(folder / "claims.json"))
    path = folder / "figures.json"
    specs = convert(load_json(path), list[FigureSpec], str(path)) if path.exists() else []
    figures = [(spec, read_figure_table(path, number, spec)) for number, spec in enumerate(specs)]
    path = folder / "advice.json"
    advice = convert(load_json(path), list[AdviceResult], str(path)) if path.exists() else []
    networks = [load_topology(path) for path in sorted((folder / "networks").glob("*.toml"))]
    checks = read_checks(folder / "verdicts.parquet")
    return FinishedStudy(folder, about, claims, checks, figures, advice, networks)


def read_figure_table(source: Path, number: int, spec: FigureSpec) -> pa.Table:
    """The columns that a figure needs; `source` and `number` are where it stands in figures.json."""
    for at, line in enumerate(spec.paper):
        if len(line.x) != len(line.y):
            found = f"{len(line.x)} x and {len(line.y)} y"
            raise InputError(str(source), f"[{number}].paper[{at}]", found, "the same number of both")
    name = spec.table.removesuffix(".parquet")
    if not PLAIN.fullmatch(name):
        raise InputError(str(source), f"[{number}].table", repr(spec.table), "the name of a file in tables/")
    return read_columns(source.parent / "tables" / f"{name}.parquet", spec.columns(), [RUNS])


def read_checks(path: Path) -> list[Check]:
    """The verdicts by property, in the order in which properties first come."""
    rows = read_columns(path, ["property", "status", "runs", "evidence", "violations", "witness", "replay"]).to_pylist()
    checks: dict[str, list[VerdictRow]] = {}
    for row in convert(rows, list[VerdictRow], str(path)):
        checks.setdefault(row.property, []).append(row)
    return [Check(name, sorted(found, key=lambda row: STATUSES.index(row.status))) for name, found in checks.items()]


def read_columns(path: Path, columns: list[str], wanted: Sequence[str] = ()) -> pa.Table:
    """Some columns of a small table, and of those wanted the ones that it has."""
    try:
        table = pq.read_table(path, partitioning=None)
    except FileNotFoundError:
        raise InputError(str(path), "", "no such file", "a Parquet table of the study") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        why = str(error).splitlines()[0][:100]
        raise InputError(str(path), "", f"an unreadable file ({why})", "a Parquet table of the study") from None
    for column in columns:
        if column not in table.column_names:
            raise InputError(str(path), column, "no such column", f"one of {', '.join(table.column_names) or 'none'}")
    if table.num_rows > ROWS_MAX:
        raise InputError(str(path), "", f"{table.num_rows:,} rows", f"a summary of at most {ROWS_MAX:,}")
    return table.select(list(dict.fromkeys([*columns, *(name for name in wanted if name in table.column_names)])))


def load_json(path: Path) -> Any:
    """Parse a JSON file into plain values; NaN, which Python writes, is taken."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(str(path), "", "no such file", "a file of a finished study") from None
    except UnicodeDecodeError:
        raise InputError(str(path), "", "bytes that are not UTF-8", "a JSON file") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(str(path), "", f"a syntax error at {where} ({error.msg})", "valid JSON") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(str(path), "", f"an unreadable file ({error})", "a JSON file") from None
