"""The proof of a check: `verdicts.json`, which says what was judged, by what, and what shows it.

The document has a format and a version, and is the same that `--json` prints; docs/design/checks.md lists its fields. A
folder belongs to one check. It is made beside the place where it goes and replaces an earlier check's folder as a
whole; a folder that is not of a check is refused.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from isthmus import __version__
from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.judge.runs import Judged, Summary, Told
from isthmus.judge.verdict import worst_status
from isthmus.judge.witness import WitnessEvent, name_in, sentence
from isthmus.trace.domain import Domain
from isthmus.trace.inputs.rows import RowPlace
from isthmus.trace.schema import NONE, MessageKey

FORMAT = "isthmus.verdicts"
VERSION = 1
FILE = "verdicts.json"


def document(
    judged: Judged,
    *,
    engine: str,
    source: Mapping[str, Any],
    names: Mapping[int, str],
    places: Mapping[RowPlace, str],
    domains: Sequence[Domain],
    bounds: Mapping[str, int],
    partial: bool,
    notes: Sequence[str],
    pictures: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """The whole proof, as JSON takes it; `pictures` are file names, by property."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "isthmus": __version__,
        "engine": engine,
        "status": worst_status(summary.status for summary in judged.summaries),
        "input": dict(source) | {"rows": judged.row_count},
        "options": {
            "domains": [{"name": one.name, "groups": list(one.groups), "scope": one.scope} for one in domains],
            "bounds_ns": dict(bounds),
            "partial": partial,
        },
        "processes": {str(process): name for process, name in sorted(names.items())},
        "notes": list(notes),
        "not_judged": dict(judged.left_out),
        "properties": [entry(summary, names, places, pictures.get(summary.name, ())) for summary in judged.summaries],
    }


def entry(
    summary: Summary, names: Mapping[int, str], places: Mapping[RowPlace, str], pictures: Sequence[str]
) -> dict[str, Any]:
    return {
        "property": summary.name,
        "status": summary.status,
        "verdicts": summary.counts,
        "evidence_count": summary.evidence_count,
        "violation_count": summary.violation_count,
        "reason": summary.reason if summary.status == "unknown" else "",
        "witness": None if summary.told is None else shown(summary.told, names, places) | {"pictures": list(pictures)},
    }


def shown(told: Told, names: Mapping[int, str], places: Mapping[RowPlace, str]) -> dict[str, Any]:
    witness = told.witness
    return {
        "run": told.run,
        "group": None if told.group == NONE else told.group,
        "domain": told.domain or None,
        "sentence": sentence(witness, told.group, names),
        "form": witness.form,
        "lives": [{"process": process, "incarnation": incarnation} for process, incarnation in witness.lives],
        "messages": [message_of(message, names) for message in witness.messages],
        "numbers": list(witness.numbers),
        "members": [list(members) for members in witness.members],
        "events": [event_of(told.run, event, names, places) for event in told.events],
    }


def message_of(message: MessageKey, names: Mapping[int, str]) -> dict[str, Any]:
    origin, sender, number = message
    return {"origin": origin, "sender": sender, "number": number, "name": name_in(origin, message, names)}


def event_of(run: int, event: WitnessEvent, names: Mapping[int, str], places: Mapping[RowPlace, str]) -> dict[str, Any]:
    """One event; of a missing one `before_local` is the row that it should precede, null: the end of its process."""
    key = event.message
    here = {"before_local": event.local} if event.missing else {"local": event.local, "time_ns": event.time_ns}
    found: dict[str, Any] = {
        "kind": Kind(event.kind).name,
        "process": event.process,
        "missing": event.missing,
        **here,
        "message": None if key is None else message_of(key, names),
        "group": event.group,
        "view": None if event.view == NONE else event.view,
        "role": event.role,
    }
    place = None if event.local is None else places.get((run, event.process, event.local))
    if place is not None and not event.missing:
        found["place"] = place
    return found


def check_free(folder: Path) -> None:
    """Refuse a folder that holds anything but an earlier check."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(str(folder), "", "a file", "a folder for the verdicts")
    inside = sorted(path.name for path in folder.iterdir())
    if inside and not is_proof(folder / FILE):
        found = f"a folder that is not of an earlier check (it has {inside[0]})"
        raise InputError(str(folder), "", found, "a new or empty folder")


def is_proof(path: Path) -> bool:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("format") == FORMAT


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """A fresh folder to fill, which takes the place of an earlier check's when all is well."""
    check_free(folder)
    fresh, old = (folder.with_name(f".{folder.name}-{os.getpid()}-{word}") for word in ("new", "old"))
    try:
        fresh.mkdir(parents=True)
        yield fresh
        if folder.exists():
            folder.rename(old)
        try:
            fresh.rename(folder)
        except OSError:
            if old.exists():
                old.rename(folder)
            raise
    except OSError as error:
        raise InputError(str(folder), "", error.strerror or str(error), "a folder that can be written") from error
    finally:
        for path in (fresh, old):
            shutil.rmtree(path, ignore_errors=True)


def write(folder: Path, proof: Mapping[str, Any]) -> None:
    text = json.dumps(proof, indent=2, ensure_ascii=False)
    (folder / FILE).write_text(text + "\n", encoding="utf-8")
