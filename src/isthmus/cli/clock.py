"""`isthmus clock`: the clock of every site with its error bound, live or from a trace."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from isthmus.cli.console import print_whole, wide_console
from isthmus.cli.options import HELP, PATH, json_option, print_json
from isthmus.core.errors import InputError
from isthmus.core.layer import ClockState, Kind
from isthmus.core.validation import BadValue
from isthmus.judge.verdict import exit_code
from isthmus.live.clock.references import KINDS
from isthmus.live.clock.service import ClockStatus, is_reference
from isthmus.live.run.harness import run_live
from isthmus.live.run.scenario import clock_scenario, live_scenario
from isthmus.scenario.load import load_scenario
from isthmus.scenario.model import Scenario
from isthmus.trace.reader import read_meta, read_rows
from isthmus.trace.schema import GAUGE, KIND, PROCESS, TIME_NS, VALUE, Gauge

NS_PER_US = 1e3
SCRATCH = "isthmus-clock-"  # folders that sites write to; a process id and a random suffix follow
FREE = ClockState.FREE_RUNNING.name.lower().replace("_", "-")


@click.command(context_settings=HELP)
@click.argument("source", type=PATH, metavar="SCENARIO.toml|TRACE")
@click.option(
    "--seconds", type=click.FloatRange(1.0, 86_400.0), default=10.0, show_default=True, help="How long sites run."
)
@click.option(
    "--reference",
    "references",
    multiple=True,
    metavar="SITE=WHERE",
    help=f"Source of a site's true time: {KINDS}; repeatable. [system]",
)
@click.option("--no-emulate", is_flag=True, help="The bare loopback, without the topology's delays and losses.")
@json_option
def command(source: Path, seconds: float, references: tuple[str, ...], no_emulate: bool, as_json: bool) -> None:
    """Show the clocks of all sites: the time, its error bound, and the state and source of both.

    Given a scenario, start its sites, one process each on this machine, with the clock service alone: configured by
    [clocks.service], or as live sites are by default. Sites that the topology names as references take true time from
    the system clock, or from --reference. Given a trace, show the last readings in it.

    A site is synchronised, in hold-over (no reference is reachable, and its error grows) or free-running (it has never
    been synchronised). Tightness is measured by the service, unless the scenario sets it.

    A file or socket contains one line: the offset of its reference from the system clock in ms and, optionally, its
    error in microseconds: "1.5 20". An empty line is a failed reference.

    Exit code 0: every site knows its error bound; 3: one does not.

    \b
    Examples:
      isthmus clock clocks.toml
      isthmus clock clocks.toml --seconds 5 --json
      isthmus clock clocks.toml --reference lisbon-0=file:/run/gps --no-emulate
      isthmus clock out/clocks-live-symmetric-1-live
    """
    console = wide_console()
    if source.is_dir():
        if references:
            raise InputError("--reference", "", repr(references[0]), "none where the source is a trace")
        found = of_trace(source)
    else:
        scenario = live_scenario(clock_scenario(load_scenario(source), str(source), seconds), str(source))
        given = references_of(scenario, references)
        found = asyncio.run(of_sites(scenario, source, seconds, given, not no_emulate, None if as_json else console))
    if as_json:
        print_json(found)
    else:
        print_whole(console, clocks_table(found))
    sys.exit(exit_code("unknown" if status.earliest_ns is None else "valid" for status in found))


def references_of(scenario: Scenario, given: Sequence[str]) -> dict[str, str]:
    """The references given on the command line, by site."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, where = text.partition("=")
        if not equals or not is_reference(where):
            raise InputError("--reference", "", repr(text), f"SITE=WHERE, with {KINDS}")
        try:
            site = scenario.topology.site_id(name)
        except BadValue as error:
            raise error.at("--reference", "") from None
        if site not in scenario.topology.clusters[scenario.topology.sites[site].cluster].references:
            raise InputError("--reference", "", repr(name), "one of the references of its cluster")
        found[name] = where
    return found


async def of_sites(
    scenario: Scenario, path: Path, seconds: float, given: Mapping[str, str], emulate: bool, console: Console | None
) -> list[ClockStatus]:
    """Run the sites; return their last readings."""
    words = {
        site.name: ["--clocks", repr(seconds), *(["--reference", given[site.name]] if site.name in given else [])]
        for site in scenario.topology.sites
    }
    latest: dict[str, Any] = {}

    def note(statuses: Mapping[str, Mapping[str, Any]]) -> None:
        latest.update({name: status["clock"] for name, status in statuses.items() if "clock" in status})

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), TextColumn("{task.fields[note]}"))
    sweep(Path(gettempdir()))
    with (
        TemporaryDirectory(prefix=f"{SCRATCH}{os.getpid()}-") as folder,
        Progress(*columns, console=console or Console(stderr=True), transient=True, disable=console is None) as bar,
    ):
        task = bar.add_task("clocks", total=seconds, note="starting")

        def progress(passed_s: float, delivered: int, owed: int) -> None:  # noqa: ARG001
            states = [status["state"] for status in latest.values()]
            bar.update(task, completed=passed_s, note=f"{states.count('synchronised')} of {len(words)} synchronised")

        await run_live(scenario, path, Path(folder), emulate, progress, words=words, statuses=note)
    return [msgspec.convert(latest[name], ClockStatus) for name in words if name in latest]


def sweep(folder: Path) -> None:
    """Remove folders of earlier commands that were killed."""
    for left in sorted(folder.glob(f"{SCRATCH}*-*")):
        owner = left.name.removeprefix(SCRATCH).partition("-")[0]
        if owner.isdecimal() and not is_running(int(owner)):
            shutil.rmtree(left, ignore_errors=True)  # it may belong to another user


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # of another user
    return True


def of_trace(folder: Path) -> list[ClockStatus]:
    """The last reading of each site of a trace."""
    names = json.loads(read_meta(folder).get("sites", "[]"))
    last: dict[int, tuple[int, int, int]] = {}  # by site: true time, reading, state
    bounds: dict[int, tuple[int, int]] = {}  # by site: true time, error
    for row in read_rows(folder):
        if row[KIND] == Kind.CLOCK and row[TIME_NS] >= last.get(row[PROCESS], (row[TIME_NS],))[0]:
            last[row[PROCESS]] = (row[TIME_NS], row[VALUE], row[GAUGE])
        elif row[KIND] == Kind.GAUGE and row[GAUGE] == Gauge.CLOCK_BOUND_NS:
            bounds[row[PROCESS]] = max(bounds.get(row[PROCESS], (0, 0)), (row[TIME_NS], row[VALUE]))
    if not last:
        raise InputError(str(folder), "", "no reading of a clock", "a trace of a run with [clocks.service]")
    found = []
    for site, (true_ns, time_ns, state) in sorted(last.items()):
        at_ns, error_ns = bounds.get(site, (-1, 0))
        known = at_ns == true_ns
        found.append(
            ClockStatus(
                site=names[site] if site < len(names) else str(site),
                state=ClockState(state).name.lower().replace("_", "-") if state else FREE,
                at_ns=true_ns,
                time_ns=time_ns,
                earliest_ns=time_ns - error_ns if known else None,
                latest_ns=time_ns + error_ns if known else None,
                members=(),
                tightness_us=None,
                stamps="",
                reference="",
                rounds=0,
                missed=0,
            )
        )
    return found


OF_LIVE = ("LAN", "tightness", "stamps", "reference", "rounds")  # columns without a value in a trace


def clocks_table(found: Sequence[ClockStatus]) -> Table:
    """One row per site; columns without any value are omitted."""
    table = Table(title="clocks", title_justify="left")
    for status in found:
        half = "" if status.earliest_ns is None else f"± {(status.time_ns - status.earliest_ns) / NS_PER_US:,.1f} us"
        offset_us = (status.time_ns - status.at_ns) / NS_PER_US  # sites are read one after the other
        cells = {
            "site": escape(status.site),
            "state": status.state,
            "time": shown(status.time_ns),
            "beside the system's" if status.stamps else "beside true time": f"{offset_us:+,.1f} us",
            "error": half or "unknown",
            "LAN": escape(", ".join(status.members)),
            "tightness": "" if status.tightness_us is None else f"{status.tightness_us:,.1f} us",
            "stamps": status.stamps,
            "reference": escape(status.reference),
            "rounds": f"{status.rounds}, {status.missed} missed" if status.stamps else "",
        }
        kept = {name: cell for name, cell in cells.items() if status.stamps or name not in OF_LIVE}
        if not table.columns:
            for name in kept:
                table.add_column(name, justify="right" if name not in ("site", "state", "LAN") else "left")
        table.add_row(*kept.values())
    return table


def shown(time_ns: int) -> str:
    """A time as text: a calendar time, or seconds in a simulation."""
    seconds, ns = divmod(time_ns, 1_000_000_000)
    if abs(seconds) < 10**8:
        return f"{seconds}.{ns // 1000:06d} s"
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{ns // 1000:06d} UTC"
