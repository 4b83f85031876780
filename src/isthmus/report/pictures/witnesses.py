"""The witnesses of a check as pictures, one per violated property."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from isthmus.judge.runs import Summary, Told
from isthmus.judge.witness import sentence
from isthmus.report.pictures.canvas import save_picture
from isthmus.report.pictures.witness import Event, draw_witness
from isthmus.trace.inputs.rows import RowPlace


def draw_all(
    folder: Path, summaries: Iterable[Summary], names: Mapping[int, str], places: Mapping[RowPlace, str], png: bool
) -> dict[str, list[str]]:
    """Draw the first witness of each violated property; the names of the files, by property."""
    drawn: dict[str, list[str]] = {}
    for summary in summaries:
        first = summary.told
        if first is None or not first.events:
            continue
        title = f"{summary.name} is violated in run {first.run}{where(first)}"
        events = [
            Event(
                *(event.process, event.local, event.time_ns, event.kind, event.message, event.group, event.view),
                missing=event.missing,
                place="" if event.missing else places.get((first.run, event.process, event.local or 0), ""),
            )
            for event in first.events
        ]
        processes = [process for process, _ in first.witness.lives]
        figure = draw_witness(title, sentence(first.witness, first.group, names), events, names, processes)
        suffix = where(first).replace(", ", "-").replace(" ", "-")
        for ending in (".svg", ".png") if png else (".svg",):
            name = f"{summary.name}-run-{first.run}{suffix}{ending}"
            save_picture(figure, folder / name)
            drawn.setdefault(summary.name, []).append(name)
    return drawn


def where(first: Told) -> str:
    return f", domain {first.domain}" if first.domain else f", group {first.group}" if first.group > 0 else ""
