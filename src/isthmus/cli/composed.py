"""Output about a run of a composition: its name, its stacks, and the latency by class of messages."""

from __future__ import annotations

from collections.abc import Iterable

from rich.markup import escape
from rich.table import Table

from isthmus.advise.compare.figures import Spread, spread_of
from isthmus.judge.promises import ended_alone
from isthmus.measure.summary import RunSummary
from isthmus.protocols.routing.calculus.model import Composition
from isthmus.scenario.model import Scenario
from isthmus.trace.schema import Row

SHARES = ("p50", "p90", "p99")
CAPTION = "latency per message in ms: submit to last delivery"
KINDS = {False: "inside", True: "to groups"}


def order_name(scenario: Scenario) -> str:
    """The composition or stack of a run, for the name of its folder."""
    return scenario.stack.name if scenario.composition is None else scenario.composition.name


def stack_names(scenario: Scenario) -> str:
    """The stacks of a run's groups, after the name of the composition if there is one."""
    names = ", ".join(dict.fromkeys(group.stack.name for group in scenario.groups_of_run()))
    return names if scenario.composition is None else f"{scenario.composition.name} ({names})"


def loss_told(scenario: Scenario, rows: Iterable[Row]) -> str:
    """A sentence on routers without replicas that failed with messages not yet forwarded; empty if there are none."""
    ended = ended_alone(scenario, rows)
    if not ended:
        return ""
    why = "crashed or was left out of a view, without replicas"
    return f"{', '.join(ended)} {why}: messages that it had not forwarded are lost, and validity is not judged."


def node_names(scenario: Scenario) -> dict[int, str]:
    """The names of a composition's nodes by group; empty for other runs."""
    if scenario.composition is None:
        return {}
    return {number: node.name for number, node in enumerate(scenario.composition.nodes)}


def class_spreads(composition: Composition | None, summary: RunSummary) -> list[dict[str, object]] | None:
    """The latency of messages by class, as a document; None for a run without classes."""
    if composition is None or summary.by_class is None:
        return None
    found: list[dict[str, object]] = []
    for name, kind, spread in spreads(composition, summary):
        found.append({"group": name, "kind": kind, "message_ms": spread})
    return found


def parts_of(composition: Composition) -> dict[str, tuple[object, ...]]:
    return {"group": composition.groups, "IGP": composition.igps, "router": composition.routers}


def spreads(composition: Composition, summary: RunSummary) -> list[tuple[str, str, Spread]]:
    return [
        (composition.nodes[group].name, KINDS[leaves], spread_of([latencies]))
        for (group, leaves), latencies in sorted((summary.by_class or {}).items(), key=lambda item: item[0])
    ]


def classes_table(composition: Composition, summary: RunSummary) -> Table:
    """The latency of messages inside groups, and of those that leave them."""
    sizes = [f"{len(parts)} {name}{'' if len(parts) == 1 else 's'}" for name, parts in parts_of(composition).items()]
    title = f"{composition.name}: {', '.join(sizes)}"
    table = Table(title=escape(title), title_justify="left", caption=CAPTION, caption_justify="left")
    table.add_column("from")
    table.add_column("messages")
    for name in ("count", "mean", *SHARES, "max"):
        table.add_column(name, justify="right")
    for name, kind, spread in spreads(composition, summary):
        shares = (f"{spread.percentiles[share]:.2f}" for share in SHARES)
        table.add_row(escape(name), kind, f"{spread.count:,}", f"{spread.mean:.2f}", *shares, f"{spread.maximum:.2f}")
    return table
