"""A live run: one process per site, started together, and stopped when all messages have arrived.

The coordinator gives the sites all ports and a common start, compares the messages that were sent and delivered, and
stops the sites once the sums are equal, or when the drain time is over. Sums are enough: a site that is done sends no
more, and deliveries only grow.

However it ends, by Ctrl-C too, every site process has ended when `run_live` returns: closing a site's standard input
stops it, and one that does not stop within `STOP_S` is killed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from isthmus.core.errors import LocalError
from isthmus.core.layer import Kind
from isthmus.core.units import NS_PER_S
from isthmus.live.run.child import NOTHING, SiteChild, SiteSummary
from isthmus.live.run.faults import EventLog, FaultInjector, News
from isthmus.live.run.scenario import live_scenario
from isthmus.measure.summary import RunSummary
from isthmus.scenario.model import Scenario
from isthmus.scenario.participants.trace import FIRST_PARTICIPANT_GROUP
from isthmus.trace.schema import GROUP, KIND, Row

READY_S = 60.0  # for a process to load its scenario and bind its socket
FORMED_S = 30.0  # for sites to form their groups; then it begins with those that are in
LEAD_S = 0.3  # from the last command before the start to the start
OVER_S = 2.0  # for sites to learn of the end of the run
SETTLE_S = 0.3  # how long a run goes on once nothing is owed, so that a late second delivery shows

REST_S = 4.5  # without a delivery, after faults: nothing is owed; the last frames, if lost, are asked for every 2 s
Progress = Callable[[float, int, int], None]  # seconds since the start, deliveries so far, deliveries owed
Statuses = Callable[[Mapping[str, Mapping[str, Any]]], None]  # the last report of each site, by name


async def run_live(
    scenario: Scenario,
    path: Path,
    folder: Path,
    emulate: bool = True,
    progress: Progress | None = None,
    news: News | None = None,
    children: list[SiteChild] | None = None,
    words: Mapping[str, Sequence[str]] = {},
    statuses: Statuses | None = None,
    keys: Path | None = None,
) -> list[SiteSummary]:
    """Run a scenario that was loaded from a path; each site writes its segments into the folder.

    `children` is filled with the processes of the sites, for a caller that may have to kill them. `words` are more
    arguments for the processes of sites, by name; `statuses` is given the reports of sites now and then. With a
    key file the sites seal what they send.
    """
    scenario = live_scenario(scenario, str(path))
    agreed = scenario.membership.kind == "agreed"
    arguments = [str(path), "--out", str(folder), "--seed", str(scenario.seed)]
    arguments += [] if emulate else ["--no-emulate"]
    arguments += [] if keys is None else ["--keys", str(keys)]
    children = [] if children is None else children
    events = EventLog(scenario, news)
    try:
        for number, site in enumerate(scenario.topology.sites):
            own = [*arguments, "--site", str(number), *words.get(site.name, ())]
            children.append(await SiteChild.spawn(site.name, own, events.on_event))
        begin = await start(children, agreed)
        if agreed and (late := [child.name for child in children if not child.formed]):
            events.say(f"the run begins, although {', '.join(late)} have seen no view of all sites")
        events.start_s = time.monotonic() + LEAD_S
        injector = FaultInjector(scenario, folder, arguments, children, begin, events)
        injecting = asyncio.create_task(injector.run())
        try:
            await watch(children, scenario, progress, injecting, statuses)
        finally:
            injecting.cancel()
        await end(children, agreed)
    finally:
        await asyncio.shield(asyncio.gather(*(child.stop() for child in children)))
    for child in children:
        if child.summary is None:
            child.check()
    return [child.summary or NOTHING for child in children]


async def start(children: list[SiteChild], agreed: bool) -> dict[str, Any]:
    """Wait until all processes are ready, and in their groups where they agree on views; then give the start time."""
    end_s = time.monotonic() + READY_S
    while not all(child.port.done() for child in children):
        for child in children:
            child.check()
        if time.monotonic() > end_s:
            late = next(child.name for child in children if not child.port.done())
            raise LocalError(f"the process of site {late} was not ready within {READY_S:g} s")
        await asyncio.sleep(0.01)
    begin: dict[str, Any] = {"ports": [child.port.result() for child in children]}
    for child in children:
        child.begin(begin)
    end_s = time.monotonic() + FORMED_S
    while agreed and not all(child.formed for child in children) and time.monotonic() < end_s:
        for child in children:
            child.check()
        await asyncio.sleep(0.01)
    begin["start_ns"] = time.time_ns() + round(LEAD_S * NS_PER_S)
    for child in children:
        child.tell({"start_ns": begin["start_ns"]})
    return begin


async def watch(
    children: list[SiteChild],
    scenario: Scenario,
    progress: Progress | None,
    injecting: asyncio.Task[None],
    statuses_to: Statuses | None = None,
) -> None:
    """Wait until all that was sent has arrived, or the drain time is over; where clocks are kept, for all of the run.

    After a fault, what was sent need not arrive everywhere, and equal sums say nothing, as one message may have come to
    more sites and another to fewer: then until nothing arrives any more.
    """
    moved_s, before, faults = time.monotonic(), [0], scenario.faults_of_run()
    start_s = time.monotonic() + LEAD_S
    least_s = start_s + (scenario.duration_ms / 1e3 if scenario.clocks.service is not None else 0.0)
    end_s = start_s + (scenario.duration_ms + scenario.drain_ms) / 1e3
    while time.monotonic() < end_s:
        for child in children:
            child.check()
        statuses = [child.status for child in children]
        delivered, owed = tally(statuses)
        if progress is not None:
            progress(max(0.0, time.monotonic() - start_s), sum(delivered), sum(owed))
        if statuses_to is not None:
            statuses_to({child.name: child.status for child in children})
        if injecting.done():
            injecting.result()  # what went wrong with a fault
        if delivered != before or not injecting.done():
            moved_s, before = time.monotonic(), delivered
        done = all(child.status.get("done") for child in children if not child.killed)
        at_rest = time.monotonic() - moved_s > REST_S if faults else delivered == owed
        if done and at_rest and time.monotonic() >= least_s:
            await asyncio.sleep(SETTLE_S)
            return
        await asyncio.sleep(0.05)


async def end(children: list[SiteChild], agreed: bool) -> None:
    """Announce the end of the run; where sites watch each other, wait until all know, so that none is suspected."""
    for child in children:
        if child.takes_commands():
            child.tell({"over": True})
    end_s = time.monotonic() + OVER_S
    while agreed and time.monotonic() < end_s:
        if all(child.status.get("over") for child in children if child.takes_commands()):
            return
        await asyncio.sleep(0.01)


def tally(statuses: list[dict[str, Any]]) -> tuple[list[int], list[int]]:
    """How many messages each site has delivered, and how many were sent to it."""
    delivered = [status.get("delivered", 0) for status in statuses]
    sent = [status.get("sent", [0] * len(statuses)) for status in statuses]
    return delivered, [sum(column) for column in zip(*sent, strict=True)]


def measure(rows: Sequence[Row], summary: RunSummary) -> RunSummary:
    """The figures of a run from its trace, in which sites come one after the other: first all that was submitted."""
    for submits in (True, False):
        for row in rows:
            if (row[KIND] == Kind.SUBMIT) is submits and row[GROUP] < FIRST_PARTICIPANT_GROUP:
                summary.append(row)
    return summary
