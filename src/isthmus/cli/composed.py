"""Output about a run of a composition: its name, its stacks, and the latency by class of messages."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from isthmus.judge.judgement import Judgement
from isthmus.judge.result import RunResult
from isthmus.protocols.routing.calculus.model import Composition
from isthmus.scenario.model import Scenario

SHARES = ("p50", "p90", "p99")
CAPTION = "latency per message in ms: submit to last delivery"


def order_name(scenario: Scenario) -> str:
    """The composition or stack of a run, for the name of its folder."""
    return scenario.stack.name if scenario.composition is None else scenario.composition.name


def stack_names(scenario: Scenario) -> str:
    """The stacks of a run's groups, after the name of the composition if there is one."""
    names = ", ".join(dict.fromkeys(group.stack.name for group in scenario.groups_of_run()))
    return names if scenario.composition is None else f"{scenario.composition.name} ({names})"


def loss_sentence(judgement: Judgement) -> str:
    """The routers without replicas that ended, and what was lost with them; empty where there are none."""
    if not judgement.lost_routers:
        return ""
    ended, why = ", ".join(judgement.lost_routers), "crashed or was left out of a view, without replicas"
    return f"{ended} {why}: messages that it had not forwarded are lost, and validity is not judged."


def node_names(scenario: Scenario) -> dict[int, str]:
    """The names of a composition's nodes by group; empty for other runs."""
    if scenario.composition is None:
        return {}
    return {number: node.name for number, node in enumerate(scenario.composition.nodes)}


def parts_of(composition: Composition) -> dict[str, tuple[object, ...]]:
    return {"group": composition.groups, "IGP": composition.igps, "router": composition.routers}


def classes_table(result: RunResult) -> Table:
    """The latency of messages inside groups, and of those that leave them."""
    composition = result.scenario.composition
    assert composition is not None
    told = [f"{len(parts)} {name}{'' if len(parts) == 1 else 's'}" for name, parts in parts_of(composition).items()]
    title = f"{composition.name}: {', '.join(told)}"
    table = Table(title=escape(title), title_justify="left", caption=CAPTION, caption_justify="left")
    table.add_column("from")
    table.add_column("messages")
    for name in ("count", "mean", *SHARES, "max"):
        table.add_column(name, justify="right")
    for name, kind, spread in result.class_spreads():
        shares = (f"{spread.percentiles[share]:.2f}" for share in SHARES)
        table.add_row(escape(name), kind, f"{spread.count:,}", f"{spread.mean:.2f}", *shares, f"{spread.maximum:.2f}")
    return table
