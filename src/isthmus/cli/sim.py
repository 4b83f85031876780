"""`isthmus sim`: run a scenario in virtual time, write its trace, say what happened and whether the order was kept."""

from __future__ import annotations

import json
import shlex
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from isthmus import __version__
from isthmus.advise.compare.figures import spread_of
from isthmus.cli.composed import class_spreads, classes_table, loss_told, node_names, order_name, stack_names
from isthmus.cli.console import print_whole, wide_console
from isthmus.cli.options import HELP, force_option, json_option, output_folder, seed_option
from isthmus.cli.verdicts import print_verdicts
from isthmus.core.errors import InputError
from isthmus.core.layer import ClockState
from isthmus.core.units import NS_PER_MS
from isthmus.judge.oracle import Verdict
from isthmus.judge.participants import History
from isthmus.judge.promises import latency_bound, promise_of, promised_verdicts
from isthmus.measure.histogram import Histogram
from isthmus.measure.optimism import Guesses, guesses
from isthmus.protocols.participants.wire import ParticipantView, Speech
from isthmus.scenario.composition.check import domains_of
from isthmus.scenario.load import load_scenario
from isthmus.scenario.model import Scenario
from isthmus.scenario.participants.traffic import Utterance
from isthmus.scenario.variants import with_stack
from isthmus.sim.base import Simulation
from isthmus.sim.packets.twin import run_of
from isthmus.sim.run import Run
from isthmus.stacks.registry import STACKS
from isthmus.trace.domain import META_DOMAINS, written_domains
from isthmus.trace.reader import read_rows
from isthmus.trace.schema import PROMISES, Recording
from isthmus.trace.writer import TraceWriter

CHECK_MAX = 2_000_000  # deliveries that the in-process check takes in reasonable memory


@click.command(context_settings=HELP)
@click.argument("scenario", type=click.Path(path_type=Path), metavar="SCENARIO.toml")
@click.option("--stack", metavar="NAME|FILE", help="Stack, instead of the scenario's: a name, or a file of a plan.")
@seed_option
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for the trace. [out/NAME-STACK-SEED]")
@force_option
@json_option
@click.option("--check/--no-check", default=True, help="Judge the order that the stack promises (on by default).")
def command(
    scenario: Path, stack: str | None, seed: int | None, output: Path | None, force: bool, as_json: bool, check: bool
) -> None:
    """Run a scenario in the simulator.

    Prints deliveries, latencies, what was not delivered and what it cost; writes the trace; then judges what the stack
    promises; where the scenario has a composition, what its domains want, end to end. The same scenario and seed give
    the same trace, byte for byte.

    Exit code 0: all valid; 1: a violation or an error, with the command that replays it; 3: nothing to judge by.

    \b
    Examples:
      isthmus init demo
      isthmus sim demo/scenario.toml
      isthmus sim demo/scenario.toml --stack optimistic --seed 7 -o out/seven
      isthmus trace show out/seven --process 2 --kind deliver
    """
    loaded = load_scenario(scenario, seed)
    if stack is not None:
        loaded = with_stack(loaded, stack)
    folder = output or output_folder(loaded.name, order_name(loaded), loaded.seed)
    check_below(folder)
    console = wide_console()
    console.quiet = as_json
    words = ["isthmus", "sim", str(scenario), *(["--stack", stack] if stack else []), "--seed", str(loaded.seed)]
    replay = shlex.join([*words, "-o", str(folder), "--force"])
    run, cpu_s, error = execute(loaded, folder, force, console)
    guessed = guesses_in(run, folder)
    if as_json:
        verdicts = promised_verdicts(loaded, read_rows(folder)) if check and not error and judgeable(run) else []
        click.echo(as_document(run, cpu_s, guessed, folder, verdicts, error))
        statuses = {verdict.status for verdict in verdicts}
        sys.exit(1 if error or "violated" in statuses else 3 if "unknown" in statuses else 0)
    print_whole(console, figures(run, cpu_s, guessed))
    if run.summary.by_class is not None and loaded.composition is not None:
        print_whole(console, classes_table(loaded.composition, run.summary))
    if loaded.participants:
        print_whole(console, light_groups(run))
    if loaded.trace != "none":
        console.print(f"The trace is in {escape(str(folder))}.", soft_wrap=True)
    if error:
        console.print(escape(error), highlight=False, soft_wrap=True)
        fail(f"the run ended in an error at {run.scheduler.now_ns / NS_PER_MS:.3f} ms; replay it with: {replay}", 1)
    if check:
        judge_trace(loaded, run, folder, replay)


def check_below(folder: Path) -> None:
    """Refuse a folder whose subfolders hold traces: what is read of it would be theirs, too."""
    other = next((path for path in folder.glob("*/**/*.parquet") if path.is_file()), None)
    if other is not None:
        raise InputError(str(folder), "", f"a trace in a subfolder ({other})", "a folder of its own")


def execute(scenario: Scenario, folder: Path, force: bool, console: Console) -> tuple[Simulation, float, str]:
    """Run with a bar that fills over virtual time; the run, its CPU seconds, and the traceback where it failed."""
    meta = {"scenario": scenario.name, "seed": str(scenario.seed), "stack": scenario.stack.name}
    if scenario.composition is not None:
        meta[META_DOMAINS] = written_domains(domains_of(scenario.composition))
    meta[PROMISES] = promise_of(scenario)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), TextColumn("{task.fields[note]}"))
    total_ms = scenario.duration_ms
    error = ""
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(escape(scenario.name), total=total_ms, note="")

        def progress(now_ns: int) -> None:
            note = f"{run.scheduler.event_count:,} events"
            bar.update(task, completed=min(total_ms, now_ns / NS_PER_MS), note=note)

        start = time.process_time()
        if scenario.trace == "none":
            run = run_of(scenario)
            error = attempt(run, progress)
        else:
            meta["isthmus"] = __version__
            meta["sites"] = json.dumps([site.name for site in scenario.topology.sites], ensure_ascii=False)
            with TraceWriter(folder, meta, overwrite=force) as writer:
                run = run_of(scenario, writer)
                error = attempt(run, progress)
    return run, time.process_time() - start, error


def attempt(run: Simulation, progress: Callable[[int], None]) -> str:
    """Carry a run out; the traceback where it failed. The trace says whether it was cut short."""
    run.record(Recording.BEGUN)
    try:
        run.execute(progress)
    except InputError:  # the trace cannot be written: no fault of the run's
        raise
    except Exception:
        run.record(Recording.CUT)
        return traceback.format_exc()
    except BaseException:  # interrupted, or ended
        run.record(Recording.CUT)
        raise
    run.record(Recording.ENDED)
    return ""


def judgeable(run: Simulation) -> bool:
    """Whether there is a trace, of a size that is judged in this process."""
    return run.scenario.trace != "none" and run.summary.delivered.count <= CHECK_MAX


def guesses_in(run: Simulation, folder: Path) -> Guesses | None:
    """How tentative deliveries compare with final ones, where a stack makes them."""
    promised = any("final" in STACKS[group.stack.name].properties for group in run.groups)
    return guesses(read_rows(folder)) if promised and judgeable(run) else None


def as_document(
    run: Simulation, cpu_s: float, guessed: Guesses | None, folder: Path, verdicts: list[Verdict], error: str
) -> str:
    """The result of a run as JSON."""
    scenario, summary = run.scenario, run.summary
    found = {
        "isthmus": __version__,
        "scenario": scenario.name,
        "stack": scenario.stack.name,
        "seed": scenario.seed,
        "sites": len(scenario.topology.sites),
        "submitted": summary.submitted_count,
        "refused": summary.refused_count,
        "undelivered": summary.undelivered_count(),
        "delivery_ms": spread_of([summary.delivered]),
        "message_ms": spread_of([summary.per_message]),
        "classes": class_spreads(scenario.composition, summary),
        "tentative_ms": spread_of([guessed.seen]) if guessed else None,
        "hit_percent": 100 * guessed.hit if guessed else None,
        "packets": run.network.packet_count,
        "packets_lost": run.network.dropped_count,
        "control_bytes": run.meter.control_bytes if run.meter else None,
        "crashes": summary.crash_count,
        "events": run.scheduler.event_count,
        "virtual_s": run.scheduler.now_ns / 1e9,
        "cpu_s": cpu_s,
        "trace": str(folder) if scenario.trace != "none" else None,
        "figures": run.figures(),
        "error": error,
        "verdicts": verdicts,
    }
    return msgspec.json.format(msgspec.json.encode(found)).decode()


def figures(run: Simulation, cpu_s: float, guessed: Guesses | None = None) -> Table:
    """The summary of a run."""
    scenario, summary = run.scenario, run.summary
    title = f"{scenario.name}: {stack_names(scenario)} on {len(scenario.topology.sites)} sites, seed {scenario.seed}"
    table = Table(title=escape(title), show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column()
    submitted = f"{summary.submitted_count:,} submitted"
    if summary.refused_count:
        submitted += f", {summary.refused_count:,} refused by a full buffer"
    table.add_row("messages", submitted)
    table.add_row("deliveries", f"{summary.delivered.count:,}, and {summary.undelivered_count():,} undelivered")
    table.add_row("latency per delivery", spread(summary.delivered))
    table.add_row("latency per message", spread(summary.per_message) + "  (its last delivery)")
    for group in run.groups:
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
    network = run.network
    wan = f"{network.wan_count:,} of them between LANs" + (
        f" ({network.wan_bytes:,} bytes)" if network.wan_bytes else ""
    )
    table.add_row("packets", f"{network.packet_count:,} sent, {wan}, {network.dropped_count:,} lost")
    if measured := run.figures():
        for label, value in measured_lines(measured):
            table.add_row(label, value)
    if run.meter is not None:
        per_message = run.meter.control_bytes / max(1, summary.submitted_count)
        table.add_row("control bytes", f"{run.meter.control_bytes:,}: {per_message:,.0f} per message, over all copies")
    if summary.rejected_count:
        table.add_row("rejected packets", f"{summary.rejected_count:,}")
    if summary.crash_count:
        table.add_row("crashes", f"{summary.crash_count}; the last view is {run.last_view()}")
    events = run.scheduler.event_count
    rate = f"{events / cpu_s:,.0f} per CPU second" if cpu_s > 0 else ""
    table.add_row("events", f"{events:,} over {run.scheduler.now_ns / 1e9:.1f} s of virtual time, {rate}")
    return table


def measured_lines(found: Mapping[str, float]) -> list[tuple[str, str]]:
    """What only some networks and clocks measure, for people."""
    known = {"transmissions": cost_lines, "delay_mean_ms": packet_lines, "clock_precision_us": clock_lines}
    return [line for name, lines in known.items() if name in found for line in lines(found)]


def cost_lines(found: Mapping[str, float]) -> list[tuple[str, str]]:
    """What hosts and LANs did, for people."""
    return [
        ("transmissions on LANs", f"{found['transmissions']:,.0f}"),
        ("busiest interface", f"{100 * found['busy_max']:.1f} % of the time"),
    ]


def packet_lines(found: Mapping[str, float]) -> list[tuple[str, str]]:
    """What the packet network measured, for people."""
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
    """How well the clock service did, for people."""
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


def light_groups(run: Simulation) -> Table:
    """Who is in each participant group at the end, and what its members said and heard."""
    table = Table(title="participant groups", title_justify="left")
    for column in ("group", "view", "members", "may act", "said", "heard"):
        table.add_column(column)
    sites = run.scenario.topology.sites
    last: dict[str, ParticipantView] = {}
    counts: Counter[tuple[str, type]] = Counter()
    for note in run.participant_notes:
        what = note.what
        counts[what.group, type(what)] += 1
        if isinstance(what, ParticipantView) and what.number >= last.get(what.group, what).number:
            last[what.group] = what
    for name, view in sorted(last.items()):
        members = ", ".join(f"{member.name}@{sites[member.site].name}" for member in view.members) or "nobody"
        active = "yes" if view.active else f"no: {'; '.join(view.unmet)}"
        said, heard = (f"{counts[name, kind]:,}" for kind in (Utterance, Speech))
        table.add_row(escape(name), str(view.number), escape(members), escape(active), said, heard)
    return table


def participant_violations(run: Run) -> list[str]:
    """What was promised to participants and broken, in each site group by its own stack."""
    up = [(site.site, site.incarnation) for site in run.sites if site.alive]
    found = []
    for group in run.groups:
        notes = [note for note in run.participant_notes if note.within == group.id]
        found += History(notes, up).violations(STACKS[group.stack.name].properties)
    return found


def spread(latencies: Histogram) -> str:
    if not latencies.count:
        return "none"
    shares = "  ".join(f"p{share} {latencies.percentile(share) / NS_PER_MS:.2f}" for share in (50, 90, 99))
    return f"mean {latencies.mean() / NS_PER_MS:.2f}  {shares}  max {latencies.maximum / NS_PER_MS:.2f} ms"


def judge_trace(scenario: Scenario, run: Simulation, folder: Path, replay: str) -> None:
    """Judge what the stack promises; exit where it was broken or could not be seen."""
    if not judgeable(run):
        why = "there is no trace" if scenario.trace == "none" else f"over {CHECK_MAX:,} deliveries"
        click.echo(f"Not checked: {why}.")
        return
    wrong = participant_violations(run) if isinstance(run, Run) else []
    if wrong:
        fail(f"violated: {wrong[0]} (of {len(wrong)} findings on participants); replay it with: {replay}", 1)
    verdicts = promised_verdicts(scenario, read_rows(folder))
    print_verdicts([(0, verdict) for verdict in verdicts], 1, node_names(scenario))
    if scenario.composition is not None and (told := loss_told(scenario, read_rows(folder))):
        click.echo(told)
    statuses = {verdict.status for verdict in verdicts}
    if "violated" in statuses:
        broken = ", ".join(verdict.property for verdict in verdicts if verdict.status == "violated")
        owed = run.summary.undelivered_count()
        late = f" ({owed:,} deliveries were still owed when the run ended)" if owed else ""
        fail(f"violated: {broken}{late}; replay it with: {replay}", 1)
    if "unknown" in statuses:
        fail("not all promises could be judged: see the verdicts that are unknown", 3)


def fail(sentence: str, code: int) -> None:
    click.echo(f"isthmus: {sentence}", err=True)
    sys.exit(code)
