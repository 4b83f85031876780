"""The files of a trace and their format, by their names or their first bytes."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import IO, cast

from isthmus.core.errors import InputError

FORMS = ("parquet", "csv", "json", "shiviz")
SUFFIXES = {
    suffix: form
    for form, suffixes in {
        "parquet": (".parquet", ".pq"),
        "csv": (".csv", ".tsv"),
        "json": (".json", ".jsonl", ".ndjson"),
        "shiviz": (".log", ".shiviz", ".txt"),
    }.items()
    for suffix in suffixes
}
TITLES = {"parquet": "Parquet", "csv": "CSV", "json": "JSON lines", "shiviz": "a ShiViz log"}
ENDINGS = "a file that ends in .parquet, .csv, .json, .jsonl or .log, or --format"
CHUNK_BYTES = 1 << 20


def files_of(path: Path) -> list[Path]:
    """Return the files of a trace, by name, without hidden ones."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(str(path), "", "no such file or directory", "a trace: a folder of files, or one file")
    found = [
        file
        for file in path.rglob("*")
        if not any(part[0] in "._" for part in file.relative_to(path).parts) and suffix_form(file) and file.is_file()
    ]
    if not found:
        raise InputError(str(path), "", "no trace in this folder", f"at least one segment: {ENDINGS}")
    return sorted(found)


def chosen_files(path: Path, asked: str) -> tuple[str, list[Path]]:
    """The format of a trace and its files of that format; an empty one is an error."""
    files = files_of(path)
    form = form_of(path, files, asked)
    kept = files if len(files) == 1 else [file for file in files if suffix_form(file) == form] or files
    for file in kept:
        if file.stat().st_size == 0:
            raise InputError(str(file), "", "an empty file", "a trace with at least one row")
    return form, kept


def suffix_form(file: Path) -> str:
    return SUFFIXES.get(Path(file.name.removesuffix(".gz")).suffix.lower(), "")


def form_of(path: Path, files: Sequence[Path], asked: str) -> str:
    """Return the format asked for, or that of the names, or that of the content, which must not contradict a name."""
    if asked != "auto":
        return asked
    forms = sorted({suffix_form(file) for file in files})
    if len(forms) > 1:
        raise InputError(str(path), "", f"files of several formats ({', '.join(forms)})", "one, or --format to choose")
    named, seen = forms[0], content_form(files[0])
    if not named and not seen:
        raise InputError(str(files[0]), "", "an unknown format, by name and content", ENDINGS)
    if named and seen not in ("", named) and "parquet" in (named, seen):
        found = f"{TITLES[seen]} in a file named as {TITLES[named]}"
        raise InputError(str(files[0]), "", found, f"--format {seen}, or a name that ends in {endings(seen)}")
    return named or seen


def content_form(file: Path) -> str:
    """Return the format that the first bytes of a file look like; empty where they tell none."""
    try:
        with opened(file) as stream:
            head = stream.read(1 << 12)
    except (OSError, EOFError):
        return ""  # reading the rows says why
    if head.startswith(b"PAR1"):
        return "parquet"
    lines = [line for line in head.decode(errors="replace").splitlines() if line.strip()]
    if not lines or b"\0" in head:
        return ""
    if lines[0].lstrip().startswith("{"):
        return "json"
    if "{" in lines[0]:
        return "shiviz" if re.match(r"\S+\s+\{", lines[0]) else ""
    return "csv" if "," in lines[0] else ""


def endings(form: str) -> str:
    return " or ".join(suffix for suffix, own in SUFFIXES.items() if own == form)


def opened(file: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(file)) if file.suffix == ".gz" else file.open("rb")


def line_count(files: Sequence[Path]) -> int:
    """Return the number of lines of text files."""
    count = 0
    for file in files:
        try:
            with opened(file) as stream:
                while chunk := stream.read(CHUNK_BYTES):
                    count += chunk.count(b"\n")
        except (OSError, EOFError) as error:
            raise unreadable_text(file, error) from error
        count += 1  # of a last line without an end
    return count


def unreadable_text(file: Path, error: Exception) -> InputError:
    return InputError(str(file), "", f"a file that is not text ({error})", "lines in UTF-8")


def digest_of_files(root: Path, files: Sequence[Path]) -> str:
    """The SHA-256 over the names and contents of a trace's files, in their order."""
    whole = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            own = hashlib.file_digest(stream, "sha256").hexdigest()
        name = file.name if file == root else file.relative_to(root).as_posix()
        whole.update(f"{own}  {name}\n".encode())
    return whole.hexdigest()
