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
        told = summary.told
        if told is None or not told.events:
            continue
        title = f"{summary.name} is violated in run {told.run}{where(told)}"
        events = [
            Event(
                *(event.process, event.local, event.time_ns, event.kind, event.message, event.group, event.view),
                missing=event.missing,
                place="" if event.missing else places.get((told.run, event.process, event.local or 0), ""),
            )
            for event in told.events
        ]
        processes = [process for process, _ in told.witness.lives]
        figure = draw_witness(title, sentence(told.witness, told.group, names), events, names, processes)
        suffix = where(told).replace(", ", "-").replace(" ", "-")
        for ending in (".svg", ".png") if png else (".svg",):
            name = f"{summary.name}-run-{told.run}{suffix}{ending}"
            save_picture(figure, folder / name)
            drawn.setdefault(summary.name, []).append(name)
    return drawn


def where(told: Told) -> str:
    """Where a witness was found, for people; nothing where there is one group."""
    return f", domain {told.domain}" if told.domain else f", group {told.group}" if told.group > 0 else ""
