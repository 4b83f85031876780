"""`isthmus topology overlay`: the figures and the picture of an overlay along which messages are flooded."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from isthmus.cli.console import new_table, wide_console
from isthmus.cli.files import picture_files, read_network, refuse_overwrite, writing
from isthmus.cli.options import HELP, force_option, json_option, output_option, print_json
from isthmus.core.errors import InputError
from isthmus.core.message import SiteId
from isthmus.core.validation import BadValue
from isthmus.topology.model import Topology
from isthmus.topology.overlay.links import Adjacency, Kind, Overlay
from isthmus.topology.overlay.measures import OverlayMeasures, measure

KINDS: tuple[Kind, ...] = get_args(Kind)
SITES_MAX = 4096  # the connectivity of more takes minutes
COLUMNS = ("links", "degree", "diameter", "mean hops", "connectivity", "survives crashes", "sends per broadcast")


@click.command(context_settings=HELP)
@click.argument("count", metavar="N|NETWORK.toml")
@click.option("--kind", type=click.Choice(KINDS), help="Which overlay. [all of them]")
@click.option("--degree", type=click.IntRange(min=2), help="Degree of a random graph. [ceil(log2 N)]")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of a random graph.")
@output_option("Folder for both pictures, KIND-N.svg and KIND-N.png.")
@force_option
@json_option
def overlay(
    count: str, kind: Kind | None, degree: int | None, seed: int, output: Path | None, force: bool, as_json: bool
) -> None:
    """Show the overlays for flooding: links, degree, diameter, connectivity, cost.

    Given a network instead of a number, show overlays of its sites, with the mean length of their links when ids follow
    the numbers of sites and when they follow the topology.

    \b
    Examples:
      isthmus topology overlay 40
      isthmus topology overlay 12 --kind hypercube -o pictures
      isthmus topology shape ring --clusters 4 --sites 4 -o net.toml
      isthmus topology overlay net.toml --kind hypercube
    """
    network = None if count.isdecimal() else read_network(Path(count))
    size = int(count) if network is None else len(network.sites)
    if not 1 <= size <= SITES_MAX:
        raise InputError("N", "", str(size), f"a number of sites from 1 to {SITES_MAX}")
    if output is not None and kind is None:
        raise InputError("-o", str(output), "pictures of all kinds", "--kind, for the picture of one")
    if degree is not None and kind not in (None, "random"):
        raise InputError("--degree", "", str(degree), "no degree, unless --kind is random")
    pictures = [] if output is None else picture_files(output, f"{kind}-{size}")
    for file in pictures:
        refuse_overwrite(file, force)
    found: dict[str, tuple[Adjacency, OverlayMeasures]] = {}
    for each in KINDS if kind is None else (kind,):
        try:
            near = Overlay(each, degree if each == "random" else None, seed).adjacency(size)
        except BadValue as error:
            raise InputError("--degree", "", error.found, error.expected) from None
        found[each] = near, measure(near)
    lengths = {} if network is None else {name: mean_lengths(network, near) for name, (near, _) in found.items()}
    for file in pictures:
        from isthmus.report.pictures.canvas import save_picture
        from isthmus.report.pictures.overlay import draw_overlay, summary_of

        assert kind is not None
        near, measures = found[kind]
        with writing(file):
            save_picture(draw_overlay(f"{kind} of {size}", kind, near, summary_of(measures)), file, file.suffix[1:])
    if as_json:
        print_json([document(name, measures, lengths.get(name)) for name, (_, measures) in found.items()])
        return
    table = new_table("overlay", *COLUMNS, title=f"overlays of {size} sites", right=COLUMNS, title_style="bold")
    for name, (_, measures) in found.items():
        table.add_row(name, *cells(measures))
    wide_console().print(table)
    for name, (plain, better) in lengths.items():
        click.echo(f"{name}: mean link {plain:.4g} ms with ids by number, {better:.4g} ms with ids by topology")
    for file in pictures:
        click.echo(f"wrote {file}")


def document(kind: str, measures: OverlayMeasures, lengths: tuple[float, float] | None) -> dict[str, Any]:
    found: dict[str, Any] = {"overlay": kind, **msgspec.to_builtins(measures)}
    if lengths is not None:
        found["mean_link_ms"] = {"ids_by_number": lengths[0], "ids_by_topology": lengths[1]}
    return found


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


def mean_lengths(network: Topology, near: Adjacency) -> tuple[float, float]:
    """The mean length of the links in a network, in ms, with ids by the numbers of sites and by topology."""
    import numpy as np

    from isthmus.topology.overlay.ids import near_ids, total_length

    sites = [SiteId(number) for number in range(len(network.sites))]
    lengths = np.array([[network.mean_ms(a, b) for b in sites] for a in sites])
    ends = sum(map(len, near)) or 1
    plain = total_length(lengths, near, range(len(sites))) / ends
    return float(plain), float(total_length(lengths, near, near_ids(lengths, near)) / ends)
