"""Finished studies, read from the folders that `isthmus study run` writes (studies/results.py), without Spark or Java.

A table may be one file or the folder of parts that Spark leaves; figures, advice and networks are optional. Whatever is
wrong is one `InputError` that names the file, and the key or the column in it. Unknown keys and columns are ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from isthmus.core.errors import InputError
from isthmus.core.validation import convert
from isthmus.studies import results as formats
from isthmus.topology.load import load_topology
from isthmus.topology.model import Topology

PARTS = (
    formats.ABOUT,
    formats.CLAIMS,
    formats.FIGURES,
    formats.TABLES,
    formats.VERDICTS,
)  # any of these makes a folder a study, perhaps an incomplete one
PLAIN = re.compile(r"[\w][\w. -]*")  # a file name, without folders
ROWS_MAX = 10_000  # of a table of a figure


class CheckedProperty(msgspec.Struct, frozen=True):
    """All verdicts on one property, the worst first."""

    name: str
    found: list[formats.VerdictRow]

    @property
    def status(self) -> formats.Status:
        return self.found[0].status

    def runs(self, status: formats.Status) -> int:
        return sum(row.runs for row in self.found if row.status == status)


class FinishedStudy(msgspec.Struct, frozen=True):
    """One finished study."""

    folder: Path
    about: formats.About
    claims: list[formats.ClaimResult]
    checks: list[CheckedProperty]
    figures: list[tuple[formats.FigureSpec, pa.Table]]
    advice: list[formats.AdviceResult] = []
    networks: list[Topology] = []

    def verdicts(self) -> list[formats.VerdictRow]:
        return [row for check in self.checks for row in check.found]


def find_studies(folders: list[Path]) -> list[FinishedStudy]:
    """The studies in folders, by place and then by name; a folder may itself be a study."""
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
    """Whether a folder is a study or part of one, whose missing files are then an error."""
    if not folder.is_dir() or folder.name.startswith((".", "_")):
        return False
    return any((folder / part).exists() for part in PARTS)


def read_study(folder: Path) -> FinishedStudy:
    figures = read_json(folder / formats.FIGURES, list[formats.FigureSpec], optional=True)
    return FinishedStudy(
        folder,
        read_json(folder / formats.ABOUT, formats.About),
        read_json(folder / formats.CLAIMS, list[formats.ClaimResult]),
        read_checks(folder / formats.VERDICTS),
        [(spec, read_figure_table(folder / formats.FIGURES, number, spec)) for number, spec in enumerate(figures)],
        read_json(folder / formats.ADVICE, list[formats.AdviceResult], optional=True),
        [load_topology(path) for path in sorted((folder / formats.NETWORKS).glob("*.toml"))],
    )


def read_figure_table(source: Path, number: int, spec: formats.FigureSpec) -> pa.Table:
    """The columns that a figure needs; `source` and `number` are its place in figures.json."""
    for at, line in enumerate(spec.paper):
        if len(line.x) != len(line.y):
            found = f"{len(line.x)} x and {len(line.y)} y"
            raise InputError(str(source), f"[{number}].paper[{at}]", found, "the same number of both")
    name = spec.table.removesuffix(".parquet")
    if not PLAIN.fullmatch(name):
        raise InputError(str(source), f"[{number}].table", repr(spec.table), "the name of a file in tables/")
    return read_columns(source.parent / formats.TABLES / f"{name}.parquet", spec.columns(), [formats.RUNS])


def read_checks(path: Path) -> list[CheckedProperty]:
    """The verdicts by property, in the order of first occurrence."""
    rows = read_columns(path, ["property", "status", "runs", "evidence", "violations", "witness", "replay"]).to_pylist()
    checks: dict[str, list[formats.VerdictRow]] = {}
    for row in convert(rows, list[formats.VerdictRow], str(path)):
        checks.setdefault(row.property, []).append(row)
    return [
        CheckedProperty(name, sorted(found, key=lambda row: formats.STATUSES.index(row.status)))
        for name, found in checks.items()
    ]


def read_columns(path: Path, columns: list[str], wanted: Sequence[str] = ()) -> pa.Table:
    """Some columns of a small table, and those of the wanted ones that it has."""
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


def read_json(path: Path, kind: Any, optional: bool = False) -> Any:
    """Read a JSON file as a type; NaN, which Python writes, is accepted. A missing optional file is an empty list."""
    if optional and not path.exists():
        return []
    try:
        return convert(json.loads(path.read_text(encoding="utf-8")), kind, str(path))
    except FileNotFoundError:
        raise InputError(str(path), "", "no such file", "a file of a finished study") from None
    except UnicodeDecodeError:
        raise InputError(str(path), "", "bytes that are not UTF-8", "a JSON file") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(str(path), "", f"a syntax error at {where} ({error.msg})", "valid JSON") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(str(path), "", f"an unreadable file ({error})", "a JSON file") from None
