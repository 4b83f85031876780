"""A run as the commands show it: loaded and carried out with a progress bar, printed, and turned into an exit code."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from isthmus.cli.console import COLORS, new_table, print_whole
from isthmus.core.errors import InputError
from isthmus.core.layer import ClockState
from isthmus.core.units import NS_PER_MS
from isthmus.judge.judgement import Judgement, latency_bound, trace_meta
from isthmus.judge.participants import PARTICIPANTS, ParticipantFigures
from isthmus.judge.result import RunResult
from isthmus.judge.verdict import Verdict
from isthmus.measure.histogram import Histogram
from isthmus.protocols.routing.calculus.model import Composition
from isthmus.scenario.load import load_scenario
from isthmus.scenario.model import Scenario
from isthmus.scenario.variants import with_stack
from isthmus.sim.simulate import simulate
from isthmus.trace.writer import TraceWriter

VERDICT_LINES = 60  # a longer table omits valid verdicts first, then whatever exceeds it
SHARES = ("p50", "p90", "p99")
CAPTION = "latency per message in ms: submit to last delivery"


def load_run(path: Path, seed: int | None, stack: str | None = None) -> Scenario:
    """Return the scenario of a file, with the seed and the stack that a command's options name."""
    scenario = load_scenario(path, seed)
    return scenario if stack is None else with_stack(scenario, stack)


def output_folder(scenario: Scenario, suffix: str = "") -> Path:
    """Return the default folder of a run: named by what distinguishes it from other runs."""
    order = scenario.stack.name if scenario.composition is None else scenario.composition.name
    return Path("out") / f"{scenario.name}-{order}-{scenario.seed}{suffix}"


def make_folder(folder: Path) -> None:
    """Make the folder of a live run before its processes start."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        expected = "a folder that can be written, with room on it"
        raise InputError(str(folder), "", error.strerror or str(error), expected) from None


def run_scenario(
    scenario: Scenario, folder: Path | None, force: bool, console: Console, *, check: bool = True, replay: str = ""
) -> RunResult:
    """Simulate with a bar that fills over virtual time; the trace goes to the folder, if any."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), TextColumn("{task.fields[note]}"))
    total_ms = scenario.duration_ms
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(escape(scenario.name), total=total_ms, note="")

        def progress(now_ns: int, events: int) -> None:
            bar.update(task, completed=min(total_ms, now_ns / NS_PER_MS), note=f"{events:,} events")

        if folder is None:
            result = simulate(scenario, judged=check, progress=progress)
        else:
            with TraceWriter(folder, trace_meta(scenario), overwrite=force) as writer:
                result = simulate(scenario, writer, judged=check, progress=progress)
    return msgspec.structs.replace(result, replay=replay, trace="" if folder is None else str(folder))


def show(console: Console, result: RunResult, as_json: bool, run: int = 0) -> None:
    """Print a run and what was found in it; exit with its code unless that is 0."""
    if as_json:
        click.echo(result.as_json())
        sys.exit(result.exit_code())
    print_result(console, result)
    print_judgement(console, result, run)
    replay = f"; replay it with: {result.replay}" if result.replay else ""
    code = result.exit_code()
    if result.error:
        click.echo(f"isthmus: the run ended in an error at {result.virtual_ns / NS_PER_MS:.3f} ms{replay}", err=True)
    elif code == 1:
        click.echo(f"isthmus: violated: {violations(result)}{replay}", err=True)
    elif code == 3:
        click.echo("isthmus: not all promises could be judged: see the verdicts that are unknown", err=True)
    if code:
        sys.exit(code)


def print_result(console: Console, result: RunResult) -> None:
    """Print figures, classes of messages, participants, the trace, and the error that ended the run."""
    print_whole(console, figures_table(result))
    if result.class_spreads():
        print_whole(console, classes_table(result))
    if result.scenario.participants:
        print_whole(console, participants_table(result.participants))
    if result.trace:
        console.print(f"The trace is in {escape(result.trace)}.", soft_wrap=True)
    if result.error:
        console.print(escape(result.error), highlight=False, soft_wrap=True)


def print_judgement(console: Console, result: RunResult, run: int = 0) -> None:
    """Print the verdicts, and what was lost with routers that have no replicas."""
    if result.judgement is not None:
        print_verdicts(console, run, result.judgement.counted(), node_names(result.scenario))
        if lost := loss_sentence(result.judgement):
            click.echo(lost)


def violations(result: RunResult) -> str:
    """The violated properties, and the first finding on participants."""
    found = [] if result.judgement is None else result.judgement.violated()
    told = [verdict.property for verdict in found if verdict.property != PARTICIPANTS]
    on_participants = [verdict for verdict in found if verdict.property == PARTICIPANTS]
    told += [f"{one.witness} (of {one.violation_count} findings on participants)" for one in on_participants]
    owed = result.summary.undelivered_count()
    late = f" ({owed:,} deliveries were still owed when the run ended)" if owed else ""
    return ", ".join(dict.fromkeys(told)) + late


def figures_table(result: RunResult) -> Table:
    """The figures of a run."""
    scenario, summary, guessed = result.scenario, result.summary, result.guesses
    title = f"{scenario.name}: {stack_names(scenario)} on {len(scenario.topology.sites)} sites, seed {scenario.seed}"
    table = new_table("", "", title=escape(title), show_header=False)
    table.columns[0].style = "bold"
    submitted = f"{summary.submitted_count:,} submitted"
    if summary.refused_count:
        submitted += f", {summary.refused_count:,} refused by a full buffer"
    table.add_row("messages", submitted)
    table.add_row("deliveries", f"{summary.delivered.count:,}, and {summary.undelivered_count():,} undelivered")
    table.add_row("latency per delivery", spread(summary.delivered))
    table.add_row("latency per message", spread(summary.per_message) + "  (its last delivery)")
    for group in scenario.groups_of_run():
        costs = latency_bound(scenario, group)
        if costs is not None:
            bound = f"at most {costs.latency_ms():,.2f} ms while nothing is lost, nobody is down"
            where = f" inside {group.name}" if scenario.composition is not None else ""
            bound += f" and no site has more than {costs.batch} messages waiting"
            table.add_row(f"latency promised{escape(where)}", bound)
    if guessed is not None:
        told = f"{spread(guessed.seen)}  (each tentative delivery, {guessed.window_ms:.2f} ms before the final one)"
        table.add_row("tentative latency", told)
        table.add_row(
            "hit ratio", f"{100 * guessed.hit:.1f} % in their final place, {100 * guessed.late_share:.1f} % late"
        )
    wan_bytes = f" ({result.wan_bytes:,} bytes)" if result.wan_bytes else ""
    wan = f"{result.wan_packets:,} of them between LANs{wan_bytes}"
    table.add_row("packets", f"{result.packets:,} sent, {wan}, {result.packets_lost:,} lost")
    for label, value in measured_lines(result.figures):
        table.add_row(label, value)
    if result.control_bytes is not None:
        per_message = result.control_bytes / max(1, summary.submitted_count)
        table.add_row("control bytes", f"{result.control_bytes:,}: {per_message:,.0f} per message, over all copies")
    if summary.rejected_count:
        table.add_row("rejected packets", f"{summary.rejected_count:,}")
    if summary.crash_count:
        table.add_row("crashes", f"{summary.crash_count}; the last view is {result.last_view}")
    rate = f", {result.event_count / result.cpu_s:,.0f} per CPU second" if result.cpu_s > 0 else ""
    table.add_row("events", f"{result.event_count:,} over {result.virtual_ns / 1e9:.1f} s of virtual time{rate}")
    return table


def measured_lines(found: Mapping[str, float]) -> list[tuple[str, str]]:
    """Lines for what only some networks and clocks measure."""
    known = {"transmissions": cost_lines, "delay_mean_ms": packet_lines, "clock_precision_us": clock_lines}
    return [line for name, lines in known.items() if name in found for line in lines(found)]


def cost_lines(found: Mapping[str, float]) -> list[tuple[str, str]]:
    """Lines for the load of hosts and LANs."""
    return [
        ("transmissions on LANs", f"{found['transmissions']:,.0f}"),
        ("busiest interface", f"{100 * found['busy_max']:.1f} % of the time"),
    ]


def packet_lines(found: Mapping[str, float]) -> list[tuple[str, str]]:
    """Lines for the packet network."""
    delay = f"mean {found['delay_mean_ms']:.2f}  max {found['delay_max_ms']:.2f} ms"
    load = f"mean {found['load_mean']:,.1f} packets on all links  max {found['load_max']:,.0f} on one"
    load += f"  {found['dropped']:,.0f} dropped" if "dropped" in found else ""
    queue = f"mean {found['queue_mean']:.3f} messages at a site  max {found['queue_max']:,.0f}"
    cost = f"{found['fragments']:,.0f} fragments, {found['arc_bytes']:,.0f} bytes; {found['hops']:,.0f} physical hops"
    return [
        ("delay, sender left out", delay),
        ("delivery queue", queue),
        ("load of links", load),
        ("over logical arcs", cost),
    ]


def clock_lines(found: Mapping[str, float]) -> list[tuple[str, str]]:
    """Lines for the clock service."""
    outside = found["clock_misses"]
    misses = f"true time outside {outside:,.0f} times" if outside else "true time always within"
    states = [(state, found[f"clock_{state.name.lower()}"]) for state in reversed(ClockState)]
    told = ", ".join(f"{count:.0f} {state.name.lower().replace('_', '-')}" for state, count in states if count)
    words = {"precision": "precision", "world": "between any two", "accuracy": "accuracy"}
    limits = [f"{word} {found[f'clock_bound_{name}_us']:,.1f} us" for name, word in words.items()]
    precision, world = found["clock_precision_us"], found["clock_world_us"]
    accuracy, error = found["clock_accuracy_us"], found["clock_error_us"]
    last = ("clocks at the end", told or "none was read")
    if not error:
        return [("clock accuracy", "no clock was ever synchronised: no reference was heard of"), last]
    return [
        (
            "clock precision",
            f"{precision:,.1f} us at worst within a LAN, {world:,.1f} us between any two clocks",
        ),
        ("clock accuracy", f"{accuracy:,.1f} us at worst; published at most {error:,.1f} us, {misses}"),
        ("clock bounds", "; ".join(limits) + ", in LANs with a reference, while no round fails"),
        ("clock rounds", f"{found['clock_rounds']:,.0f} at all sites, {found['clock_rounds_missed']:,.0f} failed"),
        last,
    ]


def participants_table(groups: tuple[ParticipantFigures, ...]) -> Table:
    """The members of each participant group at the end, and the messages sent and delivered."""
    table = new_table("group", "view", "members", "may act", "sent", "delivered", title="participant groups")
    for group in groups:
        members = ", ".join(group.members) or "none"
        active = "yes" if group.active else f"no: {'; '.join(group.unmet)}"
        counts = (f"{group.sent:,}", f"{group.delivered:,}")
        table.add_row(escape(group.group), str(group.view), escape(members), escape(active), *counts)
    return table


def spread(latencies: Histogram) -> str:
    if not latencies.count:
        return "none"
    shares = "  ".join(f"p{share} {latencies.percentile(share) / NS_PER_MS:.2f}" for share in (50, 90, 99))
    return f"mean {latencies.mean() / NS_PER_MS:.2f}  {shares}  max {latencies.maximum / NS_PER_MS:.2f} ms"


def print_verdicts(console: Console, run: int, verdicts: list[Verdict], names: Mapping[int, str]) -> None:
    """Print the verdicts on a run as a table and their counts as a line; a long table omits valid verdicts."""
    shown = verdicts
    if len(shown) > VERDICT_LINES:
        shown = [verdict for verdict in verdicts if verdict.status != "valid"]
        shown.sort(key=lambda verdict: verdict.status != "violated")
    headers = ("run", "group", "property", "verdict", "evidence", "violations", "witness")
    table = new_table(*headers, right=("run", "group", "evidence", "violations"))
    for verdict in shown[:VERDICT_LINES]:
        table.add_row(
            str(run),
            escape(verdict.domain or names.get(verdict.group, str(verdict.group))),
            verdict.property,
            f"[{COLORS[verdict.status]}]{verdict.status}[/]",
            str(verdict.evidence_count),
            str(verdict.violation_count),
            escape(verdict.witness),
        )
    if shown:
        console.print(table)
    counts = {status: sum(verdict.status == status for verdict in verdicts) for status in COLORS}
    told = ", ".join(f"{count} {status}" for status, count in counts.items())
    console.print(f"1 run: {told}.", soft_wrap=True)


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
    right = ("count", "mean", *SHARES, "max")
    looks = {"caption": CAPTION, "caption_justify": "left"}
    table = new_table("from", "messages", *right, title=escape(title), right=right, **looks)
    for name, kind, spread in result.class_spreads():
        shares = (f"{spread.percentiles[share]:.2f}" for share in SHARES)
        table.add_row(escape(name), kind, f"{spread.count:,}", f"{spread.mean:.2f}", *shares, f"{spread.maximum:.2f}")
    return table
