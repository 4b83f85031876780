"""`isthmus topology`: create networks from measurements, maps and shapes, and show them as tables and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.table import Table

from isthmus.cli.console import new_table, print_whole, wide_console
from isthmus.cli.files import picture_files, read_network, refuse_overwrite, writing
from isthmus.cli.options import HELP, PATH, force_option, json_option, output_option, print_json
from isthmus.cli.overlay import overlay
from isthmus.core.errors import InputError
from isthmus.core.validation import BadValue
from isthmus.topology.delay import Constant, Delay, Empirical, Gamma, Normal, Uniform
from isthmus.topology.gateways.separators import LanGraph, Separators, check_zones, sites_of
from isthmus.topology.model import Channel, Topology, WanLink
from isthmus.topology.shapes import SHAPES, shape
from isthmus.topology.written import topology_to_toml

MATRIX_MAX = 12  # clusters; beyond, the list of links is easier to read
LIST_MAX = 60  # links shown of a longer list
MODELS = ("constant", "gamma", "empirical")
ROWS = ("auto", "hosts", "regions")
LAN = click.option(
    "--lan-ms", type=click.FloatRange(min=0), default=0.5, show_default=True, help="One-way delay inside a cluster."
)
SITES = click.option("--sites", type=click.IntRange(1, 1000), default=3, show_default=True, help="Sites per cluster.")


@click.group(context_settings=HELP)
def command() -> None:
    """Create and show networks: clusters of sites on LANs, joined by WAN links.

    \b
    Examples:
      isthmus topology shape ring --clusters 4 --sites 3 -o ring.toml
      isthmus topology import rtt.csv -o net.toml
      isthmus topology import Abilene.graphml --sites 2 -o abilene.toml
      isthmus topology show net.toml -o pictures
      isthmus topology overlay 12 --kind hypercube -o pictures
    """


@command.command("import", context_settings=HELP)
@click.argument("source", type=PATH, metavar="RTT.csv|MAP.graphml")
@output_option("Output file. [standard output]")
@SITES
@click.option(
    "--model", type=click.Choice(MODELS), default="constant", show_default=True, help="Delay model for measurements."
)
@click.option(
    "--rows", type=click.Choice(ROWS), default="auto", show_default=True, help="What each name in the file is."
)
@click.option(
    "--threshold-ms", type=click.FloatRange(min=0, min_open=True), help="Largest round trip within a cluster."
)
@click.option("--per-pair", is_flag=True, help="Keep the delay of every pair of hosts.")
@LAN
@force_option
def import_command(
    source: Path,
    output: Path | None,
    sites: int,
    model: str,
    rows: str,
    threshold_ms: float | None,
    per_pair: bool,
    lan_ms: float,
    force: bool,
) -> None:
    """Create a topology from measured round trips (CSV) or from a map with coordinates (GraphML).

    A CSV file (commas, semicolons or tabs) is a matrix (the same names in the first row and column) or a table with
    columns such as src, dst, rtt_ms. Values that differ by direction are kept as asymmetric delays. Hosts
    are grouped into clusters by their round trips; where the diagonal is measured, each name is a region with --sites
    sites. The one-way delay is half the round trip. On a map, it is the distance divided by 200 km per millisecond.
    --lan-ms applies where no delay was measured inside a cluster.

    \b
    Examples:
      isthmus topology import planetlab.csv -o planetlab.toml
      isthmus topology import planetlab.csv --threshold-ms 20 --per-pair -o near.toml
      isthmus topology import cloud.csv --model gamma --sites 5 -o cloud.toml
      isthmus topology import Geant2012.graphml --sites 2 -o geant.toml
    """
    from isthmus.topology.inputs.maps import load_map
    from isthmus.topology.inputs.round_trips import load_measured

    lan = Channel(Constant(lan_ms))
    if source.suffix.lower() in (".graphml", ".xml"):
        topology, notes = load_map(source, sites, lan)
    elif source.suffix.lower() in (".csv", ".tsv", ".txt"):
        topology, notes = load_measured(
            source, model=model, rows=rows, sites=sites, threshold_ms=threshold_ms, per_pair=per_pair, lan=lan
        )
    else:
        raise InputError(
            str(source), "", f"a file name that ends in {source.suffix!r}", "one that ends in .csv, .tsv or .graphml"
        )
    for note in notes:
        click.echo(f"note: {note}", err=True)
    write_topology(topology, output, force, source)


@command.command("shape", context_settings=HELP)
@click.argument("name", type=click.Choice(SHAPES))
@click.option("--clusters", type=click.IntRange(1, 1000), default=4, show_default=True, help="Number of clusters.")
@SITES
@LAN
@click.option(
    "--wan-ms", type=click.FloatRange(min=0), default=50.0, show_default=True, help="One-way delay of a WAN link."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the random shape.")
@output_option("Output file. [standard output]")
@force_option
def shape_command(
    name: str, clusters: int, sites: int, lan_ms: float, wan_ms: float, seed: int, output: Path | None, force: bool
) -> None:
    """Create a regular network: star, ring, mesh, a connected random graph, or LANs with gateways.

    lan-ring and lan-tree have two dedicated gateways in each LAN besides --sites.

    \b
    Examples:
      isthmus topology shape star --clusters 6 --sites 4 --wan-ms 80
      isthmus topology shape random --clusters 12 --seed 7 -o random.toml
      isthmus topology shape lan-ring --clusters 3 --sites 8 -o lans.toml
    """
    topology = shape(name, clusters, sites, Channel(Constant(lan_ms)), Channel(Constant(wan_ms)), seed)
    write_topology(topology, output, force)


@command.command("show", context_settings=HELP)
@click.argument("path", type=PATH, metavar="NET.toml|SCENARIO.toml")
@output_option("Folder for both pictures, NAME.svg and NAME.png.")
@click.option("--svg", type=PATH, help="Write the picture as SVG to this file.")
@click.option("--png", type=PATH, help="Write the picture as PNG to this file.")
@click.option("--zones", is_flag=True, help="Show gateways, the links between them, separators and causal zones.")
@force_option
@json_option
def show_command(
    path: Path, output: Path | None, svg: Path | None, png: Path | None, zones: bool, force: bool, as_json: bool
) -> None:
    """Show the clusters and delays of a network as tables, and draw it on request.

    Given a scenario, show the network that it contains or names.

    \b
    Examples:
      isthmus topology shape ring -o net.toml
      isthmus topology show net.toml
      isthmus topology show net.toml -o pictures
      isthmus topology show net.toml --svg net.svg --png net.png
      isthmus topology show lans.toml --zones -o pictures
    """
    topology = read_network(path)
    pictures = [(file, ending) for file, ending in ((svg, "svg"), (png, "png")) if file is not None]
    if output is not None:
        pictures += [(file, file.suffix[1:]) for file in picture_files(output, topology.name)]
    for file, _ in pictures:
        refuse_overwrite(file, force, path)
    try:
        zoned = check_zones(topology) if zones else None
    except BadValue as error:
        raise error.at(str(path), "") from None
    console = wide_console(quiet=as_json)
    print_whole(console, cluster_table(topology))
    if topology.links:
        print_whole(console, wan_table(topology))
    if topology.overrides:
        console.print(f"{len(topology.overrides)} pairs of sites have their own delays")
    if zoned is not None:
        console.print(gateway_table(topology, zoned[0]))
        console.print(zone_table(topology, zoned[1]))
    for file, ending in pictures:
        from isthmus.report.pictures.network import save_network

        with writing(file):
            save_network(topology, file, ending, zones=zones)
        console.print(f"wrote {file}", markup=False, highlight=False, soft_wrap=True)
    if as_json:
        print_json(document(topology, zoned))


def document(topology: Topology, zoned: tuple[LanGraph, Separators] | None) -> dict[str, Any]:
    """What the tables show."""
    names = [site.name for site in topology.sites]
    count = range(len(topology.clusters))
    found: dict[str, Any] = {
        "topology": topology.name,
        "clusters": [
            {
                "name": cluster.name,
                "sites": [names[site] for site in cluster.sites],
                "agent": names[cluster.agent],
                "lan_ms": cluster.lan.delay.mean_ms,
            }
            for cluster in topology.clusters
        ],
        "wan_ms": [[None if a == b else topology.cluster_mean_ms(a, b) for b in count] for a in count],
        "pairs_with_own_delays": len(topology.overrides),
    }
    if zoned is not None:
        graph, separators = zoned
        found["gateways"] = {
            graph.lans.names[number]: {
                names[one]: [names[end] for end in gateway_ends(graph, number, one)] for one in all_
            }
            for number, all_ in enumerate(graph.gateways)
        }
        found["zones"] = [
            {
                "name": zone.name,
                "level": zone.level,
                "separator": [names[site] for site in sites_of(zone.separator)],
                "inside": zone.inside.bit_count(),
                "parts": len(zone.parts),
            }
            for zone in separators.zones
        ]
    return found


command.add_command(overlay)


def cluster_table(topology: Topology) -> Table:
    """One row per cluster."""
    headers = ("cluster", "sites", "agent", "LAN delay, ms")
    table = new_table(*headers, title=topology.name, right=("sites",), title_style="bold")
    for cluster in topology.clusters:
        agent = topology.sites[cluster.agent].name
        table.add_row(cluster.name, str(len(cluster.sites)), agent, channel_text(cluster.lan))
    return table


def wan_table(topology: Topology) -> Table:
    """Mean delays between clusters: a matrix if there are few, otherwise the list of links."""
    if len(topology.clusters) <= MATRIX_MAX:
        count = range(len(topology.clusters))
        names = [cluster.name for cluster in topology.clusters]
        table = new_table("", *names, title="mean one-way WAN delay, ms (row to column)", right=names)
        for a in count:
            cells = ["" if a == b else f"{topology.cluster_mean_ms(a, b):.4g}" for b in count]
            table.add_row(names[a], *cells)
        return table
    table = new_table("from", "to", "delay", title="WAN links, one-way delay, ms")
    for link in topology.links[:LIST_MAX]:
        table.add_row(topology.clusters[link.a].name, topology.clusters[link.b].name, link_text(link))
    if len(topology.links) > LIST_MAX:
        table.add_row("...", f"and {len(topology.links) - LIST_MAX} more", "")
    return table


def gateway_table(topology: Topology, graph: LanGraph) -> Table:
    """The gateways of each LAN, and where their links lead."""
    table = new_table("LAN", "gateway", "linked to", title="gateways")
    names = [site.name for site in topology.sites]
    for number, gateways in enumerate(graph.gateways):
        for gateway in gateways:
            ends = gateway_ends(graph, number, gateway)
            table.add_row(graph.lans.names[number], names[gateway], ", ".join(names[end] for end in ends) or "-")
    return table


def gateway_ends(graph: LanGraph, lan: int, gateway: int) -> list[int]:
    """The gateways to which one is linked."""
    return [b for (here, _), (a, b) in sorted(graph.joints.items()) if (here, a) == (lan, gateway)]


def zone_table(topology: Topology, separators: Separators) -> Table:
    """Each causal zone with its separator, and how many parts that cuts the network into."""
    numbers = ("inside", "parts")
    table = new_table("zone", "level", "separator", *numbers, title="causal zones", right=numbers)
    names = [site.name for site in topology.sites]
    for zone in separators.zones:
        separator = ", ".join(names[site] for site in sites_of(zone.separator))
        table.add_row(zone.name, zone.level, separator, str(zone.inside.bit_count()), str(len(zone.parts)))
    return table


def link_text(link: WanLink) -> str:
    forth, back = channel_text(link.forward), channel_text(link.back)
    return forth if forth == back else f"{forth} / back {back}"


def channel_text(channel: Channel) -> str:
    """A short description of a channel."""
    text = delay_text(channel.delay)
    text += f", loss {channel.loss:g}" if channel.loss else ""
    text += f", duplicates {channel.duplicate:g}" if channel.duplicate else ""
    text += f", {channel.bandwidth_mbps:g} Mbit/s" if channel.bandwidth_mbps is not None else ""
    return text + ("" if channel.fifo else ", may reorder")


def delay_text(delay: Delay) -> str:
    match delay:
        case Constant():
            return f"{delay.ms:.4g}"
        case Uniform():
            return f"uniform {delay.low_ms:.4g} to {delay.high_ms:.4g}"
        case Normal():
            return f"normal {delay.mean_ms:.4g}, sd {delay.sd_ms:.3g}"
        case Gamma():
            return f"gamma {delay.mean_ms:.4g}, sd {delay.variance_ms2**0.5:.3g}, at least {delay.shift_ms:.4g}"
        case Empirical():
            return f"empirical {delay.mean_ms:.4g}, {len(delay.samples_ms)} samples"


def write_topology(topology: Topology, output: Path | None, force: bool, source: Path | None = None) -> None:
    """Write a topology as TOML, to a file or to standard output."""
    text = topology_to_toml(topology)
    if output is None:
        click.echo(text, nl=False)
        return
    refuse_overwrite(output, force, source)
    with writing(output):
        output.write_text(text, encoding="utf-8")
    clusters, sites = len(topology.clusters), len(topology.sites)
    text = f"{clusters} cluster{'s' if clusters != 1 else ''}, {sites} site{'s' if sites != 1 else ''}"
    click.echo(f"wrote {output}: {text}", err=True)
