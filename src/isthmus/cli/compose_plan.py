"""`isthmus compose plan`: a composition for a network and its traffic, beside one group of all sites."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any, get_args

import click
import tomli_w
from rich.markup import escape
from rich.table import Table

from isthmus.advise.composition.plan import PlannedComposition, plan_composition
from isthmus.advise.composition.traffic import flows_between
from isthmus.advise.order.delays import delay_notes, delays_of
from isthmus.cli.console import new_table, print_whole, wide_console
from isthmus.cli.files import read_plan_input, refuse_overwrite, writing
from isthmus.cli.options import HELP, PATH, force_option, json_option, output_option, print_json
from isthmus.core.errors import InputError
from isthmus.core.validation import BadValue
from isthmus.protocols.routing.calculus.model import DomainScope, Igp, ProcessGroup, Wanted
from isthmus.scenario.composition.load import composition_tables

SHOWN = 6  # options in the table

ORDERS = [name for name in get_args(Wanted) if name != "none"]  # what to plan for


@click.command(context_settings=HELP)
@click.argument("network", type=PATH, metavar="NET.toml|SCENARIO.toml")
@click.option("--traffic", type=PATH, help="File with [[workloads]]. [those of the scenario]")
@click.option("--wants", type=click.Choice(ORDERS), default="causal", show_default=True, help="The order to keep.")
@click.option("--scope", type=click.Choice(get_args(DomainScope)), default="inter", show_default=True,
              help="inter: the order of messages between groups; all: of those inside a group, too.")  # fmt: skip
@output_option("File for the composition, as TOML.")
@force_option
@json_option
def plan(
    network: Path,
    traffic: Path | None,
    wants: Wanted,
    scope: DomainScope,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Plan a composition for a network, the traffic between its sites and an order.

    Groups follow clusters, near groups are near in the tree, and the tree is balanced. Predicts the latency from submit
    to last delivery and the highest throughput, compared with one group of all sites; every composition shown keeps the
    order, by the calculus. The cost model is that of docs/design/routing.md.

    \b
    Examples:
      isthmus compose plan demo/scenario.toml --wants total
      isthmus compose plan net.toml --traffic traffic.toml --wants causal --scope all -o composition.toml
      isthmus compose check composition.toml
    """
    topology, workloads = read_plan_input(network, traffic)
    if output is not None:
        refuse_overwrite(output, force, network, traffic)
    notes = delay_notes(topology)
    console = wide_console()
    try:
        flows = flows_between(topology, workloads, notes)
        with console.status(f"planning for {len(topology.sites)} sites"):
            options = plan_composition(topology, delays_of(topology), flows, wants, scope)
    except BadValue as error:
        raise error.at(str(traffic or network), "") from None
    for note in notes:
        click.echo(f"note: {note}", err=True)
    chosen = options[1] if len(options) > 1 else None
    if as_json:
        print_json(document(options, wants, scope))
    else:
        print_whole(console, table_of(options[: SHOWN + 1]))
        console.print(escape(advice(options)), highlight=False, soft_wrap=True)
    if output is not None:
        if chosen is None or chosen.composition is None:
            raise InputError(str(network), "", "one cluster with too few sites to divide", "sites for two groups")
        head = f"# Planned: {ms(chosen.cost.mean_ms)} ms per message.\n"
        with writing(output):
            output.write_text(head + tomli_w.dumps(composition_tables(chosen.composition)), encoding="utf-8")
        if not as_json:
            click.echo(f"wrote {output}")


def table_of(options: list[PlannedComposition]) -> Table:
    """One row per option, the single group first."""
    words = ("option", "groups", "group order", "IGP order", "forwarding")
    numbers = ("mean, ms", "worst, ms", "messages per s", "of the single group")
    table = new_table(*words, *numbers, title="predicted, from submit to last delivery", right=numbers)
    single = options[0].cost
    for number, option in enumerate(options):
        cost, composition = option.cost, option.composition
        cells = [option.name, "1", cost.kinds[0], "", ""]
        if composition is not None:
            sizes = sorted({len(group.members) for group in composition.groups})
            size = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else str(sizes[0])
            cells = [option.name, f"{len(composition.groups)} of {size}", stacks_text(composition.groups)]
            cells += [stacks_text(composition.igps), composition.domains[0].forwarding]
        share = cost.throughput_per_s / single.throughput_per_s
        cells += [ms(cost.mean_ms), ms(cost.worst_ms), f"{cost.throughput_per_s:,.0f}", f"x {share:.2f}"]
        table.add_row(*map(escape, cells), style="bold" if number == 1 else "")
    return table


def stacks_text(nodes: Sequence[ProcessGroup | Igp]) -> str:
    """The different stacks of some nodes."""
    names = [node.kind if isinstance(node, Igp) and node.kind != "group" else node.stack for node in nodes]
    return ", ".join(dict.fromkeys(names))


def ms(value: float) -> str:
    return f"{value:.1f}" if isfinite(value) else "full"


def advice(options: list[PlannedComposition]) -> str:
    """The recommendation in one sentence."""
    single, rest = options[0], options[1:]
    if not rest:
        return "No composition keeps this order here: stay with one group."
    first = rest[0]
    if first.cost.mean_ms >= single.cost.mean_ms:
        more = first.cost.throughput_per_s / single.cost.throughput_per_s
        return (
            f"One group is faster at this load ({ms(single.cost.mean_ms)} against {ms(first.cost.mean_ms)} ms); "
            f"the fastest composition has {more:.2f} times its throughput."
        )
    return f"Recommended: {first.name}: {ms(first.cost.mean_ms)} ms against {ms(single.cost.mean_ms)} in one group."


def document(options: list[PlannedComposition], wants: str, scope: str) -> dict[str, Any]:
    """All options as JSON; a latency is null where the load is too high."""
    found = []
    for option in options:
        cost = option.cost
        found.append(
            {
                "name": option.name,
                "mean_ms": cost.mean_ms,
                "worst_ms": cost.worst_ms,
                "throughput_per_s": cost.throughput_per_s,
                "composition": None if option.composition is None else composition_tables(option.composition),
            }
        )
    return {"wants": wants, "scope": scope, "options": found}
