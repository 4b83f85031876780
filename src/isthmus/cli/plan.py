"""`isthmus plan`: recommend a total order and a role for every site, or a causal stack, and predict what it costs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import click
import msgspec
import tomli_w
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from isthmus.advise.order.simulation import Simulated, duration_ms, simulate_option
from isthmus.advise.order.total import TotalOrderAdvice, TotalOrderOption, advise, stack_tables
from isthmus.cli.console import new_table, print_whole, wide_console
from isthmus.cli.files import read_plan_input, refuse_overwrite, writing
from isthmus.cli.options import HELP, PATH, force_option, json_option, output_option, print_json
from isthmus.cli.plan_causal import plan_causal
from isthmus.core.errors import InputError
from isthmus.core.validation import BadValue
from isthmus.scenario.model import HybridSpec
from isthmus.topology.model import Topology

FILES = ("plan.toml", "roles.svg", "roles.png")
NULLS = f"Silence after which an active site sends a null message; 0: never. [{HybridSpec().null_ms:g}]"


@click.command(context_settings=HELP)
@click.argument("network", type=PATH, metavar="NET.toml|SCENARIO.toml")
@click.option("--traffic", type=PATH, help="File with [[workloads]]. [those of the scenario]")
@click.option(
    "--order", type=click.Choice(["total", "causal"]), default="total", show_default=True, help="What to plan."
)
@click.option("--verify", is_flag=True, help="Simulate every option and show the measured latency.")
@click.option("--seeds", type=click.IntRange(1, 100), default=3, show_default=True, help="Simulations per option.")
@click.option("--duration-ms", type=click.FloatRange(min=1000, max=1e7), help="Simulated time. [from the rates]")
@click.option("--null-ms", type=click.FloatRange(min=0), help=NULLS)
@click.option("--wait", is_flag=True, help="Send tickets for passive sites with the sequencer's next message.")
@output_option(f"Folder for {', '.join(FILES)}.")
@force_option
@json_option
def command(
    network: Path,
    traffic: Path | None,
    order: str,
    verify: bool,
    seeds: int,
    duration_ms: float | None,
    null_ms: float | None,
    wait: bool,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Recommend a total order for a network and its traffic, and a role for every site.

    Predicts the latency of each site's messages, from submit to last delivery, and searches for the roles with the
    lowest mean. Compares them with the best token site, the symmetric protocol and the paper's rule. plan.toml is a
    stack that a scenario can name: stack = "plan.toml". roles.svg and roles.png show the active sites.

    With --order causal: predicts, for each causal stack, the entries and bytes of a timestamp, the entries of a site's
    history and the latency, and recommends the one with the fewest bytes; --verify puts simulated figures beside.

    Notes on standard error say what the prediction leaves out: varying delays, losses, messages to some sites only.

    \b
    Examples:
      isthmus init demo
      isthmus plan demo/scenario.toml
      isthmus plan demo/scenario.toml --verify -o plan
      isthmus plan demo/scenario.toml --order causal --verify
      isthmus compare demo/scenario.toml --stack token-site --stack plan/plan.toml
    """
    topology, workloads = read_plan_input(network, traffic)
    console = wide_console(quiet=as_json)
    if order == "causal":
        if output is not None or null_ms is not None or wait:
            raise InputError("plan", "--order causal", "an option of total order", "no -o, --null-ms or --wait with it")
        try:
            plan_causal(console, topology, workloads, range(1, seeds + 1) if verify else (), duration_ms, as_json)
        except BadValue as error:
            raise error.at(str(traffic or network), "") from None
        return
    for path in [] if output is None else [output / name for name in FILES]:
        refuse_overwrite(path, force, network, traffic)
    try:
        with console.status(f"planning for {len(topology.sites)} sites"):
            advice = advise(topology, workloads, options(null_ms, wait))
    except BadValue as error:
        raise error.at(str(traffic or network), "") from None
    for note in advice.notes:
        click.echo(f"note: {note}", err=True)
    measured = simulate_all(advice, seeds, duration_ms, console) if verify else {}
    print_whole(console, options_table(advice, measured))
    print_whole(console, roles_table(advice, measured))
    console.print(recommendation(advice), highlight=False, soft_wrap=True)
    if output is not None:
        for written in write_plan(advice, output, plan_command(network, traffic, null_ms, wait)):
            console.print(f"wrote {written}", markup=False, highlight=False, soft_wrap=True)
    if as_json:
        print_json(document(advice, measured))


def document(advice: TotalOrderAdvice, measured: Mapping[str, Simulated]) -> dict[str, Any]:
    """What the tables show; null for a latency without bound."""
    names = [site.name for site in advice.topology.sites]
    found = []
    for option in advice.options:
        roles, simulated = option.choice.roles, measured.get(option.name)
        found.append(
            {
                "name": option.name,
                "stack": stack_tables(option.stack),
                "sequencer_of": {name: names[roles.sequencer[site]] for site, name in enumerate(names)},
                "predicted": {
                    "mean_ms": option.mean_ms,
                    "site_ms": dict(zip(names, option.choice.prediction.site_ms, strict=True)),
                },
                "measured": None
                if simulated is None
                else msgspec.structs.asdict(simulated) | {"site_ms": dict(zip(names, simulated.site_ms, strict=True))},
            }
        )
    return {
        "topology": advice.topology.name,
        "recommended": advice.recommended.name,
        "options": found,
        "notes": advice.notes,
    }


def options(null_ms: float | None, wait: bool) -> HybridSpec:
    """The options of the ticket protocol."""
    plain = HybridSpec()
    try:
        return HybridSpec(null_ms=plain.null_ms if null_ms is None else null_ms, eager=not wait)
    except BadValue as error:
        raise InputError("--null-ms", "", error.found, error.expected) from None


def simulate_all(
    advice: TotalOrderAdvice, seeds: int, duration: float | None, console: Console
) -> dict[str, Simulated]:
    """Simulate every option, with a progress bar; equal stacks are simulated once."""
    lasts = duration or duration_ms(advice.setting)
    found: dict[str, Simulated] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=float(len(advice.options)))
        for number, option in enumerate(advice.options):
            bar.update(task, description=f"simulating {escape(option.name)}", completed=number)
            same = next((found[other.name] for other in advice.options[:number] if other.stack == option.stack), None)

            def progress(share: float, before: int = number) -> None:
                bar.update(task, completed=before + share)

            found[option.name] = same or simulate_option(advice, option, range(1, seeds + 1), lasts, progress)
    return found


def options_table(advice: TotalOrderAdvice, measured: Mapping[str, Simulated]) -> Table:
    """One row per option: its stack, its active sites and its latency."""
    numbers = ("predicted", *(("measured", "off by", "undelivered") if measured else ()))
    title = f"{advice.topology.name}: mean latency of a message, ms"
    table = new_table("option", "stack", "active sites", *numbers, title=title, right=numbers)
    for option in advice.options:
        cells = [option.name, option.stack.name, active_text(advice.topology, option), ms_text(option.mean_ms)]
        if measured:
            result = measured[option.name]
            cells += [ms_text(result.mean_ms), off_text(option.mean_ms, result.mean_ms), f"{result.undelivered:,}"]
        table.add_row(*map(escape, cells), style="bold" if option is advice.recommended else "")
    return table


def roles_table(advice: TotalOrderAdvice, measured: Mapping[str, Simulated]) -> Table:
    """One row per site: its role, and the latency of its messages under each option."""
    topology, first = advice.topology, advice.recommended
    title = "latency by site, ms" + (" (predicted / measured)" if measured else "")
    names = [escape(option.name) for option in advice.options]
    right = ("messages per s", *names)
    table = new_table("site", "cluster", "messages per s", "role", *names, title=title, right=right)
    for number, site in enumerate(topology.sites):
        sequencer = first.choice.roles.sequencer[number]
        role = "active" if sequencer == number else f"passive, through {topology.sites[sequencer].name}"
        rate = f"{1000 * advice.setting.rates[number]:.4g}"
        cells = [site.name, topology.clusters[site.cluster].name, rate, role]
        for option in advice.options:
            text = ms_text(option.choice.prediction.site_ms[number])
            cells.append(f"{text} / {ms_text(measured[option.name].site_ms[number])}" if measured else text)
        table.add_row(*map(escape, cells))
    return table


def active_text(topology: Topology, option: TotalOrderOption) -> str:
    names = [topology.sites[site].name for site in option.choice.roles.active]
    if len(names) == len(topology.sites) > 1:
        return "all"
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def ms_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}" if isfinite(value) else "never"


def off_text(predicted: float, measured: float | None) -> str:
    if measured is None or not isfinite(predicted) or not measured:
        return "-"
    off = round(100 * (predicted / measured - 1), 1)
    return f"{off:+.1f} %" if off else "0.0 %"


def recommendation(advice: TotalOrderAdvice) -> str:
    """The recommendation in one sentence."""
    first, rest = advice.recommended, advice.options[1:]
    words = {"token-site": "one sequencer", "symmetric": "every site active", "hybrid": "a role for every site"}
    gains = [f"{ms_text(option.mean_ms)} ({option.name})" for option in rest]
    text = f"Recommended: the stack {first.stack.name}, {words[first.stack.name]}: {ms_text(first.mean_ms)} ms"
    return f"{text}; alternatives: {', '.join(gains)}."


def plan_command(network: Path, traffic: Path | None, null_ms: float | None, wait: bool) -> str:
    """The command that reproduces this plan."""
    words = ["isthmus", "plan", str(network)]
    words += ["--traffic", str(traffic)] if traffic else []
    words += ["--null-ms", f"{null_ms:g}"] if null_ms is not None else []
    words += ["--wait"] if wait else []
    return shlex.join(words)


def write_plan(advice: TotalOrderAdvice, folder: Path, replay: str) -> tuple[Path, ...]:
    """Write the stack as a file that a scenario can name, and pictures of the roles; return the files."""
    from isthmus.report.pictures.network import save_network

    first = advice.recommended
    head = f'# Planned: {ms_text(first.mean_ms)} ms per message. In a scenario: stack = "{FILES[0]}"\n# {replay}\n'
    files = stack, *pictures = tuple(folder / name for name in FILES)
    with writing(stack):
        stack.write_text(head + tomli_w.dumps(stack_tables(first.stack)), encoding="utf-8")
        for picture in pictures:
            save_network(advice.topology, picture, roles=first.choice.roles)
    return files
