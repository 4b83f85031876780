"""`isthmus topology overlay`: the figures and the picture of an overlay that messages are flooded along."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click
from rich.table import Table

from isthmus.cli.console import wide_console
from isthmus.core.errors import InputError
from isthmus.core.message import SiteId
from isthmus.core.validation import BadValue
from isthmus.topology.model import Topology
from isthmus.topology.overlay.links import Adjacency, Kind, Overlay
from isthmus.topology.overlay.measures import OverlayMeasures, measure

KINDS: tuple[Kind, ...] = get_args(Kind)
LARGEST = 4096  # ids; the connectivity of more takes minutes


def show_overlay(
    count: int,
    kind: Kind | None,
    degree: int | None,
    seed: int,
    pictures: list[tuple[Path, str]],
    network: Topology | None,
) -> None:
    """Print a row per overlay, all of them or one, and draw it."""
    kinds = KINDS if kind is None else (kind,)
    console = wide_console()
    table = figures_table(count)
    made = {}
    for one in kinds:
        try:
            near = Overlay(one, degree if one == "random" else None, seed).adjacency(count)
        except BadValue as error:
            raise InputError("--degree", "", error.found, error.expected) from None
        measures = measure(near)
        made[one] = near, measures
        table.add_row(one, *cells(measures))
    console.print(table)
    if network is not None:
        for one, (near, _) in made.items():
            click.echo(length_text(network, one, near))
    for file, suffix in pictures:
        from isthmus.report.pictures.overlay import draw_overlay, save_overlay, summary_of

        assert kind is not None
        near, measures = made[kind]
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            save_overlay(draw_overlay(f"{kind} of {count}", kind, near, summary_of(measures)), file, suffix)
        except OSError as error:
            raise InputError("-o", str(file), error.strerror or "an error", "a file that can be written") from None
        click.echo(f"wrote {file}")


def figures_table(count: int) -> Table:
    table = Table(title=f"overlays of {count} sites", title_justify="left", title_style="bold")
    table.add_column("overlay")
    for heading in (
        "links",
        "degree",
        "diameter",
        "mean hops",
        "connectivity",
        "survives crashes",
        "sends per broadcast",
    ):
        table.add_column(heading, justify="right")
    return table


def cells(measures: OverlayMeasures) -> list[str]:
    low, high = measures.degree_min, measures.degree_max
    return [
        str(measures.links),
        str(low) if low == high else f"{low} to {high}",
        "-" if measures.diameter is None else str(measures.diameter),
        "-" if measures.mean_hops is None else f"{measures.mean_hops:.2f}",
        str(measures.connectivity),
        str(max(0, measures.connectivity - 1)),
        str(measures.sends),
    ]


def length_text(network: Topology, kind: str, near: Adjacency) -> str:
    """How long the links are in a network, with ids by the numbers of sites and by topology."""
    import numpy as np

    from isthmus.topology.overlay.ids import near_ids, total_length

    sites = [SiteId(number) for number in range(len(network.sites))]
    lengths = np.array([[network.mean_ms(a, b) for b in sites] for a in sites])
    ends = sum(map(len, near)) or 1
    plain = total_length(lengths, near, range(len(sites))) / ends
    better = total_length(lengths, near, near_ids(lengths, near)) / ends
    return f"{kind}: mean link {plain:.4g} ms with ids by number, {better:.4g} ms with ids by topology"
