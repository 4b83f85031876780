"""`isthmus plan --order causal`: the causal stacks side by side, predicted and, if asked for, simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from isthmus.advise.order.causal import CausalAdvice, CausalOption, CausalSimulated, advise_causal, simulate_causal
from isthmus.cli.console import new_table, print_whole
from isthmus.cli.options import print_json
from isthmus.scenario.workload import Workload
from isthmus.topology.model import Topology

DURATION_MS = 10_000.0
FIGURES = ("entries", "stamp B", "history", "message ms")


def plan_causal(
    console: Console,
    topology: Topology,
    workloads: Sequence[Workload],
    seeds: Sequence[int],
    duration_ms: float | None,
    as_json: bool,
) -> None:
    """Print the predicted cost of each causal stack and recommend one; simulate each with every one of `seeds`."""
    lasts = duration_ms or DURATION_MS
    advice = advise_causal(topology, workloads, lasts)
    for note in advice.notes:
        click.echo(f"note: {note}", err=True)
    measured: dict[str, CausalSimulated] = {}
    for option in advice.options if seeds else ():
        with console.status(f"simulating {option.stack}"):
            measured[option.stack] = simulate_causal(topology, workloads, option.stack, seeds, lasts)
    if as_json:
        options = [{**msgspec.to_builtins(option), "measured": measured.get(option.stack)} for option in advice.options]
        print_json({**msgspec.structs.asdict(advice), "topology": topology.name, "options": options})
        return
    print_whole(console, causal_table(topology, advice, measured))
    for stack, why in advice.left_out.items():
        console.print(f"{stack}: left out: {escape(why)}", highlight=False, soft_wrap=True)
    console.print(causal_recommendation(advice), highlight=False, soft_wrap=True)


def predicted(option: CausalOption) -> tuple[float | None, ...]:
    sizes = option.sizes
    if sizes is None:
        return None, None, None, option.latency_ms
    return sizes.entries, sizes.stamp_bytes, sizes.history or None, option.latency_ms


def causal_table(topology: Topology, advice: CausalAdvice, measured: Mapping[str, CausalSimulated]) -> Table:
    """One row per stack: entries and bytes of a timestamp, entries of a site's history, latency of a message."""
    title = f"{topology.name}: causal order, means" + (
        " (predicted / simulated, off by)" if measured else ", predicted"
    )
    table = new_table("stack", *FIGURES, title=title, right=FIGURES)
    for option in advice.options:
        found = measured.get(option.stack)
        figures = (None,) * len(FIGURES) if found is None else (
            found.entries, found.stamp_bytes, found.history, found.latency_ms
        )  # fmt: skip
        cells = [cell(one, other, bool(measured)) for one, other in zip(predicted(option), figures, strict=True)]
        table.add_row(escape(option.stack), *cells, style="bold" if option.stack == advice.recommended else "")
    return table


def cell(guess: float | None, found: float | None, beside: bool) -> str:
    """A prediction, beside a simulated figure where there is one."""
    left = "-" if guess is None else f"{guess:,.1f}"
    if not beside or (guess is None and found is None):
        return left
    right = "-" if found is None else f"{found:,.1f}"
    apart = f", {100 * (guess / found - 1):+.0f} %" if guess is not None and found else ""
    return f"{left} / {right}{apart}"


def causal_recommendation(advice: CausalAdvice) -> str:
    """The recommendation in one sentence."""
    sizes = {option.stack: option.sizes.stamp_bytes for option in advice.options if option.sizes is not None}
    if advice.recommended is None:
        return "No recommendation from predictions: compare the stacks by simulation, with isthmus compare."
    others = [f"{size:,.0f} B ({stack})" for stack, size in sizes.items() if stack != advice.recommended]
    text = (
        f"Recommended: the stack {advice.recommended}: {sizes[advice.recommended]:,.0f} bytes of timestamp per message"
    )
    return f"{text}; alternatives: {', '.join(others)}." if others else f"{text}."
